"""Checks of TensorFlow: its import, the devices it sees or misses, and the device that each operation runs on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.doctor.check import Check, Status
from tfwatch.doctor.crash_reasons import explain, explain_cuda
from tfwatch.doctor.packages import AND_CUDA, METAL_PAIR
from tfwatch.doctor.trial import fell_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tfwatch.doctor.facts import Facts
    from tfwatch.doctor.trial import Trial


#: A longer import is worth a warning; 2 to 10 s are usual.
_SLOW_IMPORT_S = 30.0
_SHOWN = 6
#: The trial's losses differ between devices by rounding. Simulated on a CPU, all factors rounded to 10 bits, as in
#: TensorFloat-32, changed them by at most 0.1 % in ten steps, and to 7 bits, as in bfloat16, by 0.3 %. An Adam without
#: momentum changed them by up to 32 %, a third of the learning rate by 29 %, and weights that stand still by 125 %.
_LOSSES_DIFFER = 0.03
#: The moves of its weights, as shares of those on the CPU: bfloat16 changed them by at most 8 %. A weight that stands
#: still differs by 100 %, one that moves backwards by 200 %; of a bias or a normalisation, losses show 0.6 % of that.
_MOVES_DIFFER = 0.5
_TRAINS_WRONGLY = "do not train on this device: update TensorFlow and its plug-in or driver; until then tfwatch train --device cpu"
#: The check that reports each stage of the trial.
_CHECK_OF = {
    "import": "import",
    "devices": "devices",
    "products": "matmul",
    "step": "training-step",
}
#: The oldest driver for each major version of CUDA on Linux: NVIDIA's CUDA Compatibility guide, minor version
#: compatibility.
_OLDEST_DRIVER = {"12": (525, 60), "13": (580, 65)}
#: The driver installs these, not pip.
_DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-")


def importing(facts: Facts) -> Check:
    """Check that `import tensorflow` ends, and its time."""
    trial = facts.trial
    done = trial.results.get("import")
    if done is None:
        return not_reached(facts, "import", "import")
    found = f"TensorFlow {done.get('tensorflow')} with Keras {done.get('keras')} is imported in {done['took_s']:.1f} s"
    if done["took_s"] > _SLOW_IMPORT_S:
        todo = "a first import reads 1 to 2 GB; if the next one is as slow, keep Python's packages on a local disk"
        return Check("import", Status.WARN, found, todo)
    if trial.stage == "exit":
        found, todo = explain(trial)
        return Check("import", Status.FAIL, f"the import works, but {found}", todo)
    return Check("import", Status.OK, found)


def devices(facts: Facts) -> Check:
    """Check the devices that TensorFlow sees, and the reason for a missing GPU."""
    if not facts.trial.devices:
        return not_reached(facts, "devices", "devices")
    names = ", ".join(_name(device, facts) for device in facts.trial.devices)
    if facts.trial.gpus:
        return Check("devices", Status.OK, names)
    return _without_gpu_on_a_mac(facts, names) if facts.is_mac else _without_gpu(facts, names)


def _name(device: Mapping[str, str], facts: Facts) -> str:
    model = device.get("model", "")
    # The Metal plug-in names every GPU METAL; the chip's name is more useful.
    model = facts.interpreter.chip if model == "METAL" else model
    return f"{device.get('name')} ({model})" if model else str(device.get("name"))


def _without_gpu_on_a_mac(facts: Facts, names: str) -> Check:
    metal = facts.installed.versions.get("tensorflow-metal")
    if not facts.installed.is_apple_silicon:
        return Check(
            "devices",
            Status.WARN,
            f"{names} only: TensorFlow has no GPU for Intel Pythons",
            "see rosetta",
        )
    if not metal:
        return Check(
            "devices", Status.WARN, f"{names} only: the GPU needs tensorflow-metal", "see versions"
        )
    found = f"{names} only, although tensorflow-metal {metal} is installed"
    todo = f"{METAL_PAIR} --force-reinstall; a virtual machine shows no GPU"
    return Check("devices", Status.FAIL, found, todo)


def _without_gpu(facts: Facts, names: str) -> Check:
    nvidia = facts.nvidia
    if nvidia.hides_all and (nvidia.driver or nvidia.has_card):
        found = f"{names} only: CUDA_VISIBLE_DEVICES={nvidia.hidden} hides every GPU"
        return Check("devices", Status.WARN, found, "unset CUDA_VISIBLE_DEVICES")
    if nvidia.driver and nvidia.has_device_files:
        return Check(
            "devices",
            Status.FAIL,
            f"{names} only, although an NVIDIA driver is installed",
            "see cuda",
        )
    if nvidia.driver or nvidia.has_card:
        return Check(
            "devices",
            Status.WARN,
            f"{names} only, although this machine has an NVIDIA GPU",
            "see cuda",
        )
    return Check(
        "devices", Status.OK, f"{names} only: this machine has no NVIDIA GPU, so the CPU computes"
    )


def products(facts: Facts) -> Check:
    """Check that a matrix product on each device runs there and is right, and its time."""
    if not facts.trial.products:
        return not_reached(facts, "matmul", "products")
    side = facts.trial.results["products"].get("side")
    results = [_product(product) for product in facts.trial.products]
    found = f"{side} x {side}: " + ", ".join(text for text, _ in results)
    if all(is_right for _, is_right in results):
        return Check("matmul", Status.OK, found)
    why, todo = explain_cuda(facts.trial) or (
        "",
        "the device or its driver does not work: update the driver, then TensorFlow; until then hide the device",
    )
    return Check("matmul", Status.FAIL, f"{why}; {found}" if why else found, todo)


def _product(product: Mapping[str, Any]) -> tuple[str, bool]:
    name = product.get("device")
    if "error" in product:
        return f"{name} failed: {product['error']}", False
    if product["placed"] != name:
        return f"{name} requested, but {product['placed']} computed", False
    text = f"{name} {units.milliseconds(product['took_ms'])}"
    return (text, True) if product["right"] else (f"{text} and a WRONG result", False)


def training_step(facts: Facts) -> Check:
    """Check that a small network trains."""
    step = facts.trial.results.get("step")
    if step is None:
        return not_reached(facts, "training-step", "step")
    times = f"compiled in {units.milliseconds(step['compile_ms'])}, a step takes {units.milliseconds(step['step_ms'])}"
    if not step["finite"]:
        found = f"a small network trains, but its loss is not a number ({times})"
        return Check(
            "training-step",
            Status.FAIL,
            found,
            "the device or its driver computes wrongly: see matmul",
        )
    if parted := parting_of_losses(step.get("losses", {})) or parting_of_moves(
        step.get("moves", {})
    ):
        return Check(
            "training-step", Status.FAIL, f"a small network trains, but {parted}", _TRAINS_WRONGLY
        )
    same = ", with the CPU's losses and weights" if step.get("losses") else ""
    return Check("training-step", Status.OK, f"a small network trains{same}: {times}")


def parting_of_losses(losses: Mapping[str, Sequence[float]]) -> str:
    """Return where a device's losses part from the CPU's, for equal examples and weights; empty where they agree."""
    reference = losses.get("CPU:0", ())
    if len(losses) == 1:
        return "trained on the GPU, its weights are on the CPU"
    for device, values in losses.items():
        if len(values) != len(reference):
            return f"on {device} it ends after {len(values)} steps, and after {len(reference)} on the CPU"
        for step, (right, value) in enumerate(zip(reference, values, strict=True), 1):
            if not abs(value - right) <= _LOSSES_DIFFER * abs(right):
                return f"on {device} its loss is {value:.4g} at step {step}, and {right:.4g} on the CPU"
    return ""


def parting_of_moves(moves: Mapping[str, float]) -> str:
    """Return the weight that moves otherwise than on the CPU, by the most; empty where all agree."""
    apart = {name: share for name, share in moves.items() if not share <= _MOVES_DIFFER}
    name = max(apart, key=lambda one: apart[one], default="")
    return (
        f"on the GPU {name} moves otherwise than on the CPU, by {units.percent(apart[name])}"
        if apart
        else ""
    )


def fallback(facts: Facts) -> Check:
    """Check that no operation of a training step falls back from a GPU to the CPU."""
    trial = facts.trial
    if "step" not in trial.results:
        return not_reached(facts, "fallback", "step")
    if not trial.gpus:
        return Check(
            "fallback", Status.NA, "TensorFlow sees no GPU, so every operation runs on the CPU"
        )
    if not trial.log.placed:
        return Check(
            "fallback", Status.NA, "this TensorFlow does not log the devices of its operations"
        )
    fallen = fell_back(trial.log)
    kinds = f"{trial.log.placed} kinds of operations of a small network's training step"
    if not fallen:
        return Check("fallback", Status.OK, f"of {kinds} none fell back to the CPU")
    more = f" and {len(fallen) - _SHOWN} more" if len(fallen) > _SHOWN else ""
    found = f"{len(fallen)} of {kinds} fell back to the CPU: {', '.join(fallen[:_SHOWN])}{more}"
    todo = "each one copies data to the CPU and back; use other layers, or another version of TensorFlow or its plug-in"
    return Check("fallback", Status.WARN, found, todo)


def cuda(facts: Facts) -> Check:
    """Check NVIDIA's driver and the libraries that TensorFlow loads, on Linux."""
    nvidia, log = facts.nvidia, facts.trial.log
    if facts.is_mac:
        return Check("cuda", Status.NA, "not on Macs")
    if not nvidia.driver:
        return _without_driver(facts)
    if not nvidia.has_device_files:
        found = f"NVIDIA driver {nvidia.driver}, but no device files: this container has no access to the GPU"
        return Check(
            "cuda",
            Status.WARN,
            found,
            "docker run --gpus all (NVIDIA container toolkit), unless you train on the CPU",
        )
    if "import" not in facts.trial.results:
        return not_reached(facts, "cuda", "cuda")
    if facts.trial.build.get("is_cuda_build") != "True":
        if facts.trial.gpus:
            return Check(
                "cuda", Status.OK, f"NVIDIA driver {nvidia.driver}; a plug-in provides the GPU"
            )
        found = f"NVIDIA driver {nvidia.driver}, but this TensorFlow was built without CUDA"
        return Check("cuda", Status.FAIL, found, AND_CUDA)
    version = facts.trial.build.get("cuda_version", "")
    built = f"built for CUDA {version}, cuDNN {facts.trial.build.get('cudnn_version', 'of unknown version')}"
    if oldest := _too_old(nvidia.driver, version):
        found = f"NVIDIA driver {nvidia.driver} is older than CUDA {version} needs"
        return Check("cuda", Status.FAIL, found, f"install driver {oldest} or later")
    libraries = [name for name in log.missing_libraries if not name.startswith("libnvinfer")]
    if libraries and not facts.trial.gpus:
        found = f"{built}; TensorFlow could not load {', '.join(libraries)}"
        own = any(name.startswith(_DRIVER_LIBRARIES) for name in libraries)
        todo = "a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility" if own else AND_CUDA
        return Check("cuda", Status.FAIL, found, todo)
    if fault := explain_cuda(facts.trial):
        return Check(
            "cuda",
            Status.WARN if _works(facts.trial) else Status.FAIL,
            f"{built}; {fault[0]}",
            fault[1],
        )
    if error := facts.trial.results.get("products", {}).get("xla_error"):
        return Check(
            "cuda", Status.FAIL, f"{built}; XLA cannot compile for the GPU: {error}", AND_CUDA
        )
    if not facts.trial.gpus and not nvidia.hides_all and facts.trial.devices:
        found = f"driver {nvidia.driver}, {built}, but TensorFlow sees no GPU"
        return Check(
            "cuda",
            Status.FAIL,
            found,
            "run nvidia-smi to check the driver; reboot after a driver update",
        )
    return Check(
        "cuda", Status.OK, f"driver {nvidia.driver}; TensorFlow is {built} and loaded its libraries"
    )


def _works(trial: Trial) -> bool:
    """Return True where every stage ended and every product is right, although TensorFlow logged a fault."""
    is_right = all(_product(product)[1] for product in trial.products)
    return (
        trial.outcome == "completed" and is_right and not trial.results["products"].get("xla_error")
    )


def _without_driver(facts: Facts) -> Check:
    if facts.nvidia.has_card:
        found = "this machine has an NVIDIA card but no NVIDIA driver (/proc/driver/nvidia/version is missing)"
        return Check("cuda", Status.WARN, found, "install NVIDIA's driver, then " + AND_CUDA)
    return Check("cuda", Status.NA, "no NVIDIA driver and no NVIDIA card on this machine")


def _too_old(driver: str, cuda_version: str) -> str:
    """Return the oldest driver that works, where this one is older; else, or where it is unknown, an empty string."""
    oldest = _OLDEST_DRIVER.get(cuda_version.partition(".")[0])
    found = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?", driver)
    if not oldest or not found or (int(found[1]), int(found[2] or 0)) >= oldest:
        return ""
    return f"{oldest[0]}.{oldest[1]}"


def avx(facts: Facts) -> Check:
    """Check the processor's vector instructions."""
    if not facts.is_x86:
        return Check("avx", Status.NA, f"only on x86; this is {facts.installed.machine}")
    if facts.is_rosetta:
        return Check("avx", Status.NA, "Rosetta 2 translates them: see rosetta")
    instructions = facts.interpreter.instructions
    if instructions is None:
        return Check("avx", Status.NA, "this system does not list the processor's instructions")
    if "avx" not in instructions:
        found = "the processor has no AVX, and TensorFlow's wheels abort without it"
        todo = "in a virtual machine pass the host's processor through (QEMU: -cpu host); else build TensorFlow"
        return Check("avx", Status.FAIL, found, todo)
    has = [name.upper() for name in ("avx", "avx2", "fma", "avx512f") if name in instructions]
    if "avx2" not in instructions or "fma" not in instructions:
        found = f"{', '.join(has)} without AVX2 and FMA: the CPU computes at half speed or less"
        return Check(
            "avx",
            Status.WARN,
            found,
            "in a virtual machine pass the host's processor through; else there is no remedy",
        )
    return Check("avx", Status.OK, ", ".join(has))


def onednn(facts: Facts) -> Check:
    """Check that oneDNN's operations are on."""
    if facts.is_mac:
        return Check("onednn", Status.NA, "not used on Macs")
    if "import" not in facts.trial.results:
        return not_reached(facts, "onednn", "import")
    if facts.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        found = "TF_ENABLE_ONEDNN_OPTS=0 turns oneDNN operations off: the CPU computes more slowly"
        return Check(
            "onednn",
            Status.WARN,
            found,
            "unset TF_ENABLE_ONEDNN_OPTS, unless you need bitwise equal results",
        )
    if facts.trial.log.onednn:
        return Check("onednn", Status.OK, "oneDNN operations are on")
    return Check("onednn", Status.NA, "TensorFlow does not log whether oneDNN operations are on")


def not_reached(facts: Facts, id: str, stage: str) -> Check:
    """Return the result of a check whose stage of the trial failed or was not reached."""
    trial = facts.trial
    if "tensorflow" not in facts.installed.versions:
        return Check(id, Status.NA, "TensorFlow is not installed")
    if trial.outcome == "skipped":
        return Check(id, Status.NA, trial.log_text or "the TensorFlow check was skipped")
    failed = _CHECK_OF.get(trial.stage or "import", "import")
    if failed == id:
        found, todo = explain(trial)
        return Check(id, Status.FAIL, found, "see rosetta" if facts.is_rosetta else todo)
    return Check(id, Status.NA, f"not reached: the TensorFlow check stopped at {failed}")
