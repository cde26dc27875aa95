"""The fix of a script: its runs to one patch, with what was tried and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.fix.live import live_result
from tfwatch.fix.patch import ChangedFile, edited_text, make_patch
from tfwatch.fix.user_file import NoPatchError, UserFile
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.core.script_code import CodeEdit
    from tfwatch.fix.live import LiveResult, Tried
    from tfwatch.fix.patch import Patch

_NO_PROOF = "no setting is proved faster"


@dataclass(frozen=True, slots=True)
class ScriptFix:
    """The patch of a script; None where nothing is proved, for the reason in `why_none`.

    evidence: sentences on what was measured. runs: the folders of its runs, the newest first.
    """

    runs: tuple[Path, ...]
    patch: Patch | None = None
    tried: tuple[Tried, ...] = ()
    evidence: tuple[str, ...] = ()
    why_none: str = ""


def fix_script(runs: Sequence[Path], code: int, began_ns: int) -> ScriptFix:
    """Return the fix of a script that has run.

    runs: their folders, the newest first. code: its exit code. began_ns: when it began, nanoseconds
    since 1970.
    """
    if not runs:
        return ScriptFix((), why_none=f"{_NO_PROOF}: no step of this script is recorded")
    if code:
        why = f"{_NO_PROOF}: the script failed with exit code {code}"
        return ScriptFix(tuple(runs), why_none=why)
    judged = [JudgedRun(open_run(run)) for run in reversed(runs)]
    results = [live_result(one) for one in judged]
    best = next((n for n, one in enumerate(results) if one.values), 0)
    return _fix_of(judged[best], results[best], tuple(runs), began_ns)


def _fix_of(
    judged: JudgedRun, found: LiveResult, runs: tuple[Path, ...], began_ns: int
) -> ScriptFix:
    without = ScriptFix(runs, None, found.tried, tuple(_evidence(found)))
    if not found.values:
        return replace(without, why_none=f"{_NO_PROOF}{_first_advice(judged)}")
    try:
        return replace(without, patch=make_patch(_changed_files(found, began_ns)))
    except NoPatchError as error:
        return replace(without, why_none=str(error))


def _evidence(found: LiveResult) -> Iterator[str]:
    if found.evidence:
        yield f"measured while it trained: {found.evidence}"
    if found.no_line:
        yield f"proved, but no single line of the script sets it: {found.no_line}"


def _changed_files(found: LiveResult, began_ns: int) -> list[ChangedFile]:
    """Return the files of all edits with these edits.

    Raises:
        NoPatchError: a file changed since the run began, or cannot be edited.
    """
    edits: dict[str, list[CodeEdit]] = {}
    for edit in found.edits:
        edits.setdefault(edit.file, []).append(edit)
    files = [UserFile.read(name, began_ns) for name in edits]
    return [ChangedFile(file, edited_text(file, edits[file.name], found.values)) for file in files]


def _first_advice(judged: JudgedRun) -> str:
    """Return the first finding with its advice."""
    first = next((one for one in judged.findings if one.advice), None)
    return f": {first.sentence} -> {first.advice}" if first else ""
