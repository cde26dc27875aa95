"""One script under the live screen: its process, the screen, the signals and the exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from tfwatch.cli.screen_host import ScreenHost, make_app, make_checkup
from tfwatch.cli.script.headless import FollowedScript
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.buffers import LogLines
from tfwatch.runs.folder import read_file
from tfwatch.runs.format import LOG
from tfwatch.runs.run import Run
from tfwatch.runs.script_process import Announcements, AwaitedRun, record_signal
from tfwatch.terminal.capture import Capture, held_signals, passed_signals
from tfwatch.terminal.child import describe_end, start_child
from tfwatch.terminal.pseudo_terminal import OutputRelay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tfwatch.cli.screen_host import Screen
    from tfwatch.cli.script.request import RunOptions
    from tfwatch.core.clock import Clock
    from tfwatch.screens.leave import Leave

_WAITING = "waiting for the end of the script: ctrl+c interrupts it again, ctrl+\\ ends it"
#: Exit codes of a script that did not fail: ctrl+c and SIGTERM stop it.
_WELL = (0, -signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)
_IF_KILLED = "the screen was killed or crashed; the script runs on: tfwatch attach shows its runs."
#: Seconds between two looks at the terminal's size and at the script.
_LOOK_S = 0.2
#: Bytes of the output that are printed where no screen shows them any more, and lines of a failure.
_PRINTED_BYTES = 64 * 2**10
_FAILURE_LINES = 10
#: Of `input`. From 3.13 on Python colours what comes before it.
_NO_INPUT = "EOF when reading a line"
_TRACEBACK = "Traceback (most recent call last)"


def run_on_screen(
    make_command: Callable[[Path, Sequence[int]], Sequence[str]], options: RunOptions, clock: Clock
) -> ScriptProcess:
    """Run a script in a process of its own under the live screen, to its end.

    make_command: returns its command for the file that announces its runs, and for the relay's
    descriptors.

    Raises:
        OSError: it cannot be started.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with held_signals(), contextlib.closing(OutputRelay()) as relay:
        command = make_command(relay.runs, relay.for_script)
        script = ScriptProcess(command, relay, mask, clock)
        with Capture(screen=True, if_killed=_IF_KILLED) as terminal:
            ScriptSession(script, relay, terminal, options, clock).run()
    return script


class ScriptProcess:
    """The child process that runs the script; a `WatchedScript` for the screen.

    Raises:
        OSError: the process cannot be created.
    """

    def __init__(
        self,
        command: Sequence[str],
        relay: OutputRelay,
        mask: set[signal.Signals | int],
        clock: Clock,
    ) -> None:
        self._process = start_child(command, relay.slave, mask, relay.for_script)
        relay.close_script_ends()
        self._relay = relay
        self._has_ended = threading.Event()
        self._announced = Announcements(relay.runs)
        self.runs = ScriptRuns(Announcements(relay.runs), clock)
        self.pid = self._process.pid
        self.folders: list[Path] = []

    @property
    def has_ended(self) -> bool:
        """True once its exit code is known and its last run has its end."""
        return self._has_ended.is_set()

    @property
    def code(self) -> int:
        """The exit code, or minus the signal that ended it; 0 while it runs."""
        return self._process.returncode or 0

    @property
    def state(self) -> str:
        """Its state in words."""
        if not self.has_ended:
            return "script runs"
        return describe_end(self.code)

    def interrupt(self) -> None:
        """Send it the signal that ctrl+c sends."""
        self.send(signal.SIGINT)

    def send(self, signum: int) -> None:
        """Send it a signal. It may run in a signal handler, so it takes no lock."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def start(self) -> None:
        """Wait for its end in a thread, and have its pseudo terminal follow the terminal's size
        until then."""
        threading.Thread(target=self._wait, name="tfwatch-script", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ends within this time."""
        return self._has_ended.wait(timeout_s)

    def _wait(self) -> None:
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
                record_signal(self.folders[-1], -self.code)
        self._has_ended.set()


class ScriptSession:
    """Shows the runs of a script until it ends and the user leaves.

    ctrl+c and SIGTERM are the script's; a lost terminal ends the screen, never the script.
    """

    def __init__(
        self,
        script: ScriptProcess,
        relay: OutputRelay,
        terminal: Capture,
        options: RunOptions,
        clock: Clock,
    ) -> None:
        self._script = script
        self._relay = relay
        self._terminal = terminal
        self._clock = clock
        self._options = options
        self._followed = FollowedScript(script.runs, options, clock, self._show_notice)
        self._notifier = self._followed.notifier
        awaited = AwaitedRun(options.name, script.pid, relay.early_log, clock)
        self._reader = Run(awaited, clock)
        self._host = ScreenHost(terminal, self._make_app)
        self._has_hung_up = False
        self._shows_output = False

    def run(self) -> None:
        """Show the screen, and wait for the script's end."""
        import tfwatch.screens.leave  # noqa: F401  a handler that imports it in its own import fails

        self._terminal.on_hangup = self._hang_up
        with passed_signals(self._pass_on, self._terminal.hang_up, quits=True):
            self._script.start()
            self._show_screen()
            while not self._script.wait(_LOOK_S):
                self._look_for_notices()
            self._followed.end(self._script.state if self._shows_output else "")
            self._relay.finish_reading()
            if not self._shows_output:
                self._write_unseen(self._unseen_output())

    # -- the screen -------------------------------------------------------------------------------

    def _show_screen(self) -> None:
        from tfwatch.screens.leave import Leave

        leave = self._host.show()
        self._notifier.show = self._show_notice
        if leave is Leave.NOW:
            self._script.send(signal.SIGTERM)
        if not self._script.has_ended and not self._has_hung_up:
            self._shows_output = True
            self._relay.show_on_terminal()
            self._notify(self._goes_on(leave))

    def _hang_up(self) -> None:
        """Leave the screen of a terminal that is gone."""
        from tfwatch.screens.leave import Leave

        self._has_hung_up = True
        self._host.leave(Leave.DETACH)

    def _goes_on(self, leave: Leave | None) -> str:
        if leave is None:
            failure = self._terminal.end_of_log().rstrip("\n")
            return f"the screen failed; the script runs on without it\n{failure}"
        if leave.value == "detach":
            return (
                "the script runs on without a screen, in the foreground: ctrl+c stops it, tfwatch"
                " attach shows its runs"
            )
        return _WAITING

    def _make_app(self, **terminal: Any) -> Screen:
        return make_app(
            self._reader,
            None,
            tuner=self._followed.tuner,
            clock=self._clock,
            run_checkup=make_checkup(self._options.runs_dir),
            script=self._script,
            theme=self._options.theme,
            notifier=self._notifier,
            **terminal,
        )

    def _pass_on(self, signum: int) -> None:
        """Pass a signal on to the script. It runs in a signal handler."""
        from tfwatch.screens.leave import Leave

        self._script.send(signum)
        self._host.leave(Leave.STOP)

    def _notify(self, sentence: str) -> None:
        self._terminal.err.write(f"tfwatch: {sentence}\n")
        self._terminal.err.flush()

    def _look_for_notices(self) -> None:
        """Pass on the notices of the runs after the screen is left."""
        if self._notifier.is_on:
            with fails_open(self._notifier.stop):
                self._followed.look()
        for why in self._notifier.take_failures():
            self._notify(why)

    def _show_notice(self, sentence: str, bell: str) -> None:
        self._notify(sentence)
        self._terminal.ring(bell)

    # -- afterwards -------------------------------------------------------------------------------

    def _write_unseen(self, text: str) -> None:
        self._terminal.out.write(text)
        self._terminal.out.flush()
        if self._script.code and _NO_INPUT in text:
            self._notify(
                "the script reads its input, which is empty under the screen: use --headless"
            )

    def _unseen_output(self) -> str:
        """Return the output of a script without a run, and of another one the failure that ended
        it: ctrl+c is none."""
        if not self._script.folders:
            return _end_of(self._relay.early_log)
        if self._script.code in _WELL:
            return ""
        return _failure(_end_of(self._script.folders[-1] / LOG))


def _end_of(log: Path) -> str:
    """Return the last lines of a log, as a terminal shows them at the end."""
    size = log.stat().st_size if log.is_file() else 0
    lines = LogLines()
    lines.add(read_file(log, max(0, size - _PRINTED_BYTES), _PRINTED_BYTES))
    return "".join(f"{line}\n" for line in (*lines.tail, *filter(None, [lines.unfinished])))


def _failure(text: str) -> str:
    """Return the last traceback, or the last lines."""
    at = text.rfind(_TRACEBACK)
    return text[at:] if at >= 0 else "".join(text.splitlines(keepends=True)[-_FAILURE_LINES:])
