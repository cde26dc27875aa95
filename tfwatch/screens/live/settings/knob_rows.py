"""The rows of the settings pane: each knob with its key, its value, its next value and a note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import EpochStarted
from tfwatch.core.knobs import (
    CACHE,
    KNOBS,
    WORKERS,
    Knob,
    stage_value,
)
from tfwatch.core.refusals import no_room
from tfwatch.core.rows import Phase
from tfwatch.judge.effects import knob_state
from tfwatch.judge.effects.comparison import ENOUGH_STEPS
from tfwatch.judge.effects.switch_text import forecast_note, interval_text, versus_text
from tfwatch.judge.effects.tuner_text import subject_text
from tfwatch.runs.liveness import Life
from tfwatch.screens.basics.text import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.knob_state import KnobState
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot


def find_open_switch(view: RunView, live: bool) -> Comparison | None:
    """Return the newest switch where its steps prove no difference and an A/B test can; live: keys
    reach the training.

    None while one runs, and while the new setting lacks steps.
    """
    newest = view.comparisons[-1] if view.comparisons else None
    if newest is None or newest.answer != "unclear" or newest.ratio is None or not newest.settled:
        return None
    situation, state = view.situation, view.knobs.get(newest.knob)
    is_busy = (
        bool(situation.experiment or situation.autopilot_run)
        or state is None
        or state.coming != newest.new
    )
    refused = view.refusal(newest.knob, live) or knob_state.why_no_experiment(newest.knob)
    return None if is_busy or refused else newest


def experiment_offer(view: RunView, live: bool) -> str:
    """Return `a runs an A/B test of prefetch off vs 4`; empty where the newest switch has an
    answer."""
    switch = find_open_switch(view, live)
    if switch is None:
        return ""
    return (
        "a runs an A/B test of"
        f" {subject_text(switch.knob, knob_state.test_order(switch.old, switch.new))}"
    )


def cache_refusal(snapshot: Snapshot, state: KnobState) -> str:
    """Return the reason why a cache does not fit into memory; empty where it fits, or is already
    on."""
    if state.coming == "on":
        return ""
    return no_room(snapshot.manifest.cache_bytes, available_bytes(snapshot))


@dataclass(frozen=True, slots=True)
class KnobRow:
    """A row of the pane."""

    #: The key's Textual name.
    key: str
    #: The key on the screen.
    label: str
    name: str
    #: The current value.
    now: str
    #: The value that the key requests; empty: it requests none.
    next: str
    #: The text beside it.
    note: str
    #: The note is a forecast.
    has_forecast: bool = False
    #: Its prediction interval, shown where there is room.
    forecast_range: str = ""
    #: A switch is requested or being measured.
    busy: bool = False
    #: The key has an effect.
    enabled: bool = True
    #: Where rows are few, the highest rank goes first.
    rank: int = 0
    #: The number of the map or interleave that the row sets alone, from 0 on;
    #: None for a row of a knob.
    stage: int | None = None


def knob_rows(view: RunView, live: bool) -> tuple[KnobRow, ...]:
    """Make the rows of the settings: each knob with its key, its value and its next value."""
    rows = list(_knob_rows(view, live))
    if rows and live and view.snapshot.manifest.switchable and not view.is_over:
        autopilot = view.situation.autopilot_run
        note = (
            f"f ends it; {autopilot.progress}"
            if autopilot
            else "finds the fastest settings by itself"
        )
        rows.append(KnobRow("f", "f", "autopilot", "", "", note, busy=autopilot is not None))
    return tuple(rows)


def title(view: RunView, live: bool) -> str:
    """Return the title of the settings; a read-only run, a finished one and an awaited one have
    their own."""
    if view.is_over:
        return "settings at the end of the run"
    if view.awaits_fit:
        return "settings"
    return "live switches" if live else f"settings, read only{_stop_hint(view.snapshot)}"


def _stop_hint(snapshot: Snapshot) -> str:
    """Return the command that stops a run of this machine, which no key of a second screen does."""
    is_reachable = snapshot.life is Life.RUNNING and snapshot.manifest.pid
    return f"; kill {snapshot.manifest.pid} stops it" if is_reachable else ""


def knob_of(key: str) -> str:
    """Return the knob that a row's key switches; empty where it switches none."""
    return next((one.name for one in KNOBS.values() if one.key == key), "")


#: Where rows are few, those of single stages go first.
_STAGE_RANK = 9


def _knob_rows(view: RunView, live: bool) -> Iterator[KnobRow]:
    for knob in KNOBS.values():
        if knob.name in view.snapshot.manifest.knobs:
            yield _knob_row(view, live, knob)
            if knob.name == WORKERS:
                yield from _stage_rows(view, live)


def _stage_rows(view: RunView, live: bool) -> Iterator[KnobRow]:
    """Make a row for each map and interleave of a script: enter switches its parallel calls
    alone."""
    state, refused = view.knobs[WORKERS], view.refusal(WORKERS, live)
    names = view.snapshot.manifest.parallel_stages
    for stage, name in enumerate(names):
        wanted = knob_state.one_stage_toggled(state, len(names), stage)
        forecast = view.situation.setting.forecasts.get((WORKERS, wanted))
        has_forecast = bool(forecast and forecast.is_known) and not (
            refused or view.situation.is_stalled
        )
        note = (
            refused if refused else _forecast_text(view, state, wanted) or "enter: this stage alone"
        )
        yield KnobRow(
            key="",
            label="",
            name=f" {name}",
            now=stage_value(state.now, stage),
            next="" if refused else stage_value(wanted, stage),
            note=note if live and not view.is_over else "",
            forecast_range=interval_text(forecast) if forecast and has_forecast else "",
            has_forecast=has_forecast,
            enabled=not refused,
            rank=_STAGE_RANK,
            stage=stage,
        )


def _knob_row(view: RunView, live: bool, knob: Knob) -> KnobRow:
    state = view.knobs[knob.name]
    refused = view.refusal(knob.name, live) or (
        cache_refusal(view.snapshot, state) if knob.name == CACHE else ""
    )
    can_switch = live and not view.is_over  # else the title gives the reason, not each row
    following = knob_state.toggled(state)
    text = _forecast_text(view, state, following) if can_switch else ""
    forecast = view.situation.setting.forecasts.get((knob.name, following))
    note, busy = _note(view, state, knob, can_switch) or (
        text or knob.purpose or _purpose(view, state),
        False,
    )
    has_forecast = (
        forecast is not None
        and forecast.is_known
        and note == text
        and not (refused or view.situation.is_stalled)
    )
    return KnobRow(
        key=knob.key,
        label=knob.key,
        name=knob.label,
        now=state.now,
        next=(
            ""
            if refused or (following == state.now and not state.asked)
            else state.asked or following
        ),
        note=refused if refused and can_switch else note,
        forecast_range=interval_text(forecast) if forecast and has_forecast else "",
        has_forecast=has_forecast,
        busy=busy and not refused,
        enabled=not refused,
        rank=knob.rank,
    )


def _purpose(view: RunView, state: KnobState) -> str:
    return _cache_note(view.snapshot, state) if state.knob == CACHE else ""


def _forecast_text(view: RunView, state: KnobState, value: str) -> str:
    """Return the forecast of a switch, and the memory that a cache needs; empty where there is no
    forecast yet."""
    forecast = view.situation.setting.forecasts.get((state.knob, value))
    if forecast is None or view.situation.is_stalled:
        return "no forecast while stalled" if forecast else ""
    if state.knob != CACHE:
        return forecast_note(forecast)
    return forecast_note(forecast) + _cache_size(view.snapshot, state) if forecast.is_known else ""


def _note(view: RunView, state: KnobState, knob: Knob, can_switch: bool) -> tuple[str, bool] | None:
    if view.undecided and state.knob in view.undecided.decided:
        return f"run ended in its test; kept {view.undecided.decided[state.knob]}", False
    experiment = view.situation.experiment
    if experiment and not experiment.cut_off and experiment.began.knob == state.knob:
        return f"A/B test, {experiment.block_words}", True
    if state.asked is not None:
        if view.is_over:
            return f"requested {state.asked}: the run ended first", False
        return _waiting(view, state, knob.key if can_switch else ""), True
    if state.failed:
        return f"switch failed: {state.failed}", True
    shown = view.comparisons if view.is_over else _newest(view.comparisons)
    newest = next((one for one in reversed(shown) if one.knob == state.knob), None)
    if newest and newest.step is not None:
        if not newest.settled:
            done = newest.after.steps if newest.after else 0
            progress = f"{done} of {ENOUGH_STEPS} steps"
            return (
                f"not enough steps: {progress}" if view.is_over else f"measuring: {progress}",
                not view.is_over,
            )
        if newest.ratio is not None:
            return versus_text(newest), False
    return None


def _newest(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the newest switch, and the other switches at the same step."""
    last = comparisons[-1:]
    return [one for one in comparisons if one is last[0] or (one.step and one.step == last[0].step)]


def _waiting(view: RunView, state: KnobState, key: str) -> str:
    """Return `from epoch 3; c undoes it`, or `requested 10:17:11, waits for the current batch`.

    key: the knob's key, where its row shows the requested value; empty where the text has to.
    """
    requested = "requested" if key else f"requested {state.asked}"
    if epochs := view.snapshot.manifest.epochs_until(state.knob, state.coming):
        begun = sum(
            event.at_ns / 1e9 <= state.asked_s for event in view.snapshot.events.of(EpochStarted)
        )
        first, last = begun + epochs, view.snapshot.manifest.epochs
        if last and first > last:
            return f"too late: from epoch {first}"
        return f"from epoch {first}; {key} undoes it" if key else f"{requested}, from epoch {first}"
    if view.situation.phase is Phase.STARTING:
        return f"{requested}, applies at start"
    return f"{requested} {clock(view.snapshot, state.asked_s)}, waits for the current batch"


def _cache_note(snapshot: Snapshot, state: KnobState) -> str:
    """Return `needs 338 MB of 16.2 GB`, or `uses 338 MB` where the cache is on; empty before its
    size is known."""
    needs = snapshot.manifest.cache_bytes
    if needs is None:
        return ""
    if state.coming == "on":
        return f"uses {units.memory(needs)}"
    return f"needs {units.memory(needs)} of {units.memory(available_bytes(snapshot))}"


def _cache_size(snapshot: Snapshot, state: KnobState) -> str:
    """Return `, 338 MB` to follow the cache's forecast; empty where the size is unknown or the
    cache is on."""
    needs = snapshot.manifest.cache_bytes
    return "" if needs is None or state.coming == "on" else f", {units.memory(needs)}"


def available_bytes(snapshot: Snapshot) -> float | None:
    """Return the free memory of the newest sample; None before the first sample."""
    return float(snapshot.samples[-1]["memory_available_bytes"]) if len(snapshot.samples) else None
