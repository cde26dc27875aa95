"""One training run in this process: its threads, its screen, its signals, its summary and its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tfwatch.commands.factories import make_checkup
from tfwatch.commands.screen_host import ScreenHost
from tfwatch.commands.training.restart import Restart
from tfwatch.core.errors import fails_open, printable
from tfwatch.live.earlier_runs import earlier_of
from tfwatch.live.notices import Notifier
from tfwatch.report.outcome import beginning
from tfwatch.runs.control.requests import Autopilot, Control
from tfwatch.runs.control.server import ControlServer
from tfwatch.runs.reading.opened import read_run
from tfwatch.runs.reading.patient_source import PatientSource
from tfwatch.runs.reading.reader import RunReader
from tfwatch.terminal.capture import Capture, Signals, wrapped
from tfwatch.tuner.thread import TunerThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.commands.factories import Factories, Screen
    from tfwatch.core.clock import Clock
    from tfwatch.runs.reading.reader import Snapshot
    from tfwatch.runs.writer import RunWriter
    from tfwatch.training.request import TrainRequest

_LIVE_S = 0.5
_LOGGED_S = 2.0


class Progress:
    """Writes progress lines to `stream`. A failure is reported once and ends the lines, never the training.

    line: formats a snapshot in at most so many cells; None is any length.
    """

    def __init__(
        self,
        stream: TextIO,
        reader: RunReader,
        line: Callable[[Snapshot, int | None], str],
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._reader = reader
        self._line = line
        self._clock = clock
        self._live = stream.isatty()
        self._due_ns = 0
        self._failed = False

    def show(self) -> None:
        """Write a line if one is due."""
        now = self._clock.now_ns()
        if self._failed or now < self._due_ns:
            return
        self._due_ns = now + int((_LIVE_S if self._live else _LOGGED_S) * 1e9)
        with fails_open(self._fail):
            snapshot = self._reader.in_time(self._reader.tail)
            if snapshot is not None:
                self._write(self._line(snapshot, self._width() - 1 if self._live else None))

    def _fail(self, why: str) -> None:
        self._failed = True
        self.notify(f"no more progress is shown: {why}")

    def notify(self, sentence: str) -> None:
        """Write a sentence on a line of its own."""
        self.finish()
        self._stream.write(f"tfwatch: {printable(sentence)}\n")
        self._stream.flush()

    def finish(self) -> None:
        """Erase the line that is redrawn."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _write(self, line: str) -> None:
        if not line:
            return
        self._stream.write(f"\r{line[: self._width() - 1]}\x1b[K" if self._live else f"{line}\n")
        self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80


#: Seconds until a second signal is obeyed, and between two looks for notices.
_LOOK_S = 0.2
_NOTICES_S = 1.0


class TrainSession:
    """A run whose folder exists and whose terminal is captured.

    The first SIGINT or SIGTERM stops the training at the next batch, the second leaves at once. A lost terminal ends
    the screen, never the training.
    """

    def __init__(
        self,
        request: TrainRequest,
        writer: RunWriter,
        terminal: Capture,
        factories: Factories,
        clock: Clock,
    ) -> None:
        from tfwatch.report.progress_line import progress_line

        self._request = request
        self._writer = writer
        self._terminal = terminal
        self._factories = factories
        self._clock = clock
        self._control = Control(request.plan.knobs)
        self._reader = RunReader(PatientSource(writer, clock), clock)
        self._progress = Progress(terminal.err, self._reader, progress_line, clock)
        self._notifier = Notifier(request.notify, self._show_notice, clock, was_running=True)
        self._is_stop_expected = False
        self._next_look_ns = 0
        self._pilot = TunerThread(writer, self._control, clock)
        self._server = ControlServer(writer, self._control)
        self._sensors = factories.sensors(writer, clock, request.gpu_sensor)
        self._trainer = factories.trainer(request.plan, writer, self._control, clock)
        self._restart = Restart(request, writer, self._control)
        self._earlier = earlier_of(writer.manifest(), writer.folder, clock)
        if self._earlier:
            writer.note(beginning(self._earlier, writer.manifest()))
        self._screen_host: ScreenHost | None = None
        self._started = False
        self._refused = ""
        self._hurries = False
        self._is_recorded = True
        self._signum = 0

    @property
    def is_hung(self) -> bool:
        """True while the training runs although it was left."""
        return self._started and not self._trainer.done.is_set()

    @property
    def next_command(self) -> tuple[str, ...]:
        """The command line of the restart that replaces this process; empty where none was requested."""
        return self._restart.command if self._restart.chosen is not None else ()

    def notify(self, sentence: str) -> None:
        """Print a sentence on stderr."""
        self._progress.notify(sentence)

    def run(self) -> int:
        """Train to the end, print the summary, and return the exit code."""
        with Signals(self._asked_to_stop, self._terminal.hang_up):
            self._sensors.start()
            if self._request.autopilot:
                self._control.ask_tuner(Autopilot(self._request.memory_bytes))
            elif self._request.experiment:
                self._control.ask_tuner(self._request.experiment)
            self._begin(self._pilot.start)
            self._server.open()
            if not self._request.headless and not self._refused:
                self._show_screen()
            self._begin_training()
            self._follow()
            self._server.close()
            self._pilot.stop()
            self._sensors.stop()
            self._keep_weights()
            self._close()
            self._notice_end()
            return self._conclude()

    # -- the screen -------------------------------------------------------------------------------

    def _show_screen(self) -> None:
        from tfwatch.screens.dialogs.leave import Leave

        self._screen_host = ScreenHost(self._terminal, self._make_app, self._begin_training)
        self._terminal.on_hangup = lambda: self._leave_screen("DETACH")
        # A stop was requested while the screen was loaded: nothing trains, and nothing would end the screen.
        leave = Leave.STOP if self._signum else self._screen_host.show()
        self._screen_host = None
        self._notifier.show = self._show_notice
        self._is_stop_expected = leave in (Leave.STOP, Leave.NOW)
        if leave is None:
            self._writer.note("the screen failed; training goes on without it")
            self.notify(
                f"the screen failed; training goes on without it, ctrl+c stops it{self._terminal.keep_log()}"
            )
        elif leave is Leave.DETACH:
            self.notify(
                "training goes on without a screen, in the foreground: ctrl+c stops it, tfwatch attach shows it again"
            )
        elif leave in (Leave.STOP, Leave.NOW):
            self._control.stop.set()
            self._hurries = self._hurries or leave is Leave.NOW

    def _make_app(self, **options: Any) -> Screen:
        request = self._request
        run_checkup = make_checkup(request.runs_dir, request.plan.settings.data)
        return self._factories.app(
            self._reader,
            self._control,
            theme=request.theme,
            clock=self._clock,
            run_checkup=run_checkup,
            restart=self._restart.offer,
            earlier=self._earlier,
            notifier=self._notifier,
            **options,
        )

    def _leave_screen(self, leave: str) -> None:
        from tfwatch.screens.dialogs.leave import Leave

        if self._screen_host:
            self._screen_host.leave(Leave[leave])

    def _asked_to_stop(self, signum: int) -> None:
        """Note the request. It runs in a signal handler, so it takes no lock and sets no event."""
        self._hurries = bool(self._signum) or self._control.stop.is_set()
        self._signum = self._signum or signum
        if self._screen_host:
            self._leave_screen("NOW" if self._hurries else "STOP")

    # -- the training -----------------------------------------------------------------------------

    def _begin_training(self) -> None:
        """Start the training thread, unless it runs or was stopped before it began."""
        if self._started or self._refused or self._signum or self._control.stop.is_set():
            return
        self._begin(self._trainer.start)
        self._started = not self._refused
        if self._refused:
            self._leave_screen("LEFT")
            return
        with contextlib.suppress(RuntimeError):  # without that thread the user closes the screen
            threading.Thread(
                target=self._leave_on_bad_input, name="tfwatch-bad-input", daemon=True
            ).start()

    def _begin(self, start: Callable[[], None]) -> None:
        """Start a thread that the training needs, and keep the reason where the system refuses it."""
        try:
            start()
        except RuntimeError as error:
            self._refused = f"the training cannot start: {error}"

    def _leave_on_bad_input(self) -> None:
        """Close the screen on bad input: nothing trains, and the sentence on stderr names the error."""
        self._trainer.done.wait()
        if self._trainer.outcome and self._trainer.outcome.cause == "bad-input":
            self._leave_screen("LEFT")

    def _follow(self) -> None:
        """Wait for the training's end, with progress."""
        is_announced = False
        while self._started and not self._hurries and not self._trainer.done.wait(_LOOK_S):
            if self._signum:
                self._control.stop.set()
            self._look_for_notices()
            if not self._control.stop.is_set():
                if not self._request.quiet:
                    self._progress.show()
            elif not is_announced and (self._signum or not self._request.experiment):
                is_announced = True
                self.notify("stopping after the current batch; ctrl+c leaves immediately")
        self._progress.finish()

    def _look_for_notices(self) -> None:
        """Pass on the notices of the run, once a second, where no screen does."""
        now_ns = self._clock.now_ns()
        if not self._notifier.is_on or now_ns < self._next_look_ns:
            return
        self._next_look_ns = now_ns + int(_NOTICES_S * 1e9)
        with fails_open(self._notifier.stop):
            snapshot = self._reader.in_time(self._reader.tail)
            if snapshot is not None:
                self._notifier.follow(snapshot)
        for why in self._notifier.take_failures():
            self.notify(why)

    def _notice_end(self) -> None:
        """Pass on the end of the run, unless the user of this terminal asked for it."""
        if self._is_stop_expected or self._signum == signal.SIGINT:
            return
        self._next_look_ns = 0
        self._look_for_notices()
        self._notifier.close()

    def _show_notice(self, sentence: str, bell: str) -> None:
        self.notify(sentence)
        self._terminal.ring(bell)

    def _keep_weights(self) -> None:
        """Save the weights for a restart. There is no restart where that fails, nor after a signal."""
        if self._signum:
            self._restart.chosen = None
        if why := self._restart.keep(self._trainer):
            self.notify(f"no restart: the weights could not be saved: {why}")
            self._restart.chosen = None

    def _close(self) -> None:
        if self._refused:
            self._writer.end("failed", self._refused)
        elif self._trainer.outcome is None:
            detail = (
                "left before the current batch ended" if self._started else "left before it started"
            )
            self._writer.end("stopped", detail)
        self._is_recorded = self._writer.close()
        if not self._is_recorded:
            self.notify(
                f"no summary, and no end of this run in its record: {self._writer.folder} does not respond"
            )

    # -- afterwards -------------------------------------------------------------------------------

    def _conclude(self) -> int:
        if self._refused:
            self.notify(self._refused)
            return 1
        outcome = self._trainer.outcome
        if outcome and outcome.cause == "bad-input":
            self.notify(outcome.message)
            return 2
        if self._is_recorded:
            self._report()
        if outcome and outcome.cause == "failed":
            self._terminal.err.write(outcome.traceback or outcome.message)
            return 1
        if self._signum:
            return 128 + self._signum
        return 1 if self._terminal.write_error else 0

    def _report(self) -> None:
        from tfwatch.report.document import as_json
        from tfwatch.report.text import as_text

        run = read_run(self._writer, self._clock)
        home = Path(os.path.expanduser("~"))
        if self._request.as_json:
            text = json.dumps(as_json(run), indent=1)
        else:
            text = wrapped(as_text(run, home), self._terminal.columns)
        self._terminal.out.write(text.rstrip("\n") + "\n")
        self._terminal.out.flush()
        if self._terminal.write_error:
            self.notify(f"the output cannot be written: {self._terminal.write_error}")
