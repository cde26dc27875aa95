"""Validation after the epochs.

Remedy: `validation_freq=5`, fewer `validation_steps`, or larger validation batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: The advised `validation_freq`.
_EVERY = 5
_FIT = (
    f"validation_freq={_EVERY}, or fewer validation_steps: callbacks that read val_loss"
    " (EarlyStopping) then see it less often; .cache() and larger batches make it shorter"
)
_LOOP = "validate less often, on less data, or in larger batches"


def find(now: Situation) -> Finding | None:
    """Find the time in validation."""
    regime = now.regime
    spent = regime.spent
    if not spent.validation_s:
        return None
    each_s = spent.validation_s / max(regime.epochs, 1)
    rest_s = (now.regime.judged_s - spent.validation_s) / max(regime.epochs, 1)
    given_back = 1 - 1 / _EVERY
    brief = f"validation takes {units.duration(each_s)} after each epoch of"
    brief = f"{brief} {units.duration(rest_s)}"
    return Finding(
        "validation",
        now.label("VALIDATION", spent.validation_s),
        brief,
        _LOOP if now.has_own_loop else _FIT,
        "" if now.has_own_loop else f"model.fit(..., validation_freq={_EVERY})",
        brief=brief,
        claims={
            "validation_s": spent.validation_s * given_back,
            "epoch_end_s": now.iterator_ends_s * given_back,
        },
    )
