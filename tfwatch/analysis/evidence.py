"""What the GPU's counter says beside the step times: where the two disagree it is said, and the step times decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.verdict import HIGHLY_FROM, Bound
from tfwatch.core import units

if TYPE_CHECKING:
    from tfwatch.analysis.machine import GpuFigures
    from tfwatch.analysis.verdict import Judgement

#: Keras waits for the device at the end of each step, so a device that starves for a share of the time cannot be
#: busy for more than the rest. Counters average over up to a second: what passes the rest by less is no contradiction.
#: At the line of HIGHLY, 20 %, that is a counter at 90 %.
_MARGIN = 0.10
#: A step that is compute by three quarters (neither 5 % data wait nor 20 % host) and a GPU with a kernel on it for less
#: than this: in more than half of the compute the GPU had nothing to do.
_HARDLY_BUSY = 0.30


def disagreement(judgement: Judgement, gpu: GpuFigures | None, accelerated: bool) -> str:
    """What to say where counter and step times tell different stories; empty where they do not.

    gpu: over the same seconds as the judgement. The training's own share counts where it is known: another program
    keeps a GPU busy without any contradiction. accelerated: the steps run on it.
    """
    split = judgement.breakdown
    busy = None if gpu is None else gpu.ours if gpu.ours is not None else gpu.busy
    if busy is None or split is None or judgement.bound is None or not accelerated:
        return ""
    says = f"GPU counter says {units.percent(busy)}"
    if split.wait_share >= HIGHLY_FROM and busy + split.wait_share >= 1 + _MARGIN:
        return f"{says}: short kernels keep it high; step times decide"
    if judgement.bound is Bound.COMPUTE and busy < _HARDLY_BUSY:
        return f"{says}: gaps between short kernels, or work on the CPU"
    return ""
