"""Steps without a loss: compute is their time.

Remedy: leave the input pipeline as it is. Press `e` to see which layer takes the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.judge.findings.finding import JIT_COMPILE, Advice, Finding, Tone
from tfwatch.judge.findings.situation import of_step
from tfwatch.judge.findings.switch_lines import advise_gain
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.steps.steady_steps import MODERATELY_FROM
from tfwatch.judge.steps.time_breakdown import PART_NAMES

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_PRECISION = 'keras.mixed_precision.set_global_policy("mixed_float16")  # before the model is made'
#: Layers whose loop over time steps is their work.
_RECURRENT = ("RNN", "LSTM", "GRU", "LSTMCell", "GRUCell")
_AT_ONCE = "operations on the whole batch, such as tf.vectorized_map, would shorten the step"
#: The parts of the judged time beside the steps, by name.
_NOT_STEPS = {
    **{
        part: PART_NAMES[part]
        for part in ("first_batch_s", "validation_s", "epoch_end_s", "unaccounted_s")
    },
    "between_fits_s": "time between fits",
}
_FETCH_OUTSIDE = (
    "loop over tfwatch.track(dataset), and pass each batch to the function: then its data wait is"
    " seen"
)


def find(now: Situation) -> Finding | None:
    """Describe a run without a large loss; None before it has steps."""
    spent, part = now.regime.spent, now.split
    worked_s = spent.worked_s
    if not spent.steps or not worked_s:
        return None
    if now.manifest.fetches_in_calls:
        return _compute_or_data_wait(now)
    if now.manifest.makes_batches:
        return _train_on_batch(now, worked_s)
    if 2 * worked_s < now.regime.judged_s and spent.data_wait_s >= MODERATELY_FROM * worked_s:
        return _waits_little(now, worked_s)
    means_ms = (1e3 * seconds / spent.steps for seconds in (spent.data_wait_s, worked_s))
    waited = of_step(part.wait, part.step) if part else " of ".join(units.in_one_unit(*means_ms))
    # Data and compute may share the cores: a switch that is sure to gain comes before the limit.
    gain = best(one for one in now.switches if one.is_sure)
    advice = advise_gain(now, gain) if gain else _advise(now)
    brief = f"compute-bound: only {waited} is data wait"
    computed = units.percent(spent.compute_s / worked_s)
    limit = f"the input pipeline is not the limit, {computed} of the step is compute"
    share = part.wait_share if part else spent.data_wait_s / worked_s
    return Finding(
        "compute-bound",
        f"OK, data wait {units.percent(share)}",
        f"{brief}; {limit}{_largest(now)}{_once(now)}",
        advice.sentence,
        advice.edit,
        Tone.GOOD,
        brief,
        arguments=advice.arguments,
        forecast=gain,
    )


def _train_on_batch(now: Situation, worked_s: float) -> Finding:
    """Describe a loop over `train_on_batch`, which shows no data wait."""
    spent, advice = now.regime.spent, _advise(now)
    takes = units.in_one_unit(1e3 * spent.compute_s / spent.steps, 1e3 * worked_s / spent.steps)
    brief = f"compute-bound: train_on_batch takes {' of '.join(takes)}/step"
    word = "OK, data wait n/a"
    return Finding("compute-bound", word, brief, advice.sentence, advice.edit, Tone.GOOD, brief)


def _waits_little(now: Situation, worked_s: float) -> Finding:
    """Describe steps that wait for data, in a run that hardly consists of steps."""
    spent = now.regime.spent
    most = max(_NOT_STEPS, key=lambda part: getattr(spent, part))
    taken = map(units.seconds, (getattr(spent, most), now.regime.judged_s))
    waited = units.seconds(spent.data_wait_s)
    brief = f"the {_NOT_STEPS[most]} takes {' of '.join(taken)}"
    return Finding(
        "few-steps",
        now.label("OK, data wait", spent.data_wait_s),
        f"{brief}; the steps take {units.seconds(worked_s)}, and wait {waited} of it for data",
        f"look there first: steps without data wait would save {waited} at most",
        tone=Tone.CALM,
        brief=brief,
    )


def _largest(now: Situation) -> str:
    """Return the parts of the step that take most, e.g. `; conv2d (Conv2D) takes 41 % of compute`;
    empty without a profile."""
    named = [part for part in now.step_rows if part.role != "other"][:2]
    words = [f"{part.title} {units.percent(part.share)}" for part in named]
    return f"; of compute, {' and '.join(words)}" if words else ""


def _once(now: Situation) -> str:
    """Return what filling the cache cost once; empty without a cache."""
    before = now.regime.before
    wait_s = before.data_wait_s + before.first_batch_s
    if now.regime.cause != "cache" or not before.active_s:
        return ""
    return f"; the first epoch waited {units.seconds(wait_s)} while it filled the cache, once"


def _advise(now: Situation) -> Advice:
    replicas, size = len(now.manifest.replicas), now.manifest.batch_size
    if replicas > 1:
        each = f"{size // replicas} examples" if size else "a share of the batch"
        larger = f"a batch {replicas} times as large keeps {replicas} devices as busy as one alone"
        return Advice(f"{larger}: each has {each}")
    if now.manifest.accelerated:
        return Advice(
            "mixed precision or jit_compile may shorten the step", _PRECISION, (JIT_COMPILE,)
        )
    longest = now.parts[0] if now.parts else None
    if longest and longest.in_loop and not longest.kind.endswith(_RECURRENT):
        return Advice(f"{longest.title} runs a loop: {_AT_ONCE}")
    shows = "e" if now.live else "a run with --explain"
    layers = "" if now.parts else f"; {shows} shows which layer takes it"
    return Advice(f"a GPU or a smaller model would shorten the step{layers}")


def _compute_or_data_wait(now: Situation) -> Finding:
    """Describe steps whose calls fetch their batches: their compute may be data wait."""
    spent = now.regime.spent
    compute = units.milliseconds(1e3 * spent.compute_s / spent.steps)
    brief = f"{compute}/step is compute or data wait"
    why = "the loop fetches batches inside its tf.function, where a wait is not seen"
    return Finding(
        "unknown-wait", "DATA WAIT n/a", f"{brief}: {why}", _FETCH_OUTSIDE, "", Tone.CALM, brief
    )


def compute_loss(
    now: Situation,
    kind: str,
    share: float,
    brief: str,
    more: str = "",
    *,
    gives_back: float = 1.0,
    why: str = "",
    **fields: Any,
) -> Finding:
    """Return the finding of a part of compute, by a profile of the step; without its seconds where
    the share is 0.

    share: of compute, 0 to 1; gives_back: the part of it that the remedy gives back, and why; 0: no
    seconds are claimed. more: the rest of the sentence; fields: those of `Finding`.
    """
    lost_s = share * now.regime.spent.compute_s
    return Finding(
        kind,
        now.label("COMPUTE", lost_s) if share else "COMPUTE",
        f"{brief}{more}",
        brief=brief,
        basis=f"{now.profiled(share)}{why}",
        claims={"compute_s": lost_s * gives_back} if share and gives_back else {},
        **fields,
    )
