"""The fix of a script: its runs to one patch, with what was tried and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.knobs import CACHE
from tfwatch.fix.changes import ALLOWED, BEFORE_SETTINGS, DRAWS, FILLED, LIVE, ScriptChange, Wanted
from tfwatch.fix.live import LiveResult, live_result
from tfwatch.fix.pairs import LEAST_STEPS
from tfwatch.fix.patch import ChangedFile, make_patch, with_settings
from tfwatch.fix.tried import Tried, product
from tfwatch.fix.user_file import NoPatchError, UserFile
from tfwatch.judge.effects.wording import setting_text
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import ScriptTrial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tfwatch.fix.pairs import PairedRuns
    from tfwatch.fix.patch import Patch
    from tfwatch.judge.effects.interval import Estimate

_NO_PROOF = "no setting is proved faster"
EVERYTHING = Wanted()


@dataclass(frozen=True, slots=True)
class ScriptFix:
    """The patch of a script; None where nothing is proved, for the reason in `why_none`.

    gain: of the patch, with the interval of a fresh run of each side; None where a part has no
    ratio. evidence: sentences on what was measured. runs: their folders, the newest first.
    """

    runs: tuple[Path, ...] = ()
    patch: Patch | None = None
    tried: tuple[Tried, ...] = ()
    evidence: tuple[str, ...] = ()
    why_none: str = ""
    gain: Estimate | None = None


def fix_script(
    runs: Sequence[Path],
    code: int,
    began_ns: int,
    pairs: PairedRuns | None = None,
    wanted: Wanted = EVERYTHING,
) -> ScriptFix:
    """Return the fix of a script that has run.

    runs: their folders, the newest first. code: its exit code. began_ns: when it began, nanoseconds
    since 1970. pairs: None where it runs no more.
    """
    if code or not runs:
        failed = f"the script failed with exit code {code}"
        why = failed if code else "no step of this script is recorded"
        return ScriptFix(tuple(runs), why_none=f"{_NO_PROOF}: {why}")
    judged = [JudgedRun(open_run(run)) for run in reversed(runs)]
    results = [live_result(one, wanted.allowed) for one in judged]
    best = next((n for n, one in enumerate(results) if one.values), 0)
    fix = _fixed(judged[best], results[best], began_ns, pairs, wanted)
    return replace(fix, runs=tuple(runs))


def fix_changes(began_ns: int, pairs: PairedRuns, wanted: Wanted) -> ScriptFix:
    """Return the fix of a script that has not run, by the changes that the user names.

    Raises:
        BadInputError: it cannot be run for a few steps.
    """
    judged = pairs.measure(Path(pairs.script), ScriptTrial(LEAST_STEPS)).judged
    return _fixed(judged, LiveResult(), began_ns, pairs, wanted)


def _fixed(
    judged: JudgedRun,
    found: LiveResult,
    began_ns: int,
    pairs: PairedRuns | None,
    wanted: Wanted,
) -> ScriptFix:
    fix = ScriptFix(tried=found.tried, evidence=found.evidence)
    try:
        files = with_settings(found.code, found.values, began_ns)
        if pairs:
            tried = _Restarted(judged, found, pairs, began_ns).try_all(files, wanted)
            fix = replace(fix, tried=(*fix.tried, *tried))
        if not any(one.kept for one in fix.tried) and not found.values:
            first = next((one for one in judged.findings if one.advice), None)
            advice = f": {first.sentence} -> {first.advice}" if first else ""
            return replace(fix, why_none=f"{_NO_PROOF}{advice}")
        gains = [found.gain] if found.values else []
        gains += [one.fresh for one in fix.tried if one.kept and one.fresh]
        gain = None if None in gains else product([one for one in gains if one])
        return replace(fix, patch=make_patch([*files.values()]), gain=gain)
    except NoPatchError as error:
        return replace(fix, why_none=str(error))


class _Restarted:
    """Changes of a script that are tried by running it again, one upon the other.

    Raises:
        NoPatchError: the script changed since the run began.
    """

    def __init__(
        self, judged: JudgedRun, found: LiveResult, pairs: PairedRuns, began_ns: int
    ) -> None:
        self._judged, self._found, self._began_ns, self._pairs = judged, found, began_ns, pairs
        self._script = UserFile.read(pairs.script, began_ns)
        self._values = dict(found.values)

    def try_all(self, files: dict[Path, ChangedFile], wanted: Wanted) -> Iterator[Tried]:
        """Try what its findings name, and what the run did not prove; what is kept is put into the
        files."""
        changes = wanted.changes(self._judged.losses)
        first = [one for one in changes if one.name in BEFORE_SETTINGS]
        for change in first:
            yield self._try(files, change, wanted)
        for values in self._found.not_proved:
            if settings := self._settings(values):
                yield (tried := self._try(files, settings, wanted))
                self._values |= values if tried.kept else {}
        for change in changes:
            if change not in first:
                yield self._try(files, change, wanted)

    def _try(self, files: dict[Path, ChangedFile], change: ScriptChange, wanted: Wanted) -> Tried:
        if change.kind and change.kind not in wanted.allowed:
            why = f"not tried: {ALLOWED[change.kind]}, so it needs --allow {change.kind}"
            return Tried(change.text, why, kept=False)
        now = files.get(self._script.path, ChangedFile(self._script, self._script.text))
        tried, text = self._pairs.try_change(now.file, now.text, change, self._judged)
        files[self._script.path] = ChangedFile(now.file, text)
        return tried

    def _settings(self, values: Mapping[str, str]) -> ScriptChange | None:
        """Return the change to settings that the run did not prove, all together; those of another
        file than the script are not tried: a copy of the script imports that file as it is."""
        code, path = self._found.code, self._script.path
        old = with_settings(code, self._values, self._began_ns)
        new = with_settings(code, {**self._values, **values}, self._began_ns)
        script, known = new.pop(path, None), old.pop(path, None)
        if script is None or new != old:
            return None

        def make(text: str) -> str:
            if text != (known.text if known else self._script.text):
                raise NoPatchError("the script has another pipeline by now: run tfwatch fix again")
            return script.text

        draws = any(map(self._judged.run.manifest.needs_consent, values))
        return ScriptChange(
            LIVE,
            ", ".join(starmap(setting_text, values.items())),
            make,
            kind=DRAWS if draws else "",
            is_exact=True,
            epochs=FILLED if CACHE in values else 0,
        )
