"""The Textual app that shows a run."""

from __future__ import annotations

from select import select
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.judge.judged_run import EndedRunJudge
from tfwatch.judge.view import Follower
from tfwatch.notices import NO_NOTICES, Notifier
from tfwatch.screens.live.screen import LiveScreen
from tfwatch.screens.live.switch_requests import SwitchRequests
from tfwatch.screens.overlays import Leave, Question, leave_question, stop_question
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from tfwatch.judge.script_runs import ScriptRuns, WatchedScript
    from tfwatch.judge.view import RunView
    from tfwatch.runs.requests import RequestSender
    from tfwatch.runs.run import Run
    from tfwatch.screens.doctor import RunCheckup
    from tfwatch.tuner.client import Tuner

__all__ = ["FRAME_S", "Leave", "TfwatchApp"]

FRAME_S = 0.25


class TfwatchApp(ThemedApp):
    """Show a run. `run()` returns the way the user left, None where the app was closed from
    outside.

    Attributes:
        live: the screen that follows the run.

    Args:
        reader: the run. requests: sends them to the training; None where the run is read only.
            tuner: runs A/B tests and the autopilot; None where it cannot.
        is_attached: another process trains.
        run_checkup: runs the check-up that `d` shows; None where `d` is unavailable.
        script: the script whose runs are shown; None where the run is not a script's.
        runs: the runs of the process that trains, of which the newest is shown; None: this one
        alone.
        notifier: passes the run's notices on; None where there are none, and the bell rings at the
        end only.
        options: passed to `ThemedApp`.
    """

    def __init__(
        self,
        reader: Run,
        requests: RequestSender | None,
        *,
        tuner: Tuner | None = None,
        is_attached: bool = False,
        clock: Clock = SYSTEM,
        run_checkup: RunCheckup | None = None,
        script: WatchedScript | None = None,
        notifier: Notifier | None = None,
        runs: ScriptRuns | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._tuner = tuner
        self._notifier = notifier or Notifier(NO_NOTICES)
        self._notifier.show = self._show_notice
        self._script = script
        self._runs = script.runs if script else runs
        self._is_attached = is_attached
        self._clock = clock
        self.live = self._make_live(reader, requests)
        self._run_checkup = run_checkup
        self._leaving = False
        self._seen_running = False

    def _make_live(self, reader: Run, requests: RequestSender | None) -> LiveScreen:
        script = self._script
        follower = Follower(
            requests is not None,
            EndedRunJudge(),
            self._runs.fits if self._runs else 0,
            (lambda: script.state) if script else str,
        )
        interrupt = script.interrupt if script else None
        switches = SwitchRequests(requests, self._tuner, self._clock, interrupt)
        is_fine = self._colour and self._unicode
        return LiveScreen(reader, follower, switches, self._after_frame, is_fine, self._clock)

    # -- frames ------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.push_screen(self.live)
        self.set_interval(FRAME_S, self.frame)
        self.call_after_refresh(self._first_frame)

    def frame(self) -> None:
        """Draw a frame of the newest run. A question that is open waits for its answer, also beyond
        the end of the training: its key may be on its way, and would do something else."""
        has_ended = self._script is not None and self._script.has_ended
        if has_ended and self._leaving:
            self.exit_with(Leave.STOP)  # also where its run can no longer be read
            return
        if isinstance(self.screen, Question) and self._is_over():
            self.screen.note_end()
        # The next run of another process' training is not its own: the screen leaves with this one.
        stays = not (self._is_attached and self._leaving)
        if self._runs and self.screen is self.live and stays:
            self._show_newest_run(self._runs)
            if has_ended and self._runs.folder is None:
                self.exit_with(Leave.LEFT)  # it has no run to look at
                return
        if not self._is_behind():
            self.live.frame()

    def _is_behind(self) -> bool:
        """Return whether the terminal still takes earlier frames: on a slow line keys would wait
        behind the next one. The last one has left the queue while it is written."""
        writer: Any = getattr(self._driver, "_writer_thread", None)
        queue = getattr(writer, "_queue", None)
        return queue is not None and not (queue.empty() and select([], [writer], [], 0)[1])

    def _show_newest_run(self, runs: ScriptRuns) -> None:
        is_first = runs.folder is None
        reader = runs.next_reader()
        if reader is None:
            return
        before, self.live = self.live, self._make_live(reader, runs.requests())
        if not is_first:
            self.live.take_place_of(before)
        self.switch_screen(self.live)

    def _first_frame(self) -> None:
        self.live.frame()
        self.call_after_refresh(self.notify_painted)

    def _after_frame(self, view: RunView) -> None:
        """Notify the user once the run has ended."""
        self._notifier.look(view.snapshot, view.situation, view.finding, ends=self._script is None)
        for why in self._notifier.take_failures():
            self.live.notify(why)
        if not self._is_over():
            self._seen_running = True
            self._leaving = self._leaving and (self.live.stopping or view.is_over)
        elif self._seen_running:
            self._seen_running = False
            if not self._notifier.rings:
                self.bell()
            if self._script:
                self._notifier.script_ended(self._script.state)
        if self._leaving and view.is_over:
            self.exit_with(Leave.STOP)

    def _show_notice(self, _sentence: str, bell: str) -> None:
        """Ring the bell, and notify the desktop; the banner has the sentence."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(bell)

    # -- quitting ----------------------------------------------------------------------------------

    @property
    def _can_stop(self) -> bool:
        return self._script is not None or self.live.live

    async def action_quit(self) -> None:
        """Quit; ask first while the training runs."""
        if isinstance(self.screen, Question):
            return
        if self._is_over() or not self._can_stop:
            self.exit_with(Leave.LEFT)
        else:
            self.push_screen(leave_question(is_attached=self._is_attached), self._answered)

    def action_ask_stop(self) -> None:
        """Ask whether to stop the training."""
        if self._is_over() or not self._can_stop:
            self.live.notify(
                "the run is over: there is nothing to stop"
                if self._is_over()
                else "read only: stop the run in the terminal that trains it"
            )
        elif self.live.stopping:
            self.live.notify(
                "the run is already stopping; y quits without waiting for the current batch"
            )
        else:
            self.push_screen(stop_question(is_attached=self._is_attached), self._stop)

    def action_leave_now(self) -> None:
        """Quit without waiting for the current batch."""
        self.exit_with(Leave.NOW)

    def action_doctor(self) -> None:
        """Show the check-up; skip the checks that would slow a running training down."""
        from tfwatch.screens.doctor import DoctorScreen

        if self._run_checkup is None:
            self.live.notify("the check-up is not available here: run tfwatch doctor")
            return
        gently = not self._is_over()
        self.push_screen(DoctorScreen(self._run_checkup, gently=gently))

    def _answered(self, leave: Leave | None) -> None:
        if leave is not None and self._is_over():
            self.exit_with(Leave.LEFT)
        elif leave is Leave.DETACH:
            self.exit_with(leave)
        elif leave is not None:
            self._leaving = True
            self._stop(leave)

    def _stop(self, leave: Leave | None) -> None:
        if leave is not None and not self._is_over():
            self.live.stop()

    def _is_over(self) -> bool:
        if self._script:
            return self._script.has_ended
        return self.live.view is not None and self.live.view.is_over
