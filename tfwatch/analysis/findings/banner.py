"""The finding: a situation as one word, one sentence and one piece of advice.

The findings that say where the time goes: input, callbacks, launching, compute, or between the epochs.

The finding: a run's situation as one word, one sentence and one piece of advice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.analysis.findings import advice, code_suggestions, data_wait
from tfwatch.analysis.findings.loss import divergence_text
from tfwatch.analysis.findings.machine_remark import remark
from tfwatch.analysis.findings.situation import Advice, Banner, Tone
from tfwatch.analysis.findings.starving_cost import DataWaitCost, best_case_text
from tfwatch.analysis.steps.verdict import Bound, Verdict
from tfwatch.analysis.tuning.comparison import ENOUGH_STEPS
from tfwatch.core import units
from tfwatch.core.knobs import knob_name
from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.analysis.findings.situation import Situation
    from tfwatch.analysis.steps.breakdown import Breakdown

#: Below it seconds have no digit that tells.
_SHORT_S = 0.1


def between(now: Situation) -> Banner | None:
    """What lies between the epochs, where it is the most that is lost."""
    spent = now.epoch_spent
    if spent is None or spent.between_share < max(advice.BETWEEN_SHARE, data_wait.share(now.judgement.breakdown)):
        return None
    parts = (f"{part} {_lasts(seconds)}" for part, seconds in advice.between_epochs_parts(spent).items())
    brief = f"{_lasts(spent.between_s)} around every {units.count(spent.steps)} steps"
    less = advice.advise_between_epochs(now, spent)
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
    sentence = f"NOT input-bound, compute-bound: {data_wait.waits(now, part)}"
    found = _next(now, part)
    switched = code_suggestions.pasted_lines(now.knobs, now.started, now.stages, now.fast_form)
    edit = "\n".join(filter(None, (switched, found.edit)))
    brief = f"NOT input-bound: waits {data_wait.per_step(part.wait, part.step)}"
    return Banner(f"FED {units.percent(part.wait_share)}", sentence, found.sentence, Tone.GOOD, edit=edit, brief=brief)


def _launching(now: Situation, part: Breakdown) -> Banner:
    share = units.percent(part.dispatch.mean / part.step.mean if part.step.mean else None)
    spent = data_wait.per_step(part.dispatch, part.step)
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
    sentence = f"{now.judgement.verdict.value}: {data_wait.wait_sentence(now, part)}"
    brief = f"{now.judgement.verdict.value}: waits {data_wait.per_step(part.wait, part.step)}"
    if simulated != "off":
        sentence = f"{brief}, {simulated} of it simulated{' (l)' if now.live else ''}"
    word = f"STARVING {units.percent(part.wait_share)}"
    found = advice.starving(now, part)
    tone = Tone.BAD if highly else Tone.WARN
    return Banner(word, sentence, found.sentence, tone, edit=found.edit, brief=brief)


def _host(now: Situation, part: Breakdown) -> Banner:
    share = units.percent(part.host.mean / part.step.mean if part.step.mean else None)
    spent = data_wait.per_step(part.host, part.step)
    where = f", most in callback {now.callback}" if now.callback else " go to callbacks and Python between the steps"
    brief = f"NOT input-bound, host-bound: {spent}"
    found = advice.advise_longer_calls(part)
    return Banner(f"BETWEEN STEPS {share}", f"{brief}{where}", found.sentence, Tone.WARN, edit=found.edit, brief=brief)


def _next(now: Situation, part: Breakdown) -> Advice:
    work = units.percent(part.compute.mean / part.step.mean if part.step.mean else None)
    bound = now.judgement.bound or Bound.COMPUTE
    return advice.advise_next(bound, work, accelerated=now.accelerated, op_by_op=now.op_by_op)


_BOUND: dict[Bound, Callable[[Situation, Breakdown], Banner]] = {
    Bound.INPUT: _starving,
    Bound.HOST: _host,
    Bound.LAUNCH: _launching,
    Bound.COMPUTE: _fed,
}


#: A switch that has not settled after so many steps is judged like any other stretch.
_SETTLES_WITHIN = 200
_FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_UNRECORDED = "nothing was recorded"
#: What TensorFlow puts between an error's name and what it says.
_NODE = re.compile(r"\{\{function_node [^}]*\}\} ?")


def banner(now: Situation) -> Banner:
    """The finding of the first check that has one, and what to know of the loss and the machine."""
    found = next(result for check in _CHECKS if (result := check(now)))
    if now.last_finding and not found.remark:  # it broke off: why stands below the word, and keeps its place
        found = replace(found, remark=f"{now.last_finding.word}; {now.last_finding.advice}", edit=now.last_finding.edit)
    found = _with_loss(now, replace(found, remark=found.remark or remark(now)))
    if now.unrecorded and now.ended is None:
        lost = f"NOT RECORDED since step {units.count(now.unrecorded_step)}: {now.unrecorded}; training goes on"
        return replace(found, advice=lost)
    return found


def _with_loss(now: Situation, found: Banner) -> Banner:
    """No finding is good news while the loss is no finite number."""
    if now.diverged is None:
        return found
    told = "; ".join(filter(None, [divergence_text(now.diverged), found.remark]))
    tone = Tone.WARN if found.tone in (Tone.GOOD, Tone.CALM) else found.tone
    return replace(found, remark=told, tone=tone)


def _failed(now: Situation) -> Banner | None:
    if now.failed is None:
        return None
    place = _FILE_LINE.findall(now.failed.traceback)
    where = f"{place[-1][0].rpartition('/')[2]}:{place[-1][1]} - " if place else ""
    leave = " - q leaves with 1" if now.live else ""
    return Banner(
        f"FAILED at step {units.count(now.failed.step)}",
        _NODE.sub("", now.failed.error),
        f"{where}5: traceback - {units.count(now.steps_total)} steps kept{leave}",
        Tone.BAD,
    )


def _ended(now: Situation) -> Banner | None:
    if now.ended is None:
        return None
    if now.ended.cause == "failed":
        return Banner("FAILED", now.ended.detail or "no reason was recorded", _sum_up(now), Tone.BAD)
    took = units.seconds(now.ended.at_ns / 1e9)
    done = f"{units.counted(now.ended.steps, 'step')} in {took}{now.metric and f', {now.metric}'}"
    if now.ended.cause == "stopped":
        return _with_last(now, Banner("STOPPED", f"after {done}", _sum_up(now), Tone.CALM))
    epochs = f"{now.epoch + 1} epoch{'s' if now.epoch else ''}"
    return _with_last(now, Banner("FINISHED", f"{epochs}, {done}", _sum_up(now), Tone.GOOD))


def _with_last(now: Situation, found: Banner) -> Banner:
    """How the run went beside the word, and below it what its last setting was bound by and what to try next."""
    last = now.last_finding
    if last is None:
        return found
    brief = f"{last.word}, {last.brief}" if last.brief else ""
    remark = f"{found.sentence}; {_cost(now)}{'' if now.run else f' - {_UNRECORDED}'}"
    sentence = f"{last.word}, {last.sentence}"
    return replace(found, sentence=sentence, advice=last.advice, remark=remark, edit=last.edit, brief=brief)


def _killed(now: Situation) -> Banner | None:
    if now.life == "killed":
        place = f"at step {units.count(now.step)}, after {units.seconds(now.now_s)}"
        return Banner("ENDED WITHOUT A WORD", place, _last_evidence(now), Tone.BAD)
    if now.life == "unknown":
        silence = f"no word for {units.seconds(now.silent_s)}; it ran on another machine, {now.host}"
        return Banner("UNKNOWN", silence, "whether it still runs can only be seen there", Tone.WARN)
    return None


def _silent(now: Situation) -> Banner | None:
    if now.life == "folder gone":
        where = f"the run's folder is gone: {now.run}"
        moved = "moved or deleted: tfwatch replay shows it from where it is now; here is how it was then"
        return Banner("NOTHING TO READ", where, moved, Tone.WARN)
    if now.life != "not responding":
        return None
    why = "training is stopped, asleep, or holds Python's lock"
    lives = f"its process {now.pid} lives; what stands here is how it was then"
    return Banner(f"NO ANSWER for {units.seconds(now.silent_s)}", why, lives, Tone.BAD)


def _stopping(now: Situation) -> Banner | None:
    if now.stopping_s is None:
        return None
    so_far = f"after the batch in flight ({units.seconds(now.stopping_s)} so far)"
    return Banner("STOPPING", so_far, "y again leaves now; the run folder is whole", Tone.BUSY)


def _unwatched(now: Situation) -> Banner | None:
    if not now.watch_failed:
        return None
    return Banner("NOT MEASURED", f"tfwatch failed: {now.watch_failed}", "training goes on without it", Tone.WARN)


def _starting(now: Situation) -> Banner | None:
    so_far = units.seconds(now.phase_s)
    known = {
        Phase.STARTING: f"starting, {so_far}",
        Phase.IMPORT: f"importing {now.detail or 'TensorFlow'}, {so_far}",
        Phase.DATA_SET: f"{now.detail or 'preparing the data set'}, {so_far}",
    }
    if now.phase in known:
        return Banner("STARTING", known[now.phase], _early_keys(now), Tone.BUSY)
    if now.starts:
        filling = data_wait.shuffle_fill_text(now)
        sentence = f"{filling}, {so_far}" if filling else f"waiting for the first batch, {so_far}"
        again = ["every epoch does this again"] if filling else []
        return Banner("STARTING", sentence, " - ".join(filter(None, [*again, _early_keys(now)])), Tone.BUSY)
    return None


def _compiling(now: Situation) -> Banner | None:
    if now.phase is not Phase.COMPILE:
        return None
    which = "first step" if now.step <= 1 else f"step {units.count(now.step)}"
    note = "not counted; with XLA minutes are normal"
    return Banner("COMPILING", f"{which}, {units.seconds(now.phase_s)} so far", note, Tone.BUSY)


def _stalled(now: Situation) -> Banner | None:
    if not now.stalled:
        return None
    word = f"NO BATCH FOR {now.phase_s:.1f} s"
    return Banner(word, data_wait.stall_sentence(now), data_wait.stall_advice(now), Tone.BAD)


def _long_step(now: Situation) -> Banner | None:
    if not now.is_running_long:
        return None
    where = (
        "in compute" if now.phase is Phase.COMPUTE else f"in callback {now.detail}" if now.detail else "in host code"
    )
    usual = units.milliseconds(now.median_step_ms)
    note = f"a step usually takes {usual}; data is not what it waits for" if now.median_step_ms else ""
    word = f"STEP {units.count(now.step)} RUNS FOR {now.phase_s:.1f} s"
    return Banner(word, where, note, Tone.WARN)


def _between_now(now: Situation) -> Banner | None:
    if now.phase not in (Phase.VALIDATION, Phase.EPOCH_END) or now.phase_s < 0.3:
        return None
    what = "validation" if now.phase is Phase.VALIDATION else f"the end of epoch {now.epoch + 1}"
    named = f", {now.detail}" if now.detail else ""
    sentence = f"{what}{named}, {units.seconds(now.phase_s)} so far"
    return Banner("BETWEEN EPOCHS", sentence, "no training step runs; not counted as data wait", Tone.BUSY)


def _experimenting(now: Situation) -> Banner | None:
    if now.experiment is None:
        return None
    ends = "a ends it; " if now.live else ""
    advice = f"{ends}the run goes on with the better: what is trained stays the same, batch for batch"
    subject, progress = now.experiment.subject, now.experiment.progress
    brief = f"{subject}: {now.experiment.brief}"
    return Banner("EXPERIMENT", f"{subject}: {progress}", advice, Tone.BUSY, brief=brief)


def _feeding(now: Situation) -> Banner | None:
    if now.autopilot_run is None:
        return None
    ends = "f ends it, as any knob's key does; " if now.live else ""
    advice = f"{ends}what helps is kept, what does not is undone: the batches stay the same, each once and in order"
    return Banner("AUTOPILOT", now.autopilot_run.progress, advice, Tone.BUSY, brief=now.autopilot_run.parts[0])


def _asked(now: Situation) -> Banner | None:
    if not now.asked:
        return None
    knob, new = next(reversed(list(now.asked.items())))
    sentence = f"{knob_name(knob)} {now.knobs.get(knob, '?')} -> {new}: waits for the batch in flight"
    return Banner("ASKED", sentence, "last press wins; u takes it back", Tone.BUSY)


def _settling(now: Situation) -> Banner | None:
    switch = now.switch
    if switch is None or switch.step is None or switch.settled or now.steps_total - switch.step > _SETTLES_WITHIN:
        return None
    if now.knobs.get(switch.knob, switch.new) != switch.new:
        return None  # something else turned it again: an experiment that was ended takes its own setting back
    done = switch.after.steps if switch.after else 0
    so_far = f", so far {units.milliseconds(switch.typical(switch.after.step))}" if switch.after else ""
    before = f"before: {units.milliseconds(switch.typical(switch.before.step))} a step" if switch.before else ""
    sentence = f"{knob_name(switch.knob)} {switch.new}: {done} of {ENOUGH_STEPS} steps{so_far}"
    return Banner("SETTLING", sentence, before, Tone.BUSY)


def _measuring(now: Situation) -> Banner:
    done, needed = now.judgement.steps, now.judgement.needed
    left_s = max(0, needed - done) * (now.median_step_ms or 0.0) / 1e3
    advice = f"verdict in about {units.seconds(left_s)}" if left_s else "verdict after the next steps"
    return Banner("MEASURING", f"{done} of {needed} steps", advice, Tone.BUSY)


_CHECKS: tuple[Callable[[Situation], Banner | None], ...] = (
    _failed,
    _ended,
    _killed,
    _silent,
    _stopping,
    _unwatched,
    _starting,
    _compiling,
    _stalled,
    _long_step,
    _between_now,
    _experimenting,
    _feeding,
    _asked,
    _settling,
    between,
    judged,
    _measuring,
)


def _early_keys(now: Situation) -> str:
    if not now.live:
        return ""
    if now.asked:
        asked = ", ".join(f"{knob_name(knob)} {new}" for knob, new in now.asked.items())
        return f"asked: {asked}; taken up with the first batch"
    return "knobs can be set already" if now.switchable else ""


def _sum_up(now: Situation) -> str:
    return f"{_cost(now)} - {f'tfwatch replay {now.run}' if now.run else _UNRECORDED}"


def _cost(now: Situation) -> str:
    """`waited 4:12 (2 %), 3 stalls, longest 41.0 s; fed, it takes 3 h 8 min at best`."""
    lost = DataWaitCost(now.waited_s, now.now_s)
    share = units.percent(lost.share if now.now_s > 0 else None)
    parts = [f"waited {units.seconds(now.waited_s)} ({share})"]
    if now.stalls:
        plural = "s" if now.stalls > 1 else ""
        parts.append(f"{now.stalls} stall{plural}, longest {units.seconds(now.longest_stall_s)}")
    return "; ".join(filter(None, [", ".join(parts), best_case_text(lost)]))


def _last_evidence(now: Situation) -> str:
    """What is likely stands first: where a line is short, its end is cut."""
    doing = f"last seen in {now.phase.name.lower().replace('_', ' ')}"
    memory = now.memory
    if memory is None:
        return doing
    have = f"memory {units.number(memory.used / 2**30)} of {units.gigabytes(memory.total)}"
    swap = f", swap {units.gigabytes(memory.swap)}"
    return f"{'out of memory is likely: ' if memory.is_full else ''}{have}{swap}; {doing}"
