"""The selftest's cases: each compares what is injected into a training with what tfwatch reports of
it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.checks.injected_schedule import (
    AHEAD,
    FUSED,
    LOGGER,
    LOOP,
    ON_DEMAND,
    Schedule,
    SlowStep,
    TrainingResult,
)
from tfwatch.judge.effects.comparison import compare
from tfwatch.judge.effects.wording import outcome_text
from tfwatch.judge.steps.causes import UNEXPLAINED, Pauses
from tfwatch.judge.steps.spikes import LEAST_MS, Spike, find_spikes
from tfwatch.judge.steps.stalls import find_stalls
from tfwatch.judge.steps.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.runs.snapshot import Snapshot


#: The tolerance of each part: milliseconds, or this share of the injected figure where that is
#: more. Compute and callbacks have varying costs of their own.
TOLERANCES = {"wait": (0.3, 0.02), "copy": (0.3, 0.1), "compute": (1.5, 0.05), "host": (1.0, 0.05)}
_WALL_TOLERANCE = 0.001
_WALL = "wait + compute + host = wall"
_SPIKE_TOLERANCE = (5.0, 0.1)
_RATIO_TOLERANCE = 0.05
#: Causes from sensors of the whole machine: other programs may indeed be the cause.
_OF_THE_MACHINE = ("CPU contention", "swap", "thermal limit")


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison.

    injected, measured: figures in `unit`, or texts. error_share: the error as a share of the
    tolerance; 0 for equal texts, infinite for others. tries: the number of trainings. skipped: why
    there is nothing to compare here.
    """

    group: str
    case: str
    injected: float | str
    measured: float | str
    unit: str
    error_share: float
    tries: int = 1
    skipped: str = ""

    @property
    def error(self) -> float | None:
        """Measured minus injected; None for texts."""
        if isinstance(self.injected, str) or isinstance(self.measured, str):
            return None
        return self.measured - self.injected

    @property
    def passed(self) -> bool:
        """True within the tolerance; NaN, of too few steps, does not pass."""
        return self.error_share <= 1.0


#: A training and the cases that it gives.
Experiment: TypeAlias = Callable[["Trainings"], Iterator[Case]]


def experiments() -> Iterator[Experiment]:
    """Yield all experiments, in the order of the table."""
    for kind in ON_DEMAND:
        host_ms = (0.0,) if kind in (FUSED, LOOP) else (0.0, 0.0, 2.0, 6.0)
        yield _split(Schedule((0, 0, 1, 2, 5, 10, 20, 40), (0, 0, 4, 12), host_ms, kind, steps=160))
    for kind in AHEAD:
        yield _split(Schedule((0, 0, 5, 10, 20, 40), host_ms=(0.0, 2.0), kind=kind, steps=160))
    for kind, data_ms, compute_ms, word in (
        ("tf.data", 0.5, 40.0, "NOT"),
        ("tf.data", 3.0, 24.0, "MODERATELY"),
        ("tf.data", 12.0, 12.0, "HIGHLY"),
        ("prefetch", 8.0, 20.0, "NOT"),
        ("prefetch", 70.0, 60.0, "MODERATELY"),
        ("prefetch", 40.0, 20.0, "HIGHLY"),
    ):
        yield _verdict(kind, data_ms, compute_ms, word)
    yield from (_spikes, _stalls, _equal_settings, _switches)
    yield from (_copy("float32", 5), _copy("float32", 40), _copy("uint8", 40))


def compare_figures(
    group: str, case: str, injected: float, measured: float, tolerance: tuple[float, float]
) -> Case:
    """Compare milliseconds. tolerance: milliseconds, or this share of the injected figure where
    that is more."""
    least_ms, share = tolerance
    error_share = abs(measured - injected) / max(least_ms, share * injected)
    return Case(
        group,
        case,
        injected,
        measured,
        "ms",
        error_share if error_share == error_share else float("inf"),
    )


def compare_texts(group: str, case: str, injected: str, measured: str) -> Case:
    """Compare the expected text with the reported one."""
    return Case(group, case, injected, measured, "", 0.0 if injected == measured else float("inf"))


def compare_wall(case: str, trained: TrainingResult) -> Case:
    """Compare the sum of each step's parts with its wall time."""
    return Case(
        _WALL,
        case,
        100.0,
        100.0 * (1 - trained.wall_error),
        "%",
        trained.wall_error / _WALL_TOLERANCE,
    )


# -- the split, the verdict ------------------------------------------------------------------------


def _split(schedule: Schedule) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        trained = trainings.train(schedule)
        for one in trained.comparisons:
            is_wait = one.part == "wait"
            group = f"wait: {schedule.kind}" if is_wait else one.part
            case = f"{one.slept_ms:g} ms" if is_wait else f"{one.slept_ms:g} ms, {schedule.kind}"
            yield compare_figures(
                group, case, one.injected_ms, one.measured_ms, TOLERANCES[one.part]
            )
        yield compare_wall(schedule.kind, trained)

    return run


def _verdict(kind: str, data_ms: float, compute_ms: float, word: str) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        trained = trainings.train(Schedule((data_ms,), (compute_ms,), kind=kind, steps=50))
        reported = judge(trained.run.steps).verdict.name
        group = f"verdict: prefetch {'on' if kind in AHEAD else 'off'}"
        yield compare_texts(group, f"data {data_ms:g}, compute {compute_ms:g} ms", word, reported)
        yield compare_wall(f"{group}: data {data_ms:g} ms", trained)

    return run


def _copy(kind: str, megabytes: int) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        case, measured = f"{kind}, {megabytes} MB", trainings.copy(kind, megabytes)
        if isinstance(measured, str):
            yield Case("copy", case, "", "", "", 0.0, skipped=measured)
        else:
            yield compare_figures("copy", case, *measured, TOLERANCES["copy"])

    return run


# -- spikes ----------------------------------------------------------------------------------------

#: Steps between spikes: with one more by chance they are still rare.
_DISTANCE = 210
#: A sleep has no cause that can be found. Each one is longer than the shortest spike.
_SPIKES = (
    ("wait", "sleep", 30.5),
    ("compute", "sleep", 31.0),
    ("host", "callback", 31.0),
    ("wait", "garbage collection", 0.0),
    ("compute", "garbage collection", 0.0),
    ("host", "garbage collection", 0.0),
    ("wait", "sleep", 120.0),
    ("compute", "sleep", 60.0),
    ("host", "callback", 60.0),
)
_CAUSES = {
    "sleep": UNEXPLAINED.name,
    "callback": f"callback {LOGGER}",
    "garbage collection": "garbage collection",
}


def _spikes(trainings: Trainings) -> Iterator[Case]:
    """Spikes in every part are found at their steps, with their lengths and their causes, and no
    others are."""
    at = range(_DISTANCE // 2, _DISTANCE * len(_SPIKES), _DISTANCE)
    slow_steps = tuple(SlowStep(step, *spike) for step, spike in zip(at, _SPIKES, strict=True))
    trained = trainings.train(
        Schedule(compute_ms=(2.0,), steps=_DISTANCE * len(_SPIKES), slow_steps=slow_steps)
    )
    reported = _spikes_of(trained.run)
    for asked, one in zip(slow_steps, trained.slow_steps, strict=True):
        name = f"{asked.ms:g} ms in {one.part}" if asked.ms else f"in {one.part}"
        yield from _spike(name, one, reported.pop(one.step, None))
    flagged = set(trained.run.steps["step"][trained.run.steps["flags"] != 0].tolist())
    wrong = [
        spike
        for step, spike in reported.items()
        if step not in flagged and not _is_plausible(spike)
    ]
    plain = len(trained.run.steps) - len(slow_steps)
    yield compare_texts(
        "spike: wrong causes",
        f"{plain} plain steps",
        "none",
        ", ".join(map(_name, wrong)) or "none",
    )
    yield compare_wall("spikes", trained)


def _spike(name: str, one: SlowStep, reported: Spike | None) -> Iterator[Case]:
    if one.ms < LEAST_MS:
        return  # a collection shorter than a spike
    cause = _CAUSES[one.how]
    part = _name_in(reported, one.part) if reported else "not found"
    # A sleep looks like the effect of other programs on the machine.
    accepted = cause if reported and one.how == "sleep" and part in _OF_THE_MACHINE else part
    yield compare_texts(f"spike: {one.how}", name, cause, accepted)
    if reported:
        yield compare_figures(
            "spike: extra time", f"{name}, {cause}", one.ms, reported.extra_ms, _SPIKE_TOLERANCE
        )


def _name_in(spike: Spike, part: str) -> str:
    return _name(spike) if spike.part == part else f"{_name(spike)} in {spike.part}"


def _name(spike: Spike) -> str:
    return f"{spike.cause} {spike.detail}" if spike.cause == "callback" else spike.cause


def _is_plausible(spike: Spike) -> bool:
    return spike.cause == UNEXPLAINED.name or spike.cause in _OF_THE_MACHINE


def _spikes_of(run: Snapshot) -> dict[int, Spike]:
    return {spike.step: spike for spike in find_spikes(run.steps, Pauses(run.events))}


# -- stalls ----------------------------------------------------------------------------------------


def _stalls(trainings: Trainings) -> Iterator[Case]:
    """One long data wait, and several in a row."""
    row = range(150, 156)
    slow_steps = (
        SlowStep(60, "wait", "sleep", 1200.0),
        *(SlowStep(step, "wait", "sleep", 250.0) for step in row),
    )
    trained = trainings.train(Schedule(compute_ms=(4.0,), steps=220, slow_steps=slow_steps))
    stalls = {
        stall.step: stall for stall in find_stalls(trained.run.steps, Pauses(trained.run.events))
    }
    for first, steps in ((60, 1), (row.start, len(row))):
        took_ms = sum(one.ms for one in trained.slow_steps if first <= one.step < first + steps)
        stall, case = stalls.pop(first, None), f"{steps} step{'s' if steps > 1 else ''} in a row"
        if stall is None or stall.steps != steps:
            yield compare_texts(
                "stall: lost time",
                case,
                f"{steps} from step {first}",
                f"{stall.steps} steps" if stall else "not found",
            )
        else:
            yield compare_figures(
                "stall: lost time", case, took_ms, stall.lost_ms, _SPIKE_TOLERANCE
            )
    yield compare_texts(
        "stall: wrong stalls",
        "220 steps",
        "none",
        ", ".join(f"step {step}" for step in stalls) or "none",
    )
    yield compare_wall("stalls", trained)


# -- switches --------------------------------------------------------------------------------------


def _comparisons(trained: TrainingResult) -> Sequence[Comparison]:
    """Return the comparisons of the steps before and after each switch."""
    rows = trained.run.steps
    return compare(
        trained.run.events, len(rows), lambda first, last: rows[max(first, 1) - 1 : last]
    )


def _equal_settings(trainings: Trainings) -> Iterator[Case]:
    """A deeper prefetch changes nothing where batches are ready already: no difference may be
    claimed."""
    trained = trainings.train(Schedule((2.0,), (8.0,), steps=240, switches=((0, "4"), (120, "8"))))
    comparisons = _comparisons(trained)
    newest = comparisons[-1] if comparisons else None
    is_open = newest and newest.effect and not newest.is_proved
    is_equal = is_open and newest and not newest.has_other_wait
    measured = "no difference" if is_equal else outcome_text(newest) if newest else "no comparison"
    yield compare_texts(
        "switch: equal settings", "prefetch 4 → 8, data 2, compute 8 ms", "no difference", measured
    )


def _switches(trainings: Trainings) -> Iterator[Case]:
    """Prefetch hides a delay shorter than the step's compute until it is switched off."""
    schedule = Schedule((8.0,), (20.0,), steps=130, switches=((45, "4"), (90, "off")))
    trained = trainings.train(schedule)
    comparisons = _comparisons(trained)
    for name, at, ratio in (("on", 0, 28 / 20), ("off", 1, 20 / 28)):
        case = f"prefetch {name}, data 8, compute 20 ms"
        estimate = comparisons[at].estimate if len(comparisons) > at else None
        measured = estimate.ratio if estimate else None
        if measured is None:
            yield compare_texts("switch: speedup", case, f"{ratio:.2f} x", "no comparison")
        else:
            yield Case(
                "switch: speedup",
                case,
                ratio,
                measured,
                "x",
                abs(measured / ratio - 1) / _RATIO_TOLERANCE,
            )
            # A test that claims nothing would pass the case of equal settings.
            expected = "faster" if ratio > 1 else "slower"
            yield compare_texts("switch: answer", case, expected, comparisons[at].answer)
    yield compare_wall("switches", trained)
