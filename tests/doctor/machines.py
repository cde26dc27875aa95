"""Facts of machines, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfwatch.doctor.checks import judge
from tfwatch.doctor.facts import Cores, DiskSpeed, Facts, Memory, RunsFolder
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import Interpreter, Nvidia
from tfwatch.doctor.trial import Trial
from tfwatch.sensors.sensor import Unavailable

GB = 2**30
CPU = {"name": "CPU:0", "kind": "CPU"}
METAL = {"name": "GPU:0", "kind": "GPU", "model": "METAL"}
H100 = {"name": "GPU:0", "kind": "GPU", "model": "NVIDIA H100 80GB HBM3"}
CUDA_BUILD = {"is_cuda_build": "True", "cuda_version": "12.5.1", "cudnn_version": "9"}
#: What the first import takes and finds.
IMPORTED = {"took_s": 2.4, "tensorflow": "2.19.1", "keras": "3.12.0"}


def product(device: str, took_ms: float = 8.0, **changes: Any) -> dict[str, Any]:
    """Return a correct matrix product."""
    return {"device": device, "placed": device, "took_ms": took_ms, "right": True, **changes}


def trial(
    *devices: dict[str, str],
    build: dict[str, str] | None = None,
    log_text: str = "",
    **stages: dict[str, Any],
) -> Trial:
    """Return a trial that completed on these devices. stages: values that replace a stage's."""
    results: dict[str, dict[str, Any]] = {
        "import": {**IMPORTED, "build": build or {}},
        "devices": {"devices": list(devices)},
        "products": {"products": [product(device["name"]) for device in devices]},
        "step": {"compile_ms": 611.0, "step_ms": 4.5, "finite": True},
        "all": {},
    }
    for stage, values in stages.items():
        results[stage] = {**results[stage], **values}
    return Trial(
        "completed",
        exit_code=0,
        results=results,
        log_text=log_text,
    )


def stopped(at: str, outcome: str = "died", **changes: Any) -> Trial:
    """Return a trial that ended in the stage `at`."""
    whole = trial(CPU)
    stages = list(whole.results)
    results = {stage: whole.results[stage] for stage in stages[: stages.index(at)]}
    return Trial(outcome, stage=at, results=results, **changes)


def linux(**changes: Any) -> Facts:
    """Return a machine with two cores and no GPU."""
    versions = {"tensorflow": "2.21.0", "keras": "3.15.1"}
    facts = Facts(
        machine="AMD EPYC, 24 GB, TensorFlow 2.21.0, no GPU",
        interpreter=Interpreter(chip="AMD EPYC"),
        installed=Installed("linux", "x86_64", (3, 11), versions),
        trial=trial(CPU, build=CUDA_BUILD),
        cores=Cores(2, 2, busy=0.1),
        memory=Memory(22 * GB, 24 * GB),
        disk=DiskSpeed("~/data", 256e6, 0.2, 300),
        gpu_sensor=("nvml", Unavailable("no NVIDIA driver on this machine", "")),
        runs=RunsFolder("~/runs", free_bytes=80 * GB),
    )
    return replace(facts, **changes)


def with_gpu(**changes: Any) -> Facts:
    """Return the same machine with a working NVIDIA GPU."""
    facts = linux(
        trial=trial(CPU, H100, build=CUDA_BUILD),
        nvidia=Nvidia("580.159.04", has_card=True, has_device_files=True),
        gpu_sensor=("nvml", None),
    )
    return replace(facts, **changes)


def mac(
    tensorflow: str = "2.19.1", metal: str = "1.2.0", arch: str = "arm64", **changes: Any
) -> Facts:
    """Return an Apple Silicon Mac without a problem."""
    python = changes.pop("python", (3, 12))
    versions = {"tensorflow": tensorflow, "keras": "3.12.0"}
    if metal:
        versions["tensorflow-metal"] = metal
    facts = linux(
        machine="Apple M2 Pro, 16 GB, TensorFlow 2.19.1 + metal 1.2.0",
        interpreter=Interpreter((*python, 4), is_rosetta=False, chip="Apple M2 Pro"),
        installed=Installed("darwin", arch, python, versions),
        trial=trial(CPU, METAL) if metal else trial(CPU),
        memory=Memory(8 * GB, 16 * GB, swapped_bytes=GB),
        gpu_sensor=("ioreg", None),
    )
    return replace(facts, **changes)


def found(facts: Facts, id: str) -> tuple[str, str, str]:
    """Return status, finding and remedy of one check."""
    (check,) = (check for check in judge(facts).checks if check.id == id)
    return check.status.value, check.found, check.todo


def find_problems(facts: Facts) -> dict[str, str]:
    """Return the status of each check that is worse than ok."""
    return {
        check.id: check.status.value
        for check in judge(facts).checks
        if check.status.value in ("fail", "warn")
    }
