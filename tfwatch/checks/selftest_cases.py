"""The selftest's cases: each compares what is injected into a training with what tfwatch reports of
it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.checks.injected_schedule import (
    AHEAD,
    FUSED,
    LOOP,
    ON_DEMAND,
    Schedule,
    TrainingResult,
)
from tfwatch.judge.effects.comparison import compare
from tfwatch.judge.effects.wording import outcome_text
from tfwatch.judge.steps.steady_steps import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.judge.effects.comparison import Comparison


#: The tolerance of each part: milliseconds, or this share of the injected figure where that is
#: more. Compute and callbacks have varying costs of their own.
TOLERANCES = {"wait": (0.3, 0.02), "copy": (0.3, 0.1), "compute": (1.5, 0.05), "host": (1.0, 0.05)}
_WALL_TOLERANCE = 0.001
_WALL = "wait + compute + host = wall"
_RATIO_TOLERANCE = 0.05


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
    yield from (_equal_settings, _switches)
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
        verdict = judge(trained.run.steps).verdict
        reported = verdict.name if verdict else "n/a"
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
