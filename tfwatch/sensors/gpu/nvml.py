"""One NVIDIA GPU, or a MIG slice of one, through an open NVML."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.sensors.protocol import (
    Availability,
    Available,
    CardReading,
    FullReading,
    GpuIdentity,
    GpuReading,
    SensorError,
    Unavailable,
    combine,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The driver samples processes about 6 times a second (NVML reference,
#: nvmlDeviceGetProcessUtilization).
_PROCESSES_NS = 500_000_000
#: Bits of nvmlDeviceGetCurrentClocksEventReasons that a user can change, the worst first, with
#: their text and thermal level. A power cap alone is normal at full load.
LIMITS = (
    (0x40, "thermal slowdown by the hardware", 4.0),
    (0x20, "thermal slowdown by the driver", 3.0),
    (0x80, "power brake", 3.0),
    (0x08, "hardware slowdown", 3.0),
)
_NEWER = "a newer driver may report it"
INSTALL = "pip install nvidia-ml-py"
_UNLISTED = Unavailable(
    "the NVIDIA driver does not list this process: inside a container it lists the host's"
    " processes",
    "docker run --pid=host",
)
_FIELDS = {field.name for field in fields(GpuReading)}


class Card:
    """A GPU. chosen: the handle of it, or of the slice that computes; card: of the whole GPU."""

    def __init__(self, nvml: Any, chosen: Any, clock: Clock, pid: int) -> None:
        self._nvml = nvml
        self._clock = clock
        self._pid = pid
        self._gaps: dict[str, Unavailable] = {}
        self._unlisted: Unavailable | None = None
        self._chosen = self._card = chosen
        self._share: float | None = None
        self._share_due_ns = 0
        self._newest_us = 0
        self._is_slice = bool(self._call("", "nvmlDeviceIsMigDeviceHandle", chosen))
        if self._is_slice:
            self._card = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(chosen)
        if self._is_slice:
            why = Unavailable(
                "the driver reports only a MIG slice's memory",
                "dcgmi dmon -e 1002, as administrator",
            )
            self._gaps.update(dict.fromkeys(("busy", "power_w", "process_busy"), why))

    def read(self) -> FullReading:
        """Return the figures that nvidia-smi prints for this GPU; for a MIG slice, the slice's
        own."""
        busy = self._call("busy", "nvmlDeviceGetUtilizationRates", self._chosen)
        power = (
            None if self._is_slice else self._call("power_w", "nvmlDeviceGetPowerUsage", self._card)
        )
        memory = self._memory()
        reasons = self._reasons()
        limit = next(
            ((words, level) for bit, words, level in LIMITS if (reasons or 0) & bit), ("", 0.0)
        )
        return FullReading(
            busy=None if busy is None else min(busy.gpu / 100, 1.0),
            freq_mhz=self._call(
                "freq_mhz", "nvmlDeviceGetClockInfo", self._card, self._nvml.NVML_CLOCK_SM
            ),
            power_w=None if power is None else power / 1e3,
            memory_bytes=None if memory is None else memory.used,
            temperature_c=self._call(
                "temperature_c",
                "nvmlDeviceGetTemperature",
                self._card,
                self._nvml.NVML_TEMPERATURE_GPU,
            ),
            process_busy=self._process_share(0 if busy is None else busy.gpu),
            thermal_level=None if reasons is None else limit[1],
            limited_by=limit[0],
        )

    def identity(self) -> GpuIdentity:
        """Return the name and the memory, of the slice if it is one."""
        memory = self._memory()
        name = self._call("name", "nvmlDeviceGetName", self._chosen) or self._call(
            "", "nvmlDeviceGetName", self._card
        )
        return GpuIdentity(str(name or "NVIDIA GPU"), None if memory is None else memory.total)

    def read_as_one_of_several(self) -> CardReading:
        """Return the reading of a GPU beside others."""
        reading, identity = self.read(), self.identity()
        figures = {
            each.name: getattr(reading, each.name)
            for each in fields(FullReading)
            if each.name != "cards"
        }
        return CardReading(name=identity.name, total_bytes=identity.memory_bytes, **figures)

    def gaps(self) -> Mapping[str, Unavailable]:
        """Return the figures that the driver refuses."""
        unlisted = {"process_busy": self._unlisted} if self._unlisted else {}
        return unlisted | {name: gap for name, gap in self._gaps.items() if name in _FIELDS}

    # -- calls of the driver -----------------------------------------------------------------------

    def _call(self, field: str, function: str, *args: Any) -> Any:
        """Call the driver; return None where this GPU does not support the call, and then never
        call it again.

        The field's gap is the reason.

        Raises:
            SensorError: the driver has lost the GPU, or fails otherwise.
        """
        if field in self._gaps:
            return None
        nvml = self._nvml
        try:
            return getattr(nvml, function)(*args)
        except AttributeError:
            if field:
                self._gaps[field] = Unavailable("this nvidia-ml-py is too old for it", INSTALL)
        except nvml.NVMLError as error:
            lasting = (
                nvml.NVML_ERROR_NOT_SUPPORTED,
                nvml.NVML_ERROR_NO_PERMISSION,
                nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                getattr(nvml, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", None),
            )
            if error.value not in lasting:
                raise SensorError(f"NVML: {error}") from error
            if field:
                self._gaps[field] = Unavailable(
                    f"the NVIDIA driver refuses it: {error}", "a newer driver may report it"
                )
        return None

    def _memory(self) -> Any:
        """Return the memory as in nvidia-smi, without the driver's own; an old driver reports only
        the sum."""
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        return (
            version and self._call("", "nvmlDeviceGetMemoryInfo", self._chosen, version)
        ) or self._call("memory_bytes", "nvmlDeviceGetMemoryInfo", self._chosen)

    def _reasons(self) -> int | None:
        """Return the bits of the reasons that limit the clock. The call has another name before
        driver 535."""
        reasons = self._call("clock_event", "nvmlDeviceGetCurrentClocksEventReasons", self._card)
        if reasons is None:
            reasons = self._call(
                "thermal_level", "nvmlDeviceGetCurrentClocksThrottleReasons", self._card
            )
        return None if reasons is None else int(reasons)

    def _process_share(self, gpu_percent: int) -> float | None:
        """Return this process' share, at most half a second old."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._share_due_ns and "process_busy" not in self._gaps:
            self._share_due_ns = now_ns + _PROCESSES_NS
            samples = self._samples()
            running = self._call("process_busy", "nvmlDeviceGetComputeRunningProcesses", self._card)
            self._share = self._share_of(
                samples, [process.pid for process in running or ()], gpu_percent
            )
        return None if "process_busy" in self._gaps else self._share

    def _samples(self) -> list[Any]:
        """Return samples (pid, timeStamp, smUtil) since the last call; empty where nothing ran."""
        try:
            samples = list(self._nvml.nvmlDeviceGetProcessUtilization(self._card, self._newest_us))
        except self._nvml.NVMLError as error:
            if error.value in (self._nvml.NVML_SUCCESS, self._nvml.NVML_ERROR_NOT_FOUND):
                return []
            self._gaps["process_busy"] = Unavailable(
                f"the NVIDIA driver refuses it: {error}", _NEWER
            )
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
        shares: list[float] = [
            min(sample.smUtil, 100) / 100 for sample in samples if sample.pid in own
        ]
        listed = {*pids, *(sample.pid for sample in samples)}
        if listed & own:
            self._unlisted = None
            return sum(shares) / len(shares) if shares else 0.0
        if self._unlisted:
            return None
        if any(map(psutil.pid_exists, listed)) or (not listed and gpu_percent == 0):
            return 0.0
        self._unlisted = _UNLISTED
        return None


def own_pids(pid: int) -> set[int]:
    """Return the numbers of a process in the visible name spaces."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {pid}
    lines: Iterable[str] = (line for line in status.splitlines() if line.startswith("NSpid:"))
    return {pid, *(int(word) for line in lines for word in line.split()[1:] if word.isdecimal())}


#: Files of the kernel module; /dev/dxg is that of Windows' subsystem for Linux.
_DRIVER = tuple(map(Path, ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")))
_CONTAINER = "a container needs --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"


class NvmlSource:
    """The GPU that this process trains on: those followed, else the first that CUDA_VISIBLE_DEVICES
    allows."""

    name = "nvml"
    period_s = 0.25

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

    def available(self) -> Availability:
        """Return `Unavailable` without a driver, the library, or a GPU that is visible to this
        process."""
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
            return _not_ready(pynvml, error)

    def follow(self, gpus: Sequence[str]) -> None:
        """Read these GPUs from the next reading on, given by their UUIDs without prefix; none: the
        first one."""
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
        return combine(
            [card.read_as_one_of_several() if card else CardReading() for card in self._cards]
        )

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
        """Return the GPU, or the MIG slice, with a UUID of CUDA's, which has no prefix; None where
        NVML has none."""
        for prefix in ("GPU-", "MIG-"):
            with suppress(self._nvml.NVMLError):
                return self._open(self._nvml.nvmlDeviceGetHandleByUUID(prefix + uuid))
        return None

    def _handle(self, first: str, count: int) -> Any:
        """Find a GPU by number, or by the beginning of a UUID. CUDA and NVML number GPUs
        differently."""
        if first.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(min(int(first), count - 1))
        if first.startswith("GPU-"):
            handles = map(self._nvml.nvmlDeviceGetHandleByIndex, range(count))
            return next(
                (
                    handle
                    for handle in handles
                    if str(self._nvml.nvmlDeviceGetUUID(handle)).startswith(first)
                ),
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
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: (
            "the NVIDIA driver is not loaded",
            "load it, or restart the machine",
        ),
        nvml.NVML_ERROR_NO_PERMISSION: (
            "this user has no access to the NVIDIA driver",
            "read and write permission on /dev/nvidiactl",
        ),
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the NVIDIA driver was updated and the old one is still loaded",
            "restart the machine",
        ),
    }
    reason, fix = known.get(
        error.value, (f"NVML does not start: {error}", "run nvidia-smi to check the driver")
    )
    return Unavailable(reason, fix)
