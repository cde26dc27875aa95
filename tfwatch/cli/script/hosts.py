"""The hosts of a script: under the screen a process of its own for one of the user's, without one a
process in the foreground; a thread of this process for a workload."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, name_of_signal, warn_user
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.folder import call_and_report
from tfwatch.runs.script_process import ENDING_SIGNALS, Announcements, announce_in, record_signal
from tfwatch.terminal.capture import KILLED, flush
from tfwatch.watch.script.bootstrap import reader_after_relay
from tfwatch.watch.script.import_hook import ImportHook
from tfwatch.workloads import as_main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tfwatch.runs.script_process import Launch
    from tfwatch.terminal.pseudo_terminal import OutputRelay

#: Seconds between two looks at the terminal's size and at the script.
_LOOK_S = 0.2
_AWAITED = (*ENDING_SIGNALS, signal.SIGCHLD)
#: Seconds that the end of a script waits for the disk of its run.
_PATIENCE_S = 10.0
#: A script that ends after ctrl+c is not reported as late within this time.
_LATE_S = 5.0
_LATE = "the script has not ended since ctrl+c: ctrl+\\ ends it"


def describe_end(code: int) -> str:
    """Return how a script ended. code: its exit code, or minus the signal that it died of."""
    return (
        f"script ended by {name_of_signal(-code)}"
        if code < 0
        else f"script ended, exit code {code}"
    )


class Script(ABC):
    """A script that runs; a `WatchedScript` for the screen. Start it within its context.

    announced: the file in which its runs are announced. thread: the name of the thread that runs
    `_run`.
    pid: the process that trains. folders: of its runs, once it has ended.
    waiting: what a user reads who waits for its end. if_killed, output: as of `Capture`.
    """

    waiting: str
    if_killed: str
    output: Sequence[int] = ()

    def __init__(self, pid: int, announced: Path, thread: str) -> None:
        self.pid = pid
        self.runs = ScriptRuns(Announcements(announced).take)
        self.folders: list[Path] = []
        self._announced = Announcements(announced)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        self.folders += self._announced.take()

    def start(self) -> None:
        """Start it; a second call does nothing."""
        if self._thread.ident is None:
            self._thread.start()

    @property
    def has_ended(self) -> bool:
        """True once its exit code is known and its last run has its end."""
        return self._ended.is_set()

    @property
    def state(self) -> str:
        """Its state in words."""
        return describe_end(self.code) if self.has_ended else "script runs"

    @property
    @abstractmethod
    def code(self) -> int:
        """The exit code, or minus the signal that ended it; 0 while it runs."""

    @property
    def is_hung(self) -> bool:
        """True where it was left, and still runs."""
        return False

    @abstractmethod
    def send(self, signum: int) -> None:
        """Send it a signal. It may run in a signal handler, so it takes no lock."""

    def interrupt(self) -> None:
        """Send it the signal that ctrl+c sends."""
        self.send(signal.SIGINT)

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ends within this time, or was left."""
        return self._ended.wait(timeout_s)

    @abstractmethod
    def _run(self) -> None:
        """See to it until its end, in a thread."""


class ScriptProcess(Script):
    """A script in a child process, in a session of its own, which no signal of this terminal
    reaches. It reads nothing. mask: the signals that it blocks.

    Raises:
        OSError: the process cannot be created.
    """

    waiting = "waiting for the end of the script: ctrl+c interrupts it again, ctrl+\\ ends it"
    if_killed = (
        "the screen was killed or crashed; the script runs on: tfwatch attach shows its runs."
    )

    def __init__(
        self,
        command: Sequence[str],
        relay: OutputRelay,
        mask: set[signal.Signals | int],
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=relay.slave,
            stderr=relay.slave,
            start_new_session=True,
            pass_fds=relay.for_script,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
        super().__init__(self._process.pid, relay.runs, "tfwatch-script")
        relay.close_script_ends()
        self._relay = relay

    @property
    def code(self) -> int:
        return self._process.returncode or 0

    def send(self, signum: int) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def _run(self) -> None:
        """Wait for its end; until then its pseudo terminal follows the terminal's size."""
        while self._process.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_S)
            if self._relay.copy_size() and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGWINCH)
        self.folders = self._announced.take()
        if self.code < 0 and self.folders:
            with fails_open(
                lambda why: warn_user(f"the run does not say which signal ended it: {why}")
            ):
                record = partial(record_signal, self.folders[-1], -self.code)
                call_and_report(record, self.folders[-1], _PATIENCE_S)
        self._ended.set()


class ScriptThread(Script):
    """A script in a thread of this process.

    A stop ends the `fit` that runs at its next batch. Outside of one it raises KeyboardInterrupt in
    the thread, as ctrl+c does in a script's own process. The first signal stops; the second leaves
    the thread as it is, and `is_hung` is True.

    words: the script and its arguments. outputs: the descriptors whose output the relay takes,
    within the context.
    """

    waiting = "stopping after the current batch: ctrl+c leaves at once"
    if_killed = KILLED

    def __init__(
        self,
        words: Sequence[str],
        launch: Launch,
        relay: OutputRelay,
        outputs: Sequence[int] = (1, 2),
    ) -> None:
        super().__init__(os.getpid(), relay.runs, "training")
        self.output = (relay.slave,)
        self._words, self._launch = list(words), launch
        self._relay, self._outputs = relay, outputs
        self._before: list[int] = []
        self._hook = ImportHook(launch.runs_dir)
        self._code = 0
        self._signals: list[int] = []
        self._is_stopping = self._is_left = False

    @property
    def code(self) -> int:
        """The exit code: 128 and the signal that stopped it."""
        return 128 + self._signals[0] if self._signals else self._code

    @property
    def is_hung(self) -> bool:
        return not self.has_ended

    def send(self, signum: int) -> None:
        if not self.has_ended:
            self._is_left = bool(self._signals)
            self._signals.append(signum)

    def interrupt(self) -> None:
        self._signals.append(signal.SIGINT)
        self._stop()

    def wait(self, timeout_s: float) -> bool:
        if self._signals and not self._is_stopping:
            self._stop()
        return super().wait(timeout_s) or self._is_left

    def _stop(self) -> None:
        self._is_stopping = True
        stop_fit = getattr(_fits(), "stop_fit", bool)  # its import may have just begun
        if not stop_fit() and self._thread.ident and not self.has_ended:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(KeyboardInterrupt)
            )

    # -- its surroundings -------------------------------------------------------------------------

    def __enter__(self) -> Script:
        self._before = [os.dup(fd) for fd in self._outputs]
        for fd in self._outputs:
            os.dup2(self._relay.slave, fd)
        ends = [os.dup(fd) for fd in self._relay.for_script]
        self._relay.close_script_ends()
        reader_after_relay(",".join(map(str, ends)))()
        announce_in(str(self._relay.runs), launch=self._launch)
        self._hook.install()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_hung:
            self._end_runs(is_left=True)
        for before, fd in zip(self._before, self._outputs, strict=True):
            os.dup2(before, fd)
            os.close(before)
        super().__exit__()

    # -- in its thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if not self._signals:
                self._code = self._execute()
            self._end_runs(is_left=False)
            gc.collect()  # TensorFlow complains of generators that end with the process
            flush(sys.stdout, sys.stderr)
        finally:
            self._ended.set()

    def _execute(self) -> int:
        """Run the script, and return its exit code."""
        try:
            with as_main(self._words):
                runpy.run_path(self._words[0], run_name="__main__")
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                return ended.code or 0
            sys.stderr.write(f"{ended.code}\n")  # as Python prints it
            return 1
        except BaseException as error:  # noqa: BLE001  the script's own: its end, as of a process
            sys.last_value = error  # of which the run of a loop takes its reason
            if not (isinstance(error, KeyboardInterrupt) and self._is_stopping):
                traceback.print_exception(error)
            return 1
        return 0

    def _end_runs(self, *, is_left: bool) -> None:
        with fails_open(lambda why: warn_user(f"the end of a run is not recorded: {why}")):
            self._hook.uninstall()
            if fits := _fits():
                fits.leave_runs() if is_left else fits.complete_runs()


def _fits() -> Any:
    """Return the module of the runs of `fit`; None where no script has Keras."""
    return sys.modules.get("tfwatch.watch.fit.fit_runs")


# -- in the foreground -----------------------------------------------------------------------------


def run_child(
    command: Sequence[str],
    on_started: Callable[[int], None],
    outputs: tuple[int | None, int | None] = (None, None),
    descriptors: Sequence[int] = (),
) -> int:
    """Run a command with the standard streams of this process; return its exit code, or minus the
    signal it died of.

    on_started: called with the process id. outputs: the descriptors of its standard output and
    error; None is that of this process. descriptors: further ones that it inherits.

    Raises:
        OSError: the process cannot be created.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    # The default of SIGCHLD may drop it while it is blocked; a Python handler is no more than a
    # mark.
    default = signal.signal(signal.SIGCHLD, lambda *_: None)
    late = threading.Timer(_LATE_S, warn_user, (_LATE,))
    late.daemon = True
    try:
        child = subprocess.Popen(
            command,
            stdout=outputs[0],
            stderr=outputs[1],
            pass_fds=descriptors,
            preexec_fn=lambda: _restore(before, default),
        )
        on_started(child.pid)
        while child.poll() is None:
            if _pass_on(child.pid) == signal.SIGINT and late.ident is None:
                late.start()
        return child.returncode
    finally:
        late.cancel()
        _restore(before, default)


def _restore(mask: set[signal.Signals | int], sigchld: object) -> None:
    signal.signal(signal.SIGCHLD, sigchld)  # type: ignore[arg-type]
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _pass_on(pid: int) -> int:
    """Wait for a signal, send it to the child unless the terminal has, which signals the whole
    foreground, and return it."""
    number, is_shared = _next_signal()
    if number != signal.SIGCHLD and not is_shared:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return number


def _next_signal() -> tuple[int, bool]:
    """Return the next signal, and whether the terminal sent it."""
    if sys.platform == "linux":
        info = signal.sigwaitinfo(_AWAITED)
        return info.si_signo, info.si_code > 0
    number = signal.sigwait(_AWAITED)  # macOS does not say who sent a signal
    return number, number in (signal.SIGINT, signal.SIGQUIT) and _is_in_foreground()


def _is_in_foreground() -> bool:
    for fd in (0, 1, 2):
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(fd) == os.getpgrp()
    return False
