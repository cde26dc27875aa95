"""NVIDIA GPUs through an open NVML."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.machine_info import hides_gpus
from tfwatch.sensors.sensor import GpuReading, GpuSource, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The driver samples processes about 6 times a second (NVML reference,
#: nvmlDeviceGetProcessUtilization).
_PROCESSES_NS = 500_000_000
#: Bits of nvmlDeviceGetCurrentClocksEventReasons that a user can change: a thermal slowdown by the
#: hardware; one by the driver, a power brake, and any other slowdown by the hardware. A power cap
#: alone is normal at full load.
_CRITICAL, _HEAVY = 0x40, 0x20 | 0x80 | 0x08
INSTALL = "pip install nvidia-ml-py"
_SHARE = "gpu_process_busy"
_UNLISTED = Unavailable(
    "the NVIDIA driver does not list this process: inside a container it lists the host's"
    " processes",
    "docker run --pid=host",
)


class Card:
    """A GPU, or a MIG slice of one, by its handle.

    gaps: the columns that the driver refuses.
    """

    def __init__(self, nvml: Any, handle: Any, clock: Clock, pid: int) -> None:
        self.gaps: dict[str, Unavailable] = {}
        self._nvml = nvml
        self._clock = clock
        self._pid = pid
        self._handle = handle
        self._share: float | None = None
        self._share_due_ns = 0
        self._newest_us = 0
        self._name = str(self._call("", "nvmlDeviceGetName", handle) or "NVIDIA GPU")

    def read(self) -> GpuReading:
        """Return the figures that nvidia-smi prints for this GPU."""
        nvml, card = self._nvml, self._handle
        busy = self._call("gpu_busy", "nvmlDeviceGetUtilizationRates", card)
        power = self._call("gpu_power_w", "nvmlDeviceGetPowerUsage", card)
        # As in nvidia-smi, without the driver's own.
        memory = self._call("gpu_memory_bytes", "nvmlDeviceGetMemoryInfo", card, nvml.nvmlMemory_v2)
        clock = self._call("gpu_freq_mhz", "nvmlDeviceGetClockInfo", card, nvml.NVML_CLOCK_SM)
        figures = {
            "gpu_busy": None if busy is None else min(busy.gpu / 100, 1.0),
            _SHARE: self._process_share(0 if busy is None else busy.gpu),
            "gpu_freq_mhz": clock,
            "gpu_power_w": None if power is None else power / 1e3,
            "gpu_memory_bytes": None if memory is None else memory.used,
            "thermal_level": self._thermal_level(),
        }
        total_bytes = None if memory is None else memory.total
        return GpuReading(figures, self._name, total_bytes)

    # -- calls of the driver -----------------------------------------------------------------------

    def _call(self, column: str, function: str, *args: Any) -> Any:
        """Call the driver; return None where this GPU does not support the call, and then never
        call it again.

        The column's gap is the reason.

        Raises:
            SensorError: the driver has lost the GPU, or fails otherwise.
        """
        if column in self.gaps:
            return None
        nvml = self._nvml
        try:
            return getattr(nvml, function)(*args)
        except nvml.NVMLError as error:
            lasting = (
                nvml.NVML_ERROR_NOT_SUPPORTED,
                nvml.NVML_ERROR_NO_PERMISSION,
                nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            )
            if error.value not in lasting:
                raise SensorError(f"NVML: {error}") from error
            if column:
                self.gaps[column] = _refused(error)
        return None

    def _thermal_level(self) -> float | None:
        """Return the level of a limited clock; None before driver 535."""
        reasons = self._call("events", "nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        if reasons is None:
            return None
        return 4.0 if int(reasons) & _CRITICAL else 3.0 if int(reasons) & _HEAVY else 0.0

    def _process_share(self, gpu_percent: int) -> float | None:
        """Return this process' share, at most half a second old."""
        now_ns = self._clock.now_ns()
        is_refused = self.gaps.get(_SHARE, _UNLISTED) is not _UNLISTED
        if now_ns >= self._share_due_ns and not is_refused:
            self._share_due_ns = now_ns + _PROCESSES_NS
            samples = self._samples()
            running = self._call("", "nvmlDeviceGetComputeRunningProcesses", self._handle)
            pids = [process.pid for process in running or ()]
            self._share = self._share_of(samples, pids, gpu_percent)
        return None if _SHARE in self.gaps else self._share

    def _samples(self) -> list[Any]:
        """Return samples (pid, timeStamp, smUtil) since the last call; empty where nothing ran."""
        try:
            samples = list(
                self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._newest_us)
            )
        except self._nvml.NVMLError as error:
            if error.value not in (self._nvml.NVML_SUCCESS, self._nvml.NVML_ERROR_NOT_FOUND):
                self.gaps[_SHARE] = _refused(error)
            return []
        new = [sample for sample in samples if sample.timeStamp > self._newest_us]
        self._newest_us = max((sample.timeStamp for sample in new), default=self._newest_us)
        return new

    def _share_of(self, samples: list[Any], pids: list[int], gpu_percent: int) -> float | None:
        """Return this process' share, 0 to 1.

        0 where only others are listed, or no process is listed and the GPU is idle. Inside a
        container the driver lists the host's process numbers, or none: the share is unknown until
        this process is listed.
        """
        own = own_pids(self._pid)
        shares = [min(sample.smUtil, 100) / 100 for sample in samples if sample.pid in own]
        listed = {*pids, *(sample.pid for sample in samples)}
        if listed & own:
            if self.gaps.get(_SHARE) is _UNLISTED:
                del self.gaps[_SHARE]
            return fmean(shares) if shares else 0.0
        if _SHARE in self.gaps:
            return None
        if any(map(psutil.pid_exists, listed)) or (not listed and gpu_percent == 0):
            return 0.0
        self.gaps[_SHARE] = _UNLISTED
        return None


def _refused(error: Exception) -> Unavailable:
    return Unavailable(f"the NVIDIA driver refuses it: {error}", "a newer driver may report it")


def own_pids(pid: int) -> set[int]:
    """Return the numbers of a process in the visible name spaces."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {pid}
    lines = [line for line in status.splitlines() if line.startswith("NSpid:")]
    return {pid, *(int(word) for line in lines for word in line.split()[1:] if word.isdecimal())}


#: Files of the kernel module; /dev/dxg is that of Windows' subsystem for Linux.
_DRIVER = tuple(map(Path, ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")))
_CONTAINER = "a container needs --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"


class NvmlSource(GpuSource):
    """The GPU that this process trains on: those followed, else the first that CUDA_VISIBLE_DEVICES
    allows."""

    name = "nvml"

    def __init__(
        self, clock: Clock = SYSTEM, environ: Mapping[str, str] = os.environ, pid: int | None = None
    ) -> None:
        self._clock = clock
        self._environ = environ
        self._pid = os.getpid() if pid is None else pid
        self._nvml: Any = None
        self._card: Card | None = None
        self._wanted: tuple[str, ...] = ()
        self._followed: tuple[str, ...] = ()
        self._cards: list[Card | None] = []

    def why_unavailable(self) -> Unavailable | None:
        """There may be no driver, no library, or no GPU that is visible to this process."""
        if not any(path.exists() for path in _DRIVER):
            return Unavailable(
                "no NVIDIA driver on this machine",
                f"with an NVIDIA GPU: install its driver; {_CONTAINER}",
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
            return Unavailable(
                f"NVML does not start: {error}", f"run nvidia-smi to check the driver; {_CONTAINER}"
            )

    def follow(self, gpus: Sequence[str]) -> None:
        """Read these GPUs from the next reading on, given by their UUIDs without prefix; none: the
        first one."""
        self._wanted = tuple(gpus)

    def read(self) -> Sequence[GpuReading]:
        """Return the figures that nvidia-smi prints for each GPU.

        Raises:
            SensorError: the driver has lost a GPU, or fails otherwise.
        """
        if self._card is None:
            raise SensorError("NVML is closed")
        if self._wanted != self._followed:
            self._followed = self._wanted
            self._cards = [self._find(uuid) for uuid in self._followed]
        if sum(card is not None for card in self._cards) < 2:
            return [self._card.read()]
        return [card.read() if card else GpuReading() for card in self._cards]

    def gaps(self) -> Mapping[str, Unavailable]:
        gaps = self._card.gaps if self._card else {}
        return {column: why for column, why in gaps.items() if column.startswith("gpu_")}

    def close(self) -> None:
        """End the session with the driver."""
        nvml, self._nvml = self._nvml, None
        self._card, self._cards, self._followed = None, [], ()
        if nvml is not None:
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    # -- the choice of a GPU ----------------------------------------------------------------------

    def _choose(self) -> Unavailable | None:
        words = self._environ.get("CUDA_VISIBLE_DEVICES")
        first = None if words is None else words.split(",")[0].strip()
        self.gpus = self._nvml.nvmlDeviceGetCount()
        if self.gpus == 0 or hides_gpus(words):
            hidden = "CUDA_VISIBLE_DEVICES hides every GPU from this process"
            reason = hidden if self.gpus else "the NVIDIA driver shows no GPU"
            return Unavailable(reason, "to train on a GPU: unset CUDA_VISIBLE_DEVICES")
        if first and first.startswith(("GPU-", "MIG-")):
            handle = self._nvml.nvmlDeviceGetHandleByUUID(first)
        else:  # CUDA and NVML number GPUs differently
            number = int(first) if first and first.isdecimal() else 0
            handle = self._nvml.nvmlDeviceGetHandleByIndex(min(number, self.gpus - 1))
        self._card = self._open(handle)
        return None

    def _open(self, handle: Any) -> Card:
        return Card(self._nvml, handle, self._clock, self._pid)

    def _find(self, uuid: str) -> Card | None:
        """Return the GPU, or the MIG slice, with a UUID of CUDA's, which has no prefix; None where
        NVML has none."""
        for prefix in ("GPU-", "MIG-"):
            with suppress(self._nvml.NVMLError):
                return self._open(self._nvml.nvmlDeviceGetHandleByUUID(prefix + uuid))
        return None
