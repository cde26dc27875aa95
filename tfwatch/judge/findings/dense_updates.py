"""An optimizer that updates all rows of a large embedding in each step, though a batch has few.

Remedy: an optimizer without moments for the embedding, a smaller table, or larger batches. Each
changes what is trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: Bytes that an update reads and writes for each weight: the weight and each moment, twice.
#: Keras' Adam applies dense moments to all rows (keras issue 19992).
_BYTES = {"adam": 24, "adamw": 24, "nadam": 24, "adamax": 24, "rmsprop": 16, "adagrad": 16}
#: Bytes a second that an update passes: five tables of 6 to 19 million weights passed 4 to 6.6e9
#: with Adam on two cores; a GPU's memory passes about a hundred times as much.
_CPU, _GPU = 5e9, 8e11
#: At most this share of compute is given back without moments: of four tables on two cores 0.75,
#: 0.75, 0.84 and 0.90. The step without them copies the table too.
_MOST = 0.85


def updates_all_rows(optimizer: str) -> bool:
    """Return whether an optimizer of this class keeps dense moments."""
    return optimizer.lower() in _BYTES


def find(now: Situation) -> Finding | None:
    """Find the update of the largest embedding, by a profile of the step; without one it is
    estimated from its size."""
    spent, model = now.regime.spent, now.manifest.model
    table, optimizer = (model.largest_embedding, model.optimizer) if model else (None, "")
    if table is None or not updates_all_rows(optimizer) or not spent.steps:
        return None
    name, step_bytes = table.name, table.rows * table.columns * _BYTES[optimizer.lower()]
    measured_s = _measured_s(now, name)
    estimated_s = step_bytes / (_GPU if now.manifest.accelerated else _CPU) * spent.steps
    lost_s = measured_s or min(estimated_s, _MOST * spent.compute_s)
    share = lost_s / spent.compute_s if spent.compute_s else 0.0
    about, basis = "", now.profiled(share)
    if not measured_s:
        about = "about "
        basis = f"{units.memory(step_bytes)} that an update reads and writes; no profile"
    size = f"{units.count(table.rows)} x {units.count(table.columns)}"
    brief = f"{optimizer} updates all rows of {name} ({size}), {about}{units.percent(share)}"
    return Finding(
        "dense-update",
        now.label("COMPUTE", lost_s),
        f"{brief} of compute: its moments are dense, though a batch has few of the rows",
        "an optimizer without moments for the embedding (SGD), a smaller table (hashing), or"
        " larger batches; each changes what is trained",
        "model.compile(optimizer=keras.optimizers.SGD(), ...)  # changes the training",
        brief=brief,
        where=name,
        basis=basis,
        claims={"compute_s": lost_s},
    )


def _measured_s(now: Situation, table: str) -> float:
    """Return the time of the table's update, or of all where the profile does not part them; 0
    without a profile."""
    updates = [part for part in now.parts if part.role == "optimizer"]
    own = [part for part in updates if table in part.variable.split("/")]
    return sum(part.share for part in own or updates) * now.regime.spent.compute_s
