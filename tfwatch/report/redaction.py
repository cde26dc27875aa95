"""Texts of a run for a page that others read: in one line, harmless, and redacted on request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.core.bounds import encode_json
from tfwatch.core.errors import printable
from tfwatch.core.events import StepProfiled, TrainableIgnored, encode
from tfwatch.judge.profile.step_groups import blocks_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from tfwatch.core.events import OperationTime
    from tfwatch.runs.format import Layer
    from tfwatch.runs.group import Group
    from tfwatch.runs.snapshot import Snapshot

#: Characters of one text on the page: a name may have any length.
LONGEST = 400
#: Characters that are searched for paths: a hostile name makes each search slow.
_SEARCHED = 4 * LONGEST
#: A shorter name is common in other texts; one of less than `_LONG` characters is replaced as a
#: whole word only.
_SHORTEST, _LONG = 2, 8
#: A path in quotes, as in Python's errors; an address, a path that begins with a drive, `~` or
#: dots, and one of at least two parts; a file of source code.
_PART = r"[/\\]+[^\s/\\\"'()<>,;:]+"
_PATH = re.compile(
    r"(?<!\w)(?P<quote>['\"])[^'\"\n]*[/\\][^'\"\n]*(?P=quote)(?!\w)"
    rf"|\b\w+://[^\s\"'<>]+|\b[A-Za-z]:[/\\]+[^\s\"'<>,;]*|(?:~\w*|\.\.?)(?:{_PART})+"
    rf"|(?<![\w.)])(?:{_PART}){{2,}}|\b[\w.+-]+(?:{_PART}){{2,}}"
)
_FILE = re.compile(
    r"(?<![\w.+-])[\w.+-]+\.(?:py|ipynb|pyw|h5|keras|tfrecord|csv|npz|npy)\b(?::\d+)?(?: in \w+)?"
)
#: The folder of a user's home, by its parent on Linux and macOS.
_HOME = re.compile(rb"/(?:home|Users)/([\w.-]+)")
#: The author's own function in the name of a stage, `map(decode)`.
_FUNCTION = re.compile(
    r"\b((?:flat_)?map|interleave|filter|scan|take_while|group_by_\w+|from_generator|apply)"
    r"\((?!lambda\b)[^\W\d]\w*"
)


class Redaction:
    """Replaces texts, the longest first, and each path, file name and function's name.

    names: by text, what stands in its place.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._secrets = {
            name.lower(): instead for name, instead in names.items() if len(name) >= _SHORTEST
        }
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._known = re.compile("|".join(map(_pattern, longest_first)) or "(?!)", re.IGNORECASE)

    def text(self, text: str) -> str:
        """Return the text without what identifies its author, cut after `_SEARCHED` characters."""
        text = self._known.sub(lambda found: self._secrets.get(found[0].lower(), "[name]"), text)[
            :_SEARCHED
        ]
        text = _FILE.sub("[file]", _PATH.sub("[path]", text))
        return _FUNCTION.sub(r"\1(function", text)


def _pattern(secret: str) -> str:
    quoted = re.escape(secret)
    return quoted if len(secret) >= _LONG else rf"(?<![^\W_]){quoted}(?![^\W_])"


def shown(text: str, redaction: Redaction | None, longest: int = LONGEST) -> str:
    """Return a text for the page: one line without control characters, cut to `longest`, redacted
    where asked."""
    text = redaction.text(text) if redaction else text
    return printable(text if len(text) <= longest else f"{text[: longest - 1]}…")


def _is_own(name: str, kind: str) -> bool:
    """Return whether a layer's name is its author's: Keras makes one of the class, `conv2d_1`."""
    return name.rstrip("_0123456789").replace("_", "") != kind.rstrip("0123456789").lower()


def redaction_of(run: Snapshot, home: Path, known_workloads: Collection[str]) -> Redaction:
    """Return the redaction of a run: its paths, its names, its host, and the user.

    known_workloads: names that are not the user's own.
    """
    return Redaction(_names(run, home, known_workloads))


def redaction_of_group(group: Group, home: Path, known_workloads: Collection[str]) -> Redaction:
    """Return the redaction of a group: that of all its ranks, and its own names."""
    folder, names = group.folder, dict[str, str]()
    for run in group.ranks.values():
        names |= _names(run, home, known_workloads)
    names |= dict.fromkeys((group.file.name, folder.name), "[group]")
    return Redaction(names | dict.fromkeys((str(folder), str(folder.absolute())), "[path]"))


def _names(run: Snapshot, home: Path, known_workloads: Collection[str]) -> dict[str, str]:
    manifest = run.manifest
    texts = b"\n".join((encode_json(manifest), *map(encode, run.events)))
    users = {home.name, *(found.decode() for found in _HOME.findall(texts))}
    names = {manifest.run: "[run]", **dict.fromkeys(users, "[user]")}
    names[str(manifest.machine.get("host") or "")] = "[host]"
    names[str(home)] = "[path]"
    if run.folder is not None:
        names |= dict.fromkeys((str(run.folder.absolute()), str(run.folder)), "[path]")
        names[run.folder.name] = "[run]"
    if manifest.workload not in known_workloads:
        names[manifest.workload] = "[script]"
    if arguments := manifest.settings.get("arguments"):
        names[str(arguments)] = "[arguments]"
    if manifest.model and (embedding := manifest.model.largest_embedding):
        names[embedding.name] = "[layer]"
    for layer in _layers(run):
        own = [part for part in layer.name.split("/") if _is_own(part, layer.kind)]
        blocks = (block for part in own for block in blocks_in(part))
        names |= dict.fromkeys((*own, *blocks), "[layer]")
    for ignored in run.events.of(TrainableIgnored):
        paths = "/".join((*ignored.frozen, *ignored.unfrozen))
        names |= dict.fromkeys(paths.split("/"), "[layer]")
    return names | dict.fromkeys(_of_variables(run), "[layer]")


def _of_variables(run: Snapshot) -> set[str]:
    """Return the names of layers in the paths of variables, without those that Keras made."""
    rows = [row for event in run.events.of(StepProfiled) for row in event.operations]
    made = {part for row in rows for part in row.name.split("/") if not _is_own(part, row.kind)}
    return {part for row in rows for part in row.variable.split("/")[:-1]} - made


def _layers(run: Snapshot) -> Iterator[OperationTime | Layer]:
    """Yield the layers of profiles and of the model's facts."""
    for event in run.events.of(StepProfiled):
        yield from event.operations
    if model := run.manifest.model:
        yield from (*model.without_cudnn, *model.float16_convolutions, *model.preprocessing)
        yield from model.threshold_metrics
