"""The summary of a run in a few lines, at its end."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.core.events import (
    ExperimentEnded,
    Noted,
    RecordingLost,
    RecordingResumed,
)
from tfwatch.judge.effects import switch_text
from tfwatch.judge.effects.tuner_text import autopilot_end_text, autopilot_runs, experiment_line
from tfwatch.judge.findings import starving_cost
from tfwatch.judge.findings.copying import bandwidth
from tfwatch.judge.findings.gpus import extremes_text
from tfwatch.judge.findings.log_lines import find_meanings, summarise_log
from tfwatch.judge.findings.loss import divergences, divergences_text
from tfwatch.judge.findings.machine import GPU
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.judge.steps.time_breakdown import PART_NAMES, keras_step_ms
from tfwatch.judge.steps.verdict import Bound, Judgement
from tfwatch.report.effects import switch_lines
from tfwatch.runs.format import MANIFEST
from tfwatch.runs.library import default_runs_dir
from tfwatch.runs.liveness import Life
from tfwatch.terminal.capture import CODE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.machine import Hardware
    from tfwatch.judge.findings.starving_cost import DataWaitCost
    from tfwatch.judge.steps.summary import LastSetting, Summary
    from tfwatch.judge.steps.time_breakdown import TimeBreakdown, TimeSpent
    from tfwatch.judge.steps.verdict import Breakdown
    from tfwatch.runs.snapshot import Snapshot

#: The most lines of one kind; of more, the rest is a number.
_MOST_LINES = 4
#: A smaller total reads as 0.0 s.
_LEAST_MS = 50.0
#: The smallest share of a run in the list of losses, and the difference of Keras' figure that is
#: explained.
_LEAST_SHARE = 0.01
_DIFFERS = 0.05


def as_text(run: Snapshot, home: Path) -> str:
    """Return the summary that stays on the terminal; `home` is written `~`.

    Text from outside is cut to one line, without control characters.
    """
    judged = JudgedRun(run)
    findings = judged.findings
    summary, time_breakdown, machine = judged.summary, judged.time_breakdown, judged.hardware
    lines = [
        _what(run, summary),
        *failure(run),
        *_experiments(run),
        *_autopilot_runs(run),
        *filter(None, [divergences_text(divergences(run.events))]),
        *_waited(run, summary, time_breakdown),
        *lost_words(judged.lost),
        *_split(run),
        *_copy(run, summary),
        *_op_by_op(run, summary),
        *_machine(run, machine),
        *_findings(findings, "heat", "swapping", "memory-growth"),
        *switch_lines(judged, _MOST_LINES),
        *filter(None, [switch_text.record_text(judged.record)]),
        *_findings(findings, "stall", "pattern"),
        *_next_words(judged),
        *_said(run),
        *_recorded(run, home),
    ]
    return "\n".join(one_line(line) for line in lines)


def one_line(text: str) -> str:
    """Return the first line of text from outside, without control characters."""
    return printable(text.strip().split("\n")[0])


def _what(run: Snapshot, summary: Summary) -> str:
    where = f" on {run.manifest.device}" if run.manifest.device else ""
    steps = run.ended.steps if run.ended else summary.steps
    trained = (
        f"{units.counted(steps, 'step')} in {units.seconds(run.length_s)}"
        if steps
        else "no step was trained"
    )
    return f"{run.manifest.workload}{where}: {state_text(run)}, {trained}"


def state_text(run: Snapshot) -> str:
    """Return the state of a run: `finished`, `still running`."""
    if run.ended:
        return run.ended.cause
    if run.has_unrecorded_end:
        return "ended (the disk took no end record)"
    return {
        Life.RUNNING: "still running",
        Life.NOT_RESPONDING: f"not responding for {units.seconds(run.silent_s)}",
        Life.UNKNOWN: f"unknown, no new data for {units.seconds(run.silent_s)}",
        Life.KILLED: "killed (no end record; out of memory?)",
    }.get(run.life, "no end record")


def failure(run: Snapshot) -> list[str]:
    """Return why a run failed, in one sentence; empty where it did not."""
    if run.failure:
        return [run.failure]
    return [run.ended.detail] if run.ended and run.ended.detail else []


def _waited(run: Snapshot, summary: Summary, time_breakdown: TimeBreakdown) -> list[str]:
    if not summary.steps:
        return []
    device = "the GPU" if run.manifest.accelerated else "the device"
    waited_s = time_breakdown.total.data_wait_s
    share = units.percent(waited_s / run.length_s if run.length_s > 0 else None)
    others = _other_losses(time_breakdown, run.length_s, "epoch ends")
    line = f"{device} waited {units.seconds(waited_s)} for data ({share} of the run){others}"
    split = summary.steady
    if split is None:
        return [f"{line}; no steady steps to judge"]
    return [line, *_steady_words(summary, split, _left_out(summary)), *_keras(run, split.step.mean)]


def _steady_words(summary: Summary, split: Breakdown, left_out: str) -> list[str]:
    """Return the mean steady step of the whole run, and that of the last setting with the verdict.

    One line where there was one setting. left_out: the words for the excluded steps.
    """
    setting = summary.setting
    verdict = _verdict_words(setting.judgement)
    if setting.whole:
        return [f"{_mean_step(split)}: {verdict}{left_out}"]
    last = setting.judgement.breakdown
    of = (
        _mean_step(last)
        if last and setting.judgement.bound
        else f"{units.counted(setting.judgement.steps, 'step')}"
    )
    return [
        f"over the whole run {_mean_step(split)}{left_out}",
        f"{setting_words(setting)} {of}: {verdict}",
    ]


def _verdict_words(judgement: Judgement) -> str:
    """Return `NOT input-bound, launch-bound`."""
    if judgement.bound is None or judgement.bound is Bound.INPUT:
        return judgement.verdict.value
    return f"{judgement.verdict.value}, {judgement.bound.value}"


def _next_words(judged: JudgedRun) -> list[str]:
    """Return the advice for the last setting, and the lines of its code."""
    finding = judged.finding
    if finding is None or not finding.advice:
        return []
    words = finding.advice
    lines = [line for line in finding.edit.split("\n") if line]
    return [
        f"next: {words[0].lower()}{words[1:]}",
        *(f"  {CODE}{line}" for line in lines),
    ]


def lost_words(cost: DataWaitCost) -> list[str]:
    """Return the cost of data wait; nothing where it is next to none."""
    sentence = starving_cost.cost_text(cost)
    return [sentence] if sentence else []


def _mean_step(split: Breakdown) -> str:
    """Return `mean steady step: 5.0 of 18.0 ms is data wait (28 %)`."""
    step = " of ".join(units.in_one_unit(split.wait.mean, split.step.mean))
    return f"mean steady step: {step} is data wait ({units.percent(split.wait_share)})"


def setting_words(setting: LastSetting) -> str:
    """Return `since step 101`; several stretches, or one before the last, have both ends."""
    if not setting.stretches:
        return "last setting"
    first, last = units.count(setting.stretches[0][0]), units.count(setting.stretches[-1][1])
    if len(setting.stretches) > 1:
        return f"last setting, {len(setting.stretches)} stretches of steps {first} to {last},"
    return f"last setting, steps {first} to {last}," if setting.undecided else f"since step {first}"


def _experiments(run: Snapshot) -> list[str]:
    ended = [experiment_line(event) for event in run.events if isinstance(event, ExperimentEnded)]
    noted = [event.text for event in run.events if isinstance(event, Noted) and event.is_refusal]
    return [*ended, *noted[-1:]]


def _autopilot_runs(run: Snapshot) -> list[str]:
    return [
        autopilot_end_text(autopilot_run.ended)
        for autopilot_run in autopilot_runs(run.events)
        if autopilot_run.ended
    ]


def _split(run: Snapshot) -> list[str]:
    """Return the method that separated the parts of a step, where it is not the exact one."""
    words, why_not = run.manifest.split, run.manifest.not_split
    if why_not:
        return [f"the parts of a step were not separated: {why_not}"]
    return [] if words in ("", "exact") else [f"the parts of a step were separated by {words}"]


def _copy(run: Snapshot, summary: Summary) -> list[str]:
    """Return the copy to the GPU of a steady step with its bandwidth, or why it is not timed; empty
    on a CPU."""
    split, manifest = summary.setting.judgement.breakdown, run.manifest
    if not manifest.accelerated or split is None or not (split.copy or manifest.copy_not_timed):
        return []
    if split.copy is None:
        return [f"the copy of batches to the GPU is n/a: {manifest.copy_not_timed}"]
    took_ms = split.copying_ms(manifest.copy_ahead_ms)
    spent = " of ".join(units.in_one_unit(took_ms, split.step.mean))
    size, rate = sum(manifest.copied_bytes.values()), bandwidth(manifest.copied_bytes, took_ms)
    at = f": {units.memory(size)} at {units.number(rate / 1e9)} GB/s" if rate else ""
    waits = (
        f", ahead of it: it waits {units.milliseconds(split.copy.mean)}"
        if manifest.copied_ahead
        else ""
    )
    return [f"copying batches to the GPU takes {spent} of a steady step{at}{waits}"]


def _op_by_op(run: Snapshot, summary: Summary) -> list[str]:
    """Return the Python time of steps that do not run as a graph."""
    split = summary.steady
    if split is None or not run.manifest.op_by_op:
        return []
    spent = " of ".join(units.in_one_unit(split.dispatch.mean, split.step.mean))
    what = "launching" if run.manifest.accelerated else "Python between the operations"
    return [
        (
            f"eager execution: {spent} of a steady step is {what}"
            f" ({units.percent(split.dispatch_share)})"
        )
    ]


def _other_losses(time_breakdown: TimeBreakdown, length_s: float, end: str) -> str:
    """Return the other losses of at least 1 % of the run, the largest first; steps themselves are
    no loss.

    end: the name of what follows the last step of an epoch.
    """
    total = time_breakdown.total
    single = ("compile_s", "host_s", "copy_s")
    losses = {PART_NAMES[part]: getattr(total, part) for part in single}
    losses["between epochs"] = total.between_s
    names = sorted(
        (name for name in losses if losses[name] >= _LEAST_SHARE * length_s > 0),
        key=lambda n: -losses[n],
    )
    words = [
        f"{name} {units.duration(losses[name])} ({units.percent(losses[name] / length_s)})"
        for name in names
    ]
    if "between epochs" in names:
        parts = _between_epochs(total, end, _LEAST_SHARE * length_s)
        words = [
            f"{word[:-1]}: {parts})" if word.startswith("between epochs") else word
            for word in words
        ]
    beside = {"asleep": total.asleep_s, "in which other loops and fits trained": total.others_s}
    words += [
        f"plus {units.seconds(spent_s)} {name}" for name, spent_s in beside.items() if spent_s
    ]
    return "".join(f", {word}" for word in words)


def _between_epochs(total: TimeSpent, end: str, least_s: float) -> str:
    """Return the parts of the time between epochs, the largest first: `validation 2.1 s, first
    batches 0.4 s`."""
    parts = {
        "first batches": total.first_batch_s,
        "validation": total.validation_s,
        end: total.epoch_end_s,
    }
    names = sorted(
        (name for name in parts if parts[name] >= least_s), key=lambda name: -parts[name]
    )
    return ", ".join(f"{name} {units.duration(parts[name])}" for name in names or parts)


def _keras(run: Snapshot, step_ms: float) -> list[str]:
    """Return the reason why Keras' own figure differs, where it does."""
    keras_ms = keras_step_ms(run.epochs, run.events)
    if keras_ms is None or abs(keras_ms - step_ms) <= _DIFFERS * step_ms:
        return []
    reads = f"Keras' progress bar shows {units.milliseconds(keras_ms)}/step for the last epoch"
    if keras_ms < step_ms:
        return [f"{reads}: its steps were faster than those of the whole run"]
    return [f"{reads}: it includes validation, callbacks and slow steps"]


def _machine(run: Snapshot, machine: Hardware) -> list[str]:
    """Return the activity and energy of the GPU."""
    busy, ours, others = (
        machine.medians["gpu_busy"],
        machine.medians["gpu_process_busy"],
        machine.others,
    )
    if busy is None or not run.manifest.accelerated:
        return [*_energy(machine), *_gpu_missing(run, machine)]
    shares = [f"{units.percent(ours)} ours"] if ours is not None else []
    shares += [f"{units.percent(others)} other programs'"] if others is not None else []
    shared = f" ({', '.join(shares)})" if shares else ""
    power = machine.medians["gpu_power_w"]
    watts = f" at {units.watts(power)}" if power is not None else ""
    if len(machine.gpus) > 1:
        named = extremes_text(machine.gpus)
        gpus = f"the {len(machine.gpus)} GPUs were {units.percent(busy)} busy{shared}{watts}"
        return [f"{gpus}, median{named and f': {named}'}", *_energy(machine)]
    return [
        f"the GPU was {units.percent(busy)} busy{shared}{watts}, median",
        *_energy(machine),
    ]


def _findings(findings: Iterable[Finding], *kinds: str) -> list[str]:
    """Return the sentences of the findings of some kinds."""
    return [one.sentence for one in findings if one.kind in kinds]


def _energy(machine: Hardware) -> list[str]:
    spent = machine.energy
    if spent is None:
        return []
    share = units.percent(spent.starving_j / spent.joules if spent.joules > 0 else None)
    step = f"{units.joules(spent.per_step_j)}/step, " if spent.per_step_j is not None else ""
    return [
        (
            f"energy: {step}{units.joules(spent.joules)} total, {units.joules(spent.starving_j)}"
            f" ({share}) starving"
        )
    ]


def _gpu_missing(run: Snapshot, machine: Hardware) -> list[str]:
    """Return the reason why a GPU that trained has no figures."""
    why = next((event for event in machine.missing if event.sensor == GPU), None)
    if why is None or not run.manifest.accelerated:
        return []
    return [f"GPU n/a: {why.reason}{f'; {why.fix}' if why.fix else ''}"]


def _left_out(summary: Summary) -> str:
    """Return the number of steps that are not steady, and the time of their spikes, the costliest
    cause first."""
    lost: dict[str, float] = {}
    for spike in summary.spikes:
        name = spike.detail if spike.cause in ("callback", "checkpoint") else spike.cause
        lost[name] = lost.get(name, 0.0) + spike.extra_ms
    names = sorted(
        (name for name in lost if lost[name] >= _LEAST_MS), key=lambda name: -lost[name]
    )[: _MOST_LINES - 1]
    words = ", ".join(f"{name} {units.seconds(lost[name] / 1e3)}" for name in names)
    if not summary.left_out:
        return ""
    return f"; {units.counted(summary.left_out, 'step')} excluded{words and f': {words}'}"


def _said(run: Snapshot) -> list[str]:
    """Return the meaning of TensorFlow's log, warnings first."""
    sentences = sorted(summarise_log(find_meanings(run.log)), key=lambda one: one.harmless)
    return [one.text if one.harmless else f"TensorFlow: {one.text}" for one in sentences]


def _recorded(run: Snapshot, home: Path) -> list[str]:
    if run.folder is None:
        return ["not recorded: the run folder could not be created"]
    path = run.folder.absolute()
    lost = _lost(run)
    if not (path / MANIFEST).is_file():
        return lost or [f"no record is left: {_shown(path, home)} no longer exists"]
    again = run.folder.name if path.parent == default_runs_dir() else _shown(path, home, quote=True)
    return [*lost, f"recorded in {_shown(path, home)}", f"open it again:  tfwatch replay {again}"]


def _lost(run: Snapshot) -> list[str]:
    for event in reversed(run.events):
        if isinstance(event, RecordingResumed):
            return []
        if isinstance(event, RecordingLost):
            return [f"not recorded since step {units.count(event.step)}: {event.reason}"]
    return []


def _shown(path: Path, home: Path, quote: bool = False) -> str:
    inside = path.is_relative_to(home) and path != home
    text = str(path.relative_to(home)) if inside else str(path)
    text = shlex.quote(text) if quote else text
    return f"~/{text}" if inside else text
