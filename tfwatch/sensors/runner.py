"""Reads the sensors twice a second on a thread of their own and writes their figures into the run
folder."""

from __future__ import annotations

import math
import threading
from functools import partial
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.events import Slept
from tfwatch.core.rows import SAMPLE
from tfwatch.sensors.gpu_sensor import GpuSensor, choose_source
from tfwatch.sensors.host import Pressure, host_sensors
from tfwatch.sensors.pauses import PauseDetector
from tfwatch.sensors.sensor import MissingFigures, Sensor, Unavailable, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.runs.writer import RunWriter

PERIOD_NS = 500_000_000
#: Clock drift and corrections are smaller than this; after a longer jump the machine has slept.
SLEPT_NS = 2_000_000_000
_AGAIN = "tfwatch tries again twice a second"
_NEXT_RUN = "the next run tries again"
_COLUMNS = tuple(SAMPLE.names or ())


def sample_on_schedule(
    sample: Callable[[], None], clock: Clock, wait: Callable[[float], bool]
) -> None:
    """Call `sample` at every multiple of the period from now on, until `wait(seconds)` is true.

    A late sample does not move the next one; missed times are left out.
    """
    due_ns = clock.now_ns()
    while not wait(max(due_ns - clock.now_ns(), 0) / 1e9):
        sample()
        passed = max(clock.now_ns() - due_ns, 0) // PERIOD_NS
        due_ns += (passed + 1) * PERIOD_NS


class Sensors:
    """The thread that samples the machine, from `start` to `stop`. A failed sensor stops no
    other."""

    def __init__(
        self,
        writer: RunWriter,
        clock: Clock = SYSTEM,
        sensors: Sequence[Sensor] | None = None,
    ) -> None:
        """sensors: in place of the machine's, for tests."""
        self._writer = writer
        self._clock = clock
        self._gpu = GpuSensor(choose_source(clock=clock), writer, clock)
        self._pauses = PauseDetector(writer, clock)
        self._pressure = Pressure(writer)
        self._sensors = sensors
        self._missing = MissingFigures(writer)
        self._ahead_ns = self._clock_ahead_ns()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-sensors", daemon=True)

    def start(self) -> None:
        """Start the thread; an event reports where the system cannot start one."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._report_end(f"the thread cannot start: {error}")
        self._pauses.start()

    def stop(self) -> None:
        """End the thread. A second call does nothing."""
        self._pauses.stop()
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _run(self) -> None:
        with fails_open(self._report_end):
            self.begin()
            sample_on_schedule(self.sample, self._clock, self._stopping.wait)
        self._gpu.stop()

    def _report_end(self, why: str) -> None:
        self._missing.report("machine", Unavailable(why, _NEXT_RUN))

    # -- in the thread ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Keep the available sensors; the others are reported once and never read."""
        sensors = [*host_sensors(), self._gpu] if self._sensors is None else self._sensors
        self._sensors = [sensor for sensor in sensors if self._is_available(sensor)]

    def sample(self) -> None:
        """Read every sensor and append a row."""
        now_ns = self._clock.now_ns()
        self._check_sleep()
        figures = dict.fromkeys(_COLUMNS, math.nan)
        for sensor in self._sensors or ():
            for column, value in self._read(sensor, now_ns).items():
                # The CPU and the GPU have a thermal level of their own: the hotter counts.
                if not figures[column] > value:
                    figures[column] = value
        self._writer.sample(self._writer.now_ns(), figures)
        self._pressure.update(figures)

    def _is_available(self, sensor: Sensor) -> bool:
        with fails_open(partial(self._report_failure, sensor, _NEXT_RUN), reason):
            why = sensor.why_unavailable()
            if why:
                self._missing.report(sensor.name, why)
            return why is None
        return False

    def _read(self, sensor: Sensor, now_ns: int) -> dict[str, float]:
        with fails_open(partial(self._report_failure, sensor, _AGAIN), reason):
            figures = dict(sensor.read(now_ns))
            self._missing.withdraw(sensor.name)
            return figures
        return {}

    def _report_failure(self, sensor: Sensor, fix: str, why: str) -> None:
        self._missing.report(sensor.name, Unavailable(why, fix))

    def _check_sleep(self) -> None:
        """Write an event after a sleep: the monotonic clock stops during it, and another clock does
        not."""
        ahead_ns = self._clock_ahead_ns()
        slept_ns, self._ahead_ns = ahead_ns - self._ahead_ns, ahead_ns
        if slept_ns > SLEPT_NS:
            self._writer.event(Slept(self._writer.now_ns(), slept_ns / 1e6))

    def _clock_ahead_ns(self) -> int:
        """Return a difference that grows by the time asleep; without a clock of that, by changes of
        the wall clock."""
        asleep_ns = self._clock.asleep_ns()
        return self._clock.wall_ns() - self._clock.now_ns() if asleep_ns is None else asleep_ns
