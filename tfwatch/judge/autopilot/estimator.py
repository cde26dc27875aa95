"""The step time of each setting, measured and estimated.

`measure` gives a mean step with its standard error. `Estimator` combines measurements and forecasts
by weighted least squares over the logarithms of step times: a measurement is as exact as its error
and the variation of the machine, a forecast as exact as the forecasts so far. `intervals` and
`find_measured` find the settings that a run has measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.comparison import LEAST
from tfwatch.judge.effects.knob_state import undo_changes
from tfwatch.judge.steps.verdict import steady

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.events import PipelineSwitched
    from tfwatch.core.knobs import KnobChange
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.steps.verdict import Breakdown

#: The share of steps in each tail.
_TAIL = 0.05
#: The largest autocorrelation that counts; above it a stretch is too short to estimate it.
_MOST_AUTOCORRELATION = 0.9


@dataclass(frozen=True, slots=True)
class Measurement:
    """The mean steady step of one setting."""

    steps: int
    step_ms: float
    #: Its standard error.
    error_ms: float
    #: The part without data wait.
    work_ms: float
    #: The part of it that copies the batch to the device; 0 where the copy is not timed.
    copy_ms: float = 0.0

    @property
    def wait_share(self) -> float:
        """Data wait over step time, 0 to 1."""
        return 1 - self.work_ms / self.step_ms if self.step_ms > 0 else 0.0


def measure(rows: Rows) -> Measurement | None:
    """Measure one setting from its rows of `core.rows.STEP`; None below two steady ones.

    The means are winsorised at `_TAIL`, and the standard error is that of a trimmed mean (Wilcox,
    Introduction to Robust Estimation). Correlated steps count as fewer: n (1 - r) / (1 + r) for a
    lag-one autocorrelation r above 0 (an AR(1) process).
    """
    kept = steady(rows)
    if len(kept) < 2:
        return None
    work = _winsorised(kept["compute_ms"].astype(np.float64) + kept["host_ms"])
    step = _winsorised(step_ms(kept, np.float64))
    deviation = step - step.mean()
    spread = float(deviation @ deviation)
    correlation = float(deviation[1:] @ deviation[:-1]) / spread if spread > 0 else 0.0
    correlation = min(max(correlation, 0.0), _MOST_AUTOCORRELATION)
    count = max(len(kept) * (1 - correlation) / (1 + correlation), 2.0)
    error = math.sqrt(spread / (len(kept) - 1) / count) / (1 - 2 * _TAIL)
    copy = float(np.nan_to_num(kept["copy_ms"]).mean(dtype=np.float64))
    return Measurement(
        len(kept), float(step.mean()), error, min(float(work.mean()), float(step.mean())), copy
    )


def _winsorised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with the tails clipped: a slow batch in ten still counts, one in a hundred
    does not."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    return np.clip(values, low, high)


#: A setting measured again varies by this share, and by this many standard errors of a stretch: on
#: two cores that others used too, the same setting's steps differed by 1 % to 8 % between visits.
_VARIATION, _ERRORS = 0.02, 2.0
#: The assumed error of a forecast: at least this share of a step, and this share of the expected
#: change. The assumption weighs as much as this many checked forecasts.
_LEAST_ERROR, _ERROR_OF_CHANGE, _FAITH = 0.05, 0.5, 2.0


@dataclass(frozen=True, slots=True)
class MeasuredDatum:
    """One measurement of a setting."""

    knobs: Mapping[str, str]
    measured: Measurement

    @property
    def log(self) -> float:
        """The logarithm of the mean step, in milliseconds."""
        return math.log(self.measured.step_ms)

    @property
    def deviation(self) -> float:
        """The standard deviation of the setting's step around the measured one, as a share."""
        return math.hypot(_ERRORS * self.measured.error_ms / self.measured.step_ms, _VARIATION)


@dataclass(frozen=True, slots=True)
class ForecastDatum:
    """The forecast of a switch, as the logarithm of the step after it over the step before.

    measured_log_ratio: NaN until the switch was measured. spread, measured_error: standard
    deviations, of the forecast by its interval and of the measured ratio.
    """

    knobs: Mapping[str, str]
    settings_after: Mapping[str, str]
    log_ratio: float
    spread: float
    measured_log_ratio: float = math.nan
    measured_error: float = 0.0

    @property
    def deviation(self) -> float:
        """The assumed standard deviation of the forecast, as a share."""
        return math.hypot(max(self.spread, _LEAST_ERROR), _ERROR_OF_CHANGE * self.log_ratio)


class Estimator:
    """Estimates the step of every measured setting (at least one) and of those forecast from
    them."""

    def __init__(
        self, measurements: Sequence[MeasuredDatum], forecasts: Sequence[ForecastDatum]
    ) -> None:
        settings = [one.knobs for one in measurements] + [one.settings_after for one in forecasts]
        self._at = {
            _key(one): n for n, one in enumerate({_key(one): one for one in settings}.values())
        }
        scale = _error_scale(forecasts)
        rows = [self._row(one.knobs) for one in measurements] + [
            self._row(one.settings_after) - self._row(one.knobs) for one in forecasts
        ]
        sure = 1 / np.array(
            [one.deviation for one in measurements] + [scale * one.deviation for one in forecasts]
        )
        logs = np.array([one.log for one in measurements] + [one.log_ratio for one in forecasts])
        weighed = np.array(rows) * sure[:, None]
        self._spread = np.linalg.inv(weighed.T @ weighed)
        self._mean = self._spread @ (weighed.T @ (logs * sure))

    def expected_saving(self, here: Mapping[str, str], there: Mapping[str, str]) -> float:
        """Return the expected saving of a setting over another, as a share of a step; below 0 where
        it is slower."""
        return float((self._row(here) - self._row(there)) @ self._mean)

    def expected_gain(
        self, here: Mapping[str, str], there: Mapping[str, str], price: float
    ) -> float:
        """Return the expected gain of a measurement of a setting, as a share of a step; the better
        of the two is kept.

        price: the saving that it needs to be the better. The knowledge gradient (Frazier, Powell,
        Dayanik 2008).
        """
        apart = self._row(there) - self._row(here)
        spread = float(self._row(there) @ self._spread @ self._row(there))
        learns = abs(float(apart @ self._spread @ self._row(there))) / math.sqrt(
            spread + _VARIATION**2
        )
        better = self.expected_saving(here, there) - price
        z = better / learns
        return (
            learns * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            + better * (1 + math.erf(z / math.sqrt(2))) / 2
        )

    def _row(self, knobs: Mapping[str, str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        row = np.zeros(len(self._at))
        row[self._at[_key(knobs)]] = 1.0
        return row


def _error_scale(forecasts: Iterable[ForecastDatum]) -> float:
    """Return the error of the forecasts so far over the assumed one."""
    known = [one for one in forecasts if not math.isnan(one.measured_log_ratio)]
    errors = [
        (one.measured_log_ratio - one.log_ratio) / math.hypot(one.deviation, one.measured_error)
        for one in known
    ]
    return math.sqrt((_FAITH + sum(error**2 for error in errors)) / (_FAITH + len(errors)))


def _key(knobs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(knobs.items()))


@dataclass(frozen=True, slots=True)
class SettingSpan:
    """A stretch of steps with one setting of all knobs. split: of its steady steps, if there are
    any."""

    knobs: Mapping[str, str]
    split: Breakdown | None


def intervals(
    comparisons: Sequence[Comparison],
    knobs: Mapping[str, str],
    switches: Sequence[PipelineSwitched] = (),
) -> list[SettingSpan]:
    """Return the stretches on both sides of each comparison, oldest first; the last one ended with
    `knobs`.

    switches: all of the run in order, where more were made than compared (those of A/B tests are
    not compared). Switches at one step begin one stretch.
    """
    made = [(switch.step, switch) for switch in comparisons if switch.step is not None]
    past = [(turn.step, turn.change) for turn in switches] or [
        (step, switch.change) for step, switch in made
    ]
    state, spans = dict(knobs), []
    for n in range(len(made) - 1, -1, -1):
        step, switch = made[n]
        state = _undo_after(state, past, step)
        if n == len(made) - 1 or made[n + 1][0] != step:
            spans.append(SettingSpan(dict(state), switch.after))
    if made:
        step, switch = made[0]
        state = _undo_after(state, past, step - 1)
        spans.append(SettingSpan(dict(state), switch.before))
    return spans[::-1]


def _undo_after(
    state: dict[str, str], past: list[tuple[int, KnobChange]], step: int
) -> dict[str, str]:
    """Return the knobs before the changes after a step, and remove these from `past`."""
    later = []
    while past and past[-1][0] > step:
        later.append(past.pop()[1])
    return undo_changes(state, later)


def find_measured(
    history: Sequence[SettingSpan], wanted: Mapping[str, str], now: Mapping[str, str]
) -> tuple[Breakdown, Breakdown | None] | None:
    """Find the newest stretch of the wanted setting, and a neighbor with the current one, `now`, if
    there is any.

    None where the run lacks `LEAST` steady steps with the wanted setting.
    """
    for n in range(len(history) - 1, -1, -1):
        split = history[n].split
        if history[n].knobs == wanted and split is not None and split.steps >= LEAST:
            beside = [history[near].split for near in (n + 1, n - 1) if _is_at(history, near, now)]
            return split, next(
                (one for one in beside if one is not None and one.steps >= LEAST), None
            )
    return None


def _is_at(history: Sequence[SettingSpan], n: int, knobs: Mapping[str, str]) -> bool:
    return 0 <= n < len(history) and history[n].knobs == knobs
