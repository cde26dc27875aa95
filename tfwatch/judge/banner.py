"""The banner: the situation of a run as one word, one sentence and one piece of advice, with a
remark on the machine."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import KNOBS, knob_name
from tfwatch.core.rows import Phase
from tfwatch.judge.effects.wording import (
    autopilot_parts,
    experiment_progress,
    setting_text,
    subject_text,
)
from tfwatch.judge.findings.finding import MOMENT, Finding, Tone
from tfwatch.judge.findings.ranking import LEAST_S, STAGES_S
from tfwatch.judge.findings.situation import data_wait_parts
from tfwatch.judge.machine import HEAT, PRESSURE
from tfwatch.judge.steps.stalls import place_text
from tfwatch.judge.troubles import divergence_text
from tfwatch.runs.machine_info import memory_total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.machine import MachineFigures

#: Memory is full where less than this share is available.
_FULL = 0.05
#: Shorter times of a start, or between steps, are left out.
_WORTH_SHOWING_S = 1.0
#: A stall or a long step is news from so many seconds on, and where it takes so many times the
#: longest one before.
_NEWS_S, _LONGER = 5.0, 1.2

_FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_UNRECORDED = "nothing was recorded"
#: TensorFlow puts this between an error's name and its message.
_NODE = re.compile(r"\{\{function_node [^}]*\}\} ?")


def banner(now: Situation, losses: Sequence[Finding], before: Finding | None = None) -> Finding:
    """Return the state of the run, else its largest loss, with the remark on it and the machine.

    losses: those of the present regime in rank, none before a verdict. before: the verdict of the
    regime before, which stands until then.
    """
    state = next((result for check in _STATES if (result := check(now))), None)
    finding = state or _with_request(now, losses[0] if losses else _measuring(now, before))
    if now.last_losses and not finding.remark:  # a failed or killed run: its cause comes first
        last = now.last_losses[0]
        finding = replace(finding, remark=f"{last.word}; {last.advice}", code=last.code)
    finding = _with_loss(now, replace(finding, remark=finding.remark or _remark(now, finding)))
    if now.unrecorded and now.ended is None:
        missing = (
            f"NOT RECORDED since step {units.count(now.steps_total + 1)}: {now.unrecorded};"
            " training goes on"
        )
        return replace(finding, advice=missing)
    return finding


def _with_request(now: Situation, finding: Finding) -> Finding:
    """Return a finding that advises settings, with those that are requested and take effect with an
    epoch: `workers auto requested, from epoch 3`."""
    advised = [knob for knob in KNOBS.values() if finding.advises(knob)]
    requested = [
        " ".join([knob.label, *now.deferred[knob.name]])
        for knob in advised
        if knob.name in now.deferred
    ]
    if not requested:
        return finding
    others = " and ".join(knob.key for knob in advised if knob.name not in now.deferred)
    return replace(finding, advice="; ".join([*requested, *([f"{others} too"] if others else [])]))


def _with_loss(now: Situation, finding: Finding) -> Finding:
    """Return the finding with a remark on a loss that is NaN or infinite; beside it and beside
    other programs no finding is good."""
    diverged = divergence_text(now.diverged) if now.diverged else ""
    if not diverged and not now.others.matters:
        return finding
    remarks = "; ".join(filter(None, [diverged, finding.remark]))
    tone = Tone.WARN if finding.tone in (Tone.GOOD, Tone.CALM) else finding.tone
    return replace(finding, remark=remarks, tone=tone)


def _moment(word: str, sentence: str, advice: str, tone: Tone, brief: str = "") -> Finding:
    return Finding(MOMENT, word, sentence, advice, tone=tone, brief=brief)


def _failed(now: Situation) -> Finding | None:
    if now.failed is None:
        return None
    place = _FILE_LINE.findall(now.failed.traceback)
    where = f"{place[-1][0].rpartition('/')[2]}:{place[-1][1]} - " if place else ""
    leave = " - q quits with exit status 1" if now.live else ""
    return _moment(
        f"FAILED at step {units.count(now.failed.step)}",
        _NODE.sub("", now.failed.error),
        f"{where}5 shows the traceback - {units.counted(now.steps_total, 'step')} kept{leave}",
        Tone.BAD,
    )


def _ended(now: Situation) -> Finding | None:
    if now.ended is None:
        return None
    if now.ended.cause == "failed":
        why = now.ended.detail or "no reason was recorded"
        return _moment("FAILED", why, _sum_up(now), Tone.BAD)
    took = units.seconds(now.ended.at_ns / 1e9)
    done = f"{units.counted(now.ended.steps, 'step')} in {took}"
    if now.ended.cause == "stopped":
        return _with_last(now, _moment("STOPPED", f"after {done}", _sum_up(now), Tone.CALM))
    epochs = f"{now.epoch + 1} epoch{'s' if now.epoch else ''}"
    return _with_last(now, _moment("FINISHED", f"{epochs}, {done}", _sum_up(now), Tone.GOOD))


def _with_last(now: Situation, finding: Finding) -> Finding:
    """Return the finding on the last setting, with the outcome of the run as its remark."""
    if not now.last_losses:
        return finding
    last = now.last_losses[0]
    remark = f"{finding.sentence}; {_cost(now)}{'' if now.run else f' - {_UNRECORDED}'}"
    sentence = f"{last.word}, {last.sentence}"
    return replace(last, word=finding.word, sentence=sentence, remark=remark)


def _out_of_reach(now: Situation) -> Finding | None:
    """Return the state of a run whose process is gone, silent or out of sight."""
    silent_for, shown = units.seconds(now.silent_s), "the screen shows the last data"
    if now.life == "killed":
        place = f"at step {units.count(now.step)}, after {units.seconds(now.now_s)}"
        how = "ENDED" if now.phase is Phase.ENDED else "KILLED"
        return _moment(f"{how} (no end record)", place, _last_evidence(now), Tone.BAD)
    if now.life == "unknown":
        host = now.manifest.machine.get("host") or "unknown"
        silence = f"no new data for {silent_for}; run on another machine, {host}"
        return _moment("UNKNOWN", silence, "check on that machine whether it still runs", Tone.WARN)
    if now.life == "folder gone":
        where = f"moved, deleted or unmounted: {now.run}"
        moved = f"tfwatch replay opens it at its new place; {shown}"
        return _moment("RUN FOLDER GONE", where, moved, Tone.WARN)
    if now.life == "not responding":
        why = "training is stopped, asleep, or holds the GIL"
        alive = f"its process {now.manifest.pid} is alive; {shown}"
        return _moment(f"NOT RESPONDING for {silent_for}", why, alive, Tone.BAD)
    return None


def _stopping(now: Situation) -> Finding | None:
    if now.stopping_s is None:
        return None
    so_far = f"after the current batch ({units.seconds(now.stopping_s)} so far)"
    return _moment("STOPPING", so_far, "y again quits now; the run folder is complete", Tone.BUSY)


def _unwatched(now: Situation) -> Finding | None:
    if not now.watch_failed:
        return None
    why = f"tfwatch failed: {now.watch_failed}"
    return _moment("NOT MEASURED", why, "training goes on without it", Tone.WARN)


def _starting(now: Situation) -> Finding | None:
    if now.phase is Phase.STARTING:
        sentence = now.detail or "starting"
    elif now.is_starting:
        sentence = _shuffle_fill_text(now) or "waiting for the first batch"
    else:
        return None
    # A detail that counts begins a new phase each time: 0.1 s beside `400 of 8 000` would be the
    # time of the count.
    so_far = f", {units.seconds(now.phase_s)}" if now.phase_s >= _WORTH_SHOWING_S else ""
    return _moment("STARTING", f"{sentence}{so_far}", _early_keys(now), Tone.BUSY)


def _early_keys(now: Situation) -> str:
    if not now.live:
        return ""
    if now.asked:
        requested = ", ".join(f"{knob_name(knob)} {new}" for knob, new in now.asked.items())
        return f"requested: {requested}; takes effect with the first batch"
    return "settings can be changed already" if now.manifest.switchable else ""


def _compiling(now: Situation) -> Finding | None:
    if now.phase is not Phase.COMPILE or now.steps_total:
        return None
    word = f"first step, {units.seconds(now.phase_s)} so far"
    return _moment("COMPILING", word, "not counted as step time", Tone.BUSY)


def _stalled(now: Situation) -> Finding | None:
    return stall(now) if now.is_stalled and _is_unusual(now) else None


def _is_unusual(now: Situation) -> bool:
    """Return whether the present phase is longer than any before: what recurs is a finding."""
    return now.phase_s >= max(_NEWS_S, _LONGER * now.longest_step_s)


def stall(now: Situation) -> Finding:
    """Return the stall of this moment."""
    advice = "No key helps while a fetch blocks; the training process responds, q is safe."
    if now.asked:
        knob, new = next(reversed(list(now.asked.items())))
        advice = f"Requested: {knob_name(knob)} {new}; it waits for the current batch. q is safe."
    if not now.live:
        advice = "Read only: switch on the screen of the training itself."
    return _moment(f"NO BATCH FOR {now.phase_s:.1f} s", _stall_sentence(now), advice, Tone.BAD)


def _stall_sentence(now: Situation) -> str:
    """Return `Step 412 waits in from_generator(rows), at feed.py:41 in rows: no output for 20.3
    s.`; a narrow row cuts the end."""
    step = f"Step {units.count(now.step)} waits"
    if filling := _shuffle_fill_text(now):
        return f"{step}: {filling}."
    if located := now.located:
        place = place_text(located, now.python_stage)
        if located.stage:
            since_s = now.now_s - located.since_ns / 1e9
            return f"{step} in {place}: no output for {units.seconds(since_s)}."
        is_generator = located.thread == "generator"
        return f"{step} in {place}." if is_generator else f"{step} for its batch, at {place}."
    if now.epoch_begins:
        return f"{step} for the first batch of epoch {now.epoch + 1}."
    return f"{step} for its batch: the input pipeline has delivered none."


def _shuffle_fill_text(now: Situation) -> str:
    """Return `filling the shuffle buffer, 4 298 of 50 000`; empty where it does not fill."""
    if now.shuffle is None:
        return ""
    done, size = now.shuffle
    return f"filling the shuffle buffer, {units.count(done)} of {units.count(size)}"


def _long_step(now: Situation) -> Finding | None:
    if not now.is_running_long or not _is_unusual(now):
        return None
    usual = units.milliseconds(now.median_step_ms)
    note = f"a step usually takes {usual}; this is not data wait" if now.median_step_ms else ""
    word = f"STEP {units.count(now.step)} RUNS FOR {now.phase_s:.1f} s"
    return _moment(word, _busy_with(now), note, Tone.WARN)


def _busy_with(now: Situation) -> str:
    if now.phase is Phase.COMPUTE:
        return f"in compute, in {now.detail}" if now.detail else "in compute"
    return f"in callback {now.detail}" if now.detail else "in host code"


#: What a phase between steps is in the header.
_BETWEEN = {
    Phase.VALIDATION: "validation",
    Phase.EPOCH_END: "end of the epoch",
    Phase.COMPILE: "compiling",
}


def moment_text(now: Situation) -> str:
    """Return what goes on at this moment for longer than a step, e.g. `no batch for 2 s`; empty
    where the steps run. It belongs to the header: the banner stands."""
    if now.life != "running" or now.ended or now.is_starting or now.phase is Phase.STARTING:
        return ""
    so_far = f"{now.phase_s:.0f} s"
    if now.asked:
        knob, new = next(reversed(list(now.asked.items())))
        return f"switching {knob_name(knob)} {now.knobs.get(knob, '?')} → {new}"
    if now.is_stalled:
        return f"no batch for {so_far}"
    if now.is_running_long:
        return f"step {_busy_with(now)} for {so_far}"
    what = _BETWEEN.get(now.phase, "") if now.phase_s >= _WORTH_SHOWING_S else ""
    return f"{what}{f', {now.detail}' if now.detail else ''}, {so_far}" if what else ""


def _ab_test(now: Situation) -> Finding | None:
    if now.experiment is None:
        return None
    began, progress = now.experiment.began, experiment_progress(now.experiment)
    stays = setting_text(began.knob, now.experiment.before)
    advice = (
        f"{'a cancels it; ' if now.live else ''}{stays} stays unless another setting is proved"
        " faster; it trains on the same batches in the same order"
    )
    subject = subject_text(began.knob, began.values)
    brief = f"{subject}: {progress.partition(' (')[0]}"
    return _moment("A/B TEST", f"{subject}: {progress}", advice, Tone.BUSY, brief=brief)


def _autopilot(now: Situation) -> Finding | None:
    if now.autopilot_run is None:
        return None
    ends = "f or the key of any setting ends it; " if now.live else ""
    advice = (
        f"{ends}what is proved to save 2 % is kept, all else undone; it trains on the same batches"
        " in the same order"
    )
    parts = autopilot_parts(now.autopilot_run)
    return _moment("AUTOPILOT", "; ".join(parts), advice, Tone.BUSY, brief=parts[0])


def _measuring(now: Situation, before: Finding | None) -> Finding:
    is_start = now.regime.cause == "start"
    most_s = STAGES_S if is_start else LEAST_S
    awaited = f"{most_s:.0f} s of steps at most: {now.regime.judged_s:.0f} s so far"
    if before and not is_start:
        # Its cause, e.g. the workers of a map, may be what was switched.
        sentence = f"{before.brief or before.sentence}: that was with the setting before"
        awaits = f"measuring the new setting, {awaited}"
        return replace(before, sentence=sentence, advice=awaits, code="")
    return _moment("MEASURING", f"the verdict needs {awaited}", "", Tone.BUSY)


#: What a run is in, as opposed to a moment between two steps: the banner shows it at once.
_STATES: tuple[Callable[[Situation], Finding | None], ...] = (
    _failed,
    _ended,
    _out_of_reach,
    _stopping,
    _unwatched,
    _starting,
    _compiling,
    _stalled,
    _long_step,
    _ab_test,
    _autopilot,
)


def _sum_up(now: Situation) -> str:
    return f"{_cost(now)} - {f'tfwatch replay {now.run}' if now.run else _UNRECORDED}"


def _cost(now: Situation) -> str:
    """Return `data wait 4:12 (2 % of the run), with 3 stalls of 9 s at most; without it: 1:15 at
    best`."""
    sees_wait = now.manifest.sees_data_wait
    parts = data_wait_parts(now.waited_s, now.now_s) if sees_wait else ["data wait n/a"]
    if now.stalls:
        longest_s = max(stall.lost_ms for stall in now.stalls) / 1e3
        stalls = units.counted(len(now.stalls), "stall")
        parts[0] += f", with {stalls} of {units.seconds(longest_s)} at most"
    return "; ".join(parts)


def _last_evidence(now: Situation) -> str:
    """Return the last memory figures and phase, the likely cause first: a narrow row cuts the
    end."""
    doing = f"last phase: {now.phase.name.lower().replace('_', ' ')}"
    figures = now.machine.figures if now.machine else {}
    used, swap = (figures.get(f"{name}_used_bytes") for name in ("memory", "swap"))
    if used is None:
        return doing
    total = memory_total(now.manifest.machine)
    is_full = (figures.get("memory_available_bytes") or math.nan) < _FULL * total
    have = f"memory {units.number(used / 2**30)} of {units.memory(total)}"
    likely = "out of memory is likely: " if is_full else ""
    return f"{likely}{have}, swap {units.memory(swap)}; {doing}"


# -- the machine -----------------------------------------------------------------------------------


def remark(now: Situation) -> str:
    """Return the most urgent problem; empty where there is none, or the run is not running."""
    is_running = now.life == "running" and now.ended is None
    return next(_problems(now, now.machine), "") if is_running and now.machine else ""


def _remark(now: Situation, finding: Finding) -> str:
    """Return the most urgent problem, after the seconds that the finding can avoid."""
    lost = f"{units.seconds(finding.lost_s)} avoidable" if finding.lost_s else ""
    problem = remark(now)
    return ", ".join(filter(None, (lost, problem))) if problem else ""


def _problems(now: Situation, machine: MachineFigures) -> Iterator[str]:
    """Yield the problems, the most urgent first."""
    smaller = "use smaller batches, buffers or caches"
    if now.others.matters:
        yield f"{now.others.text.upper()}: all times are longer for it"
    if machine.is_swapping:
        yield f"swapping {(machine.swap_bytes_s or 0) / 2**20:.0f} MB/s: {smaller}"
    if machine.pressure == len(PRESSURE) - 1:
        yield f"memory is nearly full: {smaller}"
    if machine.is_hot:
        yield f"heat is {HEAT[machine.heat or 0]}: clocks are lowered"
    if machine.gpu and machine.gpu.is_shared and now.manifest.accelerated:
        yield f"other programs use {units.percent(machine.gpu.others)} of the GPU"
    if machine.is_gpu_unused(now.manifest, now.steps_total):
        yield "TensorFlow does not use the GPU; tfwatch doctor shows why"
