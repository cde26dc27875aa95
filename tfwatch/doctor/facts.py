"""The facts that the checks judge, as plain data, so that a test can describe any machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import SKIPPED, Trial
from tfwatch.sensors.protocol import Availability, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_LOOKED = Unavailable("not checked", "")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """This Python and the processor it runs on.

    version: three numbers. bits: of a pointer. is_translated: Rosetta 2 runs it. is_arm64: the processor is an Apple
    chip, even where Python reports an Intel one. Both are None off macOS and where macOS does not report them.
    chip: the processor's name. instructions: its flags in lower case (x86 only); None where they cannot be read.
    """

    version: tuple[int, int, int] = (3, 11, 9)
    bits: int = 64
    is_translated: bool | None = None
    is_arm64: bool | None = None
    chip: str = ""
    instructions: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Nvidia:
    """NVIDIA's driver and card as the operating system reports them, independent of TensorFlow.

    driver: the kernel driver's version, empty without one. has_card: there is a PCI device of NVIDIA's.
    has_device_files: the driver's device files exist. hidden: CUDA_VISIBLE_DEVICES, None where it is not set.
    """

    driver: str = ""
    has_card: bool = False
    has_device_files: bool = False
    hidden: str | None = None

    @property
    def hides_all(self) -> bool:
        """True where CUDA_VISIBLE_DEVICES hides every GPU."""
        return self.hidden is not None and self.hidden.strip() in ("", "-1")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's memory, and the figures of the sensors that a run reads.

    memory_bytes: installed. allowed_bytes: a container's limit, None without one. swap_total_bytes: None where unknown.
    figures: columns of `core.rows.SAMPLE`; rates are over the time of the check-up; a column that was not read is
    missing. gaps: the reason for each sensor that cannot be read.
    """

    memory_bytes: float
    allowed_bytes: float | None = None
    swap_total_bytes: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    gaps: Mapping[str, Unavailable] = field(default_factory=dict)

    def figure(self, column: str) -> float | None:
        """Return a figure; None where it was not read."""
        value = self.figures.get(column, math.nan)
        return None if math.isnan(value) else value

    def gap(self, sensor: str) -> Unavailable:
        """Return the reason why a sensor cannot be read."""
        return self.gaps.get(sensor, Unavailable("this system does not report it", ""))


@dataclass(frozen=True, slots=True)
class Cores:
    """Numbers of cores: all of the machine, those this process may run on, and a container's quota."""

    all: int
    usable: int | None = None
    quota: float | None = None


#: A disk below both is the likely limit: a share over 1 Gbit/s gives 118 MB/s, a hard disk 100 to 200 files a second.
_SLOW_BYTES_S = 60e6
_SLOW_FILES_S = 1000.0


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """A sequential read below a folder. files: how many were opened for it; None where it was a temporary file.

    from_disk: the share that came from the disk and not from memory, 0 to 1; None where it is unknown.
    cores_busy: the share of the machine's cores in use meanwhile, 0 to 1; None where it is unknown.
    """

    folder: str
    read_bytes: float
    took_s: float
    files: int | None = None
    from_disk: float | None = None
    cores_busy: float | None = None

    @property
    def bytes_s(self) -> float:
        """The bytes a second."""
        return self.read_bytes / max(self.took_s, 1e-9)

    @property
    def files_s(self) -> float | None:
        """The files a second; None of a temporary file."""
        return None if self.files is None else self.files / max(self.took_s, 1e-9)

    @property
    def is_slow(self) -> bool:
        """True where the disk is the likely limit of a training, if nothing else slowed the read."""
        return self.bytes_s < _SLOW_BYTES_S and (
            self.files_s is None or self.files_s < _SLOW_FILES_S
        )


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal of the standard descriptors.

    needs: columns and rows that the screen needs. colours: 0, 16, 256 or 2^24. kind: TERM.
    """

    columns: int
    rows: int
    needs: tuple[int, int]
    colours: int
    has_unicode: bool
    kind: str


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """The folder of the runs.

    problem: the reason why it cannot be written, empty where it can. is_there: it exists. runs: their number, None
    where they cannot be listed. size_is_partial: the time limit ended before every file was counted. hangs: the time
    limit and the mount where the folder did not answer, e.g. `10 s; it is on /home (nfs4 from server:/home)`.
    """

    path: str
    problem: str = ""
    is_there: bool = True
    runs: int | None = 0
    size_bytes: float = 0.0
    size_is_partial: bool = False
    free_bytes: float | None = None
    hangs: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts; an `Unavailable` holds the reason why one is unknown.

    providers: the distributions that install TensorFlow. environ: the variables that affect TensorFlow.
    backend: Keras' backend. gpu_counters: the GPU sensor that a run would read, and its availability.
    powermetrics: its availability; None off macOS.
    """

    interpreter: Interpreter = field(default_factory=Interpreter)
    installed: Installed = field(default_factory=Installed)
    providers: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    backend: str = "tensorflow"
    trial: Trial = SKIPPED
    nvidia: Nvidia = field(default_factory=Nvidia)
    machine: Machine | Unavailable = _NOT_LOOKED
    cores: Cores | Unavailable = _NOT_LOOKED
    disk: DiskSpeed | Unavailable = _NOT_LOOKED
    gpu_counters: tuple[str, Availability] = ("", _NOT_LOOKED)
    powermetrics: Availability | None = None
    terminal: Terminal | Unavailable = _NOT_LOOKED
    runs: RunsFolder | Unavailable = _NOT_LOOKED

    @property
    def is_mac(self) -> bool:
        """True on macOS."""
        return self.installed.system == "darwin"

    @property
    def is_rosetta(self) -> bool:
        """True for an Intel Python on an Apple chip."""
        return (
            self.is_mac
            and self.is_x86
            and bool(self.interpreter.is_translated or self.interpreter.is_arm64)
        )

    @property
    def is_x86(self) -> bool:
        """True where Python is built for x86, even if the processor is not an x86 one."""
        return self.installed.machine in ("x86_64", "AMD64", "i386", "i686")
