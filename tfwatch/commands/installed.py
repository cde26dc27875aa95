"""Whether TensorFlow can work here, told from what is installed and without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from dataclasses import dataclass, field

PACKAGES = ("tensorflow", "tensorflow-metal")


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
            versions.setdefault("tensorflow", "of unknown version")
        return Installed(sys.platform, platform.machine(), sys.version_info[:2], versions)

    @property
    def is_apple_silicon(self) -> bool:
        """Whether this is a native Python on an Apple chip."""
        return self.system == "darwin" and self.machine == "arm64"

    def obstacle(self) -> str:
        """Why training cannot start and what to do, one sentence; empty where it can."""
        tensorflow, metal = self.versions.get("tensorflow"), self.versions.get("tensorflow-metal")
        if tensorflow is None:
            return self._without_tensorflow()
        if metal and _pair(tensorflow) >= (2, 20):
            return (
                f"tensorflow-metal {metal} does not load with TensorFlow {tensorflow}: "
                "pip install 'tensorflow>=2.18,<2.20', or pip uninstall tensorflow-metal to train on the CPU"
            )
        if metal and _pair(tensorflow) >= (2, 18) and _pair(metal) < (1, 2):
            return (
                f"tensorflow-metal {metal} does not load with TensorFlow {tensorflow}: pip install -U tensorflow-metal"
            )
        return ""

    def hint(self) -> str:
        """What holds training back without stopping it, one sentence; empty where nothing does."""
        if not self.is_apple_silicon or "tensorflow-metal" in self.versions:
            return ""
        if self.python >= (3, 13):
            return "no tensorflow-metal for Python 3.13: this trains on the CPU; Python 3.12 brings the GPU"
        return "tensorflow-metal is not installed: this trains on the CPU; pip install -U tensorflow-metal"

    def _without_tensorflow(self) -> str:
        if self.system == "darwin" and self.machine == "x86_64":
            return (
                "this Python is built for Intel Macs, which TensorFlow no longer supports: "
                "on an Apple chip install an arm64 Python (Rosetta is in the way) and tfwatch with it"
            )
        return "TensorFlow is not installed: pip install tensorflow"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _pair(version: str) -> tuple[int, int]:
    major, minor, *_ = [*version.split("."), "0"]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
