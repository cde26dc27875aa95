"""The fix of a script: its runs to one patch, with what was tried and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.fix.live import live_result
from tfwatch.fix.pairs import PairedRuns, steps_of_a_run, wanted_arguments
from tfwatch.fix.patch import ChangedFile, edited_text, make_patch
from tfwatch.fix.user_file import NoPatchError, UserFile
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tfwatch.core.clock import Clock
    from tfwatch.core.script_code import CodeEdit
    from tfwatch.fix.live import LiveResult
    from tfwatch.fix.pairs import Measure
    from tfwatch.fix.patch import Patch
    from tfwatch.fix.tried import Tried

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


@dataclass(frozen=True, slots=True)
class Restarts:
    """The means to try changes by running a script again. budget_s: no run begins later.

    script: its file. measure, report: as of `PairedRuns`.
    """

    script: str
    measure: Measure
    budget_s: float
    clock: Clock
    report: Callable[[str], object]

    def paired_runs(self, judged: JudgedRun) -> PairedRuns:
        """Return the pairs of runs of a script that has this run; their budget begins now."""
        until_ns = self.clock.now_ns() + round(self.budget_s * 1e9)
        return PairedRuns(self.measure, steps_of_a_run(judged), self.clock, until_ns, self.report)


def fix_script(
    runs: Sequence[Path], code: int, began_ns: int, restarts: Restarts | None = None
) -> ScriptFix:
    """Return the fix of a script that has run.

    runs: their folders, the newest first. code: its exit code. began_ns: when it began, nanoseconds
    since 1970. restarts: None where it runs no more.
    """
    if not runs:
        return ScriptFix((), why_none=f"{_NO_PROOF}: no step of this script is recorded")
    if code:
        why = f"{_NO_PROOF}: the script failed with exit code {code}"
        return ScriptFix(tuple(runs), why_none=why)
    judged = [JudgedRun(open_run(run)) for run in reversed(runs)]
    results = [live_result(one) for one in judged]
    best = next((n for n, one in enumerate(results) if one.values), 0)
    found, fix = results[best], ScriptFix(tuple(runs), tried=results[best].tried)
    fix = replace(fix, evidence=tuple(_evidence(found)))
    try:
        files = _with_settings(found, began_ns)
        if restarts:
            tried = _try_arguments(judged[best], files, began_ns, restarts)
            fix = replace(fix, tried=(*fix.tried, *tried))
        if not any(one.kept for one in fix.tried) and not found.values:
            return replace(fix, why_none=f"{_NO_PROOF}{_first_advice(judged[best])}")
        return replace(fix, patch=make_patch([*files.values()]))
    except NoPatchError as error:
        return replace(fix, why_none=str(error))


def _evidence(found: LiveResult) -> Iterator[str]:
    if found.evidence:
        yield f"measured while it trained: {found.evidence}"
    if found.no_line:
        yield f"proved, but no single line of the script sets it: {found.no_line}"


def _with_settings(found: LiveResult, began_ns: int) -> dict[Path, ChangedFile]:
    """Return the files of all lines that set proved settings, with these settings.

    Raises:
        NoPatchError: a file changed since the run began, or cannot be edited.
    """
    edits: dict[str, list[CodeEdit]] = {}
    for edit in found.edits:
        edits.setdefault(edit.file, []).append(edit)
    files = [UserFile.read(name, began_ns) for name in edits]
    return {
        file.path: ChangedFile(file, edited_text(file, edits[file.name], found.values))
        for file in files
    }


def _try_arguments(
    judged: JudgedRun, files: dict[Path, ChangedFile], began_ns: int, restarts: Restarts
) -> Iterator[Tried]:
    """Try the arguments that the run's findings name, one upon the other; what is kept is put into
    the files.

    Raises:
        NoPatchError: the script changed since the run began.
    """
    wanted = wanted_arguments(judged.losses)
    if not wanted:
        return
    script, pairs = UserFile.read(restarts.script, began_ns), restarts.paired_runs(judged)
    for argument in wanted:
        now = files.get(script.path, ChangedFile(script, script.text))
        tried, text = pairs.try_argument(now.file, now.text, argument)
        files[script.path] = ChangedFile(now.file, text)
        yield tried


def _first_advice(judged: JudgedRun) -> str:
    """Return the first finding with its advice."""
    first = next((one for one in judged.findings if one.advice), None)
    return f": {first.sentence} -> {first.advice}" if first else ""
