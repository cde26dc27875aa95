"""The selftest's cases: the injected delay and the measured one, side by side, with the tolerance.

A comparison of the selftest, and how far apart the two may be.

The selftest's cases: what is injected into a training and what tfwatch then says, side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.analysis.steps.breakdown import steady
from tfwatch.analysis.steps.causes import UNEXPLAINED, Pauses
from tfwatch.analysis.steps.patterns import find_patterns
from tfwatch.analysis.steps.spikes import LEAST_MS, Spike, find_spikes
from tfwatch.analysis.steps.stalls import find_stalls
from tfwatch.analysis.steps.verdict import judge
from tfwatch.analysis.tuning.comparison import compare
from tfwatch.checks.injected_schedule import (
    AHEAD,
    CHECKPOINT,
    FUSED,
    LOGGER,
    LOOP,
    ON_DEMAND,
    HeldUp,
    Schedule,
    Trained,
)

if TYPE_CHECKING:
    from tfwatch.analysis.steps.patterns import Pattern
    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.runs.opened import Run

#: What a figure may be off: milliseconds, or this share of what was injected where that is more. Computing and
#: callbacks have costs of their own, which vary: an eager step of 6 ms takes 0.9 ms more after a sleep in it.
TOLERANCES = {"wait": (0.3, 0.02), "compute": (1.5, 0.05), "host": (1.0, 0.05)}
_WALL_OFF = 0.001
_WALL = "wait + compute + host = wall"


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison.

    injected, measured: figures in `unit`, or words. off: how far apart they are as a share of what they may be; 0 or
    more than 1 for words. tries: how many trainings it took.
    """

    group: str
    case: str
    injected: float | str
    measured: float | str
    unit: str
    off: float
    tries: int = 1

    @property
    def error(self) -> float | None:
        """Measured less injected; None for words."""
        if isinstance(self.injected, str) or isinstance(self.measured, str):
            return None
        return self.measured - self.injected

    @property
    def passed(self) -> bool:
        """NaN, where too few steps tell, is no pass."""
        return self.off <= 1.0


def figure(group: str, case: str, injected: float, measured: float, may_be_off: tuple[float, float]) -> Case:
    """A figure in milliseconds. may_be_off: so many, or this share of what was injected where that is more."""
    least, share = may_be_off
    off = abs(measured - injected) / max(least, share * injected)
    return Case(group, case, injected, measured, "ms", off if off == off else float("inf"))


def words(group: str, case: str, injected: str, measured: str) -> Case:
    """What was to be said, and what was."""
    return Case(group, case, injected, measured, "", 0.0 if injected == measured else float("inf"))


def wall(case: str, trained: Trained) -> Case:
    """Whether the parts of each step sum to its wall time."""
    return Case(_WALL, case, 100.0, 100.0 * (1 - trained.wall_error), "%", trained.wall_error / _WALL_OFF)


_SPIKE_OFF = (5.0, 0.1)
_RATIO_OFF = 0.05
#: What is left of a wait that prefetch hides, ms.
_HIDDEN_MS = 1.0
#: A sensor says these of the whole machine: on one that others use too they may well be true.
_OF_THE_MACHINE = ("CPU contention", "swap", "thermal limit")


#: What is trained once for some of the cases.
Experiment: TypeAlias = Callable[["Trainings"], Iterator[Case]]


def experiments() -> Iterator[Experiment]:
    """All of them, in the order of the table."""
    for kind in ON_DEMAND:
        host_ms = (0.0,) if kind in (*FUSED, LOOP) else (0.0, 0.0, 2.0, 6.0)
        yield _split_of(Schedule((0, 0, 1, 2, 5, 10, 20, 40), (0, 0, 4, 12), host_ms, kind, steps=160))
    for kind in AHEAD:
        rest = {"compute_ms": (2.0,)} if kind in FUSED else {"host_ms": (0.0, 2.0)}
        yield _split_of(Schedule((0, 0, 5, 10, 20, 40), kind=kind, steps=160, **rest))
    for data_ms, compute_ms, word in (
        (0.0, 30.0, "NOT"),
        (0.5, 40.0, "NOT"),
        (3, 24, "MODERATELY"),
        (12, 12, "HIGHLY"),
    ):
        yield _verdict("tf.data", data_ms, compute_ms, word)
    for data_ms, compute_ms, word in ((8.0, 20.0, "NOT"), (70.0, 60.0, "MODERATELY"), (40.0, 20.0, "HIGHLY")):
        yield _verdict("prefetch", data_ms, compute_ms, word)
    yield _bound(Schedule(host_ms=(12,), compute_ms=(12,), steps=50), "host-bound")
    yield _bound(Schedule(host_ms=(2,), compute_ms=(20,), steps=50), "compute-bound")
    yield from (_named, _shuffle, _slow_start, _hiccups, _period, _slow_callback, _drift, _switches)


# -- the split, the verdict -----------------------------------------------------------------------------


def _split_of(schedule: Schedule) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        trained = trainings.train(schedule)
        for found in trained.found:
            own = found.part == "wait"
            group = f"wait: {schedule.kind}" if own else found.part
            case = f"{found.slept_ms:g} ms" if own else f"{found.slept_ms:g} ms, {schedule.kind}"
            yield figure(group, case, found.injected_ms, found.measured_ms, TOLERANCES[found.part])
        yield wall(schedule.kind, trained)

    return run


def _verdict(kind: str, data_ms: float, compute_ms: float, word: str) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        trained = trainings.train(Schedule((data_ms,), (compute_ms,), kind=kind, steps=50))
        judged = judge(trained.run.steps).verdict.name
        group = f"verdict: prefetch {'on' if kind in AHEAD else 'off'}"
        yield words(group, f"data {data_ms:g}, compute {compute_ms:g} ms", word, judged)
        yield wall(f"{group}: data {data_ms:g} ms", trained)

    return run


def _bound(schedule: Schedule, word: str) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        trained = trainings.train(schedule)
        bound = judge(trained.run.steps).bound
        case = f"host {schedule.host_ms[0]:g}, compute {schedule.compute_ms[0]:g} ms"
        yield words("verdict: what binds", case, word, bound.value if bound else "not enough data")
        yield wall(f"what binds: {case}", trained)

    return run


# -- spikes -----------------------------------------------------------------------------------------------

#: So far apart that one that comes by chance still leaves them rare.
_APART = 210
#: Sleeps have no cause that anybody could know. Each is some more than the least that is a spike.
_SPIKES = (
    ("wait", "sleep", 30.5),
    ("compute", "sleep", 31.0),
    ("host", "callback", 31.0),
    ("host", "checkpoint", 32.0),
    ("wait", "garbage collection", 0.0),
    ("compute", "garbage collection", 0.0),
    ("host", "garbage collection", 0.0),
    ("wait", "sleep", 120.0),
    ("compute", "sleep", 60.0),
    ("host", "callback", 60.0),
    ("host", "checkpoint", 120.0),
)
_CALLED = {
    "sleep": UNEXPLAINED.name,
    "callback": f"callback {LOGGER}",
    "checkpoint": f"checkpoint {CHECKPOINT}",
    "garbage collection": "garbage collection",
}


def _named(trainings: Trainings) -> Iterator[Case]:
    """Spikes in every part: found where they are, as long as they are, with their own cause and no other."""
    at = range(_APART // 2, _APART * len(_SPIKES), _APART)
    held_up = tuple(HeldUp(step, *spike) for step, spike in zip(at, _SPIKES, strict=True))
    trained = trainings.train(Schedule(compute_ms=(2.0,), steps=_APART * len(_SPIKES), held_up=held_up))
    told = _spikes_of(trained.run)
    for asked, one in zip(held_up, trained.held_up, strict=True):
        name = f"{asked.ms:g} ms in {one.part}" if asked.ms else f"in {one.part}"
        yield from _spike(name, one, told.pop(one.step, None))
    flagged = set(trained.run.steps["step"][trained.run.steps["flags"] != 0].tolist())
    invented = [spike for step, spike in told.items() if step not in flagged and not _is_honest(spike)]
    plain = len(trained.run.steps) - len(held_up)
    yield words("spike: causes made up", f"{plain} plain steps", "none", ", ".join(map(_called, invented)) or "none")
    yield wall("spikes", trained)


def _spike(name: str, one: HeldUp, told: Spike | None) -> Iterator[Case]:
    if one.ms < LEAST_MS:
        return  # a collection was over sooner than a spike
    cause = _CALLED[one.how]
    called = _called_in(told, one.part) if told else "not found"
    # Where other programs hold the machine up too, who can tell a sleep from that?
    named = cause if told and one.how == "sleep" and called in _OF_THE_MACHINE else called
    yield words(f"spike: {one.how}", name, cause, named)
    if told:
        yield figure("spike: how long", f"{name}, {cause}", one.ms, told.extra_ms, _SPIKE_OFF)


def _called_in(spike: Spike, part: str) -> str:
    return _called(spike) if spike.part == part else f"{_called(spike)} in {spike.part}"


def _called(spike: Spike) -> str:
    return f"{spike.cause} {spike.detail}" if spike.cause in ("callback", "checkpoint") else spike.cause


def _is_honest(spike: Spike) -> bool:
    return spike.cause == UNEXPLAINED.name or spike.cause in _OF_THE_MACHINE


def _spikes_of(run: Run) -> dict[int, Spike]:
    return {spike.step: spike for spike in find_spikes(run.steps, Pauses(run.events))}


def _cause_of(run: Run, step: int) -> str:
    spike = _spikes_of(run).get(step)
    return _called(spike) if spike else "not found"


def _shuffle(trainings: Trainings) -> Iterator[Case]:
    """A buffer of 20 elements of 4 ms is filled before each epoch."""
    run = trainings.fill(steps=30, buffer=20, element_ms=4.0)
    yield words("spike: shuffle fill", "20 elements of 4 ms", "shuffle fill", _cause_of(run, 31))


def _slow_start(trainings: Trainings) -> Iterator[Case]:
    """An epoch's first batch takes longer, for another reason."""
    held_up = (HeldUp(31, "wait", "sleep", 60.0),)
    trained = trainings.train(Schedule(compute_ms=(2.0,), kind="validation", steps=60, held_up=held_up))
    yield words("spike: epoch start", "first batch 60 ms later", "epoch start", _cause_of(trained.run, 31))
    yield words("spike: compile", "first step", "compile", _cause_of(trained.run, 1))


# -- stalls -----------------------------------------------------------------------------------------------


def _hiccups(trainings: Trainings) -> Iterator[Case]:
    """One long wait, and some that follow one another."""
    row = range(150, 156)
    held_up = (HeldUp(60, "wait", "sleep", 1200.0), *(HeldUp(step, "wait", "sleep", 250.0) for step in row))
    trained = trainings.train(Schedule(compute_ms=(4.0,), steps=220, held_up=held_up))
    found = {stall.step: stall for stall in find_stalls(trained.run.steps, Pauses(trained.run.events))}
    for first, steps in ((60, 1), (row.start, len(row))):
        took_ms = sum(one.ms for one in trained.held_up if first <= one.step < first + steps)
        stall, case = found.pop(first, None), f"{steps} step{'s' if steps > 1 else ''} in a row"
        if stall is None or stall.steps != steps:
            yield words(
                "stall: how long", case, f"{steps} from step {first}", f"{stall.steps} steps" if stall else "not found"
            )
        else:
            yield figure("stall: how long", case, took_ms, stall.lost_ms, _SPIKE_OFF)
    yield words("stall: made up", "220 steps", "none", ", ".join(f"step {step}" for step in found) or "none")
    yield wall("stalls", trained)


def _period(trainings: Trainings) -> Iterator[Case]:
    yield from _shaped(trainings, "sleep", "wait", "every 20th step")


def _slow_callback(trainings: Trainings) -> Iterator[Case]:
    yield from _shaped(trainings, "callback", "host", f"every 20th step, {LOGGER}")


def _shaped(trainings: Trainings, how: str, part: str, shape: str) -> Iterator[Case]:
    held_up = tuple(HeldUp(step, part, how, 40.0) for step in range(20, 241, 20))
    trained = trainings.train(Schedule(compute_ms=(4.0,), steps=250, held_up=held_up))
    yield words("stall: shape", f"a {part} that comes back", shape, _shape_of(trained, part))


def _drift(trainings: Trainings) -> Iterator[Case]:
    held_up = tuple(HeldUp(step, "wait", "sleep", 8.0 * step / 480) for step in range(1, 481))
    trained = trainings.train(Schedule(compute_ms=(2.0,), steps=480, held_up=held_up))
    yield words("stall: shape", "a wait that grows slowly", "drift", _shape_of(trained, "wait"))


def _shape_of(trained: Trained, part: str) -> str:
    patterns = find_patterns(trained.run.steps, Pauses(trained.run.events))
    return "; ".join(map(_in_words, (found for found in patterns if found.part == part))) or "not found"


def _in_words(pattern: Pattern) -> str:
    return f"every {pattern.period}th step{pattern.detail and f', {pattern.detail}'}" if pattern.period else "drift"


# -- switches ---------------------------------------------------------------------------------------------


def _switches(trainings: Trainings) -> Iterator[Case]:
    """Prefetch hides a delay that is shorter than the step's work, and no longer does once it is off again."""
    schedule = Schedule((8.0,), (20.0,), steps=130, switches=((45, 4), (90, "off")))
    trained = trainings.train(schedule)
    rows = trained.run.steps
    made = compare(trained.run.events, len(rows), lambda first, last: rows[max(first, 1) - 1 : last])
    for name, at, ratio in (("on", 0, 28 / 20), ("off", 1, 20 / 28)):
        case = f"prefetch {name}, data 8, compute 20 ms"
        told = made[at].ratio if len(made) > at else None
        if told is None:
            yield words("switch: how much it gave", case, f"{ratio:.2f} x", "no comparison")
        else:
            yield Case("switch: how much it gave", case, ratio, told, "x", abs(told / ratio - 1) / _RATIO_OFF)
    if len(made) == 2 and made[0].step and made[1].step:
        hidden = steady(rows[made[0].step - 1 : made[1].step - 1])["wait_ms"]
        left_ms = float(np.median(hidden)) if len(hidden) else float("nan")
        yield Case("switch: wait left", "prefetch on, data 8, compute 20 ms", 0.0, left_ms, "ms", left_ms / _HIDDEN_MS)
    yield wall("switches", trained)
