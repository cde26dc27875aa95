"""A run as a document: JSON for scripts, a few lines for people."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from tfwatch.analysis.comparing import setting, speed
from tfwatch.analysis.summary import Summary, summarise
from tfwatch.analysis.verdict import judge
from tfwatch.core import units
from tfwatch.core.events import EpochStarted, RecordingLost, RecordingResumed, TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.runs.library import default_runs_dir
from tfwatch.runs.life import Life

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.analysis.breakdown import Breakdown, Stat
    from tfwatch.analysis.spikes import Spike
    from tfwatch.analysis.switches import Comparison
    from tfwatch.runs.opened import Run
    from tfwatch.runs.reader import Snapshot

#: Switches told one by one; of more only the number.
_TOLD = 4
#: A wait that lasts longer is told on the progress line.
_LONG_WAIT_S = 1.0

_STARTING = {
    Phase.STARTING: "starting",
    Phase.IMPORT: "importing TensorFlow",
    Phase.DATA_SET: "data set",
    Phase.COMPILE: "compiling",
}


def as_json(run: Run) -> dict[str, Any]:
    """The run as `--json` prints it. What was not measured is None (null); no figure is NaN or infinite.

    run, workload, device: names. knobs: the settings at the start, by knob.
    steps: how many were trained.
    step_ms, data_wait_ms, compute_ms, host_ms: {median, mean, p95} of the steady steps, milliseconds a step.
        Steady is without flagged steps (compile, retrace, epoch start, pipeline switch, validation) and spikes.
    data_wait_share: the sum of data wait over the sum of step time of the steady steps, 0 to 1.
    verdict: `NOT input-bound`, `MODERATELY input-bound`, `HIGHLY input-bound`, `host-bound` or `not enough data`.
    final_loss: of the last step. weights_sha256: of the trained weights.
    spikes: [{step, extra_ms, part, cause}], steps that stand out over the median step around them.
    switches: [{step_asked, step_in_effect, knob, from, to, before, after}], before and after each
        {steps, step_ms, data_wait_ms, compute_ms, host_ms, data_wait_share} of at most 600 steps up to the
        neighbouring switch. step_in_effect is None where the run ended first.
    """
    summary = summarise(run.steps, run.events)
    ended = run.ended
    return {
        "run": run.manifest.run,
        "workload": run.manifest.workload,
        "device": run.manifest.device or None,
        "knobs": run.manifest.knobs,
        "steps": ended.steps if ended else summary.steps,
        **_split(summary.steady),
        "verdict": summary.verdict.value,
        "final_loss": _figure(ended.final_loss if ended else None),
        "weights_sha256": (ended.weights_sha256 or None) if ended else None,
        "spikes": [_spike(spike) for spike in summary.spikes],
        "switches": [_switch(switch) for switch in summary.switches],
    }


def _split(split: Breakdown | None) -> dict[str, Any]:
    return {
        "step_ms": _stat(split.step if split else None),
        "data_wait_ms": _stat(split.wait if split else None),
        "compute_ms": _stat(split.compute if split else None),
        "host_ms": _stat(split.host if split else None),
        "data_wait_share": _figure(split.wait_share if split else None),
    }


def _stat(stat: Stat | None) -> dict[str, float | None]:
    return {name: _figure(getattr(stat, name) if stat else None) for name in ("median", "mean", "p95")}


def _figure(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _spike(spike: Spike) -> dict[str, Any]:
    return {"step": spike.step, "extra_ms": _figure(spike.extra_ms), "part": spike.part, "cause": spike.cause}


def _switch(switch: Comparison) -> dict[str, Any]:
    return {
        "step_asked": switch.asked_step,
        "step_in_effect": switch.step,
        "knob": switch.knob,
        "from": switch.old,
        "to": switch.new,
        "before": _side(switch.before),
        "after": _side(switch.after),
    }


def _side(split: Breakdown | None) -> dict[str, Any] | None:
    return {"steps": split.steps, **_split(split)} if split else None


# -- for people ---------------------------------------------------------------------------------


def as_text(run: Run, home: Path) -> str:
    """The lines that are left on the terminal; `home` is written `~`.

    Text from outside is cut to one line and stripped of control characters.
    """
    summary = summarise(run.steps, run.events)
    lines = [
        _what(run, summary),
        *_failure(run),
        *_waited(run, summary),
        *_switches(summary),
        *_stall(summary),
        *_recorded(run, home),
    ]
    return "\n".join(_one_line(line) for line in lines)


def _what(run: Run, summary: Summary) -> str:
    where = f" on {run.manifest.device}" if run.manifest.device else ""
    steps = run.ended.steps if run.ended else summary.steps
    trained = f"{_counted(steps, 'step')} in {units.seconds(run.length_s)}" if steps else "no step was trained"
    return f"{run.manifest.workload}{where}: {_fate(run)}, {trained}"


def _fate(run: Run) -> str:
    if run.ended:
        return run.ended.cause
    return {
        Life.RUNNING: "still running",
        Life.SILENT: "gives no answer",
        Life.KILLED: "ended without a word (killed, or out of memory)",
    }.get(run.life, "no word of its end")


def _failure(run: Run) -> list[str]:
    failed = next((event for event in reversed(run.events) if isinstance(event, TrainingFailed)), None)
    if failed:
        return [f"failed at step {units.count(failed.step)}: {failed.error}"]
    return [run.ended.detail] if run.ended and run.ended.detail else []


def _waited(run: Run, summary: Summary) -> list[str]:
    if not summary.steps:
        return []
    device = "the GPU" if run.manifest.accelerated else "the device"
    share = units.percent(summary.waited_s / run.length_s if run.length_s > 0 else None)
    line = f"{device} waited for data {units.seconds(summary.waited_s)} of it ({share})"
    split = summary.steady
    if split is None:
        return [f"{line}; no steady steps to judge by"]
    step = f"{units.number(split.wait.mean)} of {units.milliseconds(split.step.mean)}"
    return [line, f"a steady step waits {step} on average ({units.percent(split.wait_share)}): {summary.verdict.value}"]


def _switches(summary: Summary) -> list[str]:
    switches = summary.switches
    more = len(switches) - _TOLD
    told = switches if more <= 0 else switches[: _TOLD - 1]
    lines = [_outcome(switch) for switch in told]
    return [*lines, f"and {more + 1} more switches"] if more > 0 else lines


def _outcome(switch: Comparison) -> str:
    turned = f"{setting(switch.knob, switch.old)} > {switch.new}"
    if switch.step is None:
        return f"{turned}: asked, and not yet in effect at the last step"
    turned = f"{turned} at step {units.count(switch.step)}"
    if switch.ratio is None or switch.before is None or switch.after is None:
        return f"{turned}: too few steps to compare"
    before, after = switch.before.step.median, switch.after.step.median
    gave = f"{units.milliseconds(before)} to {units.milliseconds(after)} a step"
    return f"{turned}: {speed(switch.ratio)}, {gave} over {_counted(switch.after.steps, 'step')}"


def _stall(summary: Summary) -> list[str]:
    stall = summary.longest_stall
    if stall is None:
        return []
    over = f" over {stall.steps} steps" if stall.steps > 1 else ""
    lost = units.seconds(stall.lost_ms / 1e3)
    return [f"longest stall: {lost} without data at step {units.count(stall.step)}{over}, {stall.cause}"]


def _recorded(run: Run, home: Path) -> list[str]:
    if run.path is None:
        return ["nothing was recorded: no run folder could be made"]
    path = run.path.absolute()
    lost = _lost(run)
    again = run.path.name if path.parent == default_runs_dir() else _shown(path, home, quote=True)
    return [*lost, f"recorded in {_shown(path, home)}", f"open it again:  tfwatch replay {again}"]


def _lost(run: Run) -> list[str]:
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


def _counted(number: int, thing: str) -> str:
    return f"{units.count(number)} {thing}{'' if number == 1 else 's'}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text.strip().split("\n")[0])


# -- while it runs --------------------------------------------------------------------------------


def progress_line(snapshot: Snapshot) -> str:
    """One line on how far a run is: `cnn  epoch 2/20  step 412  1 240 img/s  23.4 ms a step, starving 41 %`."""
    parts = [snapshot.manifest.workload, *_how_far(snapshot), *_starving(snapshot), *_now(snapshot)]
    return _one_line("  ".join(parts))


def _how_far(snapshot: Snapshot) -> list[str]:
    latest = snapshot.latest
    if latest is None:
        return []
    epoch = next((event for event in reversed(snapshot.events) if isinstance(event, EpochStarted)), None)
    parts = [f"epoch {latest.epoch + 1}{f'/{epoch.epochs}' if epoch and epoch.epochs else ''}"]
    parts.append(f"step {units.count(latest.step)}")
    if snapshot.images_s is not None:
        parts.append(f"{units.count(round(snapshot.images_s))} img/s")
    if latest.loss is not None:
        parts.append(f"loss {units.number(latest.loss, 3)}")
    if latest.metric is not None and snapshot.manifest.metric:
        parts.append(f"{snapshot.manifest.metric} {units.number(latest.metric, 3)}")
    return parts


def _starving(snapshot: Snapshot) -> list[str]:
    judgement = judge(snapshot.steps)
    if judgement.breakdown is None or judgement.steps < judgement.needed:
        return []
    split = judgement.breakdown
    return [f"{units.milliseconds(split.step.median)} a step, starving {units.percent(split.wait_share)}"]


def _now(snapshot: Snapshot) -> list[str]:
    pulse = snapshot.pulse
    if snapshot.ended:
        return [snapshot.ended.cause]
    if pulse is None:
        return []
    for_s = snapshot.now_s - pulse.since_ns / 1e9
    lasts = units.seconds(for_s)
    if pulse.phase in _STARTING:
        return [f"{pulse.detail or _STARTING[pulse.phase]}, {lasts}"]
    if pulse.phase is Phase.WAIT and for_s >= _LONG_WAIT_S:
        return [f"no batch for {lasts}"]
    return [f"validation, {lasts}"] if pulse.phase is Phase.VALIDATION else []
