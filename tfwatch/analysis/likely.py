"""What each setting's step takes, by all that is known of it: what was measured, and what was forecast.

Weighted least squares over the logarithms of step times. A stretch of steps says what its setting takes, as exactly as
its own error and a machine that wanders allow; a forecast says how far two settings lie apart, as exactly as the
forecasts so far came true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tfwatch.analysis.gain import Measured

#: A machine that comes back to a setting is as fast as before to this share, and to so many standard errors of a
#: stretch: between visits the same setting's steps lay 1 % to 8 % apart on two cores that others used too.
_WANDERS, _ERRORS = 0.02, 2.0
#: A forecast is off by this share of a step at least, and by this share of what it promises, until its record tells:
#: before that, it counts as so many that came true.
_OFF, _OFF_OF_PROMISE, _FAITH = 0.05, 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A stretch of steps that was measured under a setting."""

    knobs: Mapping[str, str]
    measured: Measured

    @property
    def log(self) -> float:
        """The logarithm of the mean step, in milliseconds."""
        return math.log(self.measured.step_ms)

    @property
    def off(self) -> float:
        """How far the setting's own step may be from it: a standard deviation, as a share."""
        return math.hypot(_ERRORS * self.measured.error_ms / self.measured.step_ms, _WANDERS)


@dataclass(frozen=True, slots=True)
class Told:
    """What was foretold of a switch: the logarithm of the step after it over the one before; came: NaN until it did.

    range, came_off: standard deviations, by the forecast's own range, and of what came by how exactly it was measured.
    """

    knobs: Mapping[str, str]
    turned: Mapping[str, str]
    promised: float
    range: float
    came: float = math.nan
    came_off: float = 0.0

    @property
    def off(self) -> float:
        """How far it is taken to be off, before anything is known of forecasts: a standard deviation, as a share."""
        return math.hypot(max(self.range, _OFF), _OFF_OF_PROMISE * self.promised)


class Likely:
    """Estimates of every setting in `seen`, at least one, and in `told`, which begin at settings that are known."""

    def __init__(self, seen: Sequence[Seen], told: Sequence[Told]) -> None:
        settings = [one.knobs for one in seen] + [one.turned for one in told]
        self._at = {_key(one): n for n, one in enumerate({_key(one): one for one in settings}.values())}
        off = _record(told)
        rows = [self._row(one.knobs) for one in seen] + [self._row(one.turned) - self._row(one.knobs) for one in told]
        sure = 1 / np.array([one.off for one in seen] + [off * one.off for one in told])
        says = np.array([one.log for one in seen] + [one.promised for one in told])
        weighed = np.array(rows) * sure[:, None]
        self._spread = np.linalg.inv(weighed.T @ weighed)
        self._mean = self._spread @ (weighed.T @ (says * sure))

    def gain(self, here: Mapping[str, str], there: Mapping[str, str]) -> float:
        """The share of a step that a setting is likely to save over another; below 0 where it is slower."""
        return float((self._row(here) - self._row(there)) @ self._mean)

    def worth(self, here: Mapping[str, str], there: Mapping[str, str], price: float) -> float:
        """The share of a step that trying a setting gains on average, where the better of the two is kept.

        price: what it has to save to be the better. It is the knowledge gradient (Frazier, Powell, Dayanik 2008).
        """
        apart = self._row(there) - self._row(here)
        spread = float(self._row(there) @ self._spread @ self._row(there))
        learns = abs(float(apart @ self._spread @ self._row(there))) / math.sqrt(spread + _WANDERS**2)
        better = self.gain(here, there) - price
        z = better / learns
        return learns * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) + better * (1 + math.erf(z / math.sqrt(2))) / 2

    def _row(self, knobs: Mapping[str, str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        row = np.zeros(len(self._at))
        row[self._at[_key(knobs)]] = 1.0
        return row


def _record(told: Iterable[Told]) -> float:
    """So many times as far off as they are taken to be, forecasts were so far."""
    known = [one for one in told if not math.isnan(one.came)]
    offs = [((one.came - one.promised) / math.hypot(one.off, one.came_off)) ** 2 for one in known]
    return math.sqrt((_FAITH + sum(offs)) / (_FAITH + len(offs)))


def _key(knobs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(knobs.items()))
