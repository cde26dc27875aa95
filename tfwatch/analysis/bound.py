"""The findings that say where the time goes: input, callbacks, launching, compute, or between the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis import waiting
from tfwatch.analysis.finding import Banner, Tone
from tfwatch.analysis.verdict import Bound, Verdict
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.analysis.situation import Situation

#: Above this share of an epoch, what lies between epochs is the finding: the line of HIGHLY.
BETWEEN_SHARE = 0.2
_LESS_OFTEN = {
    "validation": "validate less often or on less: validation_freq=2, validation_steps; or longer epochs",
    "first batch": "longer epochs (.repeat() with steps_per_epoch), or a smaller shuffle buffer, which fills sooner",
    "epoch's end": "save less often (ModelCheckpoint's save_freq) and do less in on_epoch_end, or longer epochs",
}


def between(now: Situation) -> Banner | None:
    """What lies between the epochs, where it is the most that is lost."""
    spent = now.epoch_spent
    if spent is None or spent.between_share < max(BETWEEN_SHARE, waiting.share(now.judgement.breakdown)):
        return None
    parts = {"validation": spent.validation_s, "first batch": spent.first_batch_s, "epoch's end": spent.epoch_end_s}
    told = sorted((part for part in parts if parts[part] >= 0.1 * spent.between_s), key=lambda part: -parts[part])
    sentence = (
        f"{units.seconds(spent.between_s)} around every {units.count(spent.steps)} steps: "
        f"{', '.join(f'{part} {units.seconds(parts[part])}' for part in told)}"
    )
    return Banner(f"BETWEEN EPOCHS {units.percent(spent.between_share)}", sentence, _LESS_OFTEN[told[0]], Tone.WARN)


def judged(now: Situation) -> Banner | None:
    """What the steps are bound by; None where there is not enough data."""
    part = now.judgement.breakdown
    speak = _BOUND.get(now.judgement.bound) if now.judgement.bound else None
    return speak(now, part) if speak and part else None


def _fed(now: Situation, part: Breakdown) -> Banner:
    sentence = f"NOT input-bound, compute-bound: {waiting.waits(now, part)}"
    work = units.percent(part.compute.mean / part.step.mean if part.step.mean else None)
    faster = "mixed precision or jit_compile cut" if now.accelerated else "a smaller model or a GPU cut"
    advice = f"Nothing to gain from the pipeline: {faster} compute ({work} of a step)"
    return Banner(f"FED {units.percent(part.wait_share)}", sentence, advice, Tone.GOOD)


def _launching(now: Situation, part: Breakdown) -> Banner:
    share = units.percent(part.dispatch.mean / part.step.mean if part.step.mean else None)
    spent = waiting.of_a_step(part.dispatch, part.step)
    sentence = f"NOT input-bound, launch-bound: {spent} go to launching, more than {now.device} then needs"
    advice = "Nothing to gain from the pipeline: compile(steps_per_execution=8), jit_compile=True or larger batches"
    return Banner(f"LAUNCHING {share}", sentence, advice, Tone.WARN)


def _starving(now: Situation, part: Breakdown) -> Banner:
    highly = now.judgement.verdict is Verdict.HIGHLY
    simulated = now.knobs.get("latency_ms", "off")
    sentence = f"{now.judgement.verdict.value}: {waiting.waits(now, part)}"
    if simulated != "off":
        waits = waiting.of_a_step(part.wait, part.step)
        sentence = f"{now.judgement.verdict.value}: waits {waits}, {simulated} of it simulated (l)"
    word = f"STARVING {units.percent(part.wait_share)}"
    return Banner(word, sentence, waiting.cure(now, part), Tone.BAD if highly else Tone.WARN)


def _host(now: Situation, part: Breakdown) -> Banner:
    share = units.percent(part.host.mean / part.step.mean if part.step.mean else None)
    spent = waiting.of_a_step(part.host, part.step)
    sentence = f"NOT input-bound, host-bound: {spent} go to callbacks and Python between the steps"
    return Banner(f"BETWEEN STEPS {share}", sentence, "log and save less often, or use larger batches", Tone.WARN)


_BOUND: dict[Bound, Callable[[Situation, Breakdown], Banner]] = {
    Bound.INPUT: _starving,
    Bound.HOST: _host,
    Bound.LAUNCH: _launching,
    Bound.COMPUTE: _fed,
}
