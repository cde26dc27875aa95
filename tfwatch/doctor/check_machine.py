"""Checks of the machine, and of what tfwatch needs: GPU counters, the terminal and the runs folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.doctor.check import Check, Status
from tfwatch.sensors.protocol import Available, Unavailable

if TYPE_CHECKING:
    from tfwatch.doctor.facts import DiskSpeed, Facts, RunsFolder


#: TensorFlow with a small network takes 0.6 GB (the TensorFlow check, on Linux); a training needs twice that and more.
_LITTLE_BYTES = 1.5 * 2**30
#: 45 MB hold 10 hours at 20 steps/s; tfwatch's own image set takes 20 MB.
_LITTLE_DISK_BYTES = 200 * 2**20
#: More swap in use than this share of the memory means that something large does not fit.
_SWAPPED = 0.25
#: As in sensors/host.py: 16 MB in half a second; an idle machine moves less.
_MOVED_BYTES_S = 32 * 2**20
#: A training slows down by the share of time that tasks wait for memory; from here on it is worth a warning.
_STALLED = 0.05
#: The levels of `core.rows.SAMPLE`.
_MEMORY_LEVELS = ("normal", "warning", "critical")
_HEAT_LEVELS = ("nominal", "light", "moderate", "heavy", "critical")
#: Where more of the cores are in use than this, a slow read may wait for a core and not for the disk.
_BUSY_CORES = 0.75
#: Below this share from the disk, the speed is the memory's.
_FROM_DISK = 0.5


def memory(facts: Facts) -> Check:
    """Check the free memory."""
    machine = facts.machine
    if isinstance(machine, Unavailable):
        return not_available("memory", machine)
    available = machine.figure("memory_available_bytes")
    if available is None:
        return not_available("memory", machine.gap("memory"))
    found = f"{units.gigabytes(available)} of {units.gigabytes(machine.allowed_bytes or machine.memory_bytes)} available"
    if machine.allowed_bytes:
        found += f" (a container's limit; the machine has {units.gigabytes(machine.memory_bytes)})"
    if used := facts.trial.results.get("all", {}).get("most_bytes"):
        found += f"; the TensorFlow check took {units.gigabytes(used)}"
    if available < _LITTLE_BYTES:
        found += ": too little for most trainings"
        return Check(
            "memory", Status.WARN, found, "close other programs, or raise the container's limit"
        )
    return Check("memory", Status.OK, found)


def swap(facts: Facts) -> Check:
    """Check the memory that was moved to disk."""
    machine = facts.machine
    if isinstance(machine, Unavailable):
        return not_available("swap", machine)
    if machine.swap_total_bytes == 0:
        return Check("swap", Status.OK, "no swap is set up")
    used = machine.figure("swap_used_bytes")
    if used is None:
        return not_available("swap", machine.gap("pressure" if facts.is_mac else "swap"))
    total = f" of {units.gigabytes(machine.swap_total_bytes)}" if machine.swap_total_bytes else ""
    moved = (machine.figure("swap_in_bytes_s") or 0) + (machine.figure("swap_out_bytes_s") or 0)
    now = f", {moved / 1e6:.0f} MB/s moving now" if moved >= _MOVED_BYTES_S else ""
    found = f"{units.gigabytes(used)}{total} used{now}"
    if now or used > _SWAPPED * machine.memory_bytes:
        todo = "close other programs; a step that touches swapped memory waits for the disk"
        return Check("swap", Status.WARN, found, todo)
    return Check("swap", Status.OK, found)


def pressure(facts: Facts) -> Check:
    """Check memory pressure: a level on macOS, the share of time lost on Linux."""
    machine = facts.machine
    if isinstance(machine, Unavailable):
        return not_available("memory-pressure", machine)
    level, stalled = machine.figure("memory_level"), machine.figure("memory_stalled")
    if level is not None:
        found, is_low = f"macOS reports {_MEMORY_LEVELS[int(level)]}", level >= 1
    elif stalled is not None:
        found, is_low = (
            f"tasks waited for memory {units.percent(stalled)} of the time",
            stalled >= _STALLED,
        )
    else:
        return not_available("memory-pressure", machine.gap("pressure"))
    if is_low:
        todo = "close other programs, use a smaller batch size or a smaller cache"
        return Check("memory-pressure", Status.WARN, found, todo)
    return Check("memory-pressure", Status.OK, found)


def cores(facts: Facts) -> Check:
    """Check that TensorFlow starts no more threads than this process may run on."""
    if isinstance(facts.cores, Unavailable):
        return not_available("cores", facts.cores)
    known = facts.cores
    usable = known.usable or known.all
    found = f"{known.all} {'core' if known.all == 1 else 'cores'}"
    if usable < known.all:
        found = f"{usable} of {found}: the process is limited to them"
    if known.quota is not None and known.quota < usable:
        threads = max(int(known.quota), 1)
        found += f"; a container's quota allows {known.quota:g}, and TensorFlow's {usable} threads compete for it"
        todo = f"limit it to cores instead (docker run --cpuset-cpus), or set tf.config.threading to {threads} threads"
        return Check("cores", Status.WARN, found, todo)
    return Check("cores", Status.OK, found)


def disk(facts: Facts) -> Check:
    """Check the read speed of the data folder."""
    if isinstance(facts.disk, Unavailable):
        return not_available("disk", facts.disk)
    read = facts.disk
    found = f"{_speed(read)}: {_content_read(read)}, {_source(read)}"
    if read.is_slow and (read.cores_busy or 0.0) >= _BUSY_CORES:
        found += f"; {units.percent(read.cores_busy)} of the cores were in use, which slows reading too: not judged"
        return Check("disk", Status.NA, found, "run tfwatch doctor again while the machine is idle")
    if read.is_slow:
        todo = "copy the data to a local SSD, keep it in few large files (TFRecord), or cache() it"
        return Check("disk", Status.WARN, found, todo)
    return Check("disk", Status.OK, found)


def _speed(read: DiskSpeed) -> str:
    speed = (
        f"{read.bytes_s / 1e6:.0f} MB/s"
        if read.bytes_s >= 1e7
        else f"{read.bytes_s / 1e6:.1f} MB/s"
    )
    has_files = read.files_s is not None and (read.files or 0) > 1
    return f"{speed}, {units.count(round(read.files_s or 0.0))} files/s" if has_files else speed


def _content_read(read: DiskSpeed) -> str:
    size = f"{read.read_bytes / 1e6:.0f} MB"
    if read.files is None:
        return f"{size} of a temporary file in {read.folder}"
    return f"{size} in {units.count(read.files)} files of {read.folder}"


def _source(read: DiskSpeed) -> str:
    if read.from_disk is None:
        return "part of it may come from memory"
    if read.from_disk < _FROM_DISK:
        return (
            f"{units.percent(1 - read.from_disk)} of it from memory: this is not the disk's speed"
        )
    return "read from the disk"


def heat(facts: Facts) -> Check:
    """Check for throttling by heat, and for a battery."""
    machine = facts.machine
    if isinstance(machine, Unavailable):
        return not_available("thermal", machine)
    level = machine.figure("thermal_level")
    is_hot, on_battery = level is not None and level >= 1, machine.figure("on_mains") == 0
    if level is None and not on_battery:
        return not_available("thermal", machine.gap("heat"))
    found = (
        "the system does not report heat"
        if level is None
        else f"thermal level {_HEAT_LEVELS[int(level)]}"
    )
    found += ", on battery: many systems lower their clock rates" if on_battery else ""
    if is_hot or on_battery:
        todo = (
            "plug it in"
            if not is_hot
            else "let it cool and free its vents: steps take longer while it is hot"
        )
        return Check("thermal", Status.WARN, found, todo)
    return Check("thermal", Status.OK, found)


def gpu_counters(facts: Facts) -> Check:
    """Check that a run can show the GPU's activity."""
    name, answer = facts.gpu_counters
    if isinstance(answer, Available):
        return Check("gpu-counters", Status.OK, f"read through {name}")
    if facts.trial.gpus:
        found = f"GPU activity cannot be shown: {answer.reason} (the verdict does not need it)"
        return Check("gpu-counters", Status.WARN, found, answer.fix)
    return Check("gpu-counters", Status.NA, answer.reason, "")


def powermetrics(facts: Facts) -> Check:
    """Check that power and clock rates of an Apple GPU can be read."""
    if facts.powermetrics is None:
        return Check("powermetrics", Status.NA, "only on Macs")
    if isinstance(facts.powermetrics, Available):
        return Check(
            "powermetrics", Status.OK, "permitted: the GPU's power and clock rate are shown"
        )
    found = f"not permitted, so the GPU's power and clock rate are not shown: {facts.powermetrics.reason}"
    return Check(
        "powermetrics",
        Status.NA,
        found,
        "tfwatch doctor --sudoers prints the sudoers line that permits it and nothing else",
    )


def terminal(facts: Facts) -> Check:
    """Check that the terminal can show the live screen."""
    if isinstance(facts.terminal, Unavailable):
        return not_available("terminal", facts.terminal)
    known = facts.terminal
    colours = {0: "no colours", 2**24: "16 million colours"}.get(
        known.colours, f"{known.colours} colours"
    )
    unicode = "Unicode" if known.has_unicode else "no Unicode: charts are drawn with # = ."
    found = (
        f"{known.columns}x{known.rows}, {colours}, {unicode} ({known.kind or 'TERM is not set'})"
    )
    if known.kind in ("", "dumb"):
        todo = "export TERM=xterm-256color, or the name of your terminal; or train with --headless"
        return Check("terminal", Status.WARN, f"{found}: it cannot show the screen", todo)
    if known.columns < known.needs[0] or known.rows < known.needs[1]:
        needs = "x".join(map(str, known.needs))
        return Check(
            "terminal", Status.WARN, f"{found}: the screen needs {needs}", "make the window larger"
        )
    todo = (
        "export COLORTERM=truecolor, if your terminal supports it"
        if known.colours in (16, 256)
        else ""
    )
    return Check("terminal", Status.OK, found, todo)


def runs_folder(facts: Facts) -> Check:
    """Check that runs can be recorded."""
    if isinstance(facts.runs, Unavailable):
        return not_available("runs-folder", facts.runs)
    known = facts.runs
    if known.hangs:
        found = (
            f"{known.path} did not answer within {known.hangs}: training goes on without a record"
        )
        todo = "restore or unmount it (umount -l), or use --runs-dir DIR on a local disk"
        return Check("runs-folder", Status.FAIL, found, todo)
    if known.problem:
        found = (
            f"{known.path} cannot be written: {known.problem}; training goes on without a record"
        )
        return Check(
            "runs-folder",
            Status.FAIL,
            found,
            "free space or change its permissions, or use --runs-dir DIR",
        )
    found = f"{known.path}{_content(known) if known.is_there else ', created by the first run'}{_free(known.free_bytes)}"
    if known.free_bytes is not None and known.free_bytes < _LITTLE_DISK_BYTES:
        return Check(
            "runs-folder", Status.WARN, found, "free space: 10 hours of training take 45 MB"
        )
    return Check("runs-folder", Status.OK, found)


def _content(known: RunsFolder) -> str:
    runs = (
        ""
        if known.runs is None
        else f"{units.count(known.runs)} {'run' if known.runs == 1 else 'runs'}, "
    )
    size = f"{'more than ' if known.size_is_partial else ''}{known.size_bytes / 1e6:.1f} MB"
    return f": {runs}{size}"


def _free(free_bytes: float | None) -> str:
    return "" if free_bytes is None else f", {units.gigabytes(free_bytes)} free"


def neural_engine(facts: Facts) -> Check:
    """Report that TensorFlow does not use the Neural Engine, since users ask."""
    if not facts.is_mac:
        return Check("neural-engine", Status.NA, "only on Macs")
    return Check(
        "neural-engine", Status.OK, "TensorFlow does not use the Neural Engine; nothing is missing"
    )


def not_available(id: str, why: Unavailable) -> Check:
    """Return the result of a check whose facts cannot be read."""
    return Check(id, Status.NA, why.reason, why.fix)
