"""One training run in this process: its threads, its screen, its signals and what is said about it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.commands.factories import look_at
from tfwatch.commands.progress import Progress
from tfwatch.commands.restart import Restart
from tfwatch.commands.screen_host import Stage
from tfwatch.live.restart import earlier_of
from tfwatch.report.outcome import beginning
from tfwatch.runs.control import Autopilot, Control
from tfwatch.runs.opened import read_run
from tfwatch.runs.reader import RunReader
from tfwatch.terminal.capture import Capture, Signals, wrapped
from tfwatch.tuner.thread import Pilot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.commands.factories import Parts, Screen
    from tfwatch.core.clock import Clock
    from tfwatch.runs.writer import RunWriter
    from tfwatch.training.request import Order

#: How soon a second signal is obeyed.
_LOOK_S = 0.2


class Session:
    """A run whose folder is begun and whose terminal is captured.

    The first SIGINT or SIGTERM stops the training at the next batch, the second leaves at once. A terminal that
    goes away takes the screen with it, never the training.
    """

    def __init__(self, order: Order, writer: RunWriter, terminal: Capture, parts: Parts, clock: Clock) -> None:
        from tfwatch.report.progress_line import progress_line

        self._order = order
        self._writer = writer
        self._terminal = terminal
        self._parts = parts
        self._clock = clock
        self._control = Control(order.plan.knobs)
        self._reader = RunReader(writer, clock)
        self._progress = Progress(terminal.err, self._reader, progress_line, clock)
        self._pilot = Pilot(writer, self._control, clock)
        self._sensors = parts.sensors(writer, clock, order.gpu_sensor)
        self._trainer = parts.trainer(order.plan, writer, self._control, clock)
        self._restart = Restart(order, writer, self._control)
        self._earlier = earlier_of(writer.manifest(), writer.folder, clock)
        if self._earlier:
            writer.note(beginning(self._earlier, writer.manifest()))
        self._stage: Stage | None = None
        self._started = False
        self._refused = ""
        self._hurries = False
        self._signum = 0

    @property
    def is_hung(self) -> bool:
        """Whether the training has not ended, though it was left."""
        return self._started and not self._trainer.done.is_set()

    @property
    def next_command(self) -> tuple[str, ...]:
        """The words of the command line that this process is to become: a restart's; empty where none was asked for."""
        return self._restart.command if self._restart.chosen is not None else ()

    def say(self, sentence: str) -> None:
        """Tell the user a sentence on stderr."""
        self._progress.say(sentence)

    def run(self) -> int:
        """Train to the end, say how it went, and return the exit code."""
        with Signals(self._asked_to_stop, self._terminal.hang_up):
            self._sensors.start()
            if self._order.autopilot:
                self._control.order(Autopilot(self._order.memory_bytes))
            elif self._order.experiment:
                self._control.order(self._order.experiment)
            self._begin(self._pilot.start)
            if not self._order.headless and not self._refused:
                self._show_screen()
            self._begin_training()
            self._follow()
            self._pilot.stop()
            self._sensors.stop()
            self._keep_weights()
            self._close()
            return self._conclude()

    # -- the screen -------------------------------------------------------------------------------

    def _show_screen(self) -> None:
        from tfwatch.screens.leave import Leave

        self._stage = Stage(self._terminal, self._make_app, self._begin_training)
        self._terminal.on_hangup = lambda: self._leave_screen("DETACH")
        # Asked to stop while the screen was loaded: nothing trains, and nothing would end the screen.
        leave = Leave.STOP if self._signum else self._stage.show()
        self._stage = None
        if leave is None:
            self._writer.note("the screen failed; training goes on without it")
            self.say(f"the screen failed; training goes on without it, ctrl+c stops it{self._terminal.keep_log()}")
        elif leave is Leave.DETACH:
            self.say("training goes on without a screen: ctrl+c stops it, tfwatch replay follows it")
        elif leave in (Leave.STOP, Leave.NOW):
            self._control.stop.set()
            self._hurries = self._hurries or leave is Leave.NOW

    def _make_app(self, **options: Any) -> Screen:
        order = self._order
        look = look_at(order.runs_dir, order.plan.settings.data)
        return self._parts.app(
            self._reader,
            self._control,
            theme=order.theme,
            clock=self._clock,
            look=look,
            restart=self._restart.offer,
            earlier=self._earlier,
            **options,
        )

    def _leave_screen(self, leave: str) -> None:
        from tfwatch.screens.leave import Leave

        if self._stage:
            self._stage.leave(Leave[leave])

    def _asked_to_stop(self, signum: int) -> None:
        """In a signal handler, so it takes no lock: not even to set an event."""
        self._hurries = bool(self._signum) or self._control.stop.is_set()
        self._signum = self._signum or signum
        if self._stage:
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
        with contextlib.suppress(RuntimeError):  # without that thread the user leaves the screen by himself
            threading.Thread(target=self._leave_on_bad_input, name="tfwatch-bad-input", daemon=True).start()

    def _begin(self, start: Callable[[], None]) -> None:
        """Start a thread without which there is no training; keeps why the system gives none."""
        try:
            start()
        except RuntimeError as error:
            self._refused = f"the training cannot begin: {error}"

    def _leave_on_bad_input(self) -> None:
        """Nothing trains then, and nothing is to be seen: the sentence on stderr says what is wrong."""
        self._trainer.done.wait()
        if self._trainer.outcome and self._trainer.outcome.cause == "bad-input":
            self._leave_screen("LEFT")

    def _follow(self) -> None:
        """Wait for the training's end, with progress."""
        told = False
        while self._started and not self._hurries and not self._trainer.done.wait(_LOOK_S):
            if self._signum:
                self._control.stop.set()
            if not self._control.stop.is_set():
                self._progress.show()
            elif not told and (self._signum or not self._order.experiment):
                told = True
                self.say("stopping after the batch in flight; ctrl+c leaves at once")
        self._progress.finish()

    def _keep_weights(self) -> None:
        """For a restart; a restart without the weights that were to be kept is none, nor one after a signal."""
        if self._signum:
            self._restart.chosen = None
        if why := self._restart.keep(self._trainer):
            self.say(f"not restarted, for its weights could not be kept: {why}")
            self._restart.chosen = None

    def _close(self) -> None:
        if self._refused:
            self._writer.end("failed", self._refused)
        elif self._trainer.outcome is None:
            detail = "left before the batch in flight ended" if self._started else "left before it began"
            self._writer.end("stopped", detail)
        if not self._writer.close():
            self.say(f"the last of this run is not recorded: {self._writer.folder} does not answer")

    # -- afterwards -------------------------------------------------------------------------------

    def _conclude(self) -> int:
        if self._refused:
            self.say(self._refused)
            return 1
        outcome = self._trainer.outcome
        if outcome and outcome.cause == "bad-input":
            self.say(outcome.message)
            return 2
        self._report()
        if outcome and outcome.cause == "failed":
            self._terminal.err.write(outcome.traceback or outcome.message)
            return 1
        if self._signum:
            return 128 + self._signum
        return 1 if self._terminal.unsaid else 0

    def _report(self) -> None:
        from tfwatch.report.document import as_json
        from tfwatch.report.text import as_text

        run = read_run(self._writer, self._clock)
        home = Path(os.path.expanduser("~"))
        if self._order.as_json:
            text = json.dumps(as_json(run), indent=1)
        else:
            text = wrapped(as_text(run, home), self._terminal.columns)
        self._terminal.out.write(text.rstrip("\n") + "\n")
        self._terminal.out.flush()
        if self._terminal.unsaid:
            self.say(f"this could not be written: {self._terminal.unsaid}")
