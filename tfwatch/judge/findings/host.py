"""Python between the steps that no single callback explains.

Remedy: `steps_per_execution=8`: callbacks then run once in eight steps. Make batches in a data set,
not between two calls of `train_on_batch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import STEPS_PER_EXECUTION, Advice, Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: The `steps_per_execution` to try: callbacks run this many times less often.
_STEPS = 8
_CODE = f"model.compile(..., steps_per_execution={_STEPS})  # callbacks run once per call"
#: The part of the host time that one call for eight steps gives back.
_SAVED = 1 - 1 / _STEPS
_BESIDE = (
    "make batches beside the steps, in a data set with prefetch: the device waits while Python"
    " makes them between two calls of train_on_batch"
)
_BESIDE_CODE = (
    "dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch_size)\n"
    "model.fit(dataset.prefetch(tf.data.AUTOTUNE), ...)  # or: for x, y in tfwatch.track(dataset)"
)


def find(now: Situation) -> Finding | None:
    """Find the host time of the steps."""
    spent = now.regime.spent
    if not spent.steps or not spent.host_s:
        return None
    host_s = spent.host_s * now.regime.share_without_callbacks("HOST")
    host_ms, step_ms = (1e3 * seconds / spent.steps for seconds in (host_s, spent.worked_s))
    python = (one for one in now.regime.code_in("HOST") if not one.callback)
    place = next((one.place for one in python if one.place and one.call != "fit"), "")
    brief = f"host time takes {' of '.join(units.in_one_unit(host_ms, step_ms))}/step"
    in_all = ", between the calls of train_on_batch, its batches included"
    in_all = in_all if now.manifest.makes_batches else ", in callbacks and Python between the steps"
    where = f", most of it at {place}" if place else in_all
    # A line of a loop of the script's own goes as a whole.
    saved = 1.0 if now.has_own_loop and place else _SAVED
    advice = _advise(now, place, step_ms - host_ms * saved)
    return Finding(
        "host-bound",
        now.label("HOST-BOUND", host_s, spent.worked_s),
        f"{brief}{where}",
        advice.sentence,
        advice.edit,
        arguments=advice.arguments,
        brief=brief,
        where=place,
        claims={"host_s": host_s * saved},
    )


def _advise(now: Situation, place: str, then_ms: float) -> Advice:
    """Advise on Python after each step; in a loop of the script's own only its lines can change."""
    if now.manifest.makes_batches:
        return Advice(_BESIDE, _BESIDE_CODE)
    if now.has_own_loop:
        less = f"do less at {place} after each step" if place else "do less after each step"
        return Advice(f"{less}, e.g. log every 100th step")
    calls = f"compile(steps_per_execution={_STEPS})"
    sentence = f"log less often, or {calls}: about {units.milliseconds(then_ms)}/step"
    return Advice(sentence, _CODE, (STEPS_PER_EXECUTION,))
