"""A script that runs, and its runs: under the live screen, with the signals that are its own, or
without one."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from tfwatch.cli.screen_host import ScreenHost, make_checkup
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import fails_open, printable
from tfwatch.core.events import AUTOMATIC
from tfwatch.notices import Notifier
from tfwatch.runs.buffers import LogLines
from tfwatch.runs.folder import DiskCall, read_file
from tfwatch.runs.format import LOG
from tfwatch.runs.requests import ProfileRequest, append
from tfwatch.runs.run import Run, follow_folder
from tfwatch.runs.script_process import AwaitedRun
from tfwatch.terminal.capture import Capture, held_signals, passed_signals
from tfwatch.terminal.pseudo_terminal import OutputRelay, without_notes
from tfwatch.tuner.client import Tuner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.cli.script.hosts import Script
    from tfwatch.cli.script.request import RunOptions
    from tfwatch.judge.script_runs import ScriptRuns
    from tfwatch.judge.view import Follower
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.overlays import Leave
    from tfwatch.screens.themes import ThemedApp

#: Exit codes of a script that did not fail: ctrl+c and SIGTERM stop it.
_WELL = (0, -signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)
#: Seconds between two looks at the script, and at its runs where no screen reads them.
_LOOK_S = 0.2
_FOLLOW_S = 1.0
#: Seconds between two judgements of a run without a screen, of which each takes 5 ms.
_JUDGE_S = 3.0
#: The end of a script waits so long for the look at its run: its disk may hang.
_PATIENCE_S = 5.0
#: Bytes of the output that are printed where no screen shows them any more, and lines of a failure.
_PRINTED_BYTES = 64 * 2**10
_FAILURE_LINES = 10
#: Of `input`. From 3.13 on Python colours what comes before it.
_NO_INPUT = "EOF when reading a line"
_TRACEBACK = "Traceback (most recent call last)"


class UnseenRun:
    """A run that no screen judges: it asks for a profile where that is due, as a screen does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._follower: Follower | None = None
        self._next_s = _JUDGE_S
        self._is_done = False

    def look(self, snapshot: Snapshot) -> None:
        """Judge a snapshot of it, where one is due. A failure is the last look."""
        if self._is_done or snapshot.now_s < self._next_s:
            return
        self._next_s = snapshot.now_s + _JUDGE_S
        with fails_open(self._stop):
            self._judge(snapshot)

    def _judge(self, snapshot: Snapshot) -> None:
        from tfwatch.judge.profile.profiling import is_due
        from tfwatch.judge.view import Follower

        self._follower = self._follower or Follower(live=False)
        if is_due(self._follower.follow(snapshot, (), None)):
            append(self.folder, ProfileRequest(AUTOMATIC))
            self._is_done = True

    def _stop(self, _: str) -> None:
        self._is_done = True


class FollowedScript:
    """The runs of a script where no screen reads them: their notices, their profiles, and the
    tuner, whose job begins with the first run.

    show: as of `Notifier`.
    """

    def __init__(
        self, runs: ScriptRuns, options: RunOptions, show: Callable[[str, str], None]
    ) -> None:
        self.notifier = Notifier(options.notify, show)
        self.tuner = Tuner(lambda: runs.folder)
        self._runs = runs
        self._show = show
        self._unseen: UnseenRun | None = None
        self._reader: Run | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tfwatch-notices", daemon=True)
        if job := options.job:
            runs.at_first_run = lambda: self.tuner.begin(job)

    def start(self) -> None:
        """Read the newest run where no screen does, in a thread; it blocks the signals that the
        caller blocks."""
        with fails_open(self.notifier.stop):
            self._thread.start()

    def end(self, state: str) -> None:
        """End the tuner, and pass on that the script ended, in these words; empty: the screen
        has."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        self.tuner.close()
        if state:
            self.notifier.script_ended(state)
        self.notifier.close()
        self._report_failures()

    def _follow(self) -> None:
        with fails_open(self.notifier.stop):
            while not self._ended.wait(_FOLLOW_S):
                self._look()
                self._report_failures()

    def _look(self) -> None:
        """Pass on the notices of the newest run; its end is not that of the script."""
        self._reader = self._runs.next_reader() or self._reader
        if self._reader is None and self._runs.folder:  # of the run that a screen followed before
            self._reader = follow_folder(self._runs.folder)
        snapshot = self._reader.in_time(self._reader.read) if self._reader else None
        if snapshot is None:
            return
        self.notifier.follow(snapshot, ends=False)
        if snapshot.folder and (self._unseen is None or self._unseen.folder != snapshot.folder):
            self._unseen = UnseenRun(snapshot.folder)
        if self._unseen is not None:
            self._unseen.look(snapshot)

    def _report_failures(self) -> None:
        for why in self.notifier.take_failures():
            self._show(why, "")


def show_notice(sentence: str, bell: str) -> None:
    """Show a notice where there is no screen."""
    with fails_open(lambda _: None):
        sys.stderr.write(f"tfwatch: {printable(sentence)}\n{bell if os.isatty(2) else ''}")
        sys.stderr.flush()


# -- under the live screen -------------------------------------------------------------------------


def run_on_screen(make_script: Callable[[OutputRelay], Script], options: RunOptions) -> Script:
    """Run a script under the live screen, to its end.

    Raises:
        OSError: it cannot be started, or the system gives no pseudo terminal.
    """
    with held_signals(), contextlib.closing(OutputRelay()) as relay:
        script = make_script(relay)
        with Capture(if_killed=script.if_killed, apart=script.output) as terminal:
            ScriptSession(script, relay, terminal, options).run()
    return script


class ScriptSession:
    """Shows the runs of a script until it ends and the user leaves.

    ctrl+c and SIGTERM are the script's; a lost terminal ends the screen, never the script.
    """

    def __init__(
        self,
        script: Script,
        relay: OutputRelay,
        terminal: Capture,
        options: RunOptions,
    ) -> None:
        self._script = script
        self._relay = relay
        self._terminal = terminal
        self._options = options
        self._followed = FollowedScript(script.runs, options, self._show_notice)
        self._notifier = self._followed.notifier
        awaited = AwaitedRun(options.name, script.pid, relay.early_log, SYSTEM)
        self._reader = Run(awaited)
        self._host = ScreenHost(terminal, self._make_app, script.start)
        self._has_hung_up = False
        self._shows_output = False

    def run(self) -> None:
        """Show the screen, and wait for the script's end."""
        import tfwatch.screens.overlays  # noqa: F401  a handler that imports it in its own import fails

        self._terminal.on_hangup = self._hang_up
        with passed_signals(self._pass_on, self._terminal.hang_up, quits=True):
            with self._script:
                self._show_screen()
                self._followed.start()
                while not self._script.wait(_LOOK_S):
                    pass
            self._followed.end(self._script.state if self._shows_output else "")
            self._relay.finish_reading()
            if not self._shows_output:
                self._write_unseen(self._unseen_output())

    # -- the screen -------------------------------------------------------------------------------

    def _show_screen(self) -> None:
        from tfwatch.screens.overlays import Leave

        leave = self._host.show()
        self._script.start()  # where the screen was never painted
        self._notifier.show = self._show_notice
        if leave is Leave.NOW:
            self._script.send(signal.SIGTERM)
        if not self._script.has_ended and not self._has_hung_up:
            self._shows_output = True
            self._relay.show_on_terminal(has_notes=leave not in (Leave.STOP, Leave.NOW))
            self._notify(self._goes_on(leave))

    def _hang_up(self) -> None:
        """Leave the screen of a terminal that is gone."""
        from tfwatch.screens.overlays import Leave

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
        return self._script.waiting

    def _make_app(self, **terminal: Any) -> ThemedApp:
        from tfwatch.app import TfwatchApp

        return TfwatchApp(
            self._reader,
            None,
            tuner=self._followed.tuner,
            run_checkup=make_checkup(self._options.runs_dir),
            script=self._script,
            theme=self._options.theme,
            notifier=self._notifier,
            **terminal,
        )

    def _pass_on(self, signum: int) -> None:
        """Pass a signal on to the script. It runs in a signal handler."""
        from tfwatch.screens.overlays import Leave

        self._script.send(signum)
        self._host.leave(Leave.STOP)

    def _notify(self, sentence: str) -> None:
        self._terminal.err.write(f"tfwatch: {sentence}\n")
        self._terminal.err.flush()

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
            return without_notes(_end_of(self._relay.early_log).encode()).decode()
        if self._script.code in _WELL:
            return ""
        text = _end_of(self._script.folders[-1] / LOG)
        at = text.rfind(_TRACEBACK)
        return text[at:] if at >= 0 else "".join(text.splitlines(keepends=True)[-_FAILURE_LINES:])


def _end_of(log: Path) -> str:
    """Return the last lines of a log, as a terminal shows them at the end; none where its disk is
    silent."""
    reading = DiskCall(lambda: _read_end(log))
    return reading.answer() if reading.wait(_PATIENCE_S) else ""


def _read_end(log: Path) -> str:
    size = log.stat().st_size if log.is_file() else 0
    lines = LogLines()
    lines.add(read_file(log, max(0, size - _PRINTED_BYTES), _PRINTED_BYTES))
    return "".join(f"{line}\n" for line in (*lines.tail, *filter(None, [lines.unfinished])))
