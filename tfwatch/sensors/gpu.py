"""What the GPU does: not read by this version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.sensors import Availability, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


class GpuSensor:
    """Says that there are no figures, so that nobody takes a gap for an idle GPU."""

    name = "GPU"

    def available(self) -> Availability:
        """Never."""
        return Unavailable(
            reason="this version of tfwatch reads no GPU counters",
            fix="none is needed for the verdict, which comes from step times; beside tfwatch, "
            "nvidia-smi or macOS Activity Monitor show GPU activity",
        )

    def read(self, now_ns: int) -> Mapping[str, float]:
        """No figures."""
        del now_ns
        return {}
