"""Steps that run operation by operation from Python, where a graph belongs.

Remedy: remove `run_eagerly=True` from `compile`; put `@tf.function` over the step of your own loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import RUN_EAGERLY, Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: The share of compute that a graph gives back where the time in Python is not known: four eager
#: loops took 1.9 to 6 times as long as under tf.function.
_SHARE = 0.5
#: The part of the operations' own time that a graph still takes: two scripts gave back 0.93 and
#: 0.96 of their compute, of which 0.67 was Python.
_IN_GRAPH = 1 / 4
_FIT = "leave run_eagerly=True out of compile: the step then runs as one graph"
_FIT_CODE = "model.compile(...)  # without run_eagerly=True"
_LOOP = "put @tf.function over the function of one step: it then runs as one graph"
_LOOP_CODE = "@tf.function\ndef train_step(x, y): ...  # the tape and apply_gradients"


def find(now: Situation) -> Finding | None:
    """Find the Python between the operations of a step."""
    if not now.manifest.op_by_op:
        return None
    spent, part = now.regime.spent, now.split
    share = part.launch_share if part and part.dispatch.mean > 0 else _SHARE
    lost_s = spent.compute_s * (1 - (1 - share) * _IN_GRAPH)
    compute_ms = 1e3 * spent.compute_s / spent.steps if spent.steps else None
    loop = now.has_own_loop
    what = f"the loop at {now.manifest.loop} runs" if loop else "run_eagerly=True runs"
    takes = f"takes {units.percent(share)} of {units.milliseconds(compute_ms)} of compute a step"
    return Finding(
        "eager",
        now.label("LAUNCH-BOUND", lost_s),
        f"{what} operations one by one: Python {takes}",
        _LOOP if loop else _FIT,
        _LOOP_CODE if loop else _FIT_CODE,
        arguments=() if loop else (RUN_EAGERLY,),
        brief=f"Python between operations {takes}",
        where=now.manifest.loop,
        claims={"compute_s": lost_s},
    )
