"""The fix of a script: its runs to one patch, with what was tried and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING

from tfwatch.fix.live import live_result
from tfwatch.fix.pairs import PairedRuns, steps_of_a_run, wanted_arguments
from tfwatch.fix.patch import ChangedFile, edited_text, make_patch
from tfwatch.fix.user_file import NoPatchError, UserFile
from tfwatch.judge.effects.wording import setting_text
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
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
        files = _with_settings(found.code, found.values, began_ns)
        if restarts:
            tried = _Restarted(judged[best], found, restarts, began_ns).try_all(files)
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


def _with_settings(
    code: Sequence[CodeEdit], values: Mapping[str, str], began_ns: int
) -> dict[Path, ChangedFile]:
    """Return the files of all lines that set these knobs, with these values.

    Raises:
        NoPatchError: a file changed since the run began, or cannot be edited.
    """
    edits: dict[str, list[CodeEdit]] = {}
    for edit in code:
        if edit.knob in values:
            edits.setdefault(edit.file, []).append(edit)
    files = [UserFile.read(name, began_ns) for name in edits]
    return {
        file.path: ChangedFile(file, edited_text(file, edits[file.name], values)) for file in files
    }


class _Restarted:
    """Changes of a script that are tried by running it again, one upon the other.

    Raises:
        NoPatchError: the script changed since the run began.
    """

    def __init__(
        self, judged: JudgedRun, found: LiveResult, restarts: Restarts, began_ns: int
    ) -> None:
        self._judged, self._found, self._began_ns = judged, found, began_ns
        self._script = UserFile.read(restarts.script, began_ns)
        self._pairs = restarts.paired_runs(judged)

    def try_all(self, files: dict[Path, ChangedFile]) -> Iterator[Tried]:
        """Try what the run did not prove, and the arguments that its findings name; what is kept is
        put into the files."""
        if self._found.open_values:
            yield from self._try_settings(files)
        for argument in wanted_arguments(self._judged.losses):
            now = self._now(files)
            tried, text = self._pairs.try_argument(now.file, now.text, argument)
            files[self._script.path] = ChangedFile(now.file, text)
            yield tried

    def _now(self, files: Mapping[Path, ChangedFile]) -> ChangedFile:
        return files.get(self._script.path, ChangedFile(self._script, self._script.text))

    def _try_settings(self, files: dict[Path, ChangedFile]) -> Iterator[Tried]:
        """Try settings that the run did not prove, all together; those of another file than the
        script are not: a copy of the script imports that file as it is."""
        values = {**self._found.values, **self._found.open_values}
        changed = _with_settings(self._found.code, values, self._began_ns)
        script = changed.pop(self._script.path, None)
        if script is None or any(files.get(path) != one for path, one in changed.items()):
            return
        now = self._now(files)
        words = ", ".join(starmap(setting_text, self._found.open_values.items()))
        tried = self._pairs.try_change(now.file, (now.text, script.text), words, is_exact=True)
        if tried.kept:
            files[self._script.path] = script
        yield tried


def _first_advice(judged: JudgedRun) -> str:
    """Return the first finding with its advice."""
    first = next((one for one in judged.findings if one.advice), None)
    return f": {first.sentence} -> {first.advice}" if first else ""
