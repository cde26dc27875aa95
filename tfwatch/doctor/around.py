"""Checks of what tfwatch itself needs: GPU counters, the terminal and the folder of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.doctor.check import Check, Status
from tfwatch.doctor.machine import unknown
from tfwatch.sensors import Available, Unavailable

if TYPE_CHECKING:
    from tfwatch.doctor.facts import Facts

#: 45 MB hold 10 hours at 20 steps a second; a data set of tfwatch's own takes 20 MB.
_LITTLE_BYTES = 200 * 2**20


def gpu_counters(facts: Facts) -> Check:
    """Whether a run can show what the GPU does."""
    name, answer = facts.gpu_counters
    if isinstance(answer, Available):
        return Check("gpu-counters", Status.OK, f"read through {name}")
    if facts.trial.gpus:
        found = f"no GPU activity is shown: {answer.reason} (the verdict does not need it)"
        return Check("gpu-counters", Status.WARN, found, answer.fix)
    return Check("gpu-counters", Status.NA, answer.reason, "")


def powermetrics(facts: Facts) -> Check:
    """Whether watts and clocks of an Apple GPU can be read."""
    if facts.powermetrics is None:
        return Check("powermetrics", Status.NA, "only on Macs")
    if isinstance(facts.powermetrics, Available):
        return Check("powermetrics", Status.OK, "permitted: watts and clocks of the GPU are shown")
    found = f"not permitted, so no watts and clocks of the GPU: {facts.powermetrics.reason}"
    return Check("powermetrics", Status.NA, found, "tfwatch doctor --sudoers prints what permits it, and nothing else")


def terminal(facts: Facts) -> Check:
    """Whether the live screen can be shown, and how well."""
    if isinstance(facts.terminal, Unavailable):
        return unknown("terminal", facts.terminal)
    known = facts.terminal
    colours = {0: "no colours", 2**24: "16 million colours"}.get(known.colours, f"{known.colours} colours")
    unicode = "Unicode" if known.unicode else "no Unicode: charts are drawn with # = ."
    found = f"{known.columns}x{known.rows}, {colours}, {unicode} ({known.kind or 'TERM is not set'})"
    if known.kind in ("", "dumb"):
        todo = "export TERM as your terminal is called, e.g. xterm-256color; or train with --headless"
        return Check("terminal", Status.WARN, f"{found}: shows no screen", todo)
    if known.columns < known.needs[0] or known.rows < known.needs[1]:
        needs = "x".join(map(str, known.needs))
        return Check("terminal", Status.WARN, f"{found}: the screen needs {needs}", "make the window larger")
    todo = "export COLORTERM=truecolor, if your terminal can" if known.colours in (16, 256) else ""
    return Check("terminal", Status.OK, found, todo)


def runs_folder(facts: Facts) -> Check:
    """Whether runs can be recorded."""
    if isinstance(facts.runs, Unavailable):
        return unknown("runs-folder", facts.runs)
    known = facts.runs
    if known.trouble:
        found = f"{known.path} cannot be written: {known.trouble}; training goes on, unrecorded"
        return Check("runs-folder", Status.FAIL, found, "make room or rights there, or give --runs-dir DIR")
    if not known.is_there:
        return Check("runs-folder", Status.OK, f"{known.path}, made by the first run{_free(known.free_bytes)}")
    runs = "" if known.runs is None else f"{units.count(known.runs)} {'run' if known.runs == 1 else 'runs'}, "
    size = f"{'more than ' if known.size_is_partial else ''}{known.size_bytes / 1e6:.1f} MB"
    found = f"{known.path}: {runs}{size}{_free(known.free_bytes)}"
    if known.free_bytes is not None and known.free_bytes < _LITTLE_BYTES:
        return Check("runs-folder", Status.WARN, found, "make room: 10 hours of training take 45 MB")
    return Check("runs-folder", Status.OK, found)


def _free(free_bytes: float | None) -> str:
    return "" if free_bytes is None else f", {units.gigabytes(free_bytes)} free"


def neural_engine(facts: Facts) -> Check:
    """Said once, since it is asked often."""
    if not facts.is_mac:
        return Check("neural-engine", Status.NA, "only on Macs")
    return Check(
        "neural-engine", Status.OK, "TensorFlow does not use the Neural Engine: nothing is missing or to be set up"
    )
