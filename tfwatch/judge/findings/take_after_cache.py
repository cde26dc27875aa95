"""A cache that is thrown away in each epoch because `take` stops it before its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Fact, Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: The name of TensorFlow's warning in `log_lines`.
LINE = "cache dropped"
_CODE = "dataset = dataset.take(n).cache()  # in place of .cache().take(n)"


def find(now: Situation) -> Finding | None:
    """Find the data wait behind TensorFlow's warning that a cache was not read to its end."""
    if LINE not in now.setting.log:
        return None
    spent = now.setting.regime.spent
    lost_s = spent.data_wait_s + spent.first_batch_s
    brief = f"each epoch fills the cache again, {units.seconds(lost_s)} in all"
    return Finding(
        "take-after-cache",
        f"STARVING {units.percent(lost_s / spent.active_s if spent.active_s else None)}",
        f"{brief}: take() stops it before its end, and TensorFlow discards it",
        ".take() before .cache(): the cache then keeps what is taken",
        _CODE,
        brief=brief,
        evidence=(
            Fact("lost", lost_s, "s"),
            Fact("log", LINE),
        ),
        reason="TensorFlow logged it",
        claims={"data_wait_s": spent.data_wait_s, "first_batch_s": spent.first_batch_s},
    )
