"""The NVIDIA GPUs of a training, through NVML (nvidia-ml-py, the extra `nvidia`), the library behind nvidia-smi."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.sensors.gpu.nvml_card import INSTALL, Card
from tfwatch.sensors.protocol import (
    Availability,
    Available,
    CardReading,
    FullReading,
    GpuIdentity,
    SensorError,
    Unavailable,
    combine,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Files of the kernel module; /dev/dxg is that of Windows' subsystem for Linux.
_DRIVER = tuple(map(Path, ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")))
_CONTAINER = "a container needs --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"


class Source:
    """The GPU that this process trains on: those followed, else the first that CUDA_VISIBLE_DEVICES allows."""

    name = "nvml"
    period_s = 0.25

    def __init__(self, clock: Clock = SYSTEM, environ: Mapping[str, str] = os.environ, pid: int | None = None) -> None:
        self._clock = clock
        self._environ = environ
        self._pid = os.getpid() if pid is None else pid
        self._nvml: Any = None
        self._card: Card | None = None
        self._wanted: tuple[str, ...] = ()
        self._followed: tuple[str, ...] = ()
        self._cards: list[Card | None] = []

    def available(self) -> Availability:
        """Return `Unavailable` without a driver, the library, or a GPU that is visible to this process."""
        if not any(path.exists() for path in _DRIVER):
            return Unavailable(
                "no NVIDIA driver on this machine", f"with an NVIDIA GPU: install its driver; {_CONTAINER}"
            )
        try:
            import pynvml
        except ImportError:
            return Unavailable("nvidia-ml-py is not installed", INSTALL)
        self.close()
        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            return self._choose()
        except pynvml.NVMLError as error:
            self.close()
            return _not_ready(pynvml, error)

    def follow(self, gpus: Sequence[str]) -> None:
        """Read these GPUs from the next reading on, given by their UUIDs without prefix; none: the first one."""
        self._wanted = tuple(gpus)

    def read(self) -> FullReading:
        """Return the figures that nvidia-smi prints for this GPU; for a MIG slice, the slice's own.

        Raises:
            SensorError: the driver has lost a GPU, or fails otherwise.
        """
        if self._card is None:
            raise SensorError("NVML is closed")
        if self._wanted != self._followed:
            self._followed = self._wanted
            self._cards = [self._find(uuid) for uuid in self._followed]
        known = [card for card in self._cards if card]
        if len(known) < 2:
            return self._card.read()
        return combine([card.read_as_one_of_several() if card else CardReading() for card in self._cards])

    def identity(self) -> GpuIdentity:
        """Return the name and the memory, of the slice if it is one."""
        if self._card is None:
            raise SensorError("NVML is closed")
        return replace(self._card.identity(), gpus=self._nvml.nvmlDeviceGetCount() or 1)

    def gaps(self) -> Mapping[str, Unavailable]:
        """Return the figures that the driver refuses."""
        return self._card.gaps() if self._card else {}

    def close(self) -> None:
        """End the session with the driver."""
        nvml, self._nvml = self._nvml, None
        self._card, self._cards, self._followed = None, [], ()
        if nvml is None:
            return
        try:
            nvml.nvmlShutdown()
        except nvml.NVMLError:
            return

    def cancel(self) -> None:
        """Do nothing: a call to the driver cannot be interrupted."""

    # -- the choice of a GPU ----------------------------------------------------------------------

    def _choose(self) -> Availability:
        words = self._environ.get("CUDA_VISIBLE_DEVICES")
        first = None if words is None else words.split(",")[0].strip()
        count = self._nvml.nvmlDeviceGetCount()
        if count == 0 or first in ("", "-1", "none", "NoDevFiles"):
            hidden = "CUDA_VISIBLE_DEVICES hides every GPU from this process"
            reason = "the NVIDIA driver shows no GPU" if count == 0 else hidden
            return Unavailable(reason, "to train on a GPU: unset CUDA_VISIBLE_DEVICES")
        self._card = self._open(self._handle(first or "0", count))
        return Available()

    def _open(self, handle: Any) -> Card:
        return Card(self._nvml, handle, self._clock, self._pid)

    def _find(self, uuid: str) -> Card | None:
        """Return the GPU, or the MIG slice, with a UUID of CUDA's, which has no prefix; None where NVML has none."""
        for prefix in ("GPU-", "MIG-"):
            with suppress(self._nvml.NVMLError):
                return self._open(self._nvml.nvmlDeviceGetHandleByUUID(prefix + uuid))
        return None

    def _handle(self, first: str, count: int) -> Any:
        """Find a GPU by number, or by the beginning of a UUID. CUDA and NVML number GPUs differently."""
        if first.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(min(int(first), count - 1))
        if first.startswith("GPU-"):
            handles = map(self._nvml.nvmlDeviceGetHandleByIndex, range(count))
            return next(
                (handle for handle in handles if str(self._nvml.nvmlDeviceGetUUID(handle)).startswith(first)),
                self._nvml.nvmlDeviceGetHandleByIndex(0),
            )
        if first.startswith("MIG-"):
            return self._nvml.nvmlDeviceGetHandleByUUID(first)
        return self._nvml.nvmlDeviceGetHandleByIndex(0)


def _not_ready(nvml: Any, error: Any) -> Unavailable:
    """Return why NVML does not start, and what to do."""
    known = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
            "libnvidia-ml.so.1, a part of the NVIDIA driver, is not found",
            f"install the driver; {_CONTAINER}",
        ),
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: ("the NVIDIA driver is not loaded", "load it, or restart the machine"),
        nvml.NVML_ERROR_NO_PERMISSION: (
            "this user has no access to the NVIDIA driver",
            "read and write permission on /dev/nvidiactl",
        ),
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the NVIDIA driver was updated and the old one is still loaded",
            "restart the machine",
        ),
    }
    reason, fix = known.get(error.value, (f"NVML does not start: {error}", "run nvidia-smi to check the driver"))
    return Unavailable(reason, fix)
