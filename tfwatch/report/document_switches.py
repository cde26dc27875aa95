"""Switches, forecasts, A/B tests and autopilot runs for the JSON object. A missing figure is
None."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfwatch.core.events import ExperimentEnded, SwitchFailed, SwitchMissed
from tfwatch.core.knobs import option_name
from tfwatch.judge.effects.switch_text import changes_text
from tfwatch.judge.effects.tuner_text import AutopilotRun, answer_of, autopilot_runs, estimate_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.core.events import Event, MoveJudged
    from tfwatch.judge.effects.before_after import WaitChange
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.experiment import Answer, Estimate
    from tfwatch.judge.forecasts.forecast import CheckedForecast, Record
    from tfwatch.judge.steps.verdict import Breakdown, Stat


def finite(value: Any) -> Any:
    """Return the value with None for each NaN and infinity in it, which JSON cannot hold."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def split_json(split: Breakdown | None) -> dict[str, Any]:
    """Return the parts of a step, each {median, mean, p95} in milliseconds, and the share of data
    wait."""
    return {
        "step_ms": _stat(split.step if split else None),
        "data_wait_ms": _stat(split.wait if split else None),
        "copy_ms": _stat(split.copy if split else None),
        "compute_ms": _stat(split.compute if split else None),
        "host_ms": _stat(split.host if split else None),
        "dispatch_ms": _stat(split.dispatch if split else None),
        "data_wait_share": split.wait_share if split else None,
    }


def _stat(stat: Stat | None) -> dict[str, float | None]:
    return {name: getattr(stat, name) if stat else None for name in ("median", "mean", "p95")}


def by_name(knobs: Mapping[str, str]) -> dict[str, str]:
    """Return settings by the names of the knobs that `--switch` takes."""
    return {option_name(knob): value for knob, value in knobs.items()}


def switches_json(switches: Iterable[Comparison], events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return every switch with the steps before and after it, those that failed, and those that the
    run ended before."""
    without_effect = [event for event in events if isinstance(event, SwitchFailed | SwitchMissed)]
    return [*map(_switch, switches), *map(_without_effect, without_effect)]


def forecasts_json(record: Record) -> dict[str, Any]:
    """Return the forecast of each switch with the measured step."""
    return {
        "median_error_share": record.median_error,
        "within_interval": record.inside,
        "switches": [_checked_forecast(one) for one in record.checked],
    }


def experiments_json(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return every A/B test that ended."""
    return [_experiment(event) for event in events if isinstance(event, ExperimentEnded)]


def autopilot_json(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return every run of the autopilot."""
    return [_autopilot_run(autopilot_run) for autopilot_run in autopilot_runs(events)]


def _switch(switch: Comparison) -> dict[str, Any]:
    return {
        "step_asked": switch.asked_step,
        "step_in_effect": switch.step,
        "knob": option_name(switch.knob),
        "from": switch.old,
        "to": switch.new,
        "before": _side(switch.before),
        "after": _side(switch.after),
        **effect_json(switch),
        **_wait_json(switch.wait),
        "compute_drift_share": switch.compute_drift,
        "failed": None,
        "setting_since": None,
    }


def _wait_json(change: WaitChange | None) -> dict[str, float | None]:
    ends = (change.ms, change.low_ms, change.high_ms) if change else (None, None, None)
    return dict(
        zip(
            ("data_wait_change_ms", "data_wait_change_low_ms", "data_wait_change_high_ms"),
            ends,
            strict=True,
        )
    )


def effect_json(switch: Comparison | None) -> dict[str, Any]:
    """Return the ratio of both sides with its 95 % interval, and the answer that it proves; None
    where unknown."""
    return _speedup_json(switch.estimate, switch.answer) if switch else _speedup_json(None, None)


def _speedup_json(known: Estimate | None, answer: Answer | None) -> dict[str, Any]:
    return {
        "answer": answer if known else None,
        "speedup": known.ratio if known else None,
        "speedup_low": known.low if known else None,
        "speedup_high": known.high if known else None,
    }


def _without_effect(switch: SwitchFailed | SwitchMissed) -> dict[str, Any]:
    failed = switch if isinstance(switch, SwitchFailed) else None
    return {
        "step_asked": switch.step,
        "step_in_effect": None,
        "knob": option_name(switch.knob),
        "from": switch.old,
        "to": switch.new,
        "before": None,
        "after": None,
        **effect_json(None),
        **_wait_json(None),
        "compute_drift_share": None,
        "failed": failed.reason if failed else None,
        "setting_since": failed.now if failed else None,
    }


def _side(split: Breakdown | None) -> dict[str, Any] | None:
    return {"steps": split.steps, **split_json(split)} if split else None


def _checked_forecast(one: CheckedForecast) -> dict[str, Any]:
    switch, forecast = one.switch, one.forecast
    return {
        "step_asked": switch.asked_step,
        "knob": option_name(switch.knob),
        "from": switch.old,
        "to": switch.new,
        "forecast_ms": forecast.step_ms,
        "low_ms": forecast.low_ms,
        "high_ms": forecast.high_ms,
        "is_measured_setting": forecast.measured,
        "measured_ms": one.measured_ms,
    }


def _experiment(ended: ExperimentEnded) -> dict[str, Any]:
    return {
        "knob": option_name(ended.knob),
        "settings": ended.values,
        "first_step": ended.began + 1,
        "last_step": ended.step,
        "cause": ended.cause,
        "answer": ended.answer,
        "setting": ended.value,
        "baseline": ended.against,
        "speedup": ended.ratio,
        "speedup_low": ended.low,
        "speedup_high": ended.high,
        "rounds": ended.rounds,
        "steps": ended.steps,
        "step_ms": ended.step_ms,
        "kept": ended.kept or None,
        "reason": ended.reason or None,
    }


def _autopilot_run(autopilot_run: AutopilotRun) -> dict[str, Any]:
    ended = autopilot_run.ended
    known = estimate_of(ended) if ended else None
    return {
        "first_step": autopilot_run.began.step + 1,
        "memory_limit_bytes": autopilot_run.began.memory_bytes,
        "moves": [_move(move) for move in autopilot_run.moves],
        "cause": ended.cause if ended else None,
        "reason": ended.reason if ended else None,
        "steps": ended.steps if ended else None,
        "before_ms": ended.before_ms if ended else None,
        "after_ms": ended.after_ms if ended else None,
        **_speedup_json(known, answer_of(ended) if ended else None),
        "compute_drift_share": ended.compute_drift if ended else None,
        "peak_bytes": ended.peak_bytes if ended else None,
        "knobs": by_name(ended.knobs) if ended else None,
    }


def _move(move: MoveJudged) -> dict[str, Any]:
    return {
        "knob": option_name(move.knob),
        "from": move.old,
        "to": move.new,
        "with": changes_text(move.beside) if move.beside else None,
        "step": move.step,
        "forecast_ms": move.forecast_ms,
        "before_ms": move.before_ms,
        "after_ms": move.after_ms,
        "kept": move.kept,
        "reason": move.reason or None,
    }
