"""The checks: pure functions of the facts of a machine, each a row with its result and its remedy.

A check that does not concern this machine returns None and has no row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.doctor.crash_reasons import explain, explain_cuda
from tfwatch.doctor.packages import AND_CUDA, METAL_PAIR
from tfwatch.sensors.sensor import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tfwatch.doctor.facts import DiskSpeed, Facts
    from tfwatch.doctor.packages import Problem
    from tfwatch.doctor.trial import Trial

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
_ARM_PYTHON = (
    "install an arm64 Python (python.org's, Homebrew's in /opt/homebrew, conda's for osx-arm64) and"
    " tfwatch with it; in Terminal's Get Info turn off Open using Rosetta"
)


def python(facts: Facts) -> Check:
    """Check Python's version and architecture."""
    version = ".".join(map(str, facts.interpreter.version))
    found = f"Python {version}, {facts.installed.machine}"
    if not PYTHONS[0] <= facts.interpreter.version[:2] < PYTHONS[1]:
        found += ": tfwatch knows no TensorFlow wheel for this version"
        return Check("python", Status.FAIL, found, "use Python 3.11 or 3.12")
    return _intel_python(found, facts) or Check("python", Status.OK, found)


def _intel_python(found: str, facts: Facts) -> Check | None:
    """Return the problem of a Python built for Intel Macs; None for any other."""
    if not facts.installed.is_mac_x86:
        return None
    if facts.interpreter.is_rosetta:
        found += ": an Intel Python under Rosetta 2, whose newest TensorFlow is 2.16, without GPU"
        return Check("python", Status.FAIL, found, _ARM_PYTHON)
    found += ": an Intel Mac, whose newest TensorFlow is 2.16"
    return Check("python", Status.WARN, found, "train on an Apple chip or on Linux")


def versions(facts: Facts) -> Check:
    """Check the versions of TensorFlow, Keras and tensorflow-metal."""
    problems = [one for one in facts.installed.find_problems() if not _is_refuted(one, facts)]
    if problems:
        status = Status.FAIL if any(one.is_blocking for one in problems) else Status.WARN
        found = "; ".join(one.found for one in problems)
        todo = "; ".join(dict.fromkeys(one.todo for one in problems))
        if not facts.has_tensorflow and facts.nvidia.has_card and not facts.is_mac:
            todo = AND_CUDA
        return Check("versions", status, found, todo)
    return Check("versions", Status.OK, facts.installed.stack)


def _is_refuted(problem: Problem, facts: Facts) -> bool:
    """Return True for a plug-in said not to load where TensorFlow started, or to be missing."""
    has_started = "import" in facts.trial.results
    return problem.is_metal and bool(facts.trial.gpus or (has_started and problem.is_blocking))


# -- the trial of TensorFlow ----------------------------------------------------------------------

#: A longer import is worth a warning; 2 to 10 s are usual.
_SLOW_IMPORT_S = 30.0
#: The moves of the weights on a device, as shares of those on the CPU, differ by at most 8 % where
#: all factors are rounded to 7 bits, as in bfloat16. A weight that stands still differs by 100 %,
#: an Adam without momentum by 66 %, a third of the learning rate by 90 %.
_MOVES_DIFFER = 0.5
_TRAINS_WRONGLY = (
    "do not train on this device: update TensorFlow and its plug-in or driver; until then "
    "tfwatch train --device cpu"
)
_BROKEN_DEVICE = (
    "the device or its driver does not work: update the driver, then TensorFlow; until then hide it"
)
#: The oldest driver for each major version of CUDA on Linux: NVIDIA's CUDA Compatibility guide,
#: minor version compatibility.
_OLDEST_DRIVER = {"12": (525, 60), "13": (580, 65)}
#: The driver installs these, not pip.
_DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-")


def importing(facts: Facts) -> Check | None:
    """Check that `import tensorflow` ends, and its time; None without TensorFlow."""
    trial = facts.trial
    if not facts.has_tensorflow:
        return None
    if trial.outcome == "skipped":
        return Check("import", Status.NA, trial.log_text or "TensorFlow was not tried")
    done = trial.results.get("import")
    if done is None:
        found, todo = explain(trial)
        is_rosetta = facts.interpreter.is_rosetta
        return Check("import", Status.FAIL, found, "see python" if is_rosetta else todo)
    names = f"TensorFlow {done.get('tensorflow')} with Keras {done.get('keras')}"
    found = f"{names} is imported in {done['took_s']:.1f} s"
    if done["took_s"] > _SLOW_IMPORT_S:
        todo = (
            "a first import reads 1 to 2 GB; if the next one is as slow, keep Python's packages on "
            "a local disk"
        )
        return Check("import", Status.WARN, found, todo)
    return Check("import", Status.OK, found)


def devices(facts: Facts) -> Check | None:
    """Check the devices that TensorFlow sees, and the reason for a missing GPU."""
    trial = facts.trial
    if "import" not in trial.results:
        return None
    if not trial.devices:
        return Check("devices", Status.FAIL, *explain(trial))
    names = ", ".join(_name(device, facts) for device in trial.devices)
    if not trial.gpus:
        status, why, todo = _no_gpu_on_a_mac(facts) if facts.is_mac else _no_gpu(facts)
        return Check("devices", status, f"{names} only: {why}", todo)
    if trial.results.get("products", {}).get("xla_error") or explain_cuda(trial):
        return _faulty_cuda(names, trial)
    return Check("devices", Status.OK, names)


def _name(device: Mapping[str, str], facts: Facts) -> str:
    model = device.get("model", "")
    # The Metal plug-in names every GPU METAL; the chip's name is more useful.
    model = facts.interpreter.chip if model == "METAL" else model
    return f"{device.get('name')} ({model})" if model else str(device.get("name"))


def _no_gpu_on_a_mac(facts: Facts) -> tuple[Status, str, str]:
    if not facts.installed.is_apple_silicon:
        return Status.WARN, "TensorFlow has no GPU for Intel Pythons", "see python"
    metal = facts.installed.versions.get("tensorflow-metal")
    if not metal:
        return Status.WARN, "the GPU needs tensorflow-metal", "see versions"
    todo = f"{METAL_PAIR} --force-reinstall; a virtual machine shows no GPU"
    return Status.FAIL, f"although tensorflow-metal {metal} is installed", todo


def _no_gpu(facts: Facts) -> tuple[Status, str, str]:
    nvidia = facts.nvidia
    if not nvidia.driver and not nvidia.has_card:
        return Status.OK, "this machine has no NVIDIA GPU, so the CPU computes", ""
    if nvidia.hides_all:
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
    version = trial.build.get("cuda_version", "")
    if oldest := _too_old(driver, version):
        why = f"NVIDIA driver {driver} is older than CUDA {version} needs"
        return why, f"install driver {oldest} or later"
    lost = [name for name in trial.missing_libraries if not name.startswith("libnvinfer")]
    if lost:
        own = any(name.startswith(_DRIVER_LIBRARIES) for name in lost)
        todo = "a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility" if own else AND_CUDA
        return f"TensorFlow could not load {', '.join(lost)}", todo
    if fault := explain_cuda(trial):
        return fault
    why = f"driver {driver} and TensorFlow for CUDA {version} are there, and it sees no GPU"
    return why, "run nvidia-smi to check the driver; reboot after a driver update"


def _too_old(driver: str, cuda_version: str) -> str:
    """Return the oldest driver that works where this one is older; else an empty string."""
    oldest = _OLDEST_DRIVER.get(cuda_version.partition(".")[0])
    found = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?", driver)
    if not oldest or not found or (int(found[1]), int(found[2] or 0)) >= oldest:
        return ""
    return f"{oldest[0]}.{oldest[1]}"


def _faulty_cuda(names: str, trial: Trial) -> Check:
    """Return the fault of CUDA beside a GPU: a warning where everything still works."""
    error = trial.results.get("products", {}).get("xla_error")
    fault, todo = explain_cuda(trial) or (f"XLA cannot compile for the GPU: {error}", AND_CUDA)
    is_right = all(_product(product)[1] for product in trial.products)
    works = trial.outcome == "completed" and is_right and not error
    return Check("devices", Status.WARN if works else Status.FAIL, f"{names}; {fault}", todo)


def training(facts: Facts) -> Check | None:
    """Check that a matrix product and a small network are right on each device, and their time."""
    trial = facts.trial
    if not trial.devices:
        return None
    if not trial.products:
        return Check("training", Status.FAIL, *explain(trial))
    texts, are_right = zip(*map(_product, trial.products), strict=True)
    product = "a product of 1024 x 1024: " + ", ".join(texts)
    if not all(are_right):
        why, todo = explain_cuda(trial) or ("", _BROKEN_DEVICE)
        return Check("training", Status.FAIL, f"{why}; {product}" if why else product, todo)
    step = trial.results.get("step")
    if step is None or trial.stage == "exit":
        return Check("training", Status.FAIL, *explain(trial))
    return _training_step(step, product, trial)


def _product(product: Mapping[str, Any]) -> tuple[str, bool]:
    name = product.get("device")
    if "error" in product:
        return f"{name} failed: {product['error']}", False
    if product["placed"] != name:
        return f"{name} requested, but {product['placed']} computed", False
    text = f"{name} {units.milliseconds(product['took_ms'])}"
    return (text, True) if product["right"] else (f"{text} and a WRONG result", False)


def _training_step(step: Mapping[str, Any], product: str, trial: Trial) -> Check:
    if not step["finite"]:
        found = "a small network trains, but its loss is not a number"
        return Check("training", Status.FAIL, found, _BROKEN_DEVICE)
    moves = step.get("moves", {})
    if parted := parting_of_moves(moves):
        found = f"a small network trains, but {parted}"
        return Check("training", Status.FAIL, found, _TRAINS_WRONGLY)
    same = ", and moves its weights as the CPU does" if moves else ""
    compiled, one = units.milliseconds(step["compile_ms"]), units.milliseconds(step["step_ms"])
    found = f"a small network trains{same}: compiled in {compiled}, a step takes {one}; {product}"
    return Check("training", Status.OK, found)


def parting_of_moves(moves: Mapping[str, float]) -> str:
    """Return the weight that differs most from the CPU's; empty where all agree."""
    apart = {name: share for name, share in moves.items() if not share <= _MOVES_DIFFER}
    if not apart:
        return ""
    name = max(apart, key=lambda one: apart[one])
    return f"on the GPU {name} moves otherwise than on the CPU, by {units.percent(apart[name])}"


# -- the machine ----------------------------------------------------------------------------------

#: TensorFlow with a small network takes 0.6 GB (its trial, on Linux); a training twice that or
#: more.
_LITTLE_BYTES = 1.5 * 2**30
#: 45 MB hold 10 hours at 20 steps/s.
_LITTLE_DISK_BYTES = 200 * 2**20
#: More swap in use than this share of the memory means that something large does not fit.
_SWAPPED = 0.25
#: Where other programs use more of the cores, times are theirs too.
_BUSY = 0.4
#: A disk below both is the likely limit: a share over 1 Gbit/s gives 118 MB/s, a hard disk 100 to
#: 200 files a second.
_SLOW_BYTES_S = 60e6
_SLOW_FILES_S = 1000.0


def cores(facts: Facts) -> Check:
    """Check that the cores are free, and no more threads start than may run."""
    known = facts.cores
    if isinstance(known, Unavailable):
        return _not_available("cores", known)
    found = f"{known.all} {'core' if known.all == 1 else 'cores'}"
    if known.usable < known.all:
        found = f"{known.usable} of {found}: the process is limited to them"
    if known.quota is not None and known.quota < known.usable:
        found += (
            f"; a container's quota allows {known.quota:g}, for which {known.usable} threads"
            " compete"
        )
        threads = max(int(known.quota), 1)
        todo = (
            "limit it to cores instead (docker run --cpuset-cpus), or set tf.config.threading to "
            f"{threads} threads"
        )
        return Check("cores", Status.WARN, found, todo)
    if _is_busy(facts):
        found = f"other programs use {known.busy:.1f} of {found}: a training's times are theirs too"
        return Check("cores", Status.WARN, found, "end them before you measure")
    return Check("cores", Status.OK, found)


def _is_busy(facts: Facts) -> bool:
    known = facts.cores
    return not isinstance(known, Unavailable) and (known.busy or 0.0) >= _BUSY * known.all


def memory(facts: Facts) -> Check:
    """Check the free memory, and the memory that was moved to disk."""
    known = facts.memory
    if isinstance(known, Unavailable):
        return _not_available("memory", known)
    found = f"{units.gigabytes(known.free_bytes)} of {units.gigabytes(known.total_bytes)} available"
    found += " (a container's limit)" if known.is_container else ""
    if known.free_bytes < _LITTLE_BYTES:
        found += ": too little for most trainings"
        todo = "close other programs, or raise the container's limit"
        return Check("memory", Status.WARN, found, todo)
    if known.swapped_bytes > _SWAPPED * known.total_bytes:
        found += f", {units.gigabytes(known.swapped_bytes)} are swapped to disk"
        todo = "close other programs; a step that touches swapped memory waits for the disk"
        return Check("memory", Status.WARN, found, todo)
    return Check("memory", Status.OK, found)


def disk(facts: Facts) -> Check | None:
    """Check the read speed of the data folder; None where none is named."""
    read = facts.disk
    if read is None:
        return None
    if isinstance(read, Unavailable):
        return _not_available("disk", read)
    is_slow = read.bytes_s < _SLOW_BYTES_S and read.files_s < _SLOW_FILES_S
    if is_slow and _is_busy(facts):
        todo = "run tfwatch doctor again while the machine is idle"
        found = f"{_speed(read)}; other programs were busy: not judged"
        return Check("disk", Status.NA, found, todo)
    if is_slow:
        todo = "copy the data to a local SSD, keep it in few large files (TFRecord), or cache() it"
        return Check("disk", Status.WARN, _speed(read), todo)
    return Check("disk", Status.OK, _speed(read))


def _speed(read: DiskSpeed) -> str:
    digits = 0 if read.bytes_s >= 1e7 else 1
    files = f", {units.count(round(read.files_s))} files/s" if read.files > 1 else ""
    return f"{read.bytes_s / 1e6:.{digits}f} MB/s{files} in {read.folder}"


def runs_folder(facts: Facts) -> Check:
    """Check that runs can be recorded."""
    known = facts.runs
    if isinstance(known, Unavailable):
        found = f"{known.reason}: training goes on without a record"
        return Check("runs-folder", Status.FAIL, found, "use --runs-dir DIR on a local disk")
    if known.problem:
        found = f"{known.path} cannot be written: {known.problem}; nothing is recorded"
        todo = "free space or change its permissions, or use --runs-dir DIR"
        return Check("runs-folder", Status.FAIL, found, todo)
    if known.free_bytes is None:
        return Check("runs-folder", Status.OK, known.path)
    found = f"{known.path}, {units.gigabytes(known.free_bytes)} free"
    if known.free_bytes < _LITTLE_DISK_BYTES:
        todo = "free space: 10 hours of training take 45 MB"
        return Check("runs-folder", Status.WARN, found, todo)
    return Check("runs-folder", Status.OK, found)


def gpu_sensor(facts: Facts) -> Check | None:
    """Check that a run can show the GPU's activity; None without a GPU."""
    name, missing = facts.gpu_sensor
    if not name or not (facts.is_mac or facts.nvidia.driver):
        return None
    if missing is None:
        return Check("gpu-activity", Status.OK, f"read through {name}")
    found = f"GPU activity cannot be shown; {name}: {missing.reason}"
    return Check("gpu-activity", Status.WARN, found, missing.fix)


def _not_available(id: str, why: Unavailable) -> Check:
    return Check(id, Status.NA, why.reason, why.fix)


#: Checks of the same status are shown in this order.
CHECKS = (
    python,
    versions,
    importing,
    devices,
    training,
    cores,
    memory,
    disk,
    runs_folder,
    gpu_sensor,
)


def judge(facts: Facts) -> CheckUp:
    """Run every check that concerns this machine; the worst result comes first."""
    rows = [row for check in CHECKS if (row := check(facts))]
    rows.sort(key=lambda row: _ORDER.index(row.status))
    return CheckUp(facts.machine, tuple(rows))
