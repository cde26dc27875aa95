"""A script that runs in a thread of this process: a workload, under the live screen or without
one."""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import warn_user
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.script_process import Announcements, announce_in
from tfwatch.terminal.child import describe_end
from tfwatch.watch.script.import_hook import ImportHook
from tfwatch.workloads import as_main

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.clock import Clock
    from tfwatch.runs.script_process import Launch

#: An exception reaches a thread between two waits of this length.
_WAIT_S = 0.1


class ScriptThread:
    """A script in a thread; a `WatchedScript` for the screen.

    A stop ends the `fit` that runs at its next batch. Outside of one it raises KeyboardInterrupt in
    the thread, as ctrl+c does in a script's own process. The first signal stops, the second leaves
    the thread as it is.

    words: the script and its arguments. announced: the file in which its runs are announced.
    """

    in_child = False
    waiting = "stopping after the current batch: ctrl+c leaves at once"

    def __init__(
        self,
        words: Sequence[str],
        launch: Launch,
        announced: Path,
        clock: Clock,
    ) -> None:
        self._words, self._launch, self._announced = list(words), launch, str(announced)
        self._thread = threading.Thread(target=self._run, name="tfwatch-script", daemon=True)
        self._hook = ImportHook(launch.runs_dir, self._wait_for_screen)
        self._has_begun_import, self._may_import = threading.Event(), threading.Event()
        self._done = threading.Event()
        self._code = 0
        self._signals: list[int] = []
        self._is_stopping = self._is_left = False
        self.runs = ScriptRuns(Announcements(announced), clock)
        self.pid = os.getpid()
        self.folders: list[Path] = []

    # -- its life, seen by the command ----------------------------------------------------------

    def start(self) -> bool:
        """Start the script, and wait until it begins to import TensorFlow or Keras; return False
        where it has ended.

        So it has read its arguments, and the first paint of the screen does not wait for these
        libraries.

        Raises:
            OSError: the system gives no thread.
        """
        self._hook.install()
        announce_in(self._announced, launch=self._launch)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise OSError(str(error)) from error
        while not self._has_begun_import.wait(_WAIT_S):
            if self._done.is_set():
                return False
        return True

    def go_on(self) -> None:
        """Let it import TensorFlow and Keras."""
        self._may_import.set()

    @property
    def has_ended(self) -> bool:
        """True once its last run has its end."""
        return self._done.is_set()

    @property
    def is_hung(self) -> bool:
        """True where it was left, and still runs."""
        return not self._done.is_set()

    @property
    def code(self) -> int:
        """Its exit code: 128 and the signal that stopped it."""
        return 128 + self._signals[0] if self._signals else self._code

    @property
    def state(self) -> str:
        """Its state in words."""
        return describe_end(self.code) if self.has_ended else "script runs"

    def send(self, signum: int) -> None:
        """Stop it, and leave it at the second signal. It runs in a signal handler, so it takes no
        lock."""
        self._is_left = bool(self._signals) or self._is_stopping
        self._signals.append(signum)

    def leave(self) -> None:
        """Leave it as it is."""
        self._is_left = True

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ends within this time, or was left."""
        if self._signals and not self._is_stopping:
            self.interrupt()
        return self._done.wait(timeout_s) or self._is_left

    def interrupt(self) -> None:
        """Stop it: its `fit` at the next batch, else by KeyboardInterrupt."""
        self._is_stopping = True
        fits = sys.modules.get("tfwatch.watch.fit.fit_runs")
        if not (fits and fits.stop_fit()) and self._thread.ident and not self._done.is_set():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(KeyboardInterrupt)
            )

    def end(self) -> None:
        """End its runs, where it was left."""
        if self.is_hung:
            self._end_runs(is_left=True)

    # -- in its thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with as_main(self._words):
                runpy.run_path(self._words[0], run_name="__main__")
        except SystemExit as ended:
            self._code = _code_of(ended)
        except BaseException as error:  # noqa: BLE001  the script's own: its end, as of a process
            is_asked = isinstance(error, KeyboardInterrupt) and self._is_stopping
            self._code = 0 if is_asked else 1
            sys.last_value = error  # of which the run of a loop takes its reason
            if not is_asked:
                traceback.print_exception(error)
        finally:
            self._end_runs(is_left=False)
            self._done.set()

    def _end_runs(self, *, is_left: bool) -> None:
        try:
            self._hook.uninstall()
            fits: Any = sys.modules.get("tfwatch.watch.fit.fit_runs")
            if fits:
                fits.leave_runs() if is_left else fits.complete_runs()
            self.folders = Announcements(Path(self._announced)).take()
        except Exception as error:  # noqa: BLE001  the boundary of telemetry
            warn_user(f"the end of a run is not recorded: {error}")

    def _wait_for_screen(self) -> None:
        self._has_begun_import.set()
        while not self._may_import.wait(_WAIT_S):
            pass


def _code_of(ended: SystemExit) -> int:
    """Return the exit code; a text is printed, as Python does."""
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    sys.stderr.write(f"{ended.code}\n")
    return 1
