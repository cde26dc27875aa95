"""A run as one JSON object, for scripts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfwatch.core.events import EpochEnded, SensorMissing
from tfwatch.judge.findings.copying import bandwidth
from tfwatch.judge.findings.gpus import extremes
from tfwatch.judge.findings.log_lines import find_meanings
from tfwatch.judge.findings.loss import divergences
from tfwatch.judge.findings.machine import PIPELINE
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.judge.steps.time_breakdown import PARTS, TimeBreakdown, TimeSpent, keras_step_ms
from tfwatch.report.document_switches import (
    autopilot_json,
    by_name,
    experiments_json,
    finite,
    forecasts_json,
    split_json,
    switches_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.events import Event
    from tfwatch.judge.findings.bottleneck import Bottleneck, Stage, StageTable
    from tfwatch.judge.findings.finding import Fact, Finding
    from tfwatch.judge.findings.gpus import GpuLane
    from tfwatch.judge.findings.log_lines import LogFinding
    from tfwatch.judge.findings.loss import Divergence
    from tfwatch.judge.findings.machine import Hardware
    from tfwatch.judge.findings.situation import Banner
    from tfwatch.judge.findings.starving_cost import DataWaitCost
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.steps.patterns import Pattern
    from tfwatch.judge.steps.spikes import Spike
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.judge.steps.summary import Summary
    from tfwatch.judge.steps.verdict import Breakdown, Judgement
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot

_FIGURES = ("busy_ms", "parallelism", "buffered", "buffer_size", "buffered_bytes")


def pipeline_json(
    table: StageTable | None, split: Breakdown | None, events: Iterable[Event]
) -> dict[str, Any]:
    """Return the last stage table of a run; `missing` is the reason for none, where it is known.

    split: of the steps of the last setting.
    """
    reasons = [
        event.reason
        for event in events
        if isinstance(event, SensorMissing) and event.sensor == PIPELINE
    ]
    missing = reasons[-1] if reasons else None
    if table is None:
        return {
            "stages": [],
            "total_ms": None,
            "fetch_threads_ms": None,
            "bottleneck": None,
            "missing": missing,
        }
    return {
        "stages": [_stage(stage) for stage in table.stages],
        "total_ms": table.all_ms,
        "fetch_threads_ms": table.fetch_ms(split.wait.mean) if split else None,
        "bottleneck": _bottleneck(table, table.bottleneck) if table.bottleneck else None,
        "missing": missing if math.isnan(table.all_ms) else None,
    }


def _bottleneck(table: StageTable, place: Bottleneck) -> dict[str, Any]:
    return {
        "stage": table.stages[place.stage].name,
        "reason": place.reason,
        "sentence": place.sentence,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "kind": stage.kind,
        **{name: getattr(stage, name) for name in _FIGURES},
    }


def as_json(run: Snapshot) -> dict[str, Any]:
    """Return the run as `--json` prints it. A missing figure is None; none is NaN or infinite.

    docs/json.md describes the keys.
    """
    return judged_json(JudgedRun(run))


def judged_json(judged: JudgedRun) -> dict[str, Any]:
    """Return a run that was judged already as `as_json` does."""
    run, summary = judged.run, judged.summary
    ended = run.ended
    document = {
        "run": run.manifest.run,
        "path": str(run.folder.absolute()) if run.folder else None,
        "workload": run.manifest.workload,
        "device": run.manifest.device or None,
        "replicas": run.manifest.replicas,
        "knobs": by_name(run.manifest.knobs),
        "settings": run.manifest.settings,
        "steps": ended.steps if ended else summary.steps,
        "split": _split(run.manifest),
        "verdict": summary.verdict.value,
        "bound": summary.bound.value if summary.bound else None,
        "copy": _copy(run.manifest, summary.setting.judgement),
        "finding": _banner(judged.finding),
        "findings": [_finding(one) for one in judged.findings],
        "last_setting": _last_setting(judged),
        "whole_run": _whole_run(summary),
        "final_loss": _final_loss(run),
        "loss_diverged": [_divergence(one) for one in divergences(run.events)],
        "spikes": [_spike(spike) for spike in summary.spikes],
        "stalls": [*map(_stall, summary.stalls), *map(_pattern, summary.patterns)],
        "switches": switches_json(summary.switches, run.events),
        "autopilot": autopilot_json(run.events),
        "experiments": experiments_json(run.events),
        "forecasts": forecasts_json(judged.record),
        "data_wait_cost": _data_wait_cost(judged.lost),
        "time_breakdown": _time_breakdown(judged.time_breakdown),
        "pipeline": pipeline_json(judged.pipeline, summary.setting.judgement.breakdown, run.events),
        "keras_step_ms": keras_step_ms(run.epochs, run.events),
        **_energy(judged.hardware),
        "machine": _machine(judged.hardware),
        "tensorflow_log": [_log_finding(one) for one in find_meanings(run.log)],
    }
    finite_document: dict[str, Any] = finite(document)
    return finite_document


def _last_setting(judged: JudgedRun) -> dict[str, Any]:
    """Return the last setting: its knobs, its steps and their split."""
    setting = judged.setting
    return {
        "knobs": by_name(judged.situation.setting.knobs),
        "step_ranges": [list(stretch) for stretch in setting.stretches],
        "steps": setting.judgement.steps,
        **split_json(setting.judgement.breakdown),
    }


def _whole_run(summary: Summary) -> dict[str, Any]:
    """Return the steady steps of all settings."""
    split = summary.steady
    return {
        "steps": split.steps if split else 0,
        "excluded_steps": summary.left_out,
        **split_json(split),
    }


def _banner(banner: Banner | None) -> dict[str, str | None] | None:
    """Return a finding."""
    if banner is None:
        return None
    return {
        "word": banner.word,
        "sentence": banner.sentence,
        "advice": banner.advice,
        "code": banner.edit or None,
    }


def _data_wait_cost(cost: DataWaitCost) -> dict[str, float | None]:
    """Return the cost of data wait."""
    return {
        "data_wait_s": cost.data_wait_s,
        "share_of_run": cost.share,
        "examples": cost.examples,
        "energy_j": cost.energy_j,
        "run_without_data_wait_s": cost.without_s,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "lost_s": finding.lost_s,
        "share": finding.share,
        "sentence": f"{finding.word}: {finding.sentence}",
        "advice": finding.advice or None,
        "code": finding.code or None,
        "where": finding.where or None,
        "evidence": [_fact(fact) for fact in finding.evidence],
        "forecast": forecast_json(finding.forecast),
        "confidence": finding.confidence,
        "confidence_reason": finding.reason,
    }


def forecast_json(forecast: Forecast | None) -> dict[str, Any] | None:
    """Return the forecast of an advised switch, milliseconds."""
    if forecast is None:
        return None
    figures = {name: getattr(forecast, name) for name in ("step_ms", "low_ms", "high_ms")}
    return {"knob": forecast.knob, "value": forecast.value, **figures}


def _fact(fact: Fact) -> dict[str, Any]:
    figures = {"value": fact.value, "unit": fact.unit or None, "low": fact.low, "high": fact.high}
    return {"name": fact.name, **figures, "basis": fact.basis or None}


def _split(manifest: Manifest) -> str | None:
    """Return the method that separated the parts of a step, or the reason for none."""
    return f"none: {manifest.not_split}" if manifest.not_split else manifest.split or None


def _copy(manifest: Manifest, judgement: Judgement) -> dict[str, Any]:
    split = judgement.breakdown
    rate = (
        bandwidth(manifest.copied_bytes, split.copying_ms(manifest.copy_ahead_ms))
        if split
        else None
    )
    return {
        "bytes": manifest.copied_bytes,
        "gigabytes_per_s": None if rate is None else rate / 1e9,
        "not_timed": manifest.copy_not_timed or None,
    }


def _final_loss(run: Snapshot) -> float | None:
    """Return the loss of the last epoch."""
    epochs = [event for event in run.events if isinstance(event, EpochEnded)]
    return epochs[-1].metrics.get("loss") if epochs else None


def _divergence(one: Divergence) -> dict[str, Any]:
    return {
        "loss": one.began.loss,
        "step": one.began.step,
        "finite_step": one.began.finite_step,
        "finite_again_step": one.ended.step if one.ended else None,
    }


def _log_finding(one: LogFinding) -> dict[str, Any]:
    meaning = one.meaning
    return {
        "name": meaning.name,
        "harmless": meaning.harmless,
        "meaning": meaning.text,
        "lines": one.count,
    }


def _energy(machine: Hardware) -> dict[str, Any]:
    spent = machine.energy
    return {
        "energy_j": spent.joules if spent else None,
        "energy_per_step_j": spent.per_step_j if spent else None,
        "energy_data_wait_j": spent.starving_j if spent else None,
        "energy_missing": machine.energy_missing or None,
    }


def _machine(machine: Hardware) -> dict[str, Any]:
    found, memory = machine.found, machine.process_memory
    return {
        "gpu": found.name if found else None,
        "gpu_source": found.source if found else None,
        "gpus": found.gpus if found else None,
        "gpu_total_bytes": found.memory_bytes if found else None,
        "unified_memory": found.unified if found else None,
        **machine.medians,
        "gpu_others_busy": machine.others,
        "strategy_gpus": [_gpu(gpu) for gpu in machine.gpus],
        "busiest_gpu": found_gpus[0].device if (found_gpus := extremes(machine.gpus)) else None,
        "idlest_gpu": found_gpus[1].device if found_gpus else None,
        "process_begin_bytes": memory.begin_bytes if memory else None,
        "process_end_bytes": memory.end_bytes if memory else None,
        "process_peak_bytes": memory.peak_bytes if memory else None,
        "energy_known_s": machine.energy.known_s if machine.energy else None,
        "thermal_limit_s": machine.heat_s,
        "swapping_s": machine.swap_s,
        "missing": {
            event.sensor: {"reason": event.reason, "fix": event.fix or None}
            for event in machine.missing
        },
    }


def _gpu(gpu: GpuLane) -> dict[str, Any]:
    return {
        "device": gpu.device,
        "name": gpu.name or None,
        "busy": gpu.busy,
        "process_busy": gpu.ours,
        "power_w": gpu.power_w,
        "temperature_c": gpu.temperature_c,
        "freq_mhz": gpu.freq_mhz,
        "memory_bytes": gpu.memory_bytes,
        "total_bytes": gpu.total_bytes,
    }


def _time_breakdown(time_breakdown: TimeBreakdown) -> dict[str, Any]:
    epochs = [_entry(entry) for entry in time_breakdown.epochs]
    return {
        "total": _entry(time_breakdown.total),
        "start": _entry(time_breakdown.start),
        "epochs": epochs,
    }


def _entry(entry: TimeSpent) -> dict[str, Any]:
    parts = {name: getattr(entry, name) for name in PARTS}
    parts["copy_s"] = entry.copy_s if entry.copies else None
    return {
        "epoch": entry.epoch,
        "steps": entry.steps,
        "wall_s": entry.wall_s,
        "between_s": entry.between_s,
        **parts,
    }


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
