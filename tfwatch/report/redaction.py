"""Texts of a run for a page that others read: in one line, harmless, and redacted on request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.core.errors import printable
from tfwatch.core.events import StagesFound

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from tfwatch.runs.group import Group
    from tfwatch.runs.snapshot import Snapshot

#: Characters of one text on the page: a name may have any length.
LONGEST = 400
#: Characters that are searched for paths: a hostile name makes each search slow.
_SEARCHED = 4 * LONGEST
#: A shorter name is common in other texts; one of less than `_LONG` characters is replaced as a
#: whole word only.
_SHORTEST, _LONG = 2, 8
#: An address, a path that begins with a drive, `~` or dots, and one of at least two parts; a file
#: of source code.
_PART = r"[/\\]+[^\s/\\\"'()<>,;:]+"
_PATH = re.compile(
    rf"\b\w+://[^\s\"'<>]+|\b[A-Za-z]:[/\\]+[^\s\"'<>,;]*|(?:~\w*|\.\.?)(?:{_PART})+"
    rf"|(?<![\w.)])(?:{_PART}){{2,}}|\b[\w.+-]+(?:{_PART}){{2,}}"
)
_FILE = re.compile(
    r"(?<![\w.+-])[\w.+-]+\.(?:py|ipynb|pyw|h5|keras|tfrecord|csv|npz|npy)\b(?::\d+)?(?: in \w+)?"
)
#: The author's own function in the name of a stage, `map(decode)`.
_FUNCTION = re.compile(r"\(([^\W\d]\w*)\)")

_ARGUMENT = re.compile(r"\(([^\W\d]\w*)")


class Redaction:
    """Replaces the texts in `secrets`, the longest first, and each path, file name and function's
    name.

    secrets: by text, in lower case, what stands in its place. functions: names of the author's
    functions, which are replaced behind a parenthesis only: they may be common words.
    """

    def __init__(self, secrets: Mapping[str, str], functions: Collection[str] = ()) -> None:
        self._secrets = secrets
        self._functions = functions
        longest_first = sorted(secrets, key=len, reverse=True)
        self._known = re.compile("|".join(map(_pattern, longest_first)) or "(?!)", re.IGNORECASE)

    @classmethod
    def joined(cls, secrets: Mapping[str, str], others: Collection[Redaction]) -> Redaction:
        """Return the redaction of these secrets and of all others'."""
        replacements: dict[str, str] = {}
        for one in others:
            replacements |= one._secrets
        return cls(
            {**replacements, **secrets}, frozenset().union(*(one._functions for one in others))
        )

    def text(self, text: str) -> str:
        """Return the text without what identifies its author, cut after `_SEARCHED` characters."""
        text = self._known.sub(lambda found: self._secrets.get(found[0].lower(), "[name]"), text)[
            :_SEARCHED
        ]
        text = _FILE.sub("[file]", _PATH.sub("[path]", text))
        return _ARGUMENT.sub(
            lambda found: "(function" if found[1] in self._functions else found[0], text
        )


def _pattern(secret: str) -> str:
    quoted = re.escape(secret)
    return quoted if len(secret) >= _LONG else rf"(?<![^\W_]){quoted}(?![^\W_])"


def shown(text: str, redaction: Redaction | None, longest: int = LONGEST) -> str:
    """Return a text for the page: one line without control characters, cut to `longest`, redacted
    where asked."""
    text = redaction.text(text) if redaction else text
    return printable(text if len(text) <= longest else f"{text[: longest - 1]}…")


def redaction_of_group(group: Group, home: Path, known_workloads: Collection[str]) -> Redaction:
    """Return the redaction of a group: that of all its ranks, and its own names."""
    folder = group.folder
    names = dict.fromkeys((group.file.name, folder.name), "[group]")
    names |= dict.fromkeys((str(folder), str(folder.absolute())), "[path]")
    each = [redaction_of(run, home, known_workloads) for run in group.ranks.values()]
    return Redaction.joined(_secrets(names), each)


def redaction_of(run: Snapshot, home: Path, known_workloads: Collection[str]) -> Redaction:
    """Return the redaction of a run: its paths, its names, its host, and the user.

    known_workloads: names that are not the user's own.
    """
    manifest = run.manifest
    names = {
        manifest.run: "[run]",
        home.name: "[user]",
    }
    names[str(run.manifest.machine.get("host") or "")] = "[host]"
    names[str(home)] = "[path]"
    if run.folder is not None:
        names |= {
            str(run.folder.absolute()): "[path]",
            str(run.folder): "[path]",
            run.folder.name: "[run]",
        }
    if manifest.workload not in known_workloads:
        names[manifest.workload] = "[script]"
    if arguments := manifest.settings.get("arguments"):
        names[str(arguments)] = "[arguments]"
    if manifest.model and (embedding := manifest.model.largest_embedding):
        names[embedding.name] = "[layer]"
    stages = (name for event in run.events.of(StagesFound) for name in event.names)
    functions = frozenset(function for name in stages for function in _FUNCTION.findall(name))
    return Redaction(_secrets(names), functions)


def _secrets(names: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): instead for name, instead in names.items() if len(name) >= _SHORTEST}
