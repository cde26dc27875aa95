"""What a check-up knows before it judges. Plain data: a test writes down any machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import UNTRIED, Trial
from tfwatch.sensors.protocol import Availability, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_LOOKED = Unavailable("not looked at", "")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """This Python and the processor it runs on.

    version: three numbers. bits: of a pointer. translated: whether Rosetta 2 runs it; arm64: whether the processor is
    an Apple chip, whatever Python believes; both None off macOS and where macOS does not say.
    chip: the processor's name. instructions: its flags in lower case (x86 alone); None where they cannot be read.
    """

    version: tuple[int, int, int] = (3, 11, 9)
    bits: int = 64
    translated: bool | None = None
    arm64: bool | None = None
    chip: str = ""
    instructions: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Nvidia:
    """What the system shows of NVIDIA, whatever TensorFlow sees.

    driver: the kernel driver's version, empty where there is none. card: a PCI device of NVIDIA's is there.
    nodes: this system has the driver's device files. hidden: CUDA_VISIBLE_DEVICES, None where it is not set.
    """

    driver: str = ""
    card: bool = False
    nodes: bool = False
    hidden: str | None = None

    @property
    def hides_all(self) -> bool:
        """Whether CUDA_VISIBLE_DEVICES keeps every GPU from being seen."""
        return self.hidden is not None and self.hidden.strip() in ("", "-1")


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory in bytes, installed and, where a container allows less, allowed; and what the sensors of a run say.

    swap_total_bytes: None where the system does not tell. figures: columns of `core.rows.SAMPLE`, over the time of
    the check-up where they are rates; a column that was not read is not there. gaps: the sensors that say nothing.
    """

    memory_bytes: float
    allowed_bytes: float | None = None
    swap_total_bytes: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    gaps: Mapping[str, Unavailable] = field(default_factory=dict)

    def figure(self, column: str) -> float | None:
        """A figure; None where there is none."""
        value = self.figures.get(column, math.nan)
        return None if math.isnan(value) else value

    def gap(self, sensor: str) -> Unavailable:
        """Why a sensor says nothing."""
        return self.gaps.get(sensor, Unavailable("this system does not tell", ""))


@dataclass(frozen=True, slots=True)
class Cores:
    """All of the machine; those this process may run on; and how many of them a container's quota pays for."""

    all: int
    usable: int | None = None
    quota: float | None = None


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """A sequential read below a folder. files: how many were opened for it; None where it was a temporary file.

    from_disk: how much of it came from the disk and not from memory, 0 to 1; None where that cannot be told.
    """

    folder: str
    read_bytes: float
    took_s: float
    files: int | None = None
    from_disk: float | None = None


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal of the standard descriptors.

    needs: columns and rows of the smallest screen. colours: 0, 16, 256 or 2^24. kind: TERM.
    """

    columns: int
    rows: int
    needs: tuple[int, int]
    colours: int
    unicode: bool
    kind: str


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """Where runs are kept. trouble: why nothing can be written there, empty where it can; is_there: it exists.

    runs: their number, None where they cannot be listed. size_is_partial: there was no time to look at all of them.
    """

    path: str
    trouble: str = ""
    is_there: bool = True
    runs: int | None = 0
    size_bytes: float = 0.0
    size_is_partial: bool = False
    free_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it. An `Unavailable` says why it is not known.

    providers: the distributions that bring TensorFlow. environ: the variables that change what TensorFlow does.
    backend: what Keras is set to compute with. gpu_counters: the sensor that a run would read and whether it can.
    powermetrics: whether it is permitted; None off macOS.
    """

    interpreter: Interpreter = field(default_factory=Interpreter)
    installed: Installed = field(default_factory=Installed)
    providers: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    backend: str = "tensorflow"
    trial: Trial = UNTRIED
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
        """Whether this is macOS."""
        return self.installed.system == "darwin"

    @property
    def is_x86(self) -> bool:
        """Whether Python is built for x86, on whatever processor."""
        return self.installed.machine in ("x86_64", "AMD64", "i386", "i686")
