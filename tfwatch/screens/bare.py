"""What a snapshot of a run says by itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis.losses import lasting
from tfwatch.analysis.origin import origin_of
from tfwatch.analysis.situation import Memory, Situation
from tfwatch.core.events import EpochStarted, RecordingLost, StallLocated, TrainingFailed, WatchFailed
from tfwatch.core.losses import LossDiverged, LossRecovered
from tfwatch.core.rows import Phase
from tfwatch.core.units import is_missing
from tfwatch.runs.library import replay_words
from tfwatch.runs.machine import memory_total
from tfwatch.widgets.text import shortened

if TYPE_CHECKING:
    from tfwatch.runs.reader import Snapshot

#: Cells of a metric's name: its figure stands behind it.
_LONGEST_METRIC = 24


def bare_situation(snapshot: Snapshot) -> Situation:
    """What a snapshot says by itself."""
    manifest, pulse, events = snapshot.manifest, snapshot.pulse, snapshot.events
    lost, failed = events.newest(RecordingLost), events.newest(WatchFailed)
    return Situation(
        life=snapshot.life.value,
        phase=pulse.phase if pulse else Phase.STARTING,
        phase_s=max(0.0, (pulse.now_ns - pulse.since_ns) / 1e9) if pulse else snapshot.now_s,
        detail=pulse.detail if pulse else "",
        step=max(pulse.step if pulse else 0, snapshot.steps_total),
        steps_total=snapshot.steps_total,
        epoch=pulse.epoch if pulse else 0,
        silent_s=snapshot.silent_s,
        now_s=snapshot.now_s,
        pid=manifest.pid,
        host=str(manifest.machine.get("host", "unknown")),
        accelerated=manifest.accelerated,
        op_by_op=manifest.op_by_op,
        cpu_asked=manifest.settings.get("device") == "cpu",
        device="the GPU" if manifest.accelerated else "the CPU's compute",
        switchable=tuple(manifest.switchable),
        fast_form=manifest.fast_form,
        started=manifest.knobs,
        origin=origin_of(snapshot.stages_found.values()),
        batch_size=manifest.batch_size,
        batch_bytes=manifest.batch_bytes,
        epoch_begins=_epoch_begins(snapshot),
        unrecorded=snapshot.unrecorded,
        unrecorded_step=lost.step if lost else 0,
        watch_failed=failed.reason if failed else "",
        ended=snapshot.ended,
        failed=events.newest(TrainingFailed),
        metric=_metric_text(snapshot),
        memory=_memory(snapshot),
        run=replay_words(snapshot.folder) if snapshot.folder else "",
        located=_located(snapshot),
        diverged=lasting(events.of(LossDiverged, LossRecovered)),
    )


def _located(snapshot: Snapshot) -> StallLocated | None:
    """Where the wait stands that lasts now."""
    told, pulse = snapshot.events.newest(StallLocated), snapshot.pulse
    return told if told and pulse and pulse.phase is Phase.WAIT and told.at_ns >= pulse.since_ns else None


def _metric_text(snapshot: Snapshot) -> str:
    """`acc 0.71`; empty before there is one."""
    latest = snapshot.latest
    name = metric_name(snapshot.manifest.metric)
    if latest is None or is_missing(latest.metric) or not name:
        return ""
    return f"{name} {latest.metric:.2f}"


def metric_name(name: str) -> str:
    """`acc` for accuracy: where it stands there is little room."""
    return shortened(name.replace("accuracy", "acc"), _LONGEST_METRIC)


def _epoch_begins(snapshot: Snapshot) -> bool:
    started = snapshot.events.newest(EpochStarted)
    if started is None:
        return False
    return not len(snapshot.steps) or started.at_ns > int(snapshot.steps[-1]["start_ns"])


def _memory(snapshot: Snapshot) -> Memory | None:
    if not len(snapshot.samples):
        return None
    row = snapshot.samples[-1]
    used, available, swap = (
        float(row[name]) for name in ("memory_used_bytes", "memory_available_bytes", "swap_used_bytes")
    )
    return None if math.isnan(used) else Memory(used, available, swap, memory_total(snapshot.manifest.machine))
