"""A loop of operations that are too small: starting them takes longer than they do, as in a
recurrent layer that runs one time step after another.

Remedy: `jit_compile=True`, or larger batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import LOOP
from tfwatch.judge.findings.compute import compute_loss
from tfwatch.judge.findings.finding import JIT_COMPILE

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.profile.step_parts import StepPart

#: The share of a step from which on this is its limit, and the part of it that XLA gives back: two
#: LSTMs and two GRUs of 30 and 60 time steps took 0.34, 0.54, 0.55 and 0.96 of their time on two
#: cores, three later ones 0.29 to 0.41, six on two cores of a Xeon 0.71 to 0.90; unrolled 0.60 to
#: 1.05, and up to 7 s to compile. Four times the batch took an LSTM 1.1. On an H200 three steps of
#: a `tf.map_fn` took 0.20 to 0.31 of their time.
_LEAST, _RECOVERED = 0.3, 0.8
#: The first step takes so many times as long more with XLA: that of 16 LSTMs and GRUs took 1.5 to
#: 2.8 times as long. _FIRST_STEP_S: seconds of it where that is not known.
_COMPILES, _FIRST_STEP_S = 1.1, 1.0
_ADVICE = "jit_compile=True, or larger batches: fewer, larger operations"
_CODE = "model.compile(..., jit_compile=True)"


def find(now: Situation) -> Finding | None:
    """Find the starting of a loop's operations, by a profile of the step. On a CPU, without a loop,
    it may be a wait for a core: 31 % of an image network's, beside a busy pipeline."""
    loops = [part for part in now.parts if part.in_loop and part not in now.parts_without_cudnn]
    loop = next(iter(loops), None)
    share, spent = _share(now, loop) if loop else 0.0, now.regime.spent
    if loop is None or share < _LEAST:
        return None
    brief = f"starting small operations takes {units.percent(share)} of compute"
    return compute_loss(
        now,
        "small-operations",
        share,
        brief,
        f": {loop.title} runs a loop of them in each step",
        gives_back=_RECOVERED,
        once_s=_COMPILES * (spent.compile_s / spent.traces if spent.traces else _FIRST_STEP_S),
        why=f", of which XLA gave back {units.percent(_RECOVERED)}",
        advice=_ADVICE,
        code=_CODE,
        arguments=(JIT_COMPILE,),
        where=loop.name,
    )


def _share(now: Situation, loop: StepPart) -> float:
    """Return the share of starting operations. A GPU waits for those of a loop, which is its time
    in the profile."""
    if now.manifest.accelerated:
        return loop.share if loop.operation == LOOP else 0.0
    return sum(part.share for part in now.parts if part.role == "small")
