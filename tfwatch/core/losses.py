"""When the loss was no finite number, one frozen class a fact. `at_ns` counts from the run's clock origin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LossDiverged:
    """The loss of `step` is `NaN` or `infinite`, which `loss` says; that of `finite_step` was the last finite one.

    finite_step: 0 where none was. Steps between the two are of the same call, or said no loss.
    """

    at_ns: int
    step: int
    loss: str
    finite_step: int


@dataclass(frozen=True, slots=True)
class LossRecovered:
    """The loss of `step` is finite again."""

    at_ns: int
    step: int
