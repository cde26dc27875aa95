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
    regime, spent = now.regime, now.regime.spent
    if not spent.validation_s:
        return None
    rest_s, given_back = regime.judged_s - spent.validation_s, 1 - 1 / _EVERY
    each, rest = (
        units.duration(one / max(regime.epochs, 1)) for one in (spent.validation_s, rest_s)
    )
    brief = f"validation takes {each} after each epoch of {rest}"
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
