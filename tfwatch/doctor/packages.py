"""Problems of the installed packages, found without importing TensorFlow."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.core.errors import BadInputError
from tfwatch.core.versions import NEWER_KERAS, OLDEST_KERAS, first_two, is_older

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The packages that decide, each with its name in a sentence.
PACKAGES = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "tensorflow-metal": "tensorflow-metal",
}
#: The oldest tensorflow-metal that loads with TensorFlow 2.18 and 2.19, by users' reports. None
#: of them loads with TensorFlow 2.20 or later; a later one may.
_METAL = (1, 2)
_NEWEST_WITH_METAL = (2, 20)
#: Both at once: pip alone would leave a tensorflow-metal that does not load with the new
#: TensorFlow.
METAL_PAIR = "pip install -U 'tensorflow>=2.18,<2.20' 'tensorflow-metal>=1.2'"
AND_CUDA = "pip install 'tensorflow[and-cuda]' in a fresh virtual environment"
ARM_PYTHON = (
    "on an Apple chip install an arm64 Python (this one runs under Rosetta 2) and tfwatch with it;"
    " an Intel Mac has no newer TensorFlow"
)
#: The bound of the extra `tensorflow` in pyproject.toml.
_OLDEST_TENSORFLOW = (2, 18)
#: The first TensorFlow with Keras 3.
_FIRST_WITH_KERAS_3 = (2, 16)
_NEWER_TENSORFLOW = f"install TensorFlow {_OLDEST_TENSORFLOW[0]}.{_OLDEST_TENSORFLOW[1]} or newer"


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
    python: tuple[int, ...] = (3, 11, 9)
    versions: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def here() -> Installed:
        """Return the packages of this Python."""
        versions = {name: version for name in PACKAGES if (version := _find_version(name))}
        return Installed(sys.platform, platform.machine(), sys.version_info[:3], versions)

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
        known = [f"{PACKAGES[name]} {version}" for name, version in self.versions.items()]
        return ", ".join(known) if "tensorflow" in self.versions else "no TensorFlow"

    def obstacle(self) -> str:
        """Return the problem that keeps training from starting and its remedy; empty where it can
        start."""
        return next((str(problem) for problem in self.find_problems() if problem.is_blocking), "")

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of the versions, the blocking ones first."""
        tensorflow, keras = self.versions.get("tensorflow"), self.versions.get("keras")
        if tensorflow is None:
            todo = ARM_PYTHON if self.is_mac_x86 else "pip install tensorflow"
            yield Problem("TensorFlow is not installed", todo)
            return
        yield from self._metal_that_does_not_load(tensorflow)
        if keras is None:
            yield Problem("Keras is not installed", NEWER_KERAS)
        elif is_older(keras, OLDEST_KERAS):
            found = f"Keras {keras} is older than tfwatch supports"
            has_keras_2 = is_older(tensorflow, _FIRST_WITH_KERAS_3)
            yield Problem(found, _NEWER_TENSORFLOW if has_keras_2 else NEWER_KERAS)
        if is_older(tensorflow, _OLDEST_TENSORFLOW):
            found = f"TensorFlow {tensorflow} is older than those that tfwatch is tested with"
            todo = METAL_PAIR if self.is_apple_silicon else _NEWER_TENSORFLOW
            yield Problem(found, ARM_PYTHON if self.is_mac_x86 else todo, is_blocking=False)
        if self.is_apple_silicon and "tensorflow-metal" not in self.versions:
            yield self._without_metal()

    def _metal_that_does_not_load(self, tensorflow: str) -> Iterator[Problem]:
        metal = self.versions.get("tensorflow-metal")
        if metal is None or first_two(metal) > _METAL or is_older(tensorflow, _OLDEST_TENSORFLOW):
            return
        is_too_new = first_two(tensorflow) >= _NEWEST_WITH_METAL
        if is_too_new or first_two(metal) < _METAL:
            found = f"tensorflow-metal {metal} does not load with TensorFlow {tensorflow}"
            other = ", or pip uninstall tensorflow-metal to train on the CPU" if is_too_new else ""
            yield Problem(found, f"{METAL_PAIR}{other}", is_metal=True)

    def _without_metal(self) -> Problem:
        found, todo = "tensorflow-metal is not installed, so the CPU trains", METAL_PAIR
        if self.python >= (3, 13):
            found = "there is no tensorflow-metal for Python 3.13, so the CPU trains"
            todo = "use Python 3.12 to train on the GPU"
        return Problem(found, todo, is_blocking=False, is_metal=True)


def require_tensorflow() -> None:
    """Check that this Python can train.

    Raises:
        BadInputError: TensorFlow or Keras is missing or too old.
    """
    if obstacle := Installed.here().obstacle():
        raise BadInputError(f"{obstacle} (the environment of tfwatch is {sys.prefix})")


def _find_version(package: str) -> str:
    """Return the version of a package, or of another one that installs its module, such as
    `2.21.0 (tensorflow-cpu)`; empty where there is none."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package) or ""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:  # a folder that an uninstalled package left
        return ""
    for other in importlib.metadata.packages_distributions().get(package, ()):
        name = other.replace("_", "-")
        return f"{importlib.metadata.version(other)} ({name})"
    return "of unknown version"
