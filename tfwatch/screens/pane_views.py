"""The content of each pane as plain values, and the updater that hands it to the panes frame by frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.tuning import knob_state
from tfwatch.analysis.tuning.comparison import ENOUGH_STEPS
from tfwatch.analysis.tuning.search_text import AUTOPILOT_EVENTS, autopilot_runs
from tfwatch.analysis.tuning.switch_text import forecast_note, interval_text, last_forecast_text, than
from tfwatch.core import units
from tfwatch.core.events import AUTOPILOT, EpochStarted, ExperimentEnded
from tfwatch.core.knobs import epochs_until
from tfwatch.core.rows import Phase
from tfwatch.live.schedule import Slot, second_of
from tfwatch.runs.liveness import Life
from tfwatch.screens.switch_requests import cache_refusal, experiment_offer, has_knob, refusal
from tfwatch.widgets import knobs
from tfwatch.widgets.basics.text import shorten
from tfwatch.widgets.events import EventCollector
from tfwatch.widgets.header import HeaderView
from tfwatch.widgets.knobs import KNOB_KEYS, PREFETCH, KnobKey, KnobRow
from tfwatch.widgets.machine import readings
from tfwatch.widgets.machine import title as machine_title
from tfwatch.widgets.pipeline import pipeline_view
from tfwatch.widgets.timeline.picture import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.analysis.tuning.search_text import AutopilotRun
    from tfwatch.live.view import RunView
    from tfwatch.runs.reader import Snapshot
    from tfwatch.widgets.card import CardPane
    from tfwatch.widgets.events import EventsPane
    from tfwatch.widgets.header import RunHeader
    from tfwatch.widgets.knobs import KnobsPane
    from tfwatch.widgets.log import LogPane
    from tfwatch.widgets.machine import MachinePane
    from tfwatch.widgets.pipeline import PipelinePane

_RECORDING = "recording"
#: Cells of a workload's name in the terminal's title: terminals cut titles in tabs.
_LONGEST_NAME = 40


def header_view(view: RunView) -> HeaderView:
    """Make the header of a run."""
    snapshot, manifest = view.snapshot, view.snapshot.manifest
    latest, per_epoch = snapshot.latest, manifest.steps_per_epoch
    epochs = f"/{manifest.epochs}" if manifest.epochs else ""
    state, alert = _state(snapshot)
    running = snapshot.life is Life.RUNNING
    return HeaderView(
        workload=manifest.title,
        device=_device(view),
        epoch=f"epoch {latest.epoch + 1}{epochs}" if latest else "",
        done=latest.epoch_step / per_epoch if latest and per_epoch else None,
        step=_step(snapshot),
        speed=_speed(view) if running else "",
        metric=view.situation.metric,
        eta=_eta(view) if running and latest else "",
        state=state,
        alert=alert,
        is_recording=state == _RECORDING,
    )


def _device(view: RunView) -> str:
    """Return the GPU's name as its sensor reads it: TensorFlow has no useful name for a Mac's."""
    manifest, machine = view.snapshot.manifest, view.situation.machine
    if not manifest.accelerated or machine is None or machine.found is None:
        return manifest.device
    return f"{manifest.device.partition(' ')[0]} {machine.found.name}".strip()


def _step(snapshot: Snapshot) -> str:
    latest, per_epoch = snapshot.latest, snapshot.manifest.steps_per_epoch
    if latest is None:
        return ""
    if per_epoch:
        return f"{units.count(latest.epoch_step)}/{units.count(per_epoch)}"
    return f"step {units.count(latest.step)}"


def _speed(view: RunView) -> str:
    if view.situation.is_stalled:
        return "0 examples/s"
    per_s = view.snapshot.examples_s
    return "" if per_s is None else f"{units.count(round(per_s))} examples/s"


def _eta(view: RunView) -> str:
    if view.situation.is_stalled:
        return "ETA stalled"
    left_s = view.situation.left_s
    return "" if left_s is None else f"ETA {units.seconds(round(left_s) if left_s >= 10 else left_s)}"


def _state(snapshot: Snapshot) -> tuple[str, bool]:
    if snapshot.life is Life.KILLED:
        return "REPLAY, killed", True
    if snapshot.is_here:
        if snapshot.unrecorded or snapshot.folder is None:
            return "NOT RECORDED", True
        return ("recorded", False) if snapshot.ended else (_RECORDING, False)
    if snapshot.ended:
        return f"REPLAY, ended {snapshot.local_time(snapshot.ended.at_ns / 1e9):%d %b %H:%M}", False
    return "FOLLOWING, read only", snapshot.life is not Life.RUNNING


def title(view: RunView) -> str:
    """Return the terminal's title, e.g. `cnn 2/20 41 %`; the share is data wait."""
    manifest, latest = view.snapshot.manifest, view.snapshot.latest
    parts = [shorten(manifest.workload, _LONGEST_NAME)]
    if latest:
        parts.append(f"{latest.epoch + 1}/{manifest.epochs}" if manifest.epochs else f"step {latest.step}")
    part, life = view.situation.judgement.breakdown, view.snapshot.life
    if view.snapshot.ended:
        parts.append(view.snapshot.ended.cause)
    elif life is not Life.RUNNING:
        parts.append(life.value)
    elif view.situation.is_stalled:
        parts.append("stalled")
    elif part:
        parts.append(units.percent(part.wait_share))
    return " ".join(parts)


# -- knobs ------------------------------------------------------------------------------------------


def knob_rows(view: RunView, live: bool) -> tuple[KnobRow, ...]:
    """Make the rows of the settings: each knob with its key, its value and its next value."""
    rows = list(_knob_rows(view, live))
    if rows and live and not view.is_over:
        autopilot = view.situation.autopilot_run
        note = f"f ends it; {autopilot.progress}" if autopilot else "finds the fastest settings by itself"
        rows.append(KnobRow("f", "f", "autopilot", "", "", note, busy=autopilot is not None))
    return tuple(rows)


def knobs_title(view: RunView, live: bool) -> str:
    """Return the title of the settings; a read-only run and a finished run have their own."""
    if view.is_over:
        return "settings at the end of the run"
    return "live switches" if live else f"settings, read only{_stop_hint(view.snapshot)}"


def _stop_hint(snapshot: Snapshot) -> str:
    """Return the command that stops a run of this machine, which no key of a second screen does."""
    is_reachable = snapshot.life is Life.RUNNING and snapshot.manifest.pid
    return f"; kill {snapshot.manifest.pid} stops it" if is_reachable else ""


def knob_of(key: str) -> str:
    """Return the knob that a row's key switches; empty where it switches none."""
    return "prefetch" if key == _DEPTH else next((one.knob for one in KNOB_KEYS if one.key == key), "")


#: The key of the row with the prefetch depth.
_DEPTH = "plus"
_OF_DEPTH = KnobKey(_DEPTH, PREFETCH.knob, "depth", "", "batches kept ready", 6)


def _knob_rows(view: RunView, live: bool) -> Iterator[KnobRow]:
    for one in KNOB_KEYS:
        if has_knob(view.snapshot, one.knob):
            yield _knob_row(view, live, one, one.key)
            if one is PREFETCH:
                yield _knob_row(view, live, _OF_DEPTH, "+-")


def _knob_row(view: RunView, live: bool, one: KnobKey, label: str) -> KnobRow:
    state = view.knobs[one.knob]
    refused = refusal(view.snapshot, one.knob, live) or (
        cache_refusal(view.snapshot, state) if one.knob == "cache" else None
    )
    can_switch = live and not view.is_over  # else the title gives the reason, not each row
    following = knob_state.deeper(state.coming) if one is _OF_DEPTH else knob_state.toggled(state)
    text = _forecast_text(view, state, following) if can_switch else ""
    forecast = view.situation.forecasts.get((one.knob, following))
    note, busy = _note(view, state, one, can_switch) or (text or one.purpose or _purpose(view, state), False)
    has_forecast = (
        forecast is not None and forecast.is_known and note == text and not (refused or view.situation.is_stalled)
    )
    waits = None if one is _OF_DEPTH else state.asked
    return KnobRow(
        key=one.key,
        label=label,
        name=one.name,
        now=state.now,
        next="" if refused or (following == state.now and not waits) else waits or following,
        note=refused.words if refused and can_switch else note,
        forecast_range=interval_text(forecast) if forecast and has_forecast else "",
        has_forecast=has_forecast,
        busy=busy and not refused,
        enabled=not refused,
        rank=one.rank,
    )


def _purpose(view: RunView, state: knob_state.KnobState) -> str:
    if state.knob == "cache":
        return knobs.cache_note(view.snapshot, state)
    return f"fast: {view.snapshot.manifest.fast_form}" if state.knob == "fast_form" else ""


def _forecast_text(view: RunView, state: knob_state.KnobState, value: str) -> str:
    """Return the forecast of a switch, and the memory that a cache needs; empty where there is no forecast yet."""
    forecast = view.situation.forecasts.get((state.knob, value))
    if forecast is None or view.situation.is_stalled:
        return "no forecast while stalled" if forecast else ""
    if state.knob == "fast_form":
        return f"{forecast_note(forecast)}, {view.snapshot.manifest.fast_form}" if forecast.is_known else ""
    if state.knob != "cache":
        return forecast_note(forecast)
    return forecast_note(forecast) + knobs.cache_size(view.snapshot, state) if forecast.is_known else ""


def _note(view: RunView, state: knob_state.KnobState, one: KnobKey, can_switch: bool) -> tuple[str, bool] | None:
    if one is _OF_DEPTH:
        return None
    if view.undecided and state.knob in view.undecided.decided:
        return f"run ended in its test; kept {view.undecided.decided[state.knob]}", False
    experiment = view.situation.experiment
    if experiment and not experiment.cut_off and experiment.began.knob == state.knob:
        return f"A/B test, {experiment.block_words}", True
    if state.asked is not None:
        if view.is_over:
            return f"requested {state.asked}: the run ended first", False
        return _waiting(view, state, one.key if can_switch else ""), True
    if state.failed:
        return f"switch failed: {state.failed}", True
    shown = view.comparisons if view.is_over else _newest(view.comparisons)
    newest = next((one for one in reversed(shown) if one.knob == state.knob), None)
    if newest and newest.step is not None:
        if not newest.settled:
            done = newest.after.steps if newest.after else 0
            found = f"{done} of {ENOUGH_STEPS} steps"
            return (f"not enough steps: {found}" if view.is_over else f"measuring: {found}", not view.is_over)
        if newest.ratio is not None:
            return (than(newest), False)
    return None


def _newest(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the newest switch, and the other switches at the same step."""
    last = comparisons[-1:]
    return [one for one in comparisons if one is last[0] or (one.step and one.step == last[0].step)]


def _waiting(view: RunView, state: knob_state.KnobState, key: str) -> str:
    """Return `from epoch 3; c undoes it`, or `requested 10:17:11, waits for the current batch`.

    key: the knob's key, where its row shows the requested value; empty where the text has to.
    """
    requested = "requested" if key else f"requested {state.asked}"
    if epochs := epochs_until(state.knob, state.coming):
        begun = sum(event.at_ns / 1e9 <= state.asked_s for event in view.snapshot.events.of(EpochStarted))
        first, last = begun + epochs, view.snapshot.manifest.epochs
        if last and first > last:
            return f"too late: from epoch {first}"
        return f"from epoch {first}; {key} undoes it" if key else f"{requested}, from epoch {first}"
    if view.situation.phase in (Phase.STARTING, Phase.IMPORT, Phase.DATA_SET):
        return f"{requested}, applies at start"
    return f"{requested} {clock(view.snapshot, state.asked_s)}, waits for the current batch"


def newest_experiment(view: RunView) -> ExperimentEnded | None:
    """Return the newest finished experiment; None where a switch followed it."""
    ended = view.snapshot.events.newest(ExperimentEnded)
    steps = [comparison.asked_step for comparison in view.comparisons]
    return ended if ended and ended.step >= max(steps, default=0) else None


def newest_autopilot_run(view: RunView) -> AutopilotRun | None:
    """Return the newest run of the autopilot, if it has moves and no other switch followed it."""
    newest = next(reversed(autopilot_runs(view.snapshot.events.of(*AUTOPILOT_EVENTS))), None)
    if newest is None or not newest.moves or (view.comparisons and view.comparisons[-1].by != AUTOPILOT):
        return None
    return newest


# -- log -------------------------------------------------------------------------------------------


def log_lines(view: RunView) -> tuple[str, ...]:
    """Return the log; append the traceback of a failed training where the log does not end with it."""
    log = view.snapshot.log
    failed = view.situation.failed
    if failed is None:
        return log
    lines = tuple(failed.traceback.splitlines())
    return log if lines and lines[-1] in log[-len(lines) - 5 :] else (*log, *lines)


_HINT = "no switch yet: p switches prefetch on or off\na runs an A/B test and shows which setting is faster"


@dataclass(frozen=True, eq=False)
class Panes:
    """The widgets that a frame updates."""

    header: RunHeader
    knobs: KnobsPane
    card: CardPane
    pipeline: PipelinePane
    events_pane: EventsPane
    machine: MachinePane
    log: LogPane


class PaneUpdater:
    """Hands new content to the visible panes of a screen.

    Figures that change with every step are updated once a second, each group in a frame of its own (`Slot`); other
    content only where it differs. `widgets/basics/pane.py` gives the CPU budget of a frame.
    """

    def __init__(self, panes: Panes) -> None:
        self._panes = panes
        self._collector = EventCollector()
        self._events_key: tuple[object, ...] = ()
        self._header_key: tuple[object, ...] = ()
        self._machine_key: tuple[object, ...] = ()
        self._stages_key: tuple[object, ...] = ()

    def update(self, view: RunView, live: bool) -> None:
        """Update the visible panes. live: keys reach the training."""
        self._update_figures(view)
        panes = self._panes
        if panes.pipeline.display:
            self._update_stages(view)
        if panes.knobs.display:
            panes.knobs.knobs = knob_rows(view, live)
            panes.knobs.show_titles(knobs_title(view, live), last_forecast_text(view.situation.record))
        if panes.card.display:
            panes.card.comparisons = view.comparisons
            panes.card.offer = experiment_offer(view, live)
            panes.card.experiment = newest_experiment(view)
            panes.card.running_experiment = view.situation.experiment
            panes.card.autopilot_run = newest_autopilot_run(view)
            none_yet = _HINT if live else "no switch in this run yet"
            panes.card.hint = "no switch in this run" if view.is_over else none_yet
        if panes.events_pane.display:
            self._update_new_events(view)
        if panes.log.display:
            panes.log.lines = log_lines(view)

    def update_events(self, view: RunView) -> None:
        """Update the list of events now."""
        self._panes.events_pane.event_rows = self._collector.take(view)

    def _update_figures(self, view: RunView) -> None:
        """Update the figures of header and machine once a second: faster figures are unreadable."""
        panes, now_s, header = self._panes, view.snapshot.now_s, header_view(view)
        header_key = second_of(now_s, Slot.HEADER), view.snapshot.life, header.workload, header.epoch, header.state
        if header_key != self._header_key:
            self._header_key = header_key
            panes.header.view = header
        energy = view.energy if view.is_over else None
        machine_key = second_of(now_s, Slot.MACHINE), view.is_over, energy, len(view.snapshot.samples) > 0
        if panes.machine.display and machine_key != self._machine_key:
            self._machine_key = machine_key
            panes.machine.set_titles(machine_title(view))
            panes.machine.readings = readings(view)

    def _update_stages(self, view: RunView) -> None:
        now = view.situation
        key = second_of(now.now_s, Slot.SEARCH), view.snapshot.life, now.stages, now.located
        if key != self._stages_key:
            self._stages_key = key
            self._panes.pipeline.view = pipeline_view(view)

    def _update_new_events(self, view: RunView) -> None:
        waiting = tuple(state.asked for state in view.knobs.values())
        key = (
            len(view.snapshot.events),
            len(view.stalls),
            len(view.compiles),
            len(view.log_findings),
            view.patterns,
            view.comparisons,
            waiting,
        )
        if key != self._events_key:
            self._events_key = key
            self.update_events(view)
