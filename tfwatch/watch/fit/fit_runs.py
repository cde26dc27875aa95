"""The run of a script's `fit`: its own, or that of the short fits before it.

A fit of less than `SHORT_S` is short. While fits are short, each continues the run of the one
before if it begins within `GAP_S` and with the same settings, also with another model. So the run
of a loop has all that the loop takes: its compiles, and what the script does between two fits. In a
script that nobody launched, the fit of a `Watch` ends its run as it returns, so that it can be read
at once; there the second of several short fits begins the run that the others share.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM
from tfwatch.core.knobs import COPY_KNOBS, PREFETCH
from tfwatch.runs.control import Control
from tfwatch.runs.script_process import launched
from tfwatch.tfdata.stage_reader import StageReader
from tfwatch.watch.session import GAP_S, ScriptRun
from tfwatch.watch.step_log import StepLog
from tfwatch.watch.tensorflow_info import find_device

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.session import ErrorText

#: A `fit` of less time is short.
SHORT_S = 10.0


class FitRun:
    """The run of one `fit` or of several short ones.

    script: its writer and sensors. step_log: of the present `fit`; it continues that of the one
    before.
    """

    def __init__(self, runs_dir: Path | None, knobs: Mapping[str, str]) -> None:
        self._runs_dir = runs_dir
        self._knobs = dict(knobs)
        self._control = Control()
        self._begun_ns = SYSTEM.now_ns()
        # The fit before was short, and its run could not be shared: this one can.
        follows_short_fit = any(
            where == runs_dir and self._begun_ns - at_ns < GAP_S * 1e9
            for where, at_ns in _short_fit
        )
        self._is_shared = bool(launched().runs_dir) or follows_short_fit
        self.script = _begin_run(runs_dir, knobs)
        _newest[:] = [self.script]
        self.step_log = StepLog(self.script.writer, self.script.profiler)
        self.stages = StageReader(self.script.writer)
        self.stages.start()
        self.script.at_end = self.stages.stop

    def takes(self, runs_dir: Path | None, knobs: Mapping[str, str]) -> bool:
        """Continue with another `fit`; return False if it belongs to another run, or this one has
        ended."""
        if (self._runs_dir, self._knobs) != (runs_dir, knobs) or not self.script.resume():
            return False
        self._begun_ns = SYSTEM.now_ns()
        self.step_log = StepLog(self.script.writer, self.script.profiler, before=self.step_log)
        return True

    @property
    def is_first_fit(self) -> bool:
        """True in the first `fit` of the run."""
        return self.step_log.fit == 1

    def serve(self, control: Control) -> None:
        """Take requests for a `fit` that begins."""
        control.begin()
        self._control = control
        self.script.serve(control)

    def finish(self, knobs: Mapping[str, str]) -> None:
        """End a `fit`. knobs: its settings now, with which the next one has to begin."""
        if self._control.was_stopped:
            self.stop("stopped at the next batch")
            return
        self._knobs = dict(knobs)
        if self._leave() and self._is_shared and not self.script.is_over:
            self.script.rest()
            _resting.append(self)
        else:
            self.script.end("finished")

    def stop(self, detail: str) -> None:
        """End the run with a `fit` that did not finish."""
        self._leave()
        self.script.end("stopped", detail)

    def fail(self, raised: ErrorText) -> None:
        """End the run with an error of the training."""
        self._leave()
        self.script.end_with_error(raised)

    def _leave(self) -> bool:
        """Note the end of a `fit`; return whether it was short."""
        self.script.serve(None)
        now_ns = SYSTEM.now_ns()
        is_short = now_ns - self._begun_ns < SHORT_S * 1e9
        _short_fit[:] = [(self._runs_dir, now_ns)] if is_short else []
        return is_short


def _begin_run(runs_dir: Path | None, knobs: Mapping[str, str]) -> ScriptRun:
    device, switchable = find_device(), [PREFETCH, *COPY_KNOBS]
    if not device.has_own_memory:
        switchable = [PREFETCH]
        knobs = {knob: value for knob, value in knobs.items() if knob not in COPY_KNOBS}
    return ScriptRun(runs_dir, device, knobs, switchable)


#: Runs that wait for another `fit`: one for each thread that trains. The last `fit`, if it was
#: short: where, and its end. The newest run. All are changed in one step, as any thread may train.
_resting: list[FitRun] = []
_newest: list[ScriptRun] = []
_short_fit: list[tuple[Path | None, int]] = []
os.register_at_fork(after_in_child=_resting.clear)
os.register_at_fork(after_in_child=_newest.clear)


def run_of_next_fit(runs_dir: Path | None, knobs: Mapping[str, str]) -> FitRun:
    """Return the run of a `fit` that begins: one that waits for it, or a new one.

    Raises:
        RuntimeError: the system cannot start a thread, or the user has no home folder.
    """
    try:
        resting = _resting.pop()
    except IndexError:
        return FitRun(runs_dir, knobs)
    if resting.takes(runs_dir, knobs):
        return resting
    resting.script.end_rest()
    return FitRun(runs_dir, knobs)


def complete_runs() -> None:
    """End the runs that wait for another `fit`; wait until those that are over can be read."""
    while _resting:
        _resting.pop().script.end_rest()
    for script in _newest:
        if script.is_over:
            script.close()


def stop_fit() -> bool:
    """Stop the `fit` that runs at its next batch; return False where none does."""
    return any(script.stop() for script in _newest)


def leave_runs() -> None:
    """End the runs of a training that is left before its current batch ends."""
    for script in _newest:
        script.end("stopped", "left before the current batch ended")
    complete_runs()


def newest_writer() -> RunWriter | None:
    """Return the writer of the last `fit` of this process, where its run goes on."""
    return next((script.writer for script in _newest if not script.is_over), None)
