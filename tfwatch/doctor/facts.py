"""The facts of a machine that the checks judge."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import Interpreter, Nvidia
from tfwatch.doctor.trial import SKIPPED, Trial
from tfwatch.sensors.sensor import Unavailable

_NOT_LOOKED = Unavailable("not checked", "")


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a training can take, and what was moved to disk."""

    free_bytes: float
    #: Of the machine, or of its container.
    total_bytes: float
    is_container: bool = False
    swapped_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Cores:
    """Numbers of cores."""

    all: int
    #: Those that this process may run on.
    usable: int
    #: A container's limit on the processor's time, in cores; None without one.
    quota: float | None = None
    #: Those that other programs keep busy; None beside a training of this process.
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """A sequential read of files."""

    folder: str
    read_bytes: float
    took_s: float
    files: int

    @property
    def bytes_s(self) -> float:
        """The bytes a second."""
        return self.read_bytes / max(self.took_s, 1e-9)

    @property
    def files_s(self) -> float:
        """The files a second."""
        return self.files / max(self.took_s, 1e-9)


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """The folder of the runs."""

    path: str
    #: The reason why it cannot be written; empty where it can.
    problem: str = ""
    free_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts; an `Unavailable` holds the reason why one is unknown."""

    machine: str = ""
    interpreter: Interpreter = field(default_factory=Interpreter)
    installed: Installed = field(default_factory=Installed)
    trial: Trial = SKIPPED
    nvidia: Nvidia = field(default_factory=Nvidia)
    cores: Cores | Unavailable = _NOT_LOOKED
    memory: Memory | Unavailable = _NOT_LOOKED
    #: None where no data folder is named.
    disk: DiskSpeed | Unavailable | None = None
    runs: RunsFolder | Unavailable = _NOT_LOOKED
    #: The GPU sensor that a run would ask, and why it cannot be read; None: it can.
    gpu_sensor: tuple[str, Unavailable | None] = ("", None)

    @property
    def is_mac(self) -> bool:
        """True on macOS."""
        return self.installed.system == "darwin"

    @property
    def has_tensorflow(self) -> bool:
        """True where TensorFlow is installed."""
        return "tensorflow" in self.installed.versions
