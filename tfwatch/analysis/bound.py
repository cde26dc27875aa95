"""The findings that say where the time goes: input, callbacks, launching, compute, or between the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis import advice, edits, waiting
from tfwatch.analysis.finding import Advice, Banner, Tone
from tfwatch.analysis.verdict import Bound, Verdict
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.analysis.situation import Situation

#: Below it seconds have no digit that tells.
_SHORT_S = 0.1


def between(now: Situation) -> Banner | None:
    """What lies between the epochs, where it is the most that is lost."""
    spent = now.epoch_spent
    if spent is None or spent.between_share < max(advice.BETWEEN_SHARE, waiting.share(now.judgement.breakdown)):
        return None
    parts = (f"{part} {_lasts(seconds)}" for part, seconds in advice.between_parts(spent).items())
    brief = f"{_lasts(spent.between_s)} around every {units.count(spent.steps)} steps"
    less = advice.between_next(now, spent)
    word = f"BETWEEN EPOCHS {units.percent(spent.between_share)}"
    return Banner(word, f"{brief}: {', '.join(parts)}", less.sentence, Tone.WARN, edit=less.edit, brief=brief)


def _lasts(seconds: float) -> str:
    return units.milliseconds(seconds * 1e3) if seconds < _SHORT_S else units.seconds(seconds)


def judged(now: Situation) -> Banner | None:
    """What the steps are bound by; None where there is not enough data."""
    part = now.judgement.breakdown
    speak = _BOUND.get(now.judgement.bound) if now.judgement.bound else None
    return speak(now, part) if speak and part else None


def _fed(now: Situation, part: Breakdown) -> Banner:
    sentence = f"NOT input-bound, compute-bound: {waiting.waits(now, part)}"
    found = _next(now, part)
    switched = edits.pasted(now.knobs, now.started, now.stages, now.fast_form)
    edit = "\n".join(filter(None, (switched, found.edit)))
    brief = f"NOT input-bound: waits {waiting.of_a_step(part.wait, part.step)}"
    return Banner(f"FED {units.percent(part.wait_share)}", sentence, found.sentence, Tone.GOOD, edit=edit, brief=brief)


def _launching(now: Situation, part: Breakdown) -> Banner:
    share = units.percent(part.dispatch.mean / part.step.mean if part.step.mean else None)
    spent = waiting.of_a_step(part.dispatch, part.step)
    by_python = now.op_by_op and not now.accelerated
    where = "Python between the operations" if by_python else f"launching, more than {now.device} then needs"
    small = ": its kernels are too small for it" if now.accelerated else ""
    brief = f"NOT input-bound, launch-bound: {spent}"
    found = _next(now, part)
    sentence = f"{brief} go to {where}{small}"
    return Banner(f"LAUNCHING {share}", sentence, found.sentence, Tone.WARN, edit=found.edit, brief=brief)


def _starving(now: Situation, part: Breakdown) -> Banner:
    highly = now.judgement.verdict is Verdict.HIGHLY
    simulated = now.knobs.get("latency_ms", "off")
    sentence = f"{now.judgement.verdict.value}: {waiting.starves(now, part)}"
    brief = f"{now.judgement.verdict.value}: waits {waiting.of_a_step(part.wait, part.step)}"
    if simulated != "off":
        sentence = f"{brief}, {simulated} of it simulated{' (l)' if now.live else ''}"
    word = f"STARVING {units.percent(part.wait_share)}"
    found = advice.starving(now, part)
    tone = Tone.BAD if highly else Tone.WARN
    return Banner(word, sentence, found.sentence, tone, edit=found.edit, brief=brief)


def _host(now: Situation, part: Breakdown) -> Banner:
    share = units.percent(part.host.mean / part.step.mean if part.step.mean else None)
    spent = waiting.of_a_step(part.host, part.step)
    where = f", most in callback {now.callback}" if now.callback else " go to callbacks and Python between the steps"
    brief = f"NOT input-bound, host-bound: {spent}"
    found = advice.called_less(part)
    return Banner(f"BETWEEN STEPS {share}", f"{brief}{where}", found.sentence, Tone.WARN, edit=found.edit, brief=brief)


def _next(now: Situation, part: Breakdown) -> Advice:
    work = units.percent(part.compute.mean / part.step.mean if part.step.mean else None)
    bound = now.judgement.bound or Bound.COMPUTE
    return advice.next_step(bound, work, accelerated=now.accelerated, op_by_op=now.op_by_op)


_BOUND: dict[Bound, Callable[[Situation, Breakdown], Banner]] = {
    Bound.INPUT: _starving,
    Bound.HOST: _host,
    Bound.LAUNCH: _launching,
    Bound.COMPUTE: _fed,
}
