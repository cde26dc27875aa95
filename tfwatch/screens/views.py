"""What each pane shows of a run, as plain values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis import turns
from tfwatch.analysis.comparing import speed
from tfwatch.analysis.pace import left_s
from tfwatch.analysis.waiting import knob_name
from tfwatch.core import units
from tfwatch.core.events import PipelineSwitched, SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.runs.reader import Life
from tfwatch.widgets.header import HeaderView
from tfwatch.widgets.knobs import KnobRow
from tfwatch.widgets.timeline_picture import clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.runs.reader import Snapshot
    from tfwatch.screens.situation import RunView
    from tfwatch.widgets.machine import Reading

_MEBI = 2**20
_MUCH_SWAP = 2**30


def header_view(view: RunView) -> HeaderView:
    """The header of a run."""
    snapshot, manifest = view.snapshot, view.snapshot.manifest
    latest, per_epoch = snapshot.latest, manifest.steps_per_epoch
    epochs = f"/{manifest.epochs}" if manifest.epochs else ""
    state, alert = _state(snapshot)
    running = snapshot.life is Life.RUNNING
    return HeaderView(
        workload=manifest.workload,
        device=manifest.device,
        epoch=f"epoch {latest.epoch + 1}{epochs}" if latest else "",
        done=latest.epoch_step / per_epoch if latest and per_epoch else None,
        step=_step(snapshot),
        speed=_speed(view) if running else "",
        metric=view.situation.metric,
        eta=_eta(view) if running and latest else "",
        state=state,
        alert=alert,
    )


def _step(snapshot: Snapshot) -> str:
    latest, per_epoch = snapshot.latest, snapshot.manifest.steps_per_epoch
    if latest is None:
        return ""
    if per_epoch:
        return f"{units.count(latest.epoch_step)}/{units.count(per_epoch)}"
    return f"step {units.count(latest.step)}"


def _speed(view: RunView) -> str:
    if view.situation.stalled:
        return "0 img/s"
    images_s = view.snapshot.images_s
    return "" if images_s is None else f"{units.count(round(images_s))} img/s"


def _eta(view: RunView) -> str:
    if view.situation.stalled:
        return "ETA stalled"
    left = left_s(view.snapshot.progress, steps_in_all(view.snapshot))
    return "" if left is None else f"ETA {units.seconds(round(left) if left >= 10 else left)}"


def steps_in_all(snapshot: Snapshot) -> int | None:
    """How many steps the run will have; None where nobody knows."""
    steps = snapshot.manifest.settings.get("steps")
    if isinstance(steps, int):
        return steps
    epochs, per_epoch = snapshot.manifest.epochs, snapshot.manifest.steps_per_epoch
    return epochs * per_epoch if epochs and per_epoch else None


def _state(snapshot: Snapshot) -> tuple[str, bool]:
    if snapshot.life is Life.KILLED:
        return "REPLAY, killed", True
    if snapshot.here:
        if snapshot.unrecorded or snapshot.folder is None:
            return "NOT RECORDED", True
        return ("recorded", False) if snapshot.ended else ("recording", False)
    if snapshot.ended:
        return f"REPLAY, ended {snapshot.local_time(snapshot.ended.at_ns / 1e9):%d %b %H:%M}", False
    return "FOLLOWING, read only", snapshot.life is not Life.RUNNING


def title(view: RunView) -> str:
    """The terminal's title: `cnn 2/20 41 %`, the share being the time that the device starves."""
    manifest, latest = view.snapshot.manifest, view.snapshot.latest
    parts = [manifest.workload]
    if latest:
        parts.append(f"{latest.epoch + 1}/{manifest.epochs}" if manifest.epochs else f"step {latest.step}")
    part = view.situation.judgement.breakdown
    if view.snapshot.ended:
        parts.append(view.snapshot.ended.cause)
    elif view.situation.stalled:
        parts.append("stalled")
    elif part:
        parts.append(units.percent(part.wait_share))
    return " ".join(parts)


# -- knobs ------------------------------------------------------------------------------------------


def knob_rows(view: RunView, live: bool) -> tuple[KnobRow, ...]:
    """The knobs with their keys, and what each key would ask for."""
    rows = [row for keys in _KEYS if (row := _knob_row(view, live, *keys)) is not None]
    undo = turns.undone(view.knobs, view.snapshot.events.of(PipelineSwitched)) if live else None
    if undo:
        back = f"{knob_name(undo[0])} back to {undo[1]}"
        rows.append(KnobRow("u", "u", "undo", "", "", back))
    return tuple(rows)


_KEYS = (
    ("p", "p", "prefetch", "prefetch", "made while a step runs"),
    ("plus", "+-", "prefetch", "depth", "batches kept ready"),
    ("w", "w", "workers", "workers", "maps on several cores"),
    ("l", "l", "latency_ms", "latency", "simulated, each batch"),
)


def _knob_row(view: RunView, live: bool, key: str, label: str, knob: str, name: str, purpose: str) -> KnobRow | None:
    state = view.knobs.get(knob)
    if state is None or (knob == "latency_ms" and not has_latency(view.snapshot)):
        return None
    refusal = refused(view.snapshot, knob, live)
    following = turns.deeper(state.coming) if key == "plus" else turns.toggled(state)
    note, busy = _note(view, state, key) or (purpose, False)
    return KnobRow(
        key=key,
        label=label,
        name=name,
        now=state.now,
        next="" if refusal else following,
        note=refusal or note,
        busy=busy and not refusal,
        enabled=not refusal,
    )


def _note(view: RunView, state: turns.KnobState, key: str) -> tuple[str, bool] | None:
    if key == "plus":
        return None
    if state.asked is not None:
        return f"asked {state.asked}: {_waits_for(view)}, {clock(view.snapshot, state.asked_s)}", True
    if state.failed:
        return f"not switched: {state.failed}", True
    newest = view.comparisons[-1] if view.comparisons else None
    if newest and newest.knob == state.knob and newest.step is not None:
        if not newest.settled:
            return (f"settling, {newest.after.steps if newest.after else 0} steps", True)
        if newest.ratio is not None:
            return (f"{newest.old} > {newest.new}: {speed(newest.ratio)}", False)
    return None


def _waits_for(view: RunView) -> str:
    starting = view.situation.phase in (Phase.STARTING, Phase.IMPORT, Phase.DATA_SET)
    return "taken up at the start" if starting else "waits for the batch in flight"


def has_latency(snapshot: Snapshot) -> bool:
    """Whether simulated storage latency was asked for at the run's start."""
    asked = snapshot.manifest.settings.get("storage_latency_ms")
    return bool(asked) or snapshot.manifest.knobs.get("latency_ms", "off") != "off"


def refused(snapshot: Snapshot, knob: str, live: bool) -> str:
    """Why a knob cannot be turned; empty where it can."""
    if snapshot.ended or snapshot.life is Life.KILLED:
        return "the run is over"
    if not live:
        return "read only: switched where it trains"
    if knob not in snapshot.manifest.switchable:
        return "fixed in this run's own pipeline"
    return ""


# -- machine ----------------------------------------------------------------------------------------


def readings(view: RunView) -> tuple[Reading, ...]:
    """The machine at the last sample, the sensors that give nothing, and what the run lost."""
    snapshot = view.snapshot
    samples = snapshot.samples
    row = {name: float(samples[-1][name]) for name in samples.dtype.names or ()} if len(samples) else {}
    missing = snapshot.events.of(SensorMissing)
    return (
        _lost(view),
        *(_figures(row, snapshot.manifest.machine) if row else (("sensors", "no sample yet", False),)),
        *((event.sensor[:7], f"n/a: {event.reason}", False) for event in missing),
    )


def _figures(row: Mapping[str, float], machine: Mapping[str, object]) -> tuple[Reading, ...]:
    cores = machine.get("cores")
    of = f" of {cores}" if cores else ""
    installed = machine.get("memory_bytes")
    # What is used and what is available make up the whole on some systems only.
    total = float(installed) if isinstance(installed, int) and installed > 0 else math.nan
    tight = row["memory_available_bytes"] < 0.1 * total or row["swap_used_bytes"] > _MUCH_SWAP
    used = units.number(row["memory_used_bytes"] / 2**30)
    read = row["disk_read_bytes_s"] / _MEBI
    return (
        ("CPU", f"{units.number(row['cpu_cores'])}{of} cores, busiest {units.percent(row['core_max'])}", False),
        ("process", f"{units.number(row['process_cores'])} cores, {units.gigabytes(row['process_bytes'])}", False),
        ("memory", f"{used} of {units.gigabytes(total)}, swap {units.gigabytes(row['swap_used_bytes'])}", tight),
        ("disk", f"{units.number(read)} MB/s read" if not units.is_missing(read) else units.MISSING, False),
    )


def _lost(view: RunView) -> Reading:
    now = view.situation
    told = [_of_the_run(now.waited_s, now.now_s, "waiting")]
    if now.between_s >= 0.01 * now.now_s > 0:
        told.append(_of_the_run(now.between_s, now.now_s, "between epochs"))
    if view.stalls:
        told.append(f"{len(view.stalls)} stall{'' if len(view.stalls) == 1 else 's'}")
    return "lost", ", ".join(told), False


def _of_the_run(seconds: float, run_s: float, what: str) -> str:
    return f"{units.seconds(seconds)} {what} ({units.percent(seconds / run_s if run_s > 0 else None)})"


def log_lines(view: RunView) -> tuple[str, ...]:
    """The log, and the traceback of a training that failed where the log does not end with it."""
    log = view.snapshot.log
    failed = view.situation.failed
    if failed is None:
        return log
    lines = tuple(failed.traceback.splitlines())
    return log if lines and lines[-1] in log[-len(lines) - 5 :] else (*log, *lines)
