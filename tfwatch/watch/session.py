"""A run as Watch needs it: its writer, its control and its pipeline; and runs that a user's script
begins."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import traceback
from collections import deque
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, raise_interrupt, warn_user
from tfwatch.core.errors import reason as to_text
from tfwatch.core.events import TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.runs.control import NO_FIT, Control, RequestTaker
from tfwatch.runs.create import make_folder, make_writer
from tfwatch.runs.library import default_runs_dir
from tfwatch.runs.script_process import announce, launched
from tfwatch.sensors.runner import Sensors
from tfwatch.tfdata.code_edits import names_in_fit
from tfwatch.watch.profile.step_profiler import StepProfiler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.core.events import RecordingLost
    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.code_edits import CallSite
    from tfwatch.tfdata.stage_reader import StageReader
    from tfwatch.watch.fit.py_dataset import PyDatasetSettings
    from tfwatch.watch.step_log import StepLog
    from tfwatch.watch.tensorflow_info import Device


@dataclass(frozen=True)
class Session:
    """The writer of a run, its requests, and the source of its batches.

    step_log: of this `fit`, in a run that several fits may share. stages: reads the stages of its
    pipeline. py_dataset: the settings of the `PyDataset` that is read; None where other data is.
    on_error: called with an error of a step, before Keras gets it. on_abandoned: called when the
        model trains again after a `fit` that ended without a callback, as it does when another
        callback raises.
    """

    writer: RunWriter
    step_log: StepLog
    stages: StageReader
    control: Control = field(default_factory=Control)
    py_dataset: PyDatasetSettings | None = None
    on_error: Callable[[BaseException], None] | None = None
    on_abandoned: Callable[[], None] | None = None


#: The programs that run the cells of a notebook.
_NOTEBOOKS = ("ipykernel_launcher", "colab_kernel_launcher")
_EXIT_PRIORITIES = itertools.count()
#: A run that rests between two fits ends after so many seconds.
GAP_S = 60.0


@dataclass(frozen=True, slots=True)
class ErrorText:
    """An exception as text, which references nothing of the training.

    failed: False for exceptions such as KeyboardInterrupt, which stop a training and are no
    failure.
    """

    text: str
    traceback: str
    failed: bool

    @staticmethod
    def of(error: BaseException) -> ErrorText:
        """Return the text of an exception."""
        text = to_text(error)
        try:
            lines = "".join(traceback.format_exception(error))
        except Exception as failure:  # noqa: BLE001  the exception is the user's: its notes or its cause may raise
            raise_interrupt(failure)
            lines = f"the traceback of {text} cannot be written: {to_text(failure)}"
        return ErrorText(text, lines, isinstance(error, Exception))


class ScriptRun:
    """The writer and the sensors of a script's run; `end` closes them.

    runs_dir: None is the default folder. knobs: the pipeline's settings, as text. switchable: the
    knobs to switch live.
    begun_ns: when the run began, by the system's clock; None is now.
    at_end: called after the last row, in the writer's thread.
    fit_calls: the user's calls of `fit` whose names are not in run.json yet; None where a `fit` has
    no such call.

    The writer's thread does all that waits, from the folder to the sensors' end: the training waits
    for none of it. A `fit` that raises does not call its callbacks: its run ends with the next
    `fit`, or with the process.

    Raises:
        RuntimeError: the system cannot start a thread, or the user has no home folder.
    """

    def __init__(
        self,
        runs_dir: Path | None,
        device: Device,
        knobs: Mapping[str, str],
        switchable: Sequence[str],
        begun_ns: int | None = None,
    ) -> None:
        name = (
            Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
        )
        name = "notebook" if name in _NOTEBOOKS else name
        named = runs_dir or (Path(asked) if (asked := launched().runs_dir) else None)
        self._runs_dir = named or default_runs_dir()
        self.writer = make_writer(
            "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:40] or "python",
            begun_ns=begun_ns,
            device=device.name,
            accelerated=device.accelerated,
            knobs=dict(knobs),
            settings=dict(launched().settings),
            switchable=list(switchable),
        )
        self.at_end: Callable[[], None] = lambda: None
        self.fit_calls: deque[CallSite | None] = deque()
        self._names: dict[str, str] | None = None
        self._has_begun = False
        self._is_announced = False
        self._lost_reported: RecordingLost | None = None
        self._resting_since_ns: deque[int] = deque()
        self._sensors: Sensors | None = None
        self.profiler = StepProfiler(self.writer, at_begin=launched().explain)
        self._requests = RequestTaker(self.writer, ask_profile=self.profiler.ask)
        self.writer.at_begin, self.writer.after_last_flush = self._begin, self._finish
        self.writer.take_requests, self.writer.after_flush = self._requests.look, self._look
        self._forget = call_at_exit(self._end_with_process)
        try:
            self.writer.start()
        except RuntimeError:
            self._forget()
            raise

    def serve(self, control: Control | None, no_control: str = NO_FIT) -> None:
        """Pass the requests in the run's folder to this control; None: to none, for the reason."""
        self._requests.serve(control, no_control)

    def stop(self) -> bool:
        """Stop the `fit` that runs at its next batch; return False where none does."""
        return self._requests.stop()

    @property
    def path(self) -> Path | None:
        """The run folder; None if there is none yet, or none that can be opened. Waits up to 2 s
        for its creation."""
        self.writer.wait_until_begun()
        return self.writer.folder if self.writer.can_open else None

    # -- its end --------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End the run with an error of the training."""
        self.end_with_error(ErrorText.of(error))

    def end_with_error(self, raised: ErrorText, at_ns: int | None = None) -> None:
        """End the run with an error that the training raised `at_ns`, or now."""
        at_ns = self.writer.now_ns() if at_ns is None else at_ns
        if raised.failed:
            self.writer.event(
                TrainingFailed(at_ns, self.writer.status[2], raised.text, raised.traceback)
            )
        self.end("failed" if raised.failed else "stopped", raised.text, at_ns)

    def end(self, cause: str, detail: str = "", at_ns: int | None = None) -> None:
        """Write the end, `at_ns` or now. A second call, or one in a forked process, does
        nothing."""
        if not self.is_over:
            self.writer.end(cause, detail, at_ns)
            self.writer.finish()

    @property
    def is_over(self) -> bool:
        """True once the run has ended, and in a forked process."""
        return self.writer.status[0] == Phase.ENDED or os.getpid() != self.writer.manifest().pid

    def _end_with_process(self) -> None:
        if not self.end_rest():
            self.end("stopped", "the process ended before the training did")
        self.close()

    def close(self) -> None:
        """Wait up to 5 s until the end is recorded."""
        if not self.writer.close():
            warn_user(f"the end of this run is not recorded: {self.writer.folder} does not respond")

    # -- between two fits -----------------------------------------------------------------------

    def rest(self) -> None:
        """Wait for another `fit` of this run; the run ends now if none begins within `GAP_S`."""
        self._resting_since_ns.append(self.writer.now_ns())
        self.writer.is_between_fits = True

    def resume(self) -> bool:
        """Continue with another `fit`; return False if the run has ended."""
        return self._take_rest() is not None and not self.is_over

    def _take_rest(self) -> int | None:
        """Return the time since which the run rests, to one caller only; None if it does not
        rest."""
        try:
            return self._resting_since_ns.pop()
        except IndexError:
            return None

    def end_rest(self) -> bool:
        """End a run that rests, with its last `fit`."""
        since_ns = self._take_rest()
        if since_ns is not None:
            self.end("finished", "", since_ns)
        return since_ns is not None

    # -- in the writer's thread -----------------------------------------------------------------

    def _begin(self) -> None:
        self._report_lost(make_folder(self.writer, self._runs_dir))
        self._sensors = Sensors(self.writer)
        self._sensors.start()

    def _look(self) -> None:
        self.profiler.write()
        self._describe_names()
        if not self._has_begun:
            self._has_begun = True
            if self.writer.lost:
                self._report_lost(f"{self._runs_dir} cannot be written: {self.writer.lost.reason}")
        if not self._is_announced and self.writer.folder and self.writer.can_open:
            self._is_announced = True  # to the screen of `tfwatch run`, which opens it
            announce(self.writer.folder)
        resting = next(iter(self._resting_since_ns), None)
        if resting is not None and self.writer.now_ns() - resting > GAP_S * 1e9:
            self.end_rest()

    def _describe_names(self) -> None:
        """Write the names that all calls of `fit` have for their model and data: to find them reads
        the script, which takes 50 ms for a thousand lines."""
        with fails_open(lambda why: self.writer.note(f"the names in fit are unknown: {why}")):
            while self.fit_calls:
                call = self.fit_calls.popleft()
                names = names_in_fit(call) if call else {}
                known = names if self._names is None else self._names
                self._names = dict(known.items() & names.items())
                self.writer.describe(names=self._names)

    def _report_lost(self, why: str) -> None:
        if why:
            warn_user(f"nothing is recorded: {why}")
            self._lost_reported = self.writer.lost

    def _finish(self) -> None:
        self.at_end()
        self.profiler.finish()
        self._requests.finish()
        self._describe_names()
        self.writer.flush()
        if self._sensors:
            self._sensors.stop()
        if (lost := self.writer.lost) and lost is not self._lost_reported:
            warn_user(f"the run is not recorded since step {lost.step}: {lost.reason}")
        # Last: until then a process that ends waits for what is above.
        self._forget()


def call_at_exit(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function when the process ends, the last registered first; returns a function that
    unregisters it.

    A worker of multiprocessing does not run `atexit` functions. A forked process does: it calls
    none of its parent's.
    """
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:
            function()

    atexit.register(call)
    worker = Finalize(None, call, exitpriority=next(_EXIT_PRIORITIES)) if parent_process() else None

    def forget() -> None:
        atexit.unregister(call)
        if worker:
            worker.cancel()

    return forget
