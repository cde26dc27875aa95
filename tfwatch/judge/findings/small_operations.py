"""A loop of operations that are too small: starting them takes longer than they do, as in a
recurrent layer that runs one time step after another.

Remedy: `jit_compile=True`, or larger batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss
from tfwatch.judge.findings.finding import JIT_COMPILE

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: The share of a step from which on this is its limit, and the part of it that XLA gives back: two
#: LSTMs and two GRUs of 30 and 60 time steps took 0.34, 0.54, 0.55 and 0.96 of their time on two
#: cores, three later ones 0.29 to 0.41; unrolled 0.60 to 1.05, and up to 7 s to compile. Four times
#: the batch took an LSTM 1.1.
_LEAST, _RECOVERED = 0.3, 0.7
#: Seconds for which XLA compiles the step once: 1.8 for a GRU, with little beside it.
_COMPILES_S = 2.0
_ADVICE = "jit_compile=True, or larger batches: fewer, larger operations"
_CODE = "model.compile(..., jit_compile=True)"


def find(now: Situation) -> Finding | None:
    """Find the starting of a loop's operations on a CPU, by a profile of the step. Without a loop
    it may be a wait for a core: 31 % of an image network's, beside a busy pipeline."""
    small = next((part for part in now.parts if part.role == "small"), None)
    loop = next((part for part in now.parts if part.in_loop), None)
    if small is None or loop is None or small.share < _LEAST:
        return None
    brief = f"starting small operations takes {units.percent(small.share)} of compute"
    return compute_loss(
        now,
        "small-operations",
        small.share,
        brief,
        f": {loop.title} runs a loop of them in each step",
        gives_back=_RECOVERED,
        once_s=_COMPILES_S,
        why=f", of which XLA gave back {units.percent(_RECOVERED)}",
        advice=_ADVICE,
        code=_CODE,
        arguments=(JIT_COMPILE,),
        where=loop.name,
    )
