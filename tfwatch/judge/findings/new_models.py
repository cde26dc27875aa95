"""A new model for each `fit`: each one is traced again, and its memory stays.

Remedy: make and compile the model once, before the loop, and reset it with `set_weights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: From so many models on it is a loop that makes them.
_LOOP = 3
_ADVICE = (
    "make and compile the model once, before the loop, and set its weights back with set_weights;"
    " where it has to be new, keras.utils.clear_session() first"
)
_CODE = (
    "model = build(); first = model.get_weights()  # once, before the loop\n"
    "model.set_weights(first)  # in the loop, in place of a new model; or"
    " keras.utils.clear_session()"
)


def find(now: Situation) -> Finding | None:
    """Find the traces of the models after the first one."""
    regime, spent = now.regime, now.regime.spent
    if regime.models < _LOOP or not spent.traces:
        return None
    lost_s = spent.compile_s * min(1.0, (regime.models - 1) / spent.traces)
    brief = f"{regime.models} models in {units.counted(regime.fits, 'fit')}"
    return Finding(
        "new-models",
        now.label("RETRACING", lost_s),
        f"{brief}: each new model is traced and compiled again, {units.seconds(lost_s)} in all",
        _ADVICE,
        _CODE,
        brief=brief,
        claims={"compile_s": lost_s},
    )
