"""The banner: the situation of a run as one word, one sentence and one piece of advice."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import knob_name
from tfwatch.core.rows import Phase
from tfwatch.judge.effects.comparison import ENOUGH_STEPS
from tfwatch.judge.effects.wording import (
    autopilot_parts,
    experiment_progress,
    experiment_subject,
)
from tfwatch.judge.findings import advice
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.findings.situation import Banner, data_wait_parts, reading_text
from tfwatch.judge.loss import divergence_text
from tfwatch.judge.machine_remark import remark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: Shorter times of a start are left out.
_WORTH_SHOWING_S = 1.0


def banner_of(finding: Finding) -> Banner:
    """Return a finding as the banner shows it."""
    return Banner(
        finding.word,
        finding.sentence,
        finding.advice,
        finding.tone,
        edit=finding.code,
        brief=finding.brief,
    )


#: A switch without enough steps after this many is judged like any other stretch.
_SETTLES_WITHIN = 200
_FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_UNRECORDED = "nothing was recorded"
#: TensorFlow puts this between an error's name and its message.
_NODE = re.compile(r"\{\{function_node [^}]*\}\} ?")


def banner(now: Situation, losses: Sequence[Finding]) -> Banner:
    """Return what happens at this moment, else the largest loss, with the remark on the loss and
    the machine.

    losses: those of the present regime in rank.
    """
    moment = next((result for check in _CHECKS if (result := check(now))), None)
    finding = moment or (banner_of(losses[0]) if losses else _measuring(now))
    if now.last_losses and not finding.remark:  # a failed or killed run: its cause comes first
        last = now.last_losses[0]
        finding = replace(finding, remark=f"{last.word}; {last.advice}", edit=last.code)
    lines = finding.edit or advice.lines_of(now, advice.proved_knobs(now))
    finding = replace(finding, edit=lines)
    finding = _with_loss(now, replace(finding, remark=finding.remark or remark(now)))
    if now.unrecorded and now.ended is None:
        missing = (
            f"NOT RECORDED since step {units.count(now.steps_total + 1)}: {now.unrecorded};"
            " training goes on"
        )
        return replace(finding, advice=missing)
    return finding


def _with_loss(now: Situation, finding: Banner) -> Banner:
    """Return the finding with a remark on a loss that is NaN or infinite; such a finding is never
    good."""
    if now.diverged is None:
        return finding
    remarks = "; ".join(filter(None, [divergence_text(now.diverged), finding.remark]))
    tone = Tone.WARN if finding.tone in (Tone.GOOD, Tone.CALM) else finding.tone
    return replace(finding, remark=remarks, tone=tone)


def _failed(now: Situation) -> Banner | None:
    if now.failed is None:
        return None
    place = _FILE_LINE.findall(now.failed.traceback)
    where = f"{place[-1][0].rpartition('/')[2]}:{place[-1][1]} - " if place else ""
    leave = " - q quits with exit status 1" if now.live else ""
    return Banner(
        f"FAILED at step {units.count(now.failed.step)}",
        _NODE.sub("", now.failed.error),
        f"{where}5 shows the traceback - {units.counted(now.steps_total, 'step')} kept{leave}",
        Tone.BAD,
    )


def _ended(now: Situation) -> Banner | None:
    if now.ended is None:
        return None
    if now.ended.cause == "failed":
        return Banner(
            "FAILED", now.ended.detail or "no reason was recorded", _sum_up(now), Tone.BAD
        )
    took = units.seconds(now.ended.at_ns / 1e9)
    done = f"{units.counted(now.ended.steps, 'step')} in {took}{now.metric and f', {now.metric}'}"
    if now.ended.cause == "stopped":
        return _with_last(now, Banner("STOPPED", f"after {done}", _sum_up(now), Tone.CALM))
    epochs = f"{now.epoch + 1} epoch{'s' if now.epoch else ''}"
    return _with_last(now, Banner("FINISHED", f"{epochs}, {done}", _sum_up(now), Tone.GOOD))


def _with_last(now: Situation, finding: Banner) -> Banner:
    """Return the finding on the last setting, with the outcome of the run as its remark."""
    if not now.last_losses:
        return finding
    last = now.last_losses[0]
    brief = f"{last.word}, {last.brief}" if last.brief else ""
    remark = f"{finding.sentence}; {_cost(now)}{'' if now.run else f' - {_UNRECORDED}'}"
    sentence = f"{last.word}, {last.sentence}"
    return replace(
        finding, sentence=sentence, advice=last.advice, remark=remark, edit=last.code, brief=brief
    )


def _killed(now: Situation) -> Banner | None:
    if now.life == "killed":
        place = f"at step {units.count(now.step)}, after {units.seconds(now.now_s)}"
        how = "ENDED" if now.phase is Phase.ENDED else "KILLED"
        return Banner(f"{how} (no end record)", place, _last_evidence(now), Tone.BAD)
    if now.life == "unknown":
        host = now.manifest.machine.get("host") or "unknown"
        silence = f"no new data for {units.seconds(now.silent_s)}; run on another machine, {host}"
        return Banner("UNKNOWN", silence, "check on that machine whether it still runs", Tone.WARN)
    return None


def _silent(now: Situation) -> Banner | None:
    if now.life == "folder gone":
        where = f"moved, deleted or unmounted: {now.run}"
        moved = "tfwatch replay opens it at its new place; the screen shows the last data"
        return Banner("RUN FOLDER GONE", where, moved, Tone.WARN)
    if now.life != "not responding":
        return None
    why = "training is stopped, asleep, or holds the GIL"
    alive = f"its process {now.manifest.pid} is alive; the screen shows the last data"
    return Banner(f"NOT RESPONDING for {units.seconds(now.silent_s)}", why, alive, Tone.BAD)


def _stopping(now: Situation) -> Banner | None:
    if now.stopping_s is None:
        return None
    so_far = f"after the current batch ({units.seconds(now.stopping_s)} so far)"
    return Banner("STOPPING", so_far, "y again quits now; the run folder is complete", Tone.BUSY)


def _unwatched(now: Situation) -> Banner | None:
    if not now.watch_failed:
        return None
    return Banner(
        "NOT MEASURED",
        f"tfwatch failed: {now.watch_failed}",
        "training goes on without it",
        Tone.WARN,
    )


def _starting(now: Situation) -> Banner | None:
    # A detail that counts begins a new phase each time: 0.1 s beside `400 of 8 000` would be the
    # time of the count.
    so_far = f", {units.seconds(now.phase_s)}" if now.phase_s >= _WORTH_SHOWING_S else ""
    if now.phase is Phase.STARTING:
        sentence = f"{now.detail or 'starting'}{so_far}"
        return Banner("STARTING", sentence, _early_keys(now), Tone.BUSY)
    if now.is_starting:
        filling = advice.shuffle_fill_text(now)
        sentence = f"{filling or 'waiting for the first batch'}{so_far}"
        again = ["it fills again in every epoch"] if filling else []
        return Banner(
            "STARTING", sentence, " - ".join(filter(None, [*again, _early_keys(now)])), Tone.BUSY
        )
    return None


def _compiling(now: Situation) -> Banner | None:
    if now.phase is not Phase.COMPILE:
        return None
    which = "first step" if now.step <= 1 else f"step {units.count(now.step)}"
    note = "not counted as step time; with XLA, minutes are normal"
    return Banner("COMPILING", f"{which}, {units.seconds(now.phase_s)} so far", note, Tone.BUSY)


def _stalled(now: Situation) -> Banner | None:
    if not now.is_stalled:
        return None
    word = f"NO BATCH FOR {now.phase_s:.1f} s"
    return Banner(word, advice.stall_sentence(now), advice.stall_advice(now), Tone.BAD)


def _long_step(now: Situation) -> Banner | None:
    if not now.is_running_long:
        return None
    if now.phase is Phase.COMPUTE:
        where = f"in compute, in {now.detail}" if now.detail else "in compute"
    else:
        where = f"in callback {now.detail}" if now.detail else "in host code"
    usual = units.milliseconds(now.figures.median_step_ms)
    note = (
        f"a step usually takes {usual}; this is not data wait" if now.figures.median_step_ms else ""
    )
    word = f"STEP {units.count(now.step)} RUNS FOR {now.phase_s:.1f} s"
    return Banner(word, where, note, Tone.WARN)


def _between_now(now: Situation) -> Banner | None:
    if now.phase not in (Phase.VALIDATION, Phase.EPOCH_END) or now.phase_s < 0.3:
        return None
    what = "validation" if now.phase is Phase.VALIDATION else f"the end of epoch {now.epoch + 1}"
    named = f", {now.detail}" if now.detail else ""
    sentence = f"{what}{named}, {units.seconds(now.phase_s)} so far"
    return Banner(
        "BETWEEN EPOCHS", sentence, "no training step runs; not counted as data wait", Tone.BUSY
    )


def _ab_test(now: Situation) -> Banner | None:
    if now.experiment is None:
        return None
    ends = "a cancels it and restores the setting before; " if now.live else ""
    advice = (
        f"{ends}the run keeps the faster setting; it trains on the same batches in the same order"
    )
    subject, progress = experiment_subject(now.experiment), experiment_progress(now.experiment)
    brief = f"{subject}: {progress.partition(' (')[0]}"
    return Banner("A/B TEST", f"{subject}: {progress}", advice, Tone.BUSY, brief=brief)


def _autopilot(now: Situation) -> Banner | None:
    if now.autopilot_run is None:
        return None
    ends = "f or the key of any setting ends it; " if now.live else ""
    advice = (
        f"{ends}what is proved to save 2 % is kept, all else undone; it trains on the same batches"
        " in the same order"
    )
    parts = autopilot_parts(now.autopilot_run)
    return Banner("AUTOPILOT", "; ".join(parts), advice, Tone.BUSY, brief=parts[0])


def _switching(now: Situation) -> Banner | None:
    if not now.asked:
        return None
    knob, new = next(reversed(list(now.asked.items())))
    sentence = (
        f"{knob_name(knob)} {now.setting.knobs.get(knob, '?')} → {new}: waits for the current batch"
    )
    return Banner("SWITCHING", sentence, "the last key press counts; u undoes it", Tone.BUSY)


def _settling(now: Situation) -> Banner | None:
    switch = now.switch
    if switch is None or switch.settled or now.steps_total - switch.step > _SETTLES_WITHIN:
        return None
    if now.setting.knobs.get(switch.knob, switch.new) != switch.new:
        return None  # the knob changed again: an A/B test that is ended restores its own setting
    done = switch.after.steps if switch.after else 0
    so_far = (
        f", so far {units.milliseconds(switch.typical(switch.after.step))}/step"
        if switch.after
        else ""
    )
    before = (
        f"before: {units.milliseconds(switch.typical(switch.before.step))}/step"
        if switch.before
        else ""
    )
    sentence = f"{knob_name(switch.knob)} {switch.new}: {done} of {ENOUGH_STEPS} steps{so_far}"
    return Banner("MEASURING", sentence, before, Tone.BUSY)


def _measuring(now: Situation) -> Banner:
    done, needed = now.setting.judgement.steps, now.setting.judgement.needed
    left_s = max(0, needed - done) * (now.figures.median_step_ms or 0.0) / 1e3
    advice = (
        f"verdict in about {units.seconds(left_s)}" if left_s else "verdict after the next steps"
    )
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
    _ab_test,
    _autopilot,
    _switching,
    _settling,
)


def _early_keys(now: Situation) -> str:
    if not now.live:
        return ""
    if now.asked:
        requested = ", ".join(f"{knob_name(knob)} {new}" for knob, new in now.asked.items())
        return f"requested: {requested}; takes effect with the first batch"
    return "settings can be changed already" if now.manifest.switchable else ""


def _sum_up(now: Situation) -> str:
    return f"{_cost(now)} - {f'tfwatch replay {now.run}' if now.run else _UNRECORDED}"


def _cost(now: Situation) -> str:
    """Return `data wait 4:12 (2 %); without it: 3 h 8 min at best; 3 stalls, longest 41.0 s`."""
    parts = data_wait_parts(now.figures.waited_s, now.now_s)
    if now.setting.stalls:
        longest_s = max(stall.lost_ms for stall in now.setting.stalls) / 1e3
        stalls = units.counted(len(now.setting.stalls), "stall")
        parts.append(f"{stalls}, longest {units.seconds(longest_s)}")
    if now.searched is not None:
        parts.append(reading_text(now.searched))
    return "; ".join(parts)


def _last_evidence(now: Situation) -> str:
    """Return the last memory figures and phase, the likely cause first: a narrow row cuts the
    end."""
    doing = f"last phase: {now.phase.name.lower().replace('_', ' ')}"
    memory = now.memory
    if memory is None:
        return doing
    have = f"memory {units.number(memory.used / 2**30)} of {units.gigabytes(memory.total)}"
    swap = f", swap {units.gigabytes(memory.swap)}"
    return f"{'out of memory is likely: ' if memory.is_full else ''}{have}{swap}; {doing}"
