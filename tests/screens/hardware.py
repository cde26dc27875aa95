"""Canned runs on machines of several kinds; their sensor figures follow from the steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, Split
from tfwatch.core import events as facts
from tfwatch.core.knobs import Refusal
from tfwatch.core.rows import Flag, Phase

GIB = 2**30


def share(split: Split) -> float:
    """Return compute as a share of step time."""
    return split[1] / sum(split)


def apple(**changes: float) -> Callable[[Split], dict[str, float]]:
    """Make the sensors of a MacBook; its GPU draws 12 W in compute."""

    def read(split: Split) -> dict[str, float]:
        busy = share(split)
        figures = {
            "cpu_cores": 4.1,
            "gpu_busy": busy,
            "gpu_process_busy": 0.96 * busy,
            "gpu_freq_mhz": 500 + 900 * busy,
            "gpu_power_w": 0.4 + 11.0 * busy,
            "gpu_memory_bytes": 4.1 * GIB,
            "thermal_level": 0.0,
            "memory_level": 0.0,
            "swap_bytes_s": 0.0,
        }
        return {**figures, **changes}

    return read


def nvidia(**changes: float) -> Callable[[Split], dict[str, float]]:
    """Make the sensors of a server: GPU memory, no power source and no swap."""

    def read(split: Split) -> dict[str, float]:
        busy = share(split)
        figures = {
            "cpu_cores": 9.3,
            "gpu_busy": busy,
            "gpu_process_busy": busy,
            "gpu_freq_mhz": 1980.0,
            "gpu_power_w": 70 + 340 * busy,
            "gpu_memory_bytes": 38.2 * GIB,
            "memory_used_bytes": 17.8 * GIB,
            "memory_available_bytes": 110.2 * GIB,
            "thermal_level": 0.0,
        }
        return {**figures, **changes}

    return read


def on_apple(folder: Path | None, sensors: Callable[[Split], dict[str, float]]) -> Canned:
    """Start a run on a Mac with 10 cores and 16 GB."""
    found = {"source": "ioreg", "name": "Apple M2 Pro", "memory_bytes": 16 * GIB, "unified": True}
    return _on_gpu(folder, sensors, "arm", 10, 16, found)


def on_nvidia(folder: Path | None, sensors: Callable[[Split], dict[str, float]]) -> Canned:
    """Start a run on a Linux server with 16 cores and 128 GB."""
    name = "NVIDIA H100 80GB HBM3"
    found = {"source": "nvml", "name": name, "memory_bytes": 80 * GIB, "unified": False}
    return _on_gpu(folder, sensors, name, 16, 128, found)


def _on_gpu(
    folder: Path | None,
    sensors: Callable[[Split], dict[str, float]],
    device: str,
    cores: int,
    memory_gib: int,
    found: dict[str, Any],
) -> Canned:
    machine = {"host": "server", "cores": cores, "memory_bytes": memory_gib * GIB}
    run = Canned(folder, device=f"GPU:0 {device}", accelerated=True, machine=machine)
    run.sensors = sensors
    return run.event(facts.GpuFound, **found).started()


def on_several(folder: Path | None, gpus: int, idlest: int) -> Canned:
    """Start a run of a strategy over several GPUs, of which one is half as busy as the others."""
    run = on_nvidia(folder, nvidia())
    devices = [f"GPU:{n}" for n in range(gpus)]
    run.writer.describe(replicas=devices, switchable=[], fixed=SPREAD)
    names = dict.fromkeys(devices, "NVIDIA H200")
    run.event(
        facts.StagesFound,
        pipeline=0,
        names=["list", "map(decode)", "batch(32)"],
        kinds=["TensorSlice", "Map", "Batch"],
    )
    why = (
        "the iterator of a strategy has no model: only the stages of the code are known, without"
        " figures"
    )
    run.event(facts.SensorMissing, sensor="pipeline", reason=why, fix="")
    run.event(facts.GpusFound, names=names, memory_bytes=dict.fromkeys(devices, 141 * GIB))

    def read(split: Split) -> dict[str, float]:
        for n in range(gpus):
            busy = share(split) * (0.5 if n == idlest else 1 - 0.01 * n)
            run.writer.gpu(round(run.at_s * 1e9), n, busy, (38.2 + n) * GIB)
        return nvidia()(split)

    run.sensors = read
    return run


#: The reasons beside the settings of a data set below a strategy.
SPREAD = {
    "prefetch": Refusal.SPREAD.words,
    "workers": f"change train.py:24: {Refusal.SPREAD.words}",
}


def two_gpus(folder: Path | None) -> Canned:
    return on_several(folder, 2, 1).steps(900, STARVING).doing(Phase.COMPUTE, 0.004)


def switched(run: Canned) -> Canned:
    """Let a run starve until prefetch is switched on."""
    run.steps(400, STARVING).switched("prefetch", "off", "4")
    return (
        run.steps(1, (30.0, 13.0, 0.8), int(Flag.SWITCH))
        .steps(700, COMPUTE_BOUND)
        .doing(Phase.COMPUTE, 0.004)
    )


def compute_bound(folder: Path | None) -> Canned:
    return switched(on_apple(folder, apple()))


def compute_bound_nvidia(folder: Path | None) -> Canned:
    return switched(on_nvidia(folder, nvidia()))


def starving(folder: Path | None) -> Canned:
    return on_apple(folder, apple()).steps(900, STARVING).doing(Phase.COMPUTE, 0.004)


def unseen(folder: Path | None) -> Canned:
    """Make a run whose GPU no sensor reads."""
    figures = apple()
    gone = {name for name in figures(COMPUTE_BOUND) if name.startswith("gpu_")}
    run = on_apple(folder, lambda split: {k: v for k, v in figures(split).items() if k not in gone})
    run.event(
        facts.SensorMissing,
        sensor="GPU",
        reason="nvidia-ml-py is not installed",
        fix="pip install nvidia-ml-py",
    )
    return run.steps(900, STARVING).doing(Phase.COMPUTE, 0.004)


def eaten(folder: Path | None) -> Canned:
    """Make a run beside a browser that uses a third of the GPU."""
    return (
        on_apple(folder, apple(gpu_busy=0.97, gpu_process_busy=0.61))
        .steps(900, COMPUTE_BOUND)
        .doing(Phase.COMPUTE, 0.004)
    )


def throttled(folder: Path | None) -> Canned:
    run = on_apple(folder, apple()).steps(500, COMPUTE_BOUND)
    run.sensors = apple(thermal_level=2.0, gpu_freq_mhz=720.0, gpu_power_w=7.1)
    for _ in range(2):
        run.steps(230, (0.2, 20.6, 0.8))
        run.event(facts.Paused, cause="thermal limit", took_ms=5000.0, detail="moderate")
    return run.doing(Phase.COMPUTE, 0.004)


def swapping(folder: Path | None) -> Canned:
    run = on_apple(folder, apple()).steps(300, COMPUTE_BOUND)
    full = {
        "memory_used_bytes": 15.7 * GIB,
        "memory_available_bytes": 0.3 * GIB,
        "swap_used_bytes": 5.2 * GIB,
    }
    traffic = {"swap_bytes_s": 81.0 * 2**20}
    run.sensors = apple(memory_level=2.0, **full, **traffic)
    for _ in range(3):
        run.steps(150, (14.0, 18.0, 1.3))
        run.event(facts.Paused, cause="swap", took_ms=5000.0, detail="405 MB")
    return run.doing(Phase.COMPUTE, 0.004)


def leaking(folder: Path | None) -> Canned:
    """Make a run that leaks 1.2 GB per hour."""
    run = on_apple(folder, apple()).steps(100, COMPUTE_BOUND)
    for n in range(600):
        used = (9.8 + 1.2 * n / 720) * GIB
        run.sensors = apple(memory_used_bytes=used, memory_available_bytes=16 * GIB - used)
        run.pass_s(4.0, COMPUTE_BOUND).steps(60, COMPUTE_BOUND)
    return run.doing(Phase.COMPUTE, 0.004)


def unused(folder: Path | None) -> Canned:
    """Make a run on the CPU of a machine with a GPU."""
    run = on_nvidia(
        folder,
        nvidia(gpu_busy=0.0, gpu_process_busy=0.0, gpu_power_w=68.0, gpu_memory_bytes=0.5 * GIB),
    )
    run.writer.describe(device="CPU Xeon", accelerated=False)
    return run.steps(900, COMPUTE_BOUND).doing(Phase.COMPUTE, 0.004)


ALL = (
    *(compute_bound, compute_bound_nvidia, starving, unseen, eaten, throttled),
    *(swapping, leaking, unused),
)
