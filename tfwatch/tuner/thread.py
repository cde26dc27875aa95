"""The tuner's thread: it waits for requests, and runs A/B tests and the autopilot beside the training."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.runs.control.requests import Autopilot, Experiment
from tfwatch.tuner import autopilot, experiment
from tfwatch.tuner.driver import Driver, Interrupt, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.control.requests import Control, TunerRequest
    from tfwatch.runs.writer import RunWriter

_JOIN_S = 2.0
#: The function for each kind of request. Each requests the final settings before it returns or raises.
_JOBS: dict[type[TunerRequest], Callable[[Driver, Any], None]] = {
    Experiment: experiment.run,
    Autopilot: autopilot.run,
}


class TunerThread:
    """Runs the newest tuner request of one run. It costs nothing until there is one."""

    def __init__(self, writer: RunWriter, control: Control, clock: Clock = SYSTEM) -> None:
        self._writer = writer
        self._control = control
        self._clock = clock
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-tuner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the current request. Call it before the run's writer is closed: it still publishes its end."""
        self._is_stopping.set()
        self._control.ask_tuner(None)
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        known = 0
        while not self._is_stopping.is_set():
            known, request = self._control.next_tuner_request(known)
            if request is not None and not self._is_stopping.is_set():
                self._carry_out(request, known)

    def _driver(self, number: int) -> Driver:
        writer = self._writer
        return Driver(
            writer, self._control, writer.event, number, self._clock, refresh=writer.flush
        )

    def _carry_out(self, request: TunerRequest, number: int) -> None:
        what = type(request).__name__.lower()
        with fails_open(lambda why: self._writer.note(f"{what} failed: {why}", is_refusal=True)):
            try:
                _JOBS[type(request)](self._driver(number), request)
            except Interrupt as over:
                self._writer.note(f"{what} ended before it began: {over.reason}", is_refusal=True)
            except RefusedError as error:
                self._writer.note(f"{what} ended: {error}", is_refusal=True)
