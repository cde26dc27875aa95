"""A generator that yields single rows: each one passes Python by itself.

Remedy: yield whole batches from the generator, and leave `.batch()` out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.cheap_maps import LEAST_BATCH, batch_size
from tfwatch.judge.findings.finding import Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.stages import Stage, StageTable

#: Milliseconds: a row that takes longer is work of the generator itself, not its passing.
_CHEAP_ROW = 1.0
#: A row takes about 0.1 ms through `from_generator`, a batch of rows as long: of the data wait of
#: ten generators, batches gave back 0.97 to 1.1.
_SAVED = 0.95
#: The generator and the Python of a step take turns at the GIL: of ten generators with a prefetch
#: on two cores, batches gave back 0.2 to 0.8 of compute, 0.6 in the median.
_TURNS = 0.5
_CODE = (
    "def batches():  # in place of the generator of rows\n"
    "    for at in range(0, len(x), {size}): yield x[at : at + {size}], y[at : at + {size}]\n"
    "dataset = tf.data.Dataset.from_generator(batches, output_signature=...)  # without .batch()"
)


def find(now: Situation) -> Finding | None:
    """Find the data wait for the rows of a generator."""
    table, spent = now.stages, now.regime.spent
    size = batch_size(table, now.manifest.batch_size)
    rows = _row_generator(table)
    if rows is None or size is None or size < LEAST_BATCH or rows.busy_ms > _CHEAP_ROW * size:
        return None
    claims = {
        "data_wait_s": _SAVED * spent.data_wait_s,
        "compute_s": _TURNS * now.compute_beside_s,
    }
    brief = f"{rows.name} yields single rows: {1e3 * rows.busy_ms / size:.0f} us each"
    return Finding(
        "generator-rows",
        now.label("STARVING", sum(claims.values()), spent.worked_s),
        f"{brief}, {units.milliseconds(rows.busy_ms)} for a batch of {size}",
        f"yield batches of {size} from the generator, without .batch(): one call in place of"
        f" {size}",
        _CODE.format(size=size),
        brief=brief,
        where=rows.name,
        claims=claims,
    )


def _row_generator(table: StageTable | None) -> Stage | None:
    """Return the generator below a batch that takes most of the pipeline's time; None without
    one."""
    if table is None or not any("batch" in stage.name for stage in table.stages):
        return None
    slowest = max(table.stages, key=lambda stage: stage.batch_ms or 0.0)
    is_generator = slowest.kind.startswith("FlatMap") and slowest.calls_python
    return slowest if is_generator and slowest.busy_ms > 0 else None
