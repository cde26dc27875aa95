"""Whether TensorFlow can work here, told from what is installed and without importing it."""

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
#: TensorFlow from the first version up to, and without, the second loads tensorflow-metal from the third on.
#: Read off reports of users of tensorflow-metal 1.1.0 and 1.2.0; from 2.20 on none loads.
_METAL_PAIRS = (((2, 14), (2, 18), (1, 1)), ((2, 18), (2, 20), (1, 2)))
_NEWEST_WITH_METAL = (2, 20)
#: As `dependencies` in pyproject.toml.
_OLDEST_TENSORFLOW = (2, 18)
_OLDEST_KERAS = (3, 8)
_UNKNOWN = "of unknown version"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong and what to do, a phrase each. `stops`: nothing can be trained before that is done."""

    found: str
    todo: str
    stops: bool = True

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
        """This Python's."""
        versions = {name: version for name in PACKAGES if (version := _version(name))}
        if importlib.util.find_spec("tensorflow"):  # another distribution may bring it: tensorflow-cpu, tf-nightly
            versions.setdefault("tensorflow", _UNKNOWN)
        return Installed(sys.platform, platform.machine(), sys.version_info[:2], versions)

    @property
    def is_apple_silicon(self) -> bool:
        """Whether this is a native Python on an Apple chip."""
        return self.system == "darwin" and self.machine == "arm64"

    @property
    def stack(self) -> str:
        """What is installed: `TensorFlow 2.19.1, Keras 3.12.0, tensorflow-metal 1.2.0`."""
        names = {"tensorflow": "TensorFlow", "keras": "Keras"}
        return ", ".join(f"{names.get(name, name)} {self.versions[name]}" for name in PACKAGES if name in self.versions)

    def obstacle(self) -> str:
        """Why training cannot start and what to do, one sentence; empty where it can."""
        return next((str(trouble) for trouble in self.troubles() if trouble.stops), "")

    def hint(self) -> str:
        """What holds training back without stopping it, one sentence; empty where nothing does."""
        return next((str(trouble) for trouble in self.troubles() if not trouble.stops), "")

    def troubles(self) -> Iterator[Trouble]:
        """All that is wrong with the versions, what stops training first."""
        tensorflow, keras = self.versions.get("tensorflow"), self.versions.get("keras")
        if tensorflow is None:
            yield self._without_tensorflow()
            return
        yield from self._metal_that_does_not_load(tensorflow)
        if keras and _is_older(keras, _OLDEST_KERAS):
            yield Trouble(f"Keras {keras} is older than tfwatch knows", "pip install -U 'keras>=3.8'")
        if _is_older(tensorflow, _OLDEST_TENSORFLOW):
            todo = "pip install -U 'tensorflow>=2.18,<2.20'" if self.is_apple_silicon else "pip install -U tensorflow"
            yield Trouble(f"TensorFlow {tensorflow} is older than tfwatch was tried with", todo, stops=False)
        yield from self._without_metal()

    def _metal_that_does_not_load(self, tensorflow: str) -> Iterator[Trouble]:
        metal = self.versions.get("tensorflow-metal")
        if metal is None:
            return
        found = f"tensorflow-metal {metal} does not load with TensorFlow {tensorflow}"
        if _pair(tensorflow) >= _NEWEST_WITH_METAL:
            todo = "pip install 'tensorflow>=2.18,<2.20', or pip uninstall tensorflow-metal to train on the CPU"
            yield Trouble(found, todo)
        elif any(low <= _pair(tensorflow) < high and _pair(metal) < least for low, high, least in _METAL_PAIRS):
            yield Trouble(found, "pip install -U tensorflow-metal")

    def _without_metal(self) -> Iterator[Trouble]:
        if not self.is_apple_silicon or "tensorflow-metal" in self.versions:
            return
        if self.python >= (3, 13):
            found, todo = "no tensorflow-metal for Python 3.13", "this trains on the CPU; Python 3.12 brings the GPU"
        else:
            wanted = "" if _pair(self.versions["tensorflow"]) < _NEWEST_WITH_METAL else " 'tensorflow>=2.18,<2.20'"
            found = "tensorflow-metal is not installed"
            todo = f"this trains on the CPU; pip install -U tensorflow-metal{wanted}"
        yield Trouble(found, todo, stops=False)

    def _without_tensorflow(self) -> Trouble:
        if self.system == "darwin" and self.machine == "x86_64":
            return Trouble(
                "this Python is built for Intel Macs, which TensorFlow no longer supports",
                "on an Apple chip install an arm64 Python (Rosetta is in the way) and tfwatch with it",
            )
        return Trouble("TensorFlow is not installed", "pip install tensorflow")


def providers() -> tuple[str, ...]:
    """The distributions that bring a module `tensorflow`, e.g. `tensorflow-cpu 2.21.0`; more than one overlap."""
    names = sorted(set(importlib.metadata.packages_distributions().get("tensorflow", ())))
    # PyPI's tensorflow-intel and tensorflow-macos came as a dependency of tensorflow, and hold the module for it.
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
    """Whether it is; a version that cannot be read is not."""
    return (0, 0) < _pair(version) < least
