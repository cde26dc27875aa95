"""The situation that a finding is made from, of a run that is live or over: the one place that builds it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tfwatch.core.errors import printable
from tfwatch.core.events import (
    EpochStarted,
    LossDiverged,
    LossRecovered,
    Paused,
    RecordingLost,
    StallLocated,
    TrainingFailed,
    WatchFailed,
)
from tfwatch.core.knobs import CACHE, MULTIPROCESSING, WORKERS
from tfwatch.core.rows import Phase
from tfwatch.core.units import is_missing
from tfwatch.judge.findings.loss import current_divergence
from tfwatch.judge.findings.situation import (
    NOT_JUDGED,
    BatchSource,
    MachineMemory,
    Situation,
    SourceKind,
    find_batch_source,
)
from tfwatch.judge.steps.verdict import Judgement, judge
from tfwatch.runs.library.finding import replay_argument
from tfwatch.runs.machine_info import memory_total

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tfwatch.core.events import StagesFound
    from tfwatch.judge.findings.bottleneck import StageTable
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.steps.time_breakdown import TimeSpent
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.reading.reader import Snapshot

#: Characters of a metric's name: its figure stands behind it.
_LONGEST_METRIC = 24


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """One setting of the knobs, and the measurements that its finding is made from: fields of `Situation`."""

    judgement: Judgement = NOT_JUDGED
    knobs: Mapping[str, str] = field(default_factory=dict)
    epoch_spent: TimeSpent | None = None
    callback: str = ""
    has_shuffle_fill: bool = False
    slow_epoch_end: Paused | None = None
    fits_end_epochs: bool = False
    forecasts: Mapping[tuple[str, str], Forecast] = field(default_factory=dict)
    stages: StageTable | None = None
    cores_free: float = math.nan


def build_situation(
    manifest: Manifest,
    pipelines: Mapping[int, StagesFound],
    setting: MeasuredSetting,
    *,
    live: bool = False,
) -> Situation:
    """The situation of a run with this setting. found: the stages of its pipelines. live: keys are obeyed."""
    return Situation(
        live=live,
        judgement=setting.judgement,
        knobs=setting.knobs,
        epoch_spent=setting.epoch_spent,
        steps_per_epoch=manifest.steps_per_epoch,
        callback=setting.callback,
        has_shuffle_fill=setting.has_shuffle_fill,
        slow_epoch_end=setting.slow_epoch_end,
        fits_end_epochs=setting.fits_end_epochs,
        forecasts=setting.forecasts,
        stages=setting.stages,
        cores_free=setting.cores_free,
        pid=manifest.pid,
        host=manifest.machine.get("host") or "unknown",
        device="the GPU" if manifest.accelerated else "the CPU's compute",
        accelerated=manifest.accelerated,
        op_by_op=manifest.op_by_op,
        fetches_in_calls=manifest.fetches_in_calls,
        has_own_loop=not manifest.knobs,
        cpu_asked=manifest.settings.get("device") == "cpu",
        switchable=tuple(manifest.switchable),
        replicas=len(manifest.replicas),
        started=manifest.knobs,
        origin=_batch_source(setting.knobs, pipelines, manifest.data),
        code=manifest.code,
        cache_after=manifest.cache_after,
        filled_shuffle=manifest.filled_shuffle,
        map_below_shuffle=manifest.map_below_shuffle,
        cache_bytes=manifest.cache_bytes,
        why_no_cache=manifest.fixed.get(CACHE, ""),
        batch_size=manifest.batch_size,
        batch_bytes=manifest.batch_bytes,
        copied_bytes=manifest.copied_bytes,
        copy_ahead_ms=manifest.copy_ahead_ms,
    )


def _batch_source(
    knobs: Mapping[str, str], pipelines: Mapping[int, StagesFound], data: str
) -> BatchSource:
    """Return the source of the batches.

    Before its stages are read, as in a `fit` of less than a second, it is that of run.json; a `PyDataset` is known by
    its knobs.
    """
    if MULTIPROCESSING in knobs:
        has_workers = knobs.get(WORKERS, "off") != "off" or knobs[MULTIPROCESSING] == "on"
        return BatchSource(SourceKind.PY_DATASET, has_workers)
    source = find_batch_source(pipelines.values())
    return (
        source
        if source.kind is not SourceKind.UNKNOWN
        else BatchSource(_KINDS.get(data, SourceKind.UNKNOWN))
    )


_KINDS = {kind.value: kind for kind in SourceKind}


def at_this_moment(setting: Situation, snapshot: Snapshot) -> Situation:
    """The situation of a setting with the moment of a snapshot: the phase, the run's life, the memory."""
    pulse, events = snapshot.pulse, snapshot.events
    lost, failed = events.newest(RecordingLost), events.newest(WatchFailed)
    return replace(
        setting,
        life=snapshot.life.value,
        phase=pulse.phase if pulse else Phase.STARTING,
        phase_s=max(0.0, (pulse.now_ns - pulse.since_ns) / 1e9) if pulse else snapshot.now_s,
        detail=pulse.detail if pulse else "",
        step=max(pulse.step if pulse else 0, snapshot.steps_total),
        steps_total=snapshot.steps_total,
        epoch=pulse.epoch if pulse else 0,
        silent_s=snapshot.silent_s,
        now_s=snapshot.now_s,
        epoch_begins=_epoch_begins(snapshot),
        unrecorded=snapshot.unrecorded,
        unrecorded_step=lost.step if lost else 0,
        watch_failed=failed.reason if failed else "",
        ended=snapshot.ended,
        failed=events.newest(TrainingFailed),
        metric=_metric_text(snapshot),
        memory=_memory(snapshot),
        run=_run_argument(snapshot.folder, bool(snapshot.manifest.group))
        if snapshot.folder
        else "",
        located=_located(snapshot),
        diverged=current_divergence(events.of(LossDiverged, LossRecovered)),
    )


@lru_cache(maxsize=64)
def _run_argument(folder: Path, is_rank: bool) -> str:
    """Return the argument of `tfwatch replay`, found once. The manifest knows of the group: the disk may hang."""
    return replay_argument(folder, is_rank)


def judge_now(snapshot: Snapshot, before: Judgement = NOT_JUDGED) -> Judgement:
    """The judgement of the newest steps of the present setting. before: the last one of this setting."""
    manifest = snapshot.manifest
    return judge(
        snapshot.steps,
        before.verdict,
        accelerated=manifest.accelerated,
        op_by_op=manifest.op_by_op,
        bound=before.bound,
        copy_ahead_ms=manifest.copy_ahead_ms,
    )


def _located(snapshot: Snapshot) -> StallLocated | None:
    """The place of the wait that lasts now."""
    located, pulse = snapshot.events.newest(StallLocated), snapshot.pulse
    is_now = located and pulse and pulse.phase is Phase.WAIT and located.at_ns >= pulse.since_ns
    return located if is_now else None


def _metric_text(snapshot: Snapshot) -> str:
    """`acc 0.71`; empty before there is one."""
    latest = snapshot.latest
    name = metric_name(snapshot.manifest.metric)
    if latest is None or is_missing(latest.metric) or not name:
        return ""
    return f"{name} {latest.metric:.2f}"


def metric_name(name: str) -> str:
    """`acc` for accuracy: where it stands there is little room."""
    short = printable(name.replace("accuracy", "acc"))
    return short if len(short) <= _LONGEST_METRIC else f"{short[: _LONGEST_METRIC - 3]}..."


def _epoch_begins(snapshot: Snapshot) -> bool:
    started = snapshot.events.newest(EpochStarted)
    if started is None:
        return False
    return not len(snapshot.steps) or started.at_ns > int(snapshot.steps[-1]["start_ns"])


def _memory(snapshot: Snapshot) -> MachineMemory | None:
    if not len(snapshot.samples):
        return None
    row = snapshot.samples[-1]
    used, available, swap = (
        float(row[name])
        for name in ("memory_used_bytes", "memory_available_bytes", "swap_used_bytes")
    )
    return (
        None
        if math.isnan(used)
        else MachineMemory(used, available, swap, memory_total(snapshot.manifest.machine))
    )


def steps_in_all(snapshot: Snapshot) -> int | None:
    """Return the planned number of steps of the run; None where unknown."""
    steps: int | None = snapshot.manifest.settings.get("steps")
    if steps is not None:
        return steps
    epochs, per_epoch = snapshot.manifest.epochs, snapshot.manifest.steps_per_epoch
    return epochs * per_epoch if epochs and per_epoch else None
