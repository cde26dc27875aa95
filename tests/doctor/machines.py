"""Facts of machines, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfwatch.doctor.checkup import run_checks
from tfwatch.doctor.facts import (
    Cores,
    DiskSpeed,
    Facts,
    Interpreter,
    Machine,
    Nvidia,
    RunsFolder,
    Terminal,
)
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import LogFacts, Trial
from tfwatch.sensors.protocol import Available, Unavailable

GB = 2**30
CPU = {"name": "CPU:0", "kind": "CPU"}
METAL = {"name": "GPU:0", "kind": "GPU", "model": "METAL"}
H100 = {"name": "GPU:0", "kind": "GPU", "model": "NVIDIA H100 80GB HBM3"}
CUDA_BUILD = {"is_cuda_build": "True", "cuda_version": "12.5.1", "cudnn_version": "9"}
REFUSED = Unavailable(
    "powermetrics runs as root only, and sudo has no rule for it", "tfwatch doctor --sudoers"
)


def product(device: str, took_ms: float = 8.0, **changes: Any) -> dict[str, Any]:
    """Return a correct matrix product."""
    return {"device": device, "placed": device, "took_ms": took_ms, "right": True, **changes}


def trial(
    *devices: dict[str, str], build: dict[str, str] | None = None, log: LogFacts | None = None
) -> Trial:
    """Return a trial that completed on these devices."""
    return Trial(
        "completed",
        exit_code=0,
        results={
            "import": {
                "took_s": 2.4,
                "tensorflow": "2.19.1",
                "keras": "3.12.0",
                "build": build or {},
            },
            "devices": {"devices": list(devices)},
            "products": {"products": [product(device["name"]) for device in devices], "side": 1024},
            "step": {"compile_ms": 611.0, "step_ms": 4.5, "finite": True},
            "all": {"most_bytes": 640e6},
        },
        log=log or LogFacts(onednn=True, placed=57),
    )


def stopped(at: str, outcome: str = "died", **changes: Any) -> Trial:
    """Return a trial that ended in the stage `at`."""
    whole = trial(CPU)
    stages = list(whole.results)
    results = {stage: whole.results[stage] for stage in stages[: stages.index(at)]}
    return Trial(outcome, stage=at, results=results, **changes)


def linux(**changes: Any) -> Facts:
    """Return a machine with two cores and no GPU."""
    facts = Facts(
        interpreter=Interpreter(
            chip="AMD EPYC", instructions=frozenset({"avx", "avx2", "fma", "avx512f"})
        ),
        installed=Installed(
            "linux", "x86_64", (3, 11), {"tensorflow": "2.21.0", "keras": "3.15.1"}
        ),
        providers=("tensorflow 2.21.0",),
        trial=trial(CPU, build=CUDA_BUILD),
        machine=Machine(
            24 * GB,
            swap_total_bytes=0,
            figures={"memory_available_bytes": 22 * GB, "memory_stalled": 0},
        ),
        cores=Cores(2, 2),
        disk=DiskSpeed("~/data", 256e6, 0.2, 300, 1.0),
        gpu_counters=(
            "NVML",
            Unavailable("no NVIDIA driver on this machine", "none without an NVIDIA GPU"),
        ),
        terminal=Terminal(120, 40, (60, 18), 2**24, has_unicode=True, kind="xterm-256color"),
        runs=RunsFolder("~/runs", runs=3, size_bytes=9e6, free_bytes=80 * GB),
    )
    return replace(facts, **changes)


def with_gpu(**changes: Any) -> Facts:
    """Return the same machine with a working NVIDIA GPU."""
    facts = linux(
        trial=trial(CPU, H100, build=CUDA_BUILD),
        nvidia=Nvidia("580.159.04", has_card=True, has_device_files=True),
        gpu_counters=("NVML", Available()),
    )
    return replace(facts, **changes)


def mac(
    tensorflow: str = "2.19.1", metal: str = "1.2.0", arch: str = "arm64", **changes: Any
) -> Facts:
    """Return an Apple Silicon Mac without a problem."""
    python = changes.pop("python", (3, 12))
    versions = {
        "tensorflow": tensorflow,
        "keras": "3.12.0",
        **({"tensorflow-metal": metal} if metal else {}),
    }
    figures = {
        "memory_available_bytes": 8 * GB,
        "memory_level": 0,
        "thermal_level": 0,
        "swap_used_bytes": GB,
    }
    facts = linux(
        interpreter=Interpreter(
            (*python, 4), is_translated=False, is_arm64=True, chip="Apple M2 Pro"
        ),
        installed=Installed("darwin", arch, python, versions),
        providers=(f"tensorflow {tensorflow}",),
        trial=trial(CPU, METAL) if metal else trial(CPU),
        machine=Machine(16 * GB, swap_total_bytes=2 * GB, figures=figures),
        powermetrics=REFUSED,
        gpu_counters=("ioreg", Available()),
    )
    return replace(facts, **changes)


def found(facts: Facts, id: str) -> tuple[str, str, str]:
    """Return status, finding and remedy of one check."""
    (check,) = (check for check in run_checks(facts) if check.id == id)
    return check.status.value, check.found, check.todo


def find_problems(facts: Facts) -> dict[str, str]:
    """Return the status of each check that is worse than ok."""
    return {
        check.id: check.status.value
        for check in run_checks(facts)
        if check.status.value in ("fail", "warn")
    }
