"""A run as one JSON object, for scripts.

The input pipeline from inside, as the JSON object and the summary tell it.

A run as one JSON object, for scripts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfwatch.analysis.findings.log_lines import find_meanings
from tfwatch.analysis.findings.loss import divergences
from tfwatch.analysis.findings.machine import PIPELINE
from tfwatch.analysis.steps.time_breakdown import PARTS, TimeBreakdown, TimeSpent, keras_step_ms
from tfwatch.core.events import EpochEnded, SensorMissing, StallLocated
from tfwatch.live.judged_run import JudgedRun
from tfwatch.report.document_switches import (
    by_name,
    experiments_json,
    finite,
    flights_json,
    forecasts_json,
    switches_json,
)
from tfwatch.report.outcome import finding_json, last_setting_json, lost_json, restart_json, whole_run_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.analysis.findings.bottleneck import Bottleneck, Stage, StageTable
    from tfwatch.analysis.findings.log_lines import LogFinding
    from tfwatch.analysis.findings.loss import Divergence
    from tfwatch.analysis.findings.machine import Hardware
    from tfwatch.analysis.steps.patterns import Pattern
    from tfwatch.analysis.steps.spikes import Spike
    from tfwatch.analysis.steps.stalls import Stall
    from tfwatch.core.events import Event
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.opened import Run

_FIGURES = ("busy_ms", "parallelism", "buffered", "buffer_size", "buffered_bytes")


def pipeline_json(table: StageTable | None, events: Iterable[Event]) -> dict[str, Any]:
    """A run's last table for `--json`; without a figure in it `missing` says why, where that is known."""
    reasons = [event.reason for event in events if isinstance(event, SensorMissing) and event.sensor == PIPELINE]
    missing = reasons[-1] if reasons else None
    if table is None:
        return {"stages": [], "all_ms": None, "bottleneck": None, "missing": missing}
    return {
        "stages": [_stage(stage) for stage in table.stages],
        "all_ms": table.all_ms,
        "bottleneck": _bottleneck(table, table.bottleneck) if table.bottleneck else None,
        "missing": missing if math.isnan(table.all_ms) else None,
    }


def stood_words(stall: Stall, events: Iterable[Event]) -> str:
    """`, in map(read), feed.py:41 in rows`: where a stall stood; empty where nobody looked."""
    steps = range(stall.step, stall.step + stall.steps)
    told = next((event for event in events if isinstance(event, StallLocated) and event.step in steps), None)
    if told is None:
        return ""
    place = told.place if told.thread == "generator" or not told.stage else ""
    return "".join(f", in {words}" for words in (told.stage,) if words) + (f", at {place}" if place else "")


def _bottleneck(table: StageTable, place: Bottleneck) -> dict[str, Any]:
    return {"stage": table.stages[place.stage].name, "reason": place.reason, "sentence": place.sentence}


def _stage(stage: Stage) -> dict[str, Any]:
    return {"name": stage.name, "kind": stage.kind, **{name: getattr(stage, name) for name in _FIGURES}}


def as_json(run: Run) -> dict[str, Any]:
    """The run as `--json` prints it. What was not measured is None (null); no figure is NaN or infinite.

    run, workload, device: names. knobs: what can be switched, as it was at the start, by the name that `--switch`
        takes, which is that of every `knob` told. settings: what the start fixed, by name, e.g. `batch_size`, `mode`;
        empty for a script watched by Watch or track.
    steps: how many were trained. split: how the parts of a step were told apart, e.g. `exact`,
        `in-graph timestamps, steps_per_execution=10`, or `none:` and why; None where no step was trained.
    verdict: `NOT input-bound`, `MODERATELY input-bound`, `HIGHLY input-bound` or `not enough data`, on the steady steps
        of the run's last setting: those since the last switch. Settings that an A/B test or the autopilot only tried
        as the run ended do not count; after an A/B test all steps with the kept setting do.
        Steady is without flagged steps (compile, retrace, epoch start, pipeline switch, validation) and spikes.
    bound: what these steps are bound by: `input-bound`, `host-bound`, `launch-bound` or `compute-bound`; None where
        there is not enough data.
    finding: {word, sentence, advice, edit} of the last setting, as the screen and the summary say it: of the same
        steps as verdict and bound, or of what lies between its epochs, where more is lost there. edit: lines of Python
        for the user's own pipeline or training, or None. finding is None where too few steps tell.
    last_setting: {knobs, stretches, steps, step_ms, data_wait_ms, compute_ms, host_ms, dispatch_ms, data_wait_share},
        the figures behind verdict, bound and finding. knobs: its setting. stretches: [[first, last]], the steps with
        it. steps: how many of them are steady.
        step_ms, data_wait_ms, compute_ms, host_ms: {median, mean, p95}, milliseconds a step. dispatch_ms: likewise, the
        part of compute_ms until the step's call returned, as `core.rows.STEP` has it. data_wait_share: the sum of data
        wait over the sum of step time, 0 to 1.
    whole_run: {steps, left_out, step_ms, data_wait_ms, compute_ms, host_ms, dispatch_ms, data_wait_share}, the same of
        the steady steps of all settings; left_out: how many steps are not steady.
    final_loss: as Keras reports it for the last epoch, the mean over its steps; None where it is missing, and where it
        is no finite number, which loss_diverged tells. weights_sha256: of the trained weights.
    loss_diverged: [{loss, step, finite_step, finite_again_step}], each time that the loss became `NaN` or `infinite`:
        the first step seen so, the last finite one before it (0 where none was) and the first finite one after it, None
        where there is none.
    spikes: [{step, extra_ms, part, cause, detail}], steps that stand out over the median step around them; detail is a
        callback's class, or empty.
    time_breakdown: {total, start, epochs: [...]}, each {epoch, steps, wall_s} and the seconds that sum to wall_s:
        import_s, data_set_s, compile_s, compute_s, data_wait_s, host_s, first_batch_s, validation_s, epoch_end_s (these three
        lie between epochs: between_s), asleep_s, unaccounted_s. start: before the first epoch.
    pipeline: {stages: [{name, kind, busy_ms, parallelism, buffered, buffer_size, buffered_bytes}], all_ms, bottleneck:
        {stage, reason, sentence}, missing}, as tf.data's own model had it over the run's last seconds, in the order of
        the code. busy_ms: milliseconds a batch in this stage alone, summed over its `parallelism` workers; all_ms: in
        all stages. reason: `storage`, `cpu`, `serial` or `python`. missing: why there are no stages.
    keras_step_ms: what Keras' progress bar reads at the last epoch's end, milliseconds a step.
    stalls: [{kind, step, start_s, steps, lost_ms, part, cause, detail, period}], in which a part of the steps takes
        much more than usual; part is `wait`, `compute` or `host`, of a hiccup `wait`; cause, detail: as of a spike.
        kind is `hiccup` (steps that follow one another and lose a second or more), `periodic` (a slow wait every
        `period` steps) or `drift` (the wait grows slowly; steps are the stretch looked at).
    restart: {after, changes: [{knob, from, to}], of, before_ms, after_ms}, where the run began as a restart of the run
        `after`: the median step before and after it (mean in bursts), or of an `image` where the batch size differs.
    switches: [{step_asked, step_in_effect, knob, from, to, before, after}], before and after each
        {steps, step_ms, data_wait_ms, compute_ms, host_ms, dispatch_ms, data_wait_share} of at most 600 steps up to the
        neighbouring switch. step_in_effect is None where the run ended first; step_asked is then the step that it was
        ordered of, and before and after are None.
    forecasts: {median_off, inside, switches: [{step_asked, knob, from, to, step_ms, low_ms, high_ms, measured,
        came_ms}]}, what was foretold of each settled switch by what was known just before it was asked for, and the
        median step that came. median_off: the median distance of the two as a share of what came; inside: how many
        lay in low_ms to high_ms. measured: the run had stood at that setting before.
    autopilot: [{first_step, memory_limit_bytes, moves, cause, reason, steps, before_ms, after_ms, peak_bytes, knobs}],
        one a flight; moves: [{knob, from, to, with, step, forecast_ms, before_ms, after_ms, kept, reason}] in their
        order, mean steps before and after each; with: what was turned at the same time, in words. What stands in
        `core.moves.AutopilotEnded` is None while it goes on.
    experiments: [{knob, settings, first_step, last_step, cause, answer, setting, against, ratio, low, high, rounds,
        steps, step_ms, kept, reason}], see `core.trials.ExperimentEnded`; answer is `faster`, `slower`, `same` or
        `unclear`, of `setting` against the first one. ratio: step time of `against` over that of `setting`, within low
        to high with 95 % confidence; None where it is not known. Switches of experiments are not among `switches`.
    lost: {data_wait_s, share, images, energy_j, run_without_s}, the cost of data wait: seconds, their share of the run;
        images that were trained on in as much time of compute and host; joules; and what the run would have taken at
        best, had no step waited. None is unknown.
    energy_j: what the device that trained drew: the GPU where the steps ran on one, else the CPU. The integral of its
        power over the run as far as it was read (`machine.energy_known_s` seconds), by the trapezoid.
    energy_per_step_j: of the steps without flags whose power was known. energy_starving_j: of the data wait of all
        steps; an upper bound where they are shorter than the half second between two samples, for an idle device
        draws less than the mean.
    energy_missing: why these three are None; None where they are not.
    machine: {gpu, gpu_source, gpus, gpu_total_bytes, unified_memory}, of the GPU whose figures these are; the medians
        of the samples from the first step to the last, named as the columns of `core.rows.SAMPLE`;
        gpu_others_busy, the median of all programs less that of the one that trained, 0 to 1; energy_known_s;
        thermal_limit_s and swapping_s, seconds for which heat and swapping held the run back;
        missing: {sensor: {reason, fix}}, the sensors that gave nothing.
    tensorflow_said: [{name, harmless, meaning, lines}], what known lines of the log mean, each meaning once.
    """
    judged = JudgedRun(run)
    summary, ended = judged.summary, run.ended
    document = {
        "run": run.manifest.run,
        "workload": run.manifest.workload,
        "device": run.manifest.device or None,
        "knobs": by_name(run.manifest.knobs),
        "settings": run.manifest.settings,
        "steps": ended.steps if ended else summary.steps,
        "split": _split(run.manifest),
        "verdict": summary.verdict.value,
        "bound": summary.bound.value if summary.bound else None,
        "finding": finding_json(judged.finding),
        "last_setting": last_setting_json(judged),
        "whole_run": whole_run_json(summary),
        "final_loss": _final_loss(run),
        "loss_diverged": [_divergence(one) for one in divergences(run.events)],
        "weights_sha256": (ended.weights_sha256 or None) if ended else None,
        "spikes": [_spike(spike) for spike in summary.spikes],
        "stalls": [*map(_stall, summary.stalls), *map(_pattern, summary.patterns)],
        "restart": restart_json(judged.restart),
        "switches": switches_json(summary.switches, run.events),
        "autopilot": flights_json(run.events),
        "experiments": experiments_json(run.events),
        "forecasts": forecasts_json(judged.record),
        "lost": lost_json(judged.lost),
        "time_breakdown": _time_breakdown(judged.time_breakdown),
        "pipeline": pipeline_json(judged.pipeline, run.events),
        "keras_step_ms": keras_step_ms(run.epochs, run.events),
        **_energy(judged.hardware),
        "machine": _machine(judged.hardware),
        "tensorflow_said": [_said(one) for one in find_meanings(run.log)],
    }
    told: dict[str, Any] = finite(document)
    return told


def _split(manifest: Manifest) -> str | None:
    """How the parts of a step were told apart, or why they were not."""
    return f"none: {manifest.not_split}" if manifest.not_split else manifest.split or None


def _final_loss(run: Run) -> float | None:
    """What the run's end says; in a script of one's own only the epochs do."""
    if run.ended and run.ended.final_loss is not None:
        return run.ended.final_loss
    epochs = [event for event in run.events if isinstance(event, EpochEnded)]
    return epochs[-1].metrics.get("loss") if epochs else None


def _divergence(one: Divergence) -> dict[str, Any]:
    return {
        "loss": one.began.loss,
        "step": one.began.step,
        "finite_step": one.began.finite_step,
        "finite_again_step": one.ended.step if one.ended else None,
    }


def _said(one: LogFinding) -> dict[str, Any]:
    meaning = one.meaning
    return {"name": meaning.name, "harmless": meaning.harmless, "meaning": meaning.text, "lines": one.count}


def _energy(machine: Hardware) -> dict[str, Any]:
    spent = machine.energy
    return {
        "energy_j": spent.joules if spent else None,
        "energy_per_step_j": spent.per_step_j if spent else None,
        "energy_starving_j": spent.starving_j if spent else None,
        "energy_missing": machine.energy_missing or None,
    }


def _machine(machine: Hardware) -> dict[str, Any]:
    found = machine.found
    return {
        "gpu": found.name if found else None,
        "gpu_source": found.source if found else None,
        "gpus": found.gpus if found else None,
        "gpu_total_bytes": found.memory_bytes if found else None,
        "unified_memory": found.unified if found else None,
        **machine.medians,
        "gpu_others_busy": machine.others,
        "energy_known_s": machine.energy.known_s if machine.energy else None,
        "thermal_limit_s": machine.heat_s,
        "swapping_s": machine.swap_s,
        "missing": {event.sensor: {"reason": event.reason, "fix": event.fix or None} for event in machine.missing},
    }


def _time_breakdown(time_breakdown: TimeBreakdown) -> dict[str, Any]:
    epochs = [_entry(entry) for entry in time_breakdown.epochs]
    return {"total": _entry(time_breakdown.total), "start": _entry(time_breakdown.start), "epochs": epochs}


def _entry(entry: TimeSpent) -> dict[str, Any]:
    parts = {name: getattr(entry, name) for name in PARTS}
    return {"epoch": entry.epoch, "steps": entry.steps, "wall_s": entry.wall_s, "between_s": entry.between_s, **parts}


def _spike(spike: Spike) -> dict[str, Any]:
    return {
        "step": spike.step,
        "extra_ms": spike.extra_ms,
        "part": spike.part,
        "cause": spike.cause,
        "detail": spike.detail,
    }


def _stall(stall: Stall) -> dict[str, Any]:
    return {
        "kind": "hiccup",
        "step": stall.step,
        "start_s": stall.start_ns / 1e9,
        "steps": stall.steps,
        "lost_ms": stall.lost_ms,
        "part": "wait",
        "cause": stall.cause,
        "detail": "",
        "period": None,
    }


def _pattern(pattern: Pattern) -> dict[str, Any]:
    return {
        "kind": "periodic" if pattern.period else "drift",
        "step": pattern.step,
        "start_s": pattern.start_ns / 1e9,
        "steps": pattern.steps,
        "lost_ms": pattern.lost_ms,
        "part": pattern.part,
        "cause": pattern.cause,
        "detail": pattern.detail,
        "period": pattern.period or None,
    }
