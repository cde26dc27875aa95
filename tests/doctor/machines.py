"""Facts of machines, written by hand."""

from dataclasses import replace
from typing import Any

from tfwatch.doctor.checks import judge
from tfwatch.doctor.facts import Facts, Nvidia
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import Trial

GB = 2**30
CPU = {"name": "CPU:0", "kind": "CPU"}
METAL = {"name": "GPU:0", "kind": "GPU", "model": "METAL"}
H100 = {"name": "GPU:0", "kind": "GPU", "model": "NVIDIA H100 80GB HBM3"}
CUDA_BUILD = {"is_cuda_build": "True", "cuda_version": "12.5.1", "cudnn_version": "9"}
DRIVER = Nvidia("580.159.04", has_card=True, has_device_files=True)


def trained(device: str, **changes: Any) -> dict[str, Any]:
    """Return a training on a device as it should be."""
    times = {"placed": device, "first_ms": 611.0, "step_ms": 4.5, "losses": [3.2, 1.0]}
    return {"device": device, **times, **changes}


def trial(
    *devices: dict[str, str], build: dict[str, str] | None = None, log_text: str = "", **gpu: Any
) -> Trial:
    """Return a trial that completed on these devices. gpu: what the training on the GPU changes, or
    `xla_error`."""
    xla_error = gpu.pop("xla_error", "")
    results: dict[str, dict[str, Any]] = {
        "import": {"took_s": 2.4, "build": build or {}},
        "devices": {"devices": list(devices)},
        "training": {
            "trained": [
                trained(one["name"], **(gpu if one["kind"] == "GPU" else {})) for one in devices
            ],
            "xla_error": xla_error,
        },
        "all": {},
    }
    return Trial("completed", exit_code=0, results=results, log_text=log_text)


def stopped(at: str, outcome: str = "died", **changes: Any) -> Trial:
    """Return a trial that ended in the stage `at`."""
    whole = trial(CPU)
    stages = list(whole.results)
    results = {stage: whole.results[stage] for stage in stages[: stages.index(at)]}
    return Trial(outcome, stage=at, results=results, **changes)


def linux(**changes: Any) -> Facts:
    """Return a machine with two cores and no GPU."""
    facts = Facts(
        chip="AMD EPYC",
        installed=Installed(
            "linux", "x86_64", (3, 11, 9), {"tensorflow": "2.21.0", "keras": "3.15.1"}
        ),
        trial=trial(CPU, build=CUDA_BUILD),
        cores=2,
        usable_cores=2,
        busy_cores=0.1,
        free_bytes=22 * GB,
        total_bytes=24 * GB,
        runs_dir="~/runs",
        disk_free_bytes=80 * GB,
    )
    return replace(facts, **changes)


def with_gpu(**changes: Any) -> Facts:
    """Return the same machine with a working NVIDIA GPU."""
    return replace(linux(trial=trial(CPU, H100, build=CUDA_BUILD), nvidia=DRIVER), **changes)


def mac(
    tensorflow: str = "2.19.1", metal: str = "1.2.0", arch: str = "arm64", **changes: Any
) -> Facts:
    """Return an Apple Silicon Mac without a problem."""
    versions = {"tensorflow": tensorflow, "keras": "3.12.0"}
    if metal:
        versions["tensorflow-metal"] = metal
    facts = linux(
        chip="Apple M2 Pro",
        installed=Installed("darwin", arch, (3, 12, 4), versions),
        trial=trial(CPU, METAL) if metal else trial(CPU),
        free_bytes=8 * GB,
        total_bytes=16 * GB,
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
