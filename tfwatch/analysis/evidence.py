"""What the GPU's counter says beside the step times: where the two disagree it is said, and the step times decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.verdict import HIGHLY_FROM, Bound
from tfwatch.core import units
from tfwatch.core.rows import step_ms

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

#: The seconds that both are looked at for, and the samples with a figure that they have to hold.
_WINDOW_S = 5.0
_LEAST_SAMPLES = 3
#: A sample is of the half second before it: the first one belongs to the steps before.
_PERIOD_S = 0.5
#: Steps have to fill the window by this share, and the newest one not to have ended for so long: a counter also counts
#: what lies between the steps, and a stall that is still open.
_FILLED = 0.95
_OPEN_S = 0.5
#: Keras waits for the device at the end of each step, so a device that starves for a share of the time cannot be
#: busy for more than the rest. Counters average over up to a second: what passes the rest by less is no contradiction.
#: At the line of HIGHLY, 20 %, that is a counter at 90 %.
_MARGIN = 0.10
#: A step that is compute by three quarters (neither 5 % data wait nor 20 % host) and a GPU with a kernel on it for less
#: than this: in more than half of the compute the GPU had nothing to do.
_HARDLY_BUSY = 0.30


@dataclass(frozen=True, slots=True)
class Evidence:
    """Data wait over step time, and how busy the training kept the GPU, over the same seconds; both 0 to 1."""

    wait_share: float
    busy: float


def evidence(steps: Rows, samples: Rows, now_s: float, since_s: float = 0.0) -> Evidence | None:
    """Step times and counter over the last seconds; None where they do not cover the same ones.

    The newest rows of `core.rows.STEP` and `SAMPLE`. The training's own share of the GPU counts where it is known:
    another program keeps a GPU busy without any contradiction. since_s: what was before is of another setting.
    """
    if not len(steps):
        return None
    total_s = step_ms(steps, np.float64) / 1e3
    begins_s = steps["start_ns"] / 1e9
    end_s = float(begins_s[-1] + total_s[-1])
    begin_s = max(end_s - _WINDOW_S, since_s)
    seen = begins_s >= begin_s
    filled_s = float(total_s[seen].sum())
    if now_s - end_s > _OPEN_S or filled_s < _FILLED * (end_s - begin_s) or steps["flags"][seen].any():
        return None
    busy = _busy(samples[-64:], begin_s + _PERIOD_S, end_s + _PERIOD_S / 2)
    return (
        None if busy is None else Evidence(float(steps["wait_ms"][seen].sum(dtype=np.float64)) / 1e3 / filled_s, busy)
    )


def _busy(samples: Rows, begin_s: float, end_s: float) -> float | None:
    rows = samples[(samples["at_ns"] > begin_s * 1e9) & (samples["at_ns"] <= end_s * 1e9)]
    for name in ("gpu_process_busy", "gpu_busy"):
        known = rows[name][np.isfinite(rows[name])].astype(np.float64)
        if len(known) >= _LEAST_SAMPLES:
            return float(known.mean())
    return None


def disagreement(found: Evidence | None, bound: Bound | None, accelerated: bool) -> str:
    """What to say where counter and step times tell different stories; empty where they do not.

    bound: what the steps are bound by. accelerated: they run on the GPU.
    """
    if found is None or bound is None or not accelerated:
        return ""
    says = f"GPU counter says {units.percent(found.busy)}"
    if found.wait_share >= HIGHLY_FROM and found.busy + found.wait_share >= 1 + _MARGIN:
        return f"{says}: short kernels keep it high; step times decide"
    if bound is Bound.COMPUTE and found.busy < _HARDLY_BUSY:
        return f"{says}: gaps between short kernels, or work on the CPU"
    return ""
