"""Problems of the installed packages, found without importing TensorFlow."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("tensorflow", "keras", "tensorflow-metal")
#: (first TensorFlow, first one excluded, oldest tensorflow-metal that loads with them), from users' reports on
#: tensorflow-metal 1.1.0 and 1.2.0; with TensorFlow 2.20 or later none loads.
_METAL_PAIRS = (((2, 14), (2, 18), (1, 1)), ((2, 18), (2, 20), (1, 2)))
_NEWEST_WITH_METAL = (2, 20)
#: The bounds of `dependencies` in pyproject.toml.
_OLDEST_TENSORFLOW = (2, 18)
_OLDEST_KERAS = (3, 8)
_UNKNOWN = "of unknown version"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy, a phrase each. is_blocking: nothing can be trained before it is solved."""

    found: str
    todo: str
    is_blocking: bool = True

    def __str__(self) -> str:
        return f"{self.found}: {self.todo}"


@dataclass(frozen=True, slots=True)
class Installed:
    """The platform, Python's version and the versions of the `PACKAGES` that are installed."""

    system: str = ""
    machine: str = ""
    python: tuple[int, int] = (3, 11)
    versions: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def here() -> Installed:
        """Return the packages of this Python."""
        versions = {name: version for name in PACKAGES if (version := _version(name))}
        if importlib.util.find_spec("tensorflow"):  # another distribution may install it: tensorflow-cpu, tf-nightly
            versions.setdefault("tensorflow", _UNKNOWN)
        return Installed(sys.platform, platform.machine(), sys.version_info[:2], versions)

    @property
    def is_apple_silicon(self) -> bool:
        """True for a native Python on an Apple chip."""
        return self.system == "darwin" and self.machine == "arm64"

    @property
    def stack(self) -> str:
        """The installed versions, e.g. `TensorFlow 2.19.1, Keras 3.12.0, tensorflow-metal 1.2.0`."""
        names = {"tensorflow": "TensorFlow", "keras": "Keras"}
        return ", ".join(f"{names.get(name, name)} {self.versions[name]}" for name in PACKAGES if name in self.versions)

    def obstacle(self) -> str:
        """Return the problem that keeps training from starting and its remedy; empty where it can start."""
        return next((str(problem) for problem in self.find_problems() if problem.is_blocking), "")

    def hint(self) -> str:
        """Return the problem that slows training down and its remedy; empty without one."""
        return next((str(problem) for problem in self.find_problems() if not problem.is_blocking), "")

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of the versions, the blocking ones first."""
        tensorflow, keras = self.versions.get("tensorflow"), self.versions.get("keras")
        if tensorflow is None:
            yield self._without_tensorflow()
            return
        yield from self._metal_that_does_not_load(tensorflow)
        if keras and _is_older(keras, _OLDEST_KERAS):
            yield Problem(f"Keras {keras} is older than tfwatch supports", "pip install -U 'keras>=3.8'")
        if _is_older(tensorflow, _OLDEST_TENSORFLOW):
            todo = "pip install -U 'tensorflow>=2.18,<2.20'" if self.is_apple_silicon else "pip install -U tensorflow"
            yield Problem(
                f"TensorFlow {tensorflow} is older than the versions that tfwatch is tested with",
                todo,
                is_blocking=False,
            )
        yield from self._without_metal()

    def _metal_that_does_not_load(self, tensorflow: str) -> Iterator[Problem]:
        metal = self.versions.get("tensorflow-metal")
        if metal is None:
            return
        found = f"tensorflow-metal {metal} does not load with TensorFlow {tensorflow}"
        if _pair(tensorflow) >= _NEWEST_WITH_METAL:
            todo = "pip install 'tensorflow>=2.18,<2.20', or pip uninstall tensorflow-metal to train on the CPU"
            yield Problem(found, todo)
        elif any(low <= _pair(tensorflow) < high and _pair(metal) < least for low, high, least in _METAL_PAIRS):
            yield Problem(found, "pip install -U tensorflow-metal")

    def _without_metal(self) -> Iterator[Problem]:
        if not self.is_apple_silicon or "tensorflow-metal" in self.versions:
            return
        if self.python >= (3, 13):
            found, todo = (
                "no tensorflow-metal for Python 3.13",
                "training runs on the CPU; use Python 3.12 to train on the GPU",
            )
        else:
            wanted = "" if _pair(self.versions["tensorflow"]) < _NEWEST_WITH_METAL else " 'tensorflow>=2.18,<2.20'"
            found = "tensorflow-metal is not installed"
            todo = f"training runs on the CPU; pip install -U tensorflow-metal{wanted}"
        yield Problem(found, todo, is_blocking=False)

    def _without_tensorflow(self) -> Problem:
        if self.system == "darwin" and self.machine == "x86_64":
            return Problem(
                "this Python is built for Intel Macs, which TensorFlow no longer supports",
                "on an Apple chip install an arm64 Python, which runs without Rosetta, and tfwatch with it",
            )
        return Problem("TensorFlow is not installed", "pip install tensorflow")


def providers() -> tuple[str, ...]:
    """Return the distributions that install a module `tensorflow`, e.g. `tensorflow-cpu 2.21.0`; several conflict."""
    names = sorted(set(importlib.metadata.packages_distributions().get("tensorflow", ())))
    # PyPI's tensorflow-intel and tensorflow-macos are dependencies of tensorflow and hold its module.
    return tuple(f"{name} {_version(name)}".strip() for name in names if name != "tensorflow-metal")


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
