"""Problems of the installed packages, found without importing TensorFlow."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import site
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("tensorflow", "keras", "tensorflow-metal")
#: (first TensorFlow, first one excluded, oldest tensorflow-metal that loads with them), from users'
#: reports on tensorflow-metal 1.1.0 and 1.2.0; with TensorFlow 2.20 or later none loads.
_METAL_PAIRS = (((2, 14), (2, 18), (1, 1)), ((2, 18), (2, 20), (1, 2)))
_NEWEST_WITH_METAL = (2, 20)
#: A later tensorflow-metal may load with a later TensorFlow.
_NEWEST_METAL = (1, 2)
#: Both at once: pip alone would leave a tensorflow-metal that does not load with the new
#: TensorFlow.
METAL_PAIR = "pip install -U 'tensorflow>=2.18,<2.20' 'tensorflow-metal>=1.2'"
_METAL_LIBRARY = "libmetal_plugin.dylib"
AND_CUDA = "pip install 'tensorflow[and-cuda]' in a fresh virtual environment"
_NATIVE = (
    "on an Apple chip install an arm64 Python, which runs without Rosetta, and tfwatch with it"
)
#: The bounds of `dependencies` in pyproject.toml.
_OLDEST_TENSORFLOW = (2, 18)
_OLDEST_KERAS = (3, 8)
_UNKNOWN = "of unknown version"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy, a phrase each."""

    found: str
    todo: str
    #: Nothing can be trained before it is solved.
    is_blocking: bool = True
    #: It is about the plug-in for Apple's GPU, so a GPU that works refutes it.
    is_metal: bool = False

    def __str__(self) -> str:
        return f"{self.found}: {self.todo}"


@dataclass(frozen=True, slots=True)
class Installed:
    """The platform, Python's version and the versions of the `PACKAGES` that are installed."""

    system: str = ""
    machine: str = ""
    python: tuple[int, int] = (3, 11)
    versions: dict[str, str] = field(default_factory=dict)
    #: TensorFlow loads a plug-in other than Apple's for a device.
    has_other_plugin: bool = False

    @staticmethod
    def here() -> Installed:
        """Return the packages of this Python."""
        versions = {name: version for name in PACKAGES if (version := _version(name))}
        # Another distribution may install it: tensorflow-cpu, tf-nightly.
        if importlib.util.find_spec("tensorflow"):
            versions.setdefault("tensorflow", _UNKNOWN)
        return Installed(
            sys.platform, platform.machine(), sys.version_info[:2], versions, _has_other_plugin()
        )

    @property
    def is_apple_silicon(self) -> bool:
        """True for a native Python on an Apple chip."""
        return self.system == "darwin" and self.machine == "arm64"

    @property
    def is_mac_x86(self) -> bool:
        """True for a Python built for Intel Macs, on whatever chip it runs."""
        return self.system == "darwin" and self.machine == "x86_64"

    @property
    def stack(self) -> str:
        """All versions, e.g. `TensorFlow 2.19.1, Keras 3.12.0, tensorflow-metal 1.2.0`."""
        names = {"tensorflow": "TensorFlow", "keras": "Keras"}
        return ", ".join(
            f"{names.get(name, name)} {self.versions[name]}"
            for name in PACKAGES
            if name in self.versions
        )

    @property
    def short_stack(self) -> str:
        """TensorFlow and its plug-in, e.g. `TensorFlow 2.19.1 + metal 1.2.0`."""
        if "tensorflow" not in self.versions:
            return "no TensorFlow"
        metal = self.versions.get("tensorflow-metal")
        return f"TensorFlow {self.versions['tensorflow']}" + (f" + metal {metal}" if metal else "")

    def obstacle(self) -> str:
        """Return the problem that keeps training from starting and its remedy; empty where it can
        start."""
        return next((str(problem) for problem in self.find_problems() if problem.is_blocking), "")

    def hint(self) -> str:
        """Return the problem that slows training down and its remedy; empty without one."""
        return next(
            (str(problem) for problem in self.find_problems() if not problem.is_blocking), ""
        )

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of the versions, the blocking ones first."""
        tensorflow, keras = self.versions.get("tensorflow"), self.versions.get("keras")
        if tensorflow is None:
            yield self._without_tensorflow()
            return
        yield from self._metal_that_does_not_load(tensorflow)
        if keras and _is_older(keras, _OLDEST_KERAS):
            yield Problem(
                f"Keras {keras} is older than tfwatch supports", "pip install -U 'keras>=3.8'"
            )
        if _is_older(tensorflow, _OLDEST_TENSORFLOW):
            found = (
                f"TensorFlow {tensorflow} is older than the versions that tfwatch is tested with"
            )
            yield Problem(found, self._newer_tensorflow(), is_blocking=False)
        yield from self._without_metal()

    def _newer_tensorflow(self) -> str:
        """Return the remedy for an old TensorFlow; 2.16.2 is the newest one for an Intel Python on
        a Mac."""
        if self.is_mac_x86:
            return f"{_NATIVE}; an Intel Mac has no newer TensorFlow"
        return METAL_PAIR if self.is_apple_silicon else "pip install -U tensorflow"

    def _metal_that_does_not_load(self, tensorflow: str) -> Iterator[Problem]:
        metal = self.versions.get("tensorflow-metal")
        if metal is None:
            return
        found = f"tensorflow-metal {metal} does not load with TensorFlow {tensorflow}"
        if _pair(metal) <= _NEWEST_METAL and _pair(tensorflow) >= _NEWEST_WITH_METAL:
            yield Problem(
                found,
                f"{METAL_PAIR}, or pip uninstall tensorflow-metal to train on the CPU",
                is_metal=True,
            )
        elif any(
            low <= _pair(tensorflow) < high and _pair(metal) < least
            for low, high, least in _METAL_PAIRS
        ):
            yield Problem(found, METAL_PAIR, is_metal=True)

    def _without_metal(self) -> Iterator[Problem]:
        if (
            not self.is_apple_silicon
            or "tensorflow-metal" in self.versions
            or self.has_other_plugin
        ):
            return
        if self.python >= (3, 13):
            found, todo = (
                "no tensorflow-metal for Python 3.13",
                "training runs on the CPU; use Python 3.12 to train on the GPU",
            )
        else:
            found, todo = (
                "tensorflow-metal is not installed",
                f"training runs on the CPU; {METAL_PAIR}",
            )
        yield Problem(found, todo, is_blocking=False, is_metal=True)

    def _without_tensorflow(self) -> Problem:
        if self.is_mac_x86:
            return Problem(
                "this Python is built for Intel Macs, which TensorFlow no longer supports", _NATIVE
            )
        return Problem("TensorFlow is not installed", "pip install tensorflow")


def providers() -> tuple[str, ...]:
    """Return the distributions that install a module `tensorflow`, e.g. `tensorflow-cpu 2.21.0`;
    several conflict."""
    names = sorted(set(importlib.metadata.packages_distributions().get("tensorflow", ())))
    # PyPI's tensorflow-intel and tensorflow-macos are dependencies of tensorflow and hold its
    # module.
    return tuple(f"{name} {_version(name)}".strip() for name in names if name != "tensorflow-metal")


def _has_other_plugin() -> bool:
    """Return True where the folders of TensorFlow's plug-ins (PluggableDevice) hold one that is not
    Apple's."""
    folders = (
        Path(folder) / "tensorflow-plugins"
        for folder in (*site.getsitepackages(), site.getusersitepackages())
    )
    return any(file.name != _METAL_LIBRARY for folder in folders for file in folder.glob("*.[ds]*"))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package) or ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def _pair(version: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,9})\.(\d{1,9})", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _is_older(version: str, least: tuple[int, int]) -> bool:
    """Return True where the version is older; a version that cannot be read is not."""
    return (0, 0) < _pair(version) < least
