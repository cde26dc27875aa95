"""An Apple GPU: ioreg, and over its activity that of powermetrics, where this is permitted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.sensors.gpu.ioreg import IoregSource
from tfwatch.sensors.gpu.powermetrics import Powermetrics
from tfwatch.sensors.sensor import GpuReading, GpuSource, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class AppleSource(GpuSource):
    """Figures of both tools; those of powermetrics, as long as it prints any, come first."""

    name = "ioreg"

    def __init__(self, clock: Clock = SYSTEM, command: Sequence[str] = ()) -> None:
        """command: in place of powermetrics, for tests."""
        self._ioreg = IoregSource(clock)
        self._powermetrics = Powermetrics(clock, command)
        self._gpu = GpuReading()

    def why_unavailable(self) -> Unavailable | None:
        """Start powermetrics where there is a GPU; it may be refused."""
        why = self._ioreg.why_unavailable()
        if why is None:
            self._powermetrics.start()
        return why

    def read(self) -> Sequence[GpuReading]:
        """Return ioreg's reading with the newest figures of powermetrics, which suffice where ioreg
        fails."""
        figures = self._powermetrics.read()
        if figures or self._powermetrics.ended:
            self.name = "powermetrics" if figures else "ioreg"
        try:
            self._gpu = self._ioreg.read()[0]
        except SensorError:
            if not self._gpu.name or "gpu_busy" not in figures:
                raise
            return [replace(self._gpu, figures=figures)]
        self.gpus = self._ioreg.gpus
        return [replace(self._gpu, figures={**self._gpu.figures, **figures})]

    def gaps(self) -> Mapping[str, Unavailable]:
        gaps = {**self._ioreg.gaps(), **self._powermetrics.gaps()}
        if self.name == "powermetrics":
            gaps.pop("gpu_busy", None)
        return gaps

    def close(self) -> None:
        self._powermetrics.close()
        self._ioreg.close()
