"""The checks: pure functions of the facts of a machine, each a row with its result and its remedy.

A check that does not concern this machine returns None and has no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.doctor.facts import Facts, collect_facts
from tfwatch.doctor.packages import AND_CUDA, ARM_PYTHON, METAL_PAIR
from tfwatch.doctor.trial import explain, explain_cuda
from tfwatch.runs.machine_info import hides_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tfwatch.doctor.packages import Problem

_LONGEST = 600


class Status(Enum):
    """The outcome of a check; the members are in the order of display."""

    FAIL = "fail"
    WARN = "warn"
    OK = "ok"
    NA = "n/a"

    @property
    def word(self) -> str:
        """The word on the screen; problems are in capitals."""
        word = str(self.value)
        return word.upper() if self in (Status.FAIL, Status.WARN) else word


_ORDER = list(Status)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    #: Its name.
    id: str
    status: Status
    #: The result in one or two sentences with figures; for `n/a` the reason.
    found: str
    #: The remedy; empty where none is needed.
    todo: str = ""

    def __post_init__(self) -> None:
        # These texts quote tools and libraries, so they may hold control characters and many lines.
        object.__setattr__(self, "found", _short(self.found))
        object.__setattr__(self, "todo", _short(self.todo))


def _short(text: str) -> str:
    """Return the text on one line of at most `_LONGEST` characters, without control characters."""
    return " ".join(printable(text[: 2 * _LONGEST]).split())[:_LONGEST]


@dataclass(frozen=True, slots=True)
class CheckUp:
    """The results of all checks, worst first, and the machine in one line."""

    machine: str
    checks: tuple[Check, ...]


def worst(checks: Iterable[Check]) -> Status:
    """Return the worst status; `ok` where no check fails or warns."""
    status = min((check.status for check in checks), key=_ORDER.index, default=Status.OK)
    return Status.OK if status is Status.NA else status


def counted(checks: Sequence[Check]) -> str:
    """Return the number of checks by status, e.g. `1 failed, 2 warnings, 6 ok`."""
    count = {status: sum(check.status is status for check in checks) for status in Status}
    warnings = "1 warning" if count[Status.WARN] == 1 else f"{count[Status.WARN]} warnings"
    unknown = f", {count[Status.NA]} n/a" if count[Status.NA] else ""
    return f"{count[Status.FAIL]} failed, {warnings}, {count[Status.OK]} ok{unknown}"


# -- Python and packages --------------------------------------------------------------------------

#: The range of `requires-python` in pyproject.toml; the second version is excluded.
PYTHONS = ((3, 10), (3, 15))


def python(facts: Facts) -> Check:
    """Check Python's version and architecture."""
    installed = facts.installed
    found = f"Python {'.'.join(map(str, installed.python))}, {installed.machine}"
    if not PYTHONS[0] <= installed.python[:2] < PYTHONS[1]:
        found += ": tfwatch knows no TensorFlow wheel for this version"
        return Check("python", Status.FAIL, found, "use Python 3.11 or 3.12")
    if installed.is_mac_x86:
        found += ": an Intel Python, whose newest TensorFlow is 2.16, without GPU"
        return Check("python", Status.FAIL, found, ARM_PYTHON)
    return Check("python", Status.OK, found)


def tensorflow(facts: Facts) -> Check:
    """Check the versions of TensorFlow, Keras and tensorflow-metal, and `import tensorflow`."""
    trial, stack = facts.trial, facts.installed.stack
    problems = [one for one in facts.installed.find_problems() if not _is_refuted(one, facts)]
    has_failed = trial.outcome != "skipped" and "import" not in trial.results
    if has_failed and not any(one.is_blocking for one in problems):
        found, todo = explain(trial)
        return Check("tensorflow", Status.FAIL, found, todo)
    if problems:
        status = Status.FAIL if any(one.is_blocking for one in problems) else Status.WARN
        why = [explain(trial)[0]] if has_failed else []
        todo = "; ".join(dict.fromkeys(one.todo for one in problems))
        if not facts.has_tensorflow and facts.nvidia.has_card:
            todo = AND_CUDA
        return Check("tensorflow", status, "; ".join([one.found for one in problems] + why), todo)
    if trial.outcome == "skipped":
        return Check("tensorflow", Status.NA, f"{stack}: {trial.log_text or 'it was not tried'}")
    took_s = trial.results["import"]["took_s"]
    return Check("tensorflow", Status.OK, f"{stack}, imported in {took_s:.1f} s")


def _is_refuted(problem: Problem, facts: Facts) -> bool:
    """Return True for a plug-in said not to load where TensorFlow started, or to be missing."""
    has_started = "import" in facts.trial.results
    return problem.is_metal and bool(facts.trial.gpus or (has_started and problem.is_blocking))


# -- the trial of TensorFlow ----------------------------------------------------------------------

#: Ten steps bring the loss from 3.2 to 1.0 on a CPU; a device that learns nothing keeps it.
_LEARNED = 0.8
_BROKEN_DEVICE = (
    "do not train on this device: update its driver or plug-in, then TensorFlow; until then "
    "tfwatch train --device cpu"
)
#: The driver installs these, not pip.
_DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-")


def devices(facts: Facts) -> Check | None:
    """Check the devices that TensorFlow sees, and the reason for a missing GPU."""
    trial = facts.trial
    if "import" not in trial.results:
        return None
    if not trial.devices:
        return Check("devices", Status.FAIL, *explain(trial))
    names = ", ".join(_name(device, facts) for device in trial.devices)
    if trial.gpus:
        return Check("devices", Status.OK, names)
    status, why, todo = _no_gpu_on_a_mac(facts) if facts.is_mac else _no_gpu(facts)
    return Check("devices", status, f"{names} only: {why}", todo)


def _name(device: Mapping[str, str], facts: Facts) -> str:
    model = device.get("model", "")
    # The Metal plug-in names every GPU METAL; the chip's name is more useful.
    model = facts.chip if model == "METAL" else model
    return f"{device.get('name')} ({model})" if model else str(device.get("name"))


def _no_gpu_on_a_mac(facts: Facts) -> tuple[Status, str, str]:
    if not facts.installed.is_apple_silicon:
        return Status.WARN, "TensorFlow has no GPU for Intel Pythons", "see python"
    metal = facts.installed.versions.get("tensorflow-metal")
    if not metal:
        return Status.WARN, "the GPU needs tensorflow-metal", "see tensorflow"
    todo = f"{METAL_PAIR} --force-reinstall; a virtual machine shows no GPU"
    return Status.FAIL, f"although tensorflow-metal {metal} is installed", todo


def _no_gpu(facts: Facts) -> tuple[Status, str, str]:
    nvidia = facts.nvidia
    if not nvidia.driver and not nvidia.has_card:
        return Status.OK, "this machine has no NVIDIA GPU, so the CPU computes", ""
    if hides_gpus(nvidia.hidden):
        why = f"CUDA_VISIBLE_DEVICES={nvidia.hidden} hides every GPU"
        return Status.WARN, why, "unset CUDA_VISIBLE_DEVICES"
    if not nvidia.driver:
        why = "there is an NVIDIA card but no driver (/proc/driver/nvidia/version is missing)"
        return Status.WARN, why, f"install NVIDIA's driver, then {AND_CUDA}"
    if not nvidia.has_device_files:
        why = f"NVIDIA driver {nvidia.driver}, but this container has no access to the GPU"
        todo = "docker run --gpus all (NVIDIA container toolkit), unless you train on the CPU"
        return Status.WARN, why, todo
    return Status.FAIL, *_no_cuda(facts)


def _no_cuda(facts: Facts) -> tuple[str, str]:
    """Return why TensorFlow sees no GPU although there are a driver and its files; the remedy."""
    driver, trial = facts.nvidia.driver, facts.trial
    if trial.build.get("is_cuda_build") != "True":
        return f"NVIDIA driver {driver}, but this TensorFlow was built without CUDA", AND_CUDA
    lost = [name for name in trial.missing_libraries if not name.startswith("libnvinfer")]
    if lost:
        own = any(name.startswith(_DRIVER_LIBRARIES) for name in lost)
        todo = "a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility" if own else AND_CUDA
        return f"TensorFlow could not load {', '.join(lost)}", todo
    version = trial.build.get("cuda_version", "")
    why = f"driver {driver} and TensorFlow for CUDA {version} are there, and it sees no GPU"
    todo = "run nvidia-smi; CUDA 12 needs driver 525.60 or later, CUDA 13 needs 580.65 or later"
    return explain_cuda(trial) or (why, todo)


def training(facts: Facts) -> Check | None:
    """Check that a small network trains on each device, and the time of its step; a known fault of
    CUDA beside a device that works is a warning."""
    trial = facts.trial
    if not trial.devices:
        return None
    if trial.outcome != "completed":
        return Check("training", Status.FAIL, *explain(trial))
    wrong = [why for one in trial.trained if (why := why_wrong(one))]
    if trial.xla_error:
        wrong.append(f"XLA cannot compile for the GPU: {trial.xla_error}")
    right = [_trained(one) for one in trial.trained if not why_wrong(one)]
    found = "; ".join([*wrong, *right])
    fault, todo = explain_cuda(trial) or ("", _BROKEN_DEVICE)
    status = Status.FAIL if wrong else Status.WARN if fault else Status.OK
    if fault:
        found = f"{fault}; {found}"
    return Check("training", status, found, "" if status is Status.OK else todo)


def _trained(one: Mapping[str, Any]) -> str:
    first, step = units.milliseconds(one["first_ms"]), units.milliseconds(one["step_ms"])
    on = f"a small network trains on {one['device']}"
    return f"{on} (first step {first}, the others {step})"


def why_wrong(one: Mapping[str, Any]) -> str:
    """Return what is wrong with the training on a device; empty where nothing is."""
    device = one["device"]
    if "error" in one:
        return f"{device} failed: {one['error']}"
    if one["placed"] != device:
        return f"{device} requested, but {one['placed']} computed"
    first, last = one["losses"][0], one["losses"][-1]
    if not last <= _LEARNED * first:
        return f"{device} does not learn: the loss goes from {first:.3g} to {last:.3g}"
    return ""


# -- the machine ----------------------------------------------------------------------------------

#: TensorFlow with a small network takes 0.6 GB (its trial, on Linux); a training twice that or
#: more.
_LITTLE_BYTES = 1.5 * 2**30
#: 45 MB hold 10 hours at 20 steps/s.
_LITTLE_DISK_BYTES = 200 * 2**20
#: Where other programs use more of the cores, times are theirs too.
_BUSY = 0.4


def cores(facts: Facts) -> Check:
    """Check that the cores are free, and no more threads start than may run."""
    found, usable, quota = units.counted(facts.cores, "core"), facts.usable_cores, facts.core_quota
    if usable < facts.cores:
        found = f"{usable} of {found}: the process is limited to them"
    if quota is not None and quota < usable:
        found += f"; a container's quota allows {quota:g}, for which {usable} threads compete"
        todo = (
            "limit it to cores instead (docker run --cpuset-cpus), or set tf.config.threading to "
            f"{max(int(quota), 1)} threads"
        )
        return Check("cores", Status.WARN, found, todo)
    if (busy := facts.busy_cores or 0.0) >= _BUSY * facts.cores:
        found = f"other programs use {busy:.1f} of {found}: a training's times are theirs too"
        return Check("cores", Status.WARN, found, "end them before you measure")
    return Check("cores", Status.OK, found)


def memory(facts: Facts) -> Check:
    """Check the free memory."""
    found = f"{units.memory(facts.free_bytes)} of {units.memory(facts.total_bytes)} available"
    found += " (a container's limit)" if facts.is_container else ""
    if facts.free_bytes < _LITTLE_BYTES:
        found += ": too little for most trainings"
        todo = "close other programs, or raise the container's limit"
        return Check("memory", Status.WARN, found, todo)
    return Check("memory", Status.OK, found)


def disk(facts: Facts) -> Check:
    """Check that runs can be recorded: their folder, and the free space of its disk."""
    if facts.runs_problem:
        found = f"{facts.runs_dir} cannot be written: {facts.runs_problem}; nothing is recorded"
        todo = "free space or change its permissions, or use --runs-dir DIR on a local disk"
        return Check("disk", Status.FAIL, found, todo)
    found = f"{units.memory(facts.disk_free_bytes)} free for runs in {facts.runs_dir}"
    if facts.disk_free_bytes < _LITTLE_DISK_BYTES:
        todo = "free space: 10 hours of training take 45 MB"
        return Check("disk", Status.WARN, found, todo)
    return Check("disk", Status.OK, found)


#: Checks of the same status are shown in this order.
CHECKS = (python, tensorflow, devices, training, cores, memory, disk)


def judge(facts: Facts) -> CheckUp:
    """Run every check that concerns this machine; the worst result comes first."""
    rows = [row for check in CHECKS if (row := check(facts))]
    rows.sort(key=lambda row: _ORDER.index(row.status))
    return CheckUp(facts.machine, tuple(rows))


def check_up(
    runs_dir: Path, notify: Callable[[str], None], *, is_beside_training: bool = False
) -> CheckUp:
    """Check this machine and the folder of the runs; the arguments are those of
    `collect_facts`."""
    return judge(collect_facts(runs_dir, notify, is_beside_training=is_beside_training))
