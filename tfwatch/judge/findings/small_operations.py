"""Operations that are too small: starting them takes longer than they do, as in a recurrent layer
that runs one time step after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Advice, Fact, Finding
from tfwatch.judge.step_parts import name_text

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.step_parts import StepPart

#: Layers that can unroll their loop over the time steps.
_RECURRENT = ("LSTM", "GRU", "SimpleRNN")
#: The share of a step from which on this is its limit, and the part of it that larger pieces give
#: back: unrolled, three LSTMs and a GRU of 30 to 60 time steps took 0.33 to 0.64 of their time on
#: two cores, and 2 s more to compile.
_LEAST, _RECOVERED = 0.3, 0.6
_UNROLL = "keras.layers.{kind}(..., unroll=True)  # short sequences; the same weights"
_LARGER = "model.compile(..., steps_per_execution=8, jit_compile=True)"


def find(now: Situation) -> Finding | None:
    """Find the starting of small operations on a CPU, by a profile of the step."""
    small = next((part for part in now.parts if part.role == "small"), None)
    if small is None or small.share < _LEAST:
        return None
    lost_s = small.share * now.regime.spent.compute_s
    loop = next((one for one in now.parts if one.in_loop), None)
    advice = _advise(loop) if loop else _FEWER
    brief = f"starting small operations takes {units.percent(small.share)} of compute"
    why = f": {name_text(loop)} runs a loop of them in each step" if loop else ""
    return Finding(
        "small-operations",
        now.label("COMPUTE", lost_s),
        f"{brief}{why}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=loop.name if loop else "",
        evidence=(Fact("share", small.share), Fact("took", small.took_ms, "ms")),
        claims={"compute_s": lost_s * _RECOVERED},
    )


_FEWER = Advice(
    "larger batches, compile(steps_per_execution=8) or jit_compile=True: fewer, larger operations",
    _LARGER,
)


def _advise(loop: StepPart) -> Advice:
    """Advise on the part that loops: a recurrent layer over its time steps, or a `tf.map_fn`."""
    larger = "or larger batches: the same number of operations does more"
    if loop.kind in _RECURRENT:
        words = f"unroll=True in the {loop.kind} for short sequences, {larger}"
        return Advice(words, _UNROLL.format(kind=loop.kind))
    return Advice(
        f"operations over whole batches in place of the loop (tf.vectorized_map), {larger}"
    )
