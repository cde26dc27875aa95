"""The user's own name and tags of a run, in a file of its folder that the run's writer never touches."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tfwatch.runs.format import write_atomically
from tfwatch.runs.reading.streams import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LABELS = "labels.json"
_LARGEST_BYTES = 2**14
_LONGEST_NAME, _MOST_TAGS = 80, 20
_TAG = re.compile(r"[\w.+-]{1,40}")


@dataclass(frozen=True, slots=True)
class Labels:
    """A run's name, empty without one, and its tags, each once."""

    name: str = ""
    tags: tuple[str, ...] = ()

    def tagged(self, tags: Iterable[str]) -> Labels:
        """Return these labels with more tags."""
        return replace(self, tags=tuple(dict.fromkeys((*self.tags, *tags))))

    def untagged(self, tags: Iterable[str]) -> Labels:
        """Return these labels without some tags."""
        return replace(self, tags=tuple(tag for tag in self.tags if tag not in set(tags)))


def read_labels(folder: Path) -> Labels:
    """Return a run's labels; none where the file is missing, unreadable or not theirs."""
    return _read(folder) or Labels()


def may_be_tagged(folder: Path) -> bool:
    """Return whether a run has a tag, or a file of labels that cannot be read."""
    labels = _read(folder)
    return os.path.lexists(folder / LABELS) if labels is None else bool(labels.tags)


def _read(folder: Path) -> Labels | None:
    try:
        values = json.loads(read_file(folder / LABELS, 0, _LARGEST_BYTES))
        return Labels(_name(values), _tags(values))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _name(values: Any) -> str:
    return check_name(values["name"]) if values["name"] else ""


def _tags(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(check_tag, values["tags"])))[:_MOST_TAGS]


def write_labels(folder: Path, labels: Labels) -> None:
    """Replace a run's labels.

    Raises:
        OSError: the folder cannot be written. ValueError: there are too many tags; the message is for the user.
    """
    if len(labels.tags) > _MOST_TAGS:
        raise ValueError(f"a run has at most {_MOST_TAGS} tags")
    write_atomically(folder / LABELS, json.dumps(asdict(labels)) + "\n")


def check_name(text: str) -> str:
    """Return a name for a run.

    Raises:
        ValueError: it is empty, too long or holds a control character; the message is for the user.
    """
    if not (
        isinstance(text, str) and text.strip() and len(text) <= _LONGEST_NAME and text.isprintable()
    ):
        raise ValueError(f"{text!r} is not a name: give 1 to {_LONGEST_NAME} printable characters")
    return text.strip()


def check_tag(text: str) -> str:
    """Return a tag.

    Raises:
        ValueError: it is not a word; the message is for the user.
    """
    if not (isinstance(text, str) and _TAG.fullmatch(text)):
        raise ValueError(
            f"{text!r} is not a tag: give a word of up to 40 letters, digits, and . + - _"
        )
    return text
