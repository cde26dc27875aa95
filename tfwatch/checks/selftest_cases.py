"""The selftest's cases: each compares what is injected into a training with what tfwatch reports of
it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tfwatch.judge.effects.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.runs.snapshot import Snapshot

PARTS = ("wait", "compute", "host")
#: `fit` over batches that are made on request, so that each delay is data wait in full; the same
#: with prefetch, where only the rest of a delay at the request is; and a loop without callbacks.
ON_DEMAND, AHEAD, LOOP = "tf.data", "prefetch", "tfwatch.track"
#: The tolerance of each part: milliseconds, or this share of the injected figure where that is
#: more. Compute and callbacks have varying costs of their own.
_TOLERANCES = {"wait": (0.3, 0.02), "copy": (0.3, 0.1), "compute": (1.5, 0.05), "host": (1.0, 0.05)}
_WALL_TOLERANCE = 0.001
_RATIO_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Schedule:
    """One training of `steps` steps. `*_ms`: the sleeps in that part, of which each step draws one.

    kind: the way in which the training gets its batches. switches: (step, value): prefetch is
    switched to the value after that step.
    """

    wait_ms: tuple[float, ...] = (0.0,)
    compute_ms: tuple[float, ...] = (0.0,)
    host_ms: tuple[float, ...] = (0.0,)
    kind: str = ON_DEMAND
    steps: int = 160
    switches: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartComparison:
    """Injected and measured time of sleeps of `slept_ms` in one part of the steps: medians, NaN
    with too few steps."""

    part: str
    slept_ms: float
    injected_ms: float
    measured_ms: float


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The figures of one training.

    comparisons: one for each sleep above 0 in a part that also has steps without. wall_error: the
    error of the parts' sum as a share of the time between two callbacks.
    """

    comparisons: list[PartComparison]
    wall_error: float
    run: Snapshot


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison.

    injected, measured: figures in `unit`, or texts. error_share: the error as a share of the
    tolerance; 0 for equal texts, infinite for others and for too few steps. tries: the number of
    trainings. skipped: why there is nothing to compare here.
    """

    name: str
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


class Trainings(Protocol):
    """Trains what a case injects."""

    def train(self, schedule: Schedule) -> TrainingResult:
        """Train one schedule and compare its delays with Watch's figures."""

    def copy(self, kind: str, megabytes: int) -> tuple[float, float] | str:
        """Return the milliseconds of a copy to a GPU, direct and in a training; or why there is
        none."""


#: A training and the cases that it gives.
Experiment: TypeAlias = Callable[[Trainings], Iterator[Case]]


def experiments() -> Iterator[Experiment]:
    """Yield all experiments, in the order of the table."""
    delays_ms = (0, 0, 1, 2, 5, 10, 20, 40)
    yield _split(Schedule(delays_ms, (0, 0, 4, 12), (0, 0, 2, 6)))
    yield _split(Schedule(delays_ms, (0, 0, 4, 12), kind=LOOP))
    yield _split(Schedule((0, 0, 5, 10, 20, 40), host_ms=(0, 2), kind=AHEAD))
    yield from (_equal_settings, _switches)
    yield from (_copy("float32", 5), _copy("float32", 40), _copy("uint8", 40))


def _split(schedule: Schedule) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        trained = trainings.train(schedule)
        for one in trained.comparisons:
            name = f"{one.part}, {schedule.kind}, {one.slept_ms:g} ms"
            yield _compare_ms(name, one.part, one.injected_ms, one.measured_ms)
        right = 100.0 * (1 - trained.wall_error)
        share = trained.wall_error / _WALL_TOLERANCE
        yield Case(f"parts sum to the wall clock, {schedule.kind}", 100.0, right, "%", share)

    return run


def _compare_ms(name: str, part: str, injected: float, measured: float) -> Case:
    least_ms, share = _TOLERANCES[part]
    error_share = abs(measured - injected) / max(least_ms, share * injected)
    return Case(name, injected, measured, "ms", error_share)


def _compare_texts(name: str, injected: str, measured: str) -> Case:
    return Case(name, injected, measured, "", 0.0 if injected == measured else float("inf"))


def _copy(kind: str, megabytes: int) -> Experiment:
    def run(trainings: Trainings) -> Iterator[Case]:
        name, measured = (
            f"copy to the GPU, {megabytes} MB of {kind}",
            trainings.copy(kind, megabytes),
        )
        if isinstance(measured, str):
            yield Case(name, "", "", "", 0.0, skipped=measured)
        else:
            yield _compare_ms(name, "copy", *measured)

    return run


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
    is_open = newest and newest.effect and not (newest.is_proved or newest.has_other_wait)
    measured = "no difference" if is_open else newest.answer if newest else "no comparison"
    yield _compare_texts("prefetch 4 to 8, data 2, compute 8 ms", "no difference", measured)


def _switches(trainings: Trainings) -> Iterator[Case]:
    """Prefetch hides a delay shorter than the step's compute until it is switched off."""
    schedule = Schedule((8.0,), (20.0,), steps=130, switches=((45, "4"), (90, "off")))
    comparisons = _comparisons(trainings.train(schedule))
    for at, (value, ratio, answer) in enumerate(
        (("4", 28 / 20, "faster"), ("off", 20 / 28, "slower"))
    ):
        name = f"prefetch {value}, data 8, compute 20 ms"
        estimate = comparisons[at].estimate if len(comparisons) > at else None
        measured = estimate.ratio if estimate else float("nan")
        share = abs(measured / ratio - 1) / _RATIO_TOLERANCE
        yield Case(f"{name}: speedup", ratio, measured, "x", share)
        # A test that claims nothing would pass the case of equal settings.
        claimed = comparisons[at].answer if estimate else "no comparison"
        yield _compare_texts(f"{name}: answer", answer, claimed)
