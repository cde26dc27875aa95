"""Translation of the events and manifests that earlier versions of tfwatch wrote."""

from __future__ import annotations

from typing import Any

from tfwatch.core.knobs import KNOBS, knob_name

#: The knobs by the names that `MoveMade.beside` used.
_KNOBS = {knob_name(knob): knob for knob in KNOBS} | {"fast form": "fast_pipeline"}
#: A knob's earlier name, also a field and a setting of run.json, and the fields that name knobs.
_EARLIER, _LATER = "fast_form", "fast_pipeline"
_KNOB_FIELDS = ("knob", "knobs", "switchable", "settings")
#: The beginnings of a `Noted` about a request that the tuner did not carry out.
_REFUSALS = ("experiment ", "autopilot ")
#: The beginning of `Manifest.split` where the steps were not split.
_NOT_SPLIT = "none: "
#: The causes of `AutopilotEnded`.
_CAUSES = {"fed": "not_starving", "floor": "compute_floor", "tried": "nothing_left"}


def translate_event(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event of this kind, as `events.decode` takes them.

    Raises:
        ValueError: a field is not readable.
    """
    values = _renamed(values)
    if kind in ("MoveMade", "MoveJudged") and isinstance(values.get("beside"), str):
        return {
            **values,
            "beside": [_change(words) for words in values["beside"].split(", ") if words],
        }
    if kind == "Noted" and "is_refusal" not in values:
        return {
            **values,
            "is_refusal": values.get("of_order", str(values.get("text")).startswith(_REFUSALS)),
        }
    if kind == "AutopilotEnded" and values.get("cause") in _CAUSES:
        return {**values, "cause": _CAUSES[values["cause"]]}
    return values


def translate_manifest(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of run.json, as `runs.format.Manifest` takes them."""
    values = _renamed(values)
    split = values.get("split")
    if not isinstance(split, str) or not split.startswith(_NOT_SPLIT):
        return values
    return {**values, "split": "", "not_split": split.removeprefix(_NOT_SPLIT)}


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event or of run.json with the knob's earlier name replaced."""
    known = {_LATER if name == _EARLIER else name: value for name, value in values.items()}
    return known | {name: _with_later_name(known[name]) for name in _KNOB_FIELDS if name in known}


def _with_later_name(value: Any) -> Any:
    if isinstance(value, dict):
        return {_LATER if name == _EARLIER else name: inner for name, inner in value.items()}
    if isinstance(value, list):
        return [_LATER if name == _EARLIER else name for name in value]
    return _LATER if value == _EARLIER else value


def _change(words: str) -> dict[str, str]:
    """Return the change of `workers off > 4`."""
    before, _, new = words.partition(" > ")
    name, _, old = before.rpartition(" ")
    if old == "ms":  # `latency 20 ms > off`
        name, _, number = name.rpartition(" ")
        old = f"{number} ms"
    if name not in _KNOBS or not new:
        raise ValueError(f"{words} is not a change of a knob")
    return {"knob": _KNOBS[name], "old": old, "new": new}
