"""Events and manifests as earlier versions wrote them, in the form that this one reads."""

from __future__ import annotations

from typing import Any

from tfwatch.core.knobs import KNOBS, knob_name

_BY_NAME = {knob_name(knob): knob for knob in KNOBS}
#: The first words of a note of an order to the pilot that came to nothing.
_ORDERS = ("experiment ", "autopilot ")
#: The first word of how steps were told apart, where they were not.
_NOT_SPLIT = "none: "


def translated(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event of this kind, as `events.decode` takes them.

    Raises:
        ValueError: a field cannot be read.
    """
    if kind in ("MoveMade", "MoveJudged") and isinstance(values.get("beside"), str):
        return {**values, "beside": [_change(words) for words in values["beside"].split(", ") if words]}
    if kind == "Noted" and "of_order" not in values:
        return {**values, "of_order": str(values.get("text")).startswith(_ORDERS)}
    return values


def translated_manifest(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of run.json, as `runs.format.Manifest` takes them."""
    split = values.get("split")
    if not isinstance(split, str) or not split.startswith(_NOT_SPLIT):
        return values
    return {**values, "split": "", "not_split": split.removeprefix(_NOT_SPLIT)}


def _change(words: str) -> dict[str, str]:
    """Of `workers off > 4`."""
    turned, _, new = words.partition(" > ")
    name, _, old = turned.rpartition(" ")
    if old == "ms":  # `latency 20 ms > off`
        name, _, number = name.rpartition(" ")
        old = f"{number} ms"
    if name not in _BY_NAME or not new:
        raise ValueError(f"{words} is no change of a knob")
    return {"knob": _BY_NAME[name], "old": old, "new": new}
