"""The step time of each setting: measured, seen earlier in the run, and estimated from both and the forecasts.

What was measured under a setting, from few steps, and how sure it is.

What each setting's step takes, by all that is known of it: what was measured, and what was forecast.

Weighted least squares over the logarithms of step times. A stretch of steps says what its setting takes, as exactly as
its own error and a machine that wanders allow; a forecast says how far two settings lie apart, as exactly as the
forecasts so far came true.

What the settings of a run have shown so far: where it has stood before, nothing needs to be forecast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.steps.breakdown import steady
from tfwatch.analysis.tuning.comparison import LEAST
from tfwatch.analysis.tuning.knob_state import undo_changes
from tfwatch.core.rows import step_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.core.events import PipelineSwitched
    from tfwatch.core.knobs import KnobChange
    from tfwatch.core.rows import Rows

#: The share of steps on each side that counts as far off as its nearest neighbour.
_TAIL = 0.05
#: Neighbours may resemble each other so much; beyond it a stretch is too short to tell.
_LIKEST = 0.9


@dataclass(frozen=True, slots=True)
class Measurement:
    """Steady steps of one setting, means: step_ms with its standard error, work_ms the part that is no data wait."""

    steps: int
    step_ms: float
    error_ms: float
    work_ms: float

    @property
    def wait_share(self) -> float:
        """Data wait over step time, 0 to 1."""
        return 1 - self.work_ms / self.step_ms if self.step_ms > 0 else 0.0


def measure(rows: Rows) -> Measurement | None:
    """Of rows of `core.rows.STEP` of one setting; None below two steady ones.

    The means are winsorised at `_TAIL`, and the standard error is that of a trimmed mean (Wilcox, Introduction to
    Robust Estimation). It counts neighbouring steps that resemble each other as fewer: n (1 - r) / (1 + r) for a
    lag-one autocorrelation r above 0 (an AR(1) process).
    """
    kept = steady(rows)
    if len(kept) < 2:
        return None
    work = _winsorised(kept["compute_ms"].astype(np.float64) + kept["host_ms"])
    step = _winsorised(step_ms(kept, np.float64))
    deviation = step - step.mean()
    spread = float(deviation @ deviation)
    likeness = float(deviation[1:] @ deviation[:-1]) / spread if spread > 0 else 0.0
    likeness = min(max(likeness, 0.0), _LIKEST)
    count = max(len(kept) * (1 - likeness) / (1 + likeness), 2.0)
    error = math.sqrt(spread / (len(kept) - 1) / count) / (1 - 2 * _TAIL)
    return Measurement(len(kept), float(step.mean()), error, min(float(work.mean()), float(step.mean())))


def _winsorised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What lies in the tails moved to where they begin: a slow batch in ten still counts, one in a hundred does not."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    return np.clip(values, low, high)


#: A machine that comes back to a setting is as fast as before to this share, and to so many standard errors of a
#: stretch: between visits the same setting's steps lay 1 % to 8 % apart on two cores that others used too.
_WANDERS, _ERRORS = 0.02, 2.0
#: A forecast is off by this share of a step at least, and by this share of what it promises, until its record tells:
#: before that, it counts as so many that came true.
_LEAST_ERROR, _ERROR_OF_CHANGE, _FAITH = 0.05, 0.5, 2.0


@dataclass(frozen=True, slots=True)
class MeasuredDatum:
    """A stretch of steps that was measured under a setting."""

    knobs: Mapping[str, str]
    measured: Measurement

    @property
    def log(self) -> float:
        """The logarithm of the mean step, in milliseconds."""
        return math.log(self.measured.step_ms)

    @property
    def deviation(self) -> float:
        """How far the setting's own step may be from it: a standard deviation, as a share."""
        return math.hypot(_ERRORS * self.measured.error_ms / self.measured.step_ms, _WANDERS)


@dataclass(frozen=True, slots=True)
class ForecastDatum:
    """What was foretold of a switch: the logarithm of the step after it over the one before; came: NaN until it did.

    range, came_off: standard deviations, by the forecast's own range, and of what came by how exactly it was measured.
    """

    knobs: Mapping[str, str]
    settings_after: Mapping[str, str]
    log_ratio: float
    spread: float
    measured_log_ratio: float = math.nan
    measured_error: float = 0.0

    @property
    def deviation(self) -> float:
        """How far it is taken to be off, before anything is known of forecasts: a standard deviation, as a share."""
        return math.hypot(max(self.spread, _LEAST_ERROR), _ERROR_OF_CHANGE * self.log_ratio)


class Estimator:
    """Estimates of every setting in `seen`, at least one, and in `told`, which begin at settings that are known."""

    def __init__(self, measurements: Sequence[MeasuredDatum], forecasts: Sequence[ForecastDatum]) -> None:
        settings = [one.knobs for one in measurements] + [one.settings_after for one in forecasts]
        self._at = {_key(one): n for n, one in enumerate({_key(one): one for one in settings}.values())}
        deviation = _error_scale(forecasts)
        rows = [self._row(one.knobs) for one in measurements] + [self._row(one.settings_after) - self._row(one.knobs) for one in forecasts]
        sure = 1 / np.array([one.deviation for one in measurements] + [deviation * one.deviation for one in forecasts])
        logs = np.array([one.log for one in measurements] + [one.log_ratio for one in forecasts])
        weighed = np.array(rows) * sure[:, None]
        self._spread = np.linalg.inv(weighed.T @ weighed)
        self._mean = self._spread @ (weighed.T @ (logs * sure))

    def expected_saving(self, here: Mapping[str, str], there: Mapping[str, str]) -> float:
        """The share of a step that a setting is likely to save over another; below 0 where it is slower."""
        return float((self._row(here) - self._row(there)) @ self._mean)

    def expected_gain(self, here: Mapping[str, str], there: Mapping[str, str], price: float) -> float:
        """The share of a step that trying a setting gains on average, where the better of the two is kept.

        price: what it has to save to be the better. It is the knowledge gradient (Frazier, Powell, Dayanik 2008).
        """
        apart = self._row(there) - self._row(here)
        spread = float(self._row(there) @ self._spread @ self._row(there))
        learns = abs(float(apart @ self._spread @ self._row(there))) / math.sqrt(spread + _WANDERS**2)
        better = self.expected_saving(here, there) - price
        z = better / learns
        return learns * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) + better * (1 + math.erf(z / math.sqrt(2))) / 2

    def _row(self, knobs: Mapping[str, str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        row = np.zeros(len(self._at))
        row[self._at[_key(knobs)]] = 1.0
        return row


def _error_scale(forecasts: Iterable[ForecastDatum]) -> float:
    """So many times as far off as they are taken to be, forecasts were so far."""
    known = [one for one in forecasts if not math.isnan(one.measured_log_ratio)]
    offs = [((one.measured_log_ratio - one.log_ratio) / math.hypot(one.deviation, one.measured_error)) ** 2 for one in known]
    return math.sqrt((_FAITH + sum(offs)) / (_FAITH + len(offs)))


def _key(knobs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(knobs.items()))


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of steps with one setting of all knobs, in words; `split` of its steady steps, where there are any."""

    knobs: Mapping[str, str]
    split: Breakdown | None


def intervals(
    comparisons: Sequence[Comparison], knobs: Mapping[str, str], switches: Sequence[PipelineSwitched] = ()
) -> list[Interval]:
    """The stretches on both sides of each comparison, oldest first; the last one ended with `knobs`.

    turns: every switch of the run in order, where more were made than are compared (those of experiments are not).
    Knobs that were turned at one step began one stretch together.
    """
    made = [(switch.step, switch) for switch in comparisons if switch.step is not None]
    past = [(turn.step, turn.change) for turn in switches] or [(step, switch.change) for step, switch in made]
    state, found = dict(knobs), []
    for n in range(len(made) - 1, -1, -1):
        step, switch = made[n]
        state = _undo_after(state, past, step)
        if n == len(made) - 1 or made[n + 1][0] != step:
            found.append(Interval(step_time_knobs(state), switch.after))
    if made:
        step, switch = made[0]
        state = _undo_after(state, past, step - 1)
        found.append(Interval(step_time_knobs(state), switch.before))
    return found[::-1]


def _undo_after(state: dict[str, str], past: list[tuple[int, KnobChange]], step: int) -> dict[str, str]:
    """The knobs before what was turned after a step, which leaves `past`."""
    later = []
    while past and past[-1][0] > step:
        later.append(past.pop()[1])
    return undo_changes(state, later)


def find_measured(
    history: Sequence[Interval], wanted: Mapping[str, str], now: Mapping[str, str]
) -> tuple[Breakdown, Breakdown | None] | None:
    """The newest stretch of the wanted setting, and of a neighbour with the present one, `now`, if there is any.

    None where the run has not stood there for `LEAST` steady steps.
    """
    wanted, now = step_time_knobs(wanted), step_time_knobs(now)
    for n in range(len(history) - 1, -1, -1):
        split = history[n].split
        if history[n].knobs == wanted and split is not None and split.steps >= LEAST:
            beside = [history[near].split for near in (n + 1, n - 1) if _is_at(history, near, now)]
            return split, next((one for one in beside if one is not None and one.steps >= LEAST), None)
    return None


def _is_at(history: Sequence[Interval], n: int, knobs: Mapping[str, str]) -> bool:
    return 0 <= n < len(history) and history[n].knobs == knobs


def step_time_knobs(knobs: Mapping[str, str]) -> dict[str, str]:
    """The knobs that change a step's time."""
    return {knob: value for knob, value in knobs.items() if affects_step_time(knob)}


def affects_step_time(knob: str) -> bool:
    """Whether it changes a step's time: a shuffle changes only the order of the examples."""
    return knob != "shuffle"
