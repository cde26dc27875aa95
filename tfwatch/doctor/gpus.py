"""Checks of the GPUs: which TensorFlow sees, and what keeps it from seeing one that is there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.doctor.check import Check, Status
from tfwatch.doctor.computing import missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.doctor.facts import Facts

#: The oldest driver for each major version of CUDA on Linux: NVIDIA's CUDA Compatibility guide, minor version
#: compatibility.
_OLDEST_DRIVER = {"12": (525, 60), "13": (580, 65)}
_AND_CUDA = "pip install 'tensorflow[and-cuda]' in a fresh virtual environment"
#: The driver brings these, not pip.
_DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-")


def devices(facts: Facts) -> Check:
    """The devices that TensorFlow sees; where a GPU is missing, why."""
    if not facts.trial.devices:
        return missing(facts, "devices", "devices")
    names = ", ".join(_name(device, facts) for device in facts.trial.devices)
    if facts.trial.gpus:
        return Check("devices", Status.OK, names)
    return _without_gpu_on_a_mac(facts, names) if facts.is_mac else _without_gpu(facts, names)


def _name(device: Mapping[str, str], facts: Facts) -> str:
    model = device.get("model", "")
    # The Metal plug-in calls every GPU METAL; the chip's name says more.
    model = facts.interpreter.chip if model == "METAL" else model
    return f"{device.get('name')} ({model})" if model else str(device.get("name"))


def _without_gpu_on_a_mac(facts: Facts, names: str) -> Check:
    metal = facts.installed.versions.get("tensorflow-metal")
    if not facts.installed.is_apple_silicon:
        return Check("devices", Status.WARN, f"{names} alone: TensorFlow has no GPU on Intel Macs", "see rosetta")
    if not metal:
        return Check("devices", Status.WARN, f"{names} alone: the GPU needs tensorflow-metal", "see versions")
    found = f"{names} alone, though tensorflow-metal {metal} is installed"
    todo = "pip install --force-reinstall tensorflow-metal; in a virtual machine there is no GPU to be seen"
    return Check("devices", Status.FAIL, found, todo)


def _without_gpu(facts: Facts, names: str) -> Check:
    nvidia = facts.nvidia
    if nvidia.hides_all and (nvidia.driver or nvidia.card):
        found = f"{names} alone: CUDA_VISIBLE_DEVICES={nvidia.hidden} hides every GPU"
        return Check("devices", Status.WARN, found, "unset CUDA_VISIBLE_DEVICES")
    if nvidia.driver and nvidia.nodes:
        return Check("devices", Status.FAIL, f"{names} alone, though an NVIDIA driver is there", "see cuda")
    if nvidia.driver or nvidia.card:
        return Check("devices", Status.WARN, f"{names} alone, though this machine has an NVIDIA GPU", "see cuda")
    return Check("devices", Status.OK, f"{names} alone: this machine shows no NVIDIA GPU, so the CPU computes")


def cuda(facts: Facts) -> Check:
    """On Linux: NVIDIA's driver, and the libraries that TensorFlow loads."""
    nvidia, log = facts.nvidia, facts.trial.log
    if facts.is_mac:
        return Check("cuda", Status.NA, "not on Macs")
    if not nvidia.driver:
        return _without_driver(facts)
    if not nvidia.nodes:
        found = f"NVIDIA driver {nvidia.driver}, but no device files: this container is not given the GPU"
        return Check(
            "cuda", Status.WARN, found, "docker run --gpus all (NVIDIA container toolkit), or none to train on the CPU"
        )
    if "import" not in facts.trial.results:
        return missing(facts, "cuda", "cuda")
    if facts.trial.build.get("is_cuda_build") != "True":
        found = f"NVIDIA driver {nvidia.driver}, but this TensorFlow is built without CUDA"
        return Check("cuda", Status.FAIL, found, _AND_CUDA)
    version = facts.trial.build.get("cuda_version", "")
    built = f"built for CUDA {version}, cuDNN {facts.trial.build.get('cudnn_version', 'of unknown version')}"
    if oldest := _too_old(nvidia.driver, version):
        found = f"NVIDIA driver {nvidia.driver} is older than CUDA {version} needs"
        return Check("cuda", Status.FAIL, found, f"install driver {oldest} or later")
    libraries = [name for name in log.missing_libraries if not name.startswith("libnvinfer")]
    if libraries and not facts.trial.gpus:
        found = f"{built}; TensorFlow could not load {', '.join(libraries)}"
        own = any(name.startswith(_DRIVER_LIBRARIES) for name in libraries)
        todo = "a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility" if own else _AND_CUDA
        return Check("cuda", Status.FAIL, found, todo)
    if not facts.trial.gpus and not nvidia.hides_all and facts.trial.devices:
        found = f"driver {nvidia.driver}, {built}, and yet TensorFlow sees no GPU"
        return Check(
            "cuda", Status.FAIL, found, "nvidia-smi says whether the driver works: reboot after an update of it"
        )
    return Check("cuda", Status.OK, f"driver {nvidia.driver}; TensorFlow is {built}, and loaded what it needs")


def _without_driver(facts: Facts) -> Check:
    if facts.nvidia.card:
        found = "an NVIDIA card is in this machine, but no NVIDIA driver (/proc/driver/nvidia/version is not there)"
        return Check("cuda", Status.WARN, found, "install NVIDIA's driver, then " + _AND_CUDA)
    return Check("cuda", Status.NA, "no NVIDIA driver and no NVIDIA card on this machine")


def _too_old(driver: str, cuda_version: str) -> str:
    """The oldest driver that works, where this one is older; empty where it is not, or where that is not known."""
    oldest = _OLDEST_DRIVER.get(cuda_version.partition(".")[0])
    found = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?", driver)
    if not oldest or not found or (int(found[1]), int(found[2] or 0)) >= oldest:
        return ""
    return f"{oldest[0]}.{oldest[1]}"
