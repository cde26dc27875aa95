"""A cache that is thrown away in each epoch because `take` stops it before its end.

Remedy: `.take(n).cache()` in place of `.cache().take(n)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.forecasts.evidence import cores_of

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: The name of TensorFlow's warning in `log_lines`.
LINE = "cache dropped"
_CODE = "dataset = dataset.take(n).cache()  # in place of .cache().take(n)"


def find(now: Situation) -> Finding | None:
    """Find the data wait behind a cache that is not read to its end, and the compute that shares
    its cores with the work: TensorFlow warns of it, and the order of the stages shows it."""
    is_logged = LINE in now.log
    if not is_logged and not _takes_from_cache(now):
        return None
    spent = now.regime.spent
    claims = {
        "data_wait_s": spent.data_wait_s,
        "first_batch_s": spent.first_batch_s,
        "epoch_end_s": now.iterator_ends_s,
        "compute_s": _share_of_workers(now) * now.compute_beside_s,
    }
    lost_s = sum(claims.values())
    brief = f"each epoch fills the cache again, {units.seconds(lost_s)} in all"
    return Finding(
        "take-after-cache",
        now.label("STARVING", lost_s),
        f"{brief}: take() stops it before its end, and TensorFlow discards it",
        ".take() before .cache(): the cache then keeps what is taken",
        _CODE,
        brief=brief,
        claims=claims,
    )


def _takes_from_cache(now: Situation) -> bool:
    """Return whether a `take` follows a cache, and later epochs wait for data too."""
    kinds = [stage.kind for stage in now.stages.stages] if now.stages else []
    cache = next((at for at, kind in enumerate(kinds) if "Cache" in kind), len(kinds))
    return now.regime.epochs > 1 and any("Take" in kind for kind in kinds[cache:])


def _share_of_workers(now: Situation) -> float:
    """Return the share of the cores that the workers of the stages take from steps which use them
    all.

    On two cores with two workers it is half; of five runs there, a kept cache, which leaves them no
    work, gave back 0.4 to 0.7 of compute.
    """
    stages, cores = now.stages.stages if now.stages else (), cores_of(now.manifest)
    workers = min(cores, max((stage.workers for stage in stages), default=0.0))
    return workers / (workers + cores)
