"""What each pane shows of a run, as plain values, and in which frame it is handed over.

What each pane shows of a run, as plain values.

What the live screen's panes are handed in a frame, and when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.tuning import knob_state
from tfwatch.analysis.tuning.search_text import OF_FLIGHTS, flights
from tfwatch.analysis.tuning.switch_text import between, last_words, than
from tfwatch.analysis.tuning.switch_text import note as foretold_note
from tfwatch.core import units
from tfwatch.core.events import AUTOPILOT, EpochStarted, ExperimentEnded
from tfwatch.core.knobs import epochs_until
from tfwatch.core.rows import Phase
from tfwatch.live.schedule import Slot, second_of
from tfwatch.runs.liveness import Life
from tfwatch.screens.switch_requests import cache_refusal, has_knob, refusal
from tfwatch.widgets import knobs
from tfwatch.widgets.basics.text import shortened
from tfwatch.widgets.events import Happenings
from tfwatch.widgets.header import HeaderView
from tfwatch.widgets.knobs import KNOB_KEYS, PREFETCH, KnobKey, KnobRow
from tfwatch.widgets.machine import readings
from tfwatch.widgets.machine import title as machine_title
from tfwatch.widgets.pipeline import pipeline_view
from tfwatch.widgets.timeline.picture import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.analysis.tuning.search_text import Flight
    from tfwatch.live.view import RunView
    from tfwatch.runs.reader import Snapshot
    from tfwatch.widgets.card import CardPane
    from tfwatch.widgets.events import HappeningsPane
    from tfwatch.widgets.header import RunHeader
    from tfwatch.widgets.knobs import KnobsPane
    from tfwatch.widgets.log import LogPane
    from tfwatch.widgets.machine import MachinePane
    from tfwatch.widgets.pipeline import PipelinePane

_RECORDING = "recording"
#: Cells of a workload's name in a terminal's title, which tabs cut.
_LONGEST_NAME = 40


def header_view(view: RunView) -> HeaderView:
    """The header of a run."""
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
    """The GPU by the name that its sensor knows: TensorFlow's own for a Mac's says little."""
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
    if view.situation.stalled:
        return "0 img/s"
    images_s = view.snapshot.images_s
    return "" if images_s is None else f"{units.count(round(images_s))} img/s"


def _eta(view: RunView) -> str:
    if view.situation.stalled:
        return "ETA stalled"
    left_s = view.situation.left_s
    return "" if left_s is None else f"ETA {units.seconds(round(left_s) if left_s >= 10 else left_s)}"


def _state(snapshot: Snapshot) -> tuple[str, bool]:
    if snapshot.life is Life.KILLED:
        return "REPLAY, killed", True
    if snapshot.here:
        if snapshot.unrecorded or snapshot.folder is None:
            return "NOT RECORDED", True
        return ("recorded", False) if snapshot.ended else (_RECORDING, False)
    if snapshot.ended:
        return f"REPLAY, ended {snapshot.local_time(snapshot.ended.at_ns / 1e9):%d %b %H:%M}", False
    return "FOLLOWING, read only", snapshot.life is not Life.RUNNING


def title(view: RunView) -> str:
    """The terminal's title: `cnn 2/20 41 %`, the share being the time that the device starves now."""
    manifest, latest = view.snapshot.manifest, view.snapshot.latest
    parts = [shortened(manifest.workload, _LONGEST_NAME)]
    if latest:
        parts.append(f"{latest.epoch + 1}/{manifest.epochs}" if manifest.epochs else f"step {latest.step}")
    part, life = view.situation.judgement.breakdown, view.snapshot.life
    if view.snapshot.ended:
        parts.append(view.snapshot.ended.cause)
    elif life is not Life.RUNNING:
        parts.append(life.value)
    elif view.situation.stalled:
        parts.append("stalled")
    elif part:
        parts.append(units.percent(part.wait_share))
    return " ".join(parts)


# -- knobs ------------------------------------------------------------------------------------------


def knob_rows(view: RunView, live: bool) -> tuple[KnobRow, ...]:
    """The knobs with their keys, and what each key would ask for."""
    rows = list(_knob_rows(view, live))
    if rows and live and not view.is_over:
        flight = view.situation.flight
        note = f"f ends it; {flight.progress}" if flight else "finds the best setting by itself"
        rows.append(KnobRow("f", "f", "autopilot", "", "", note, busy=flight is not None))
    return tuple(rows)


def knobs_title(view: RunView, live: bool) -> str:
    """What the knobs' figures are; where no key is obeyed, that."""
    if view.is_over:
        return "knobs, as the run left them"
    return "switch live: the step after" if live else "knobs, switched where it trains"


def knob_of(key: str) -> str:
    """Which knob a row of the pane turns by its key; empty where none."""
    return "prefetch" if key == _DEPTH else next((one.knob for one in KNOB_KEYS if one.key == key), "")


#: The row of the depth, by the key that doubles it.
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
    obeyed = live and not view.is_over  # else the title says so, and not each row
    following = knob_state.deeper(state.coming) if one is _OF_DEPTH else knob_state.toggled(state)
    foretold = _foretold(view, state, following) if obeyed else ""
    told = view.situation.forecasts.get((one.knob, following))
    note, busy = _note(view, state, one, obeyed) or (foretold or one.purpose or _purpose(view, state), False)
    waits = None if one is _OF_DEPTH else state.asked
    return KnobRow(
        key=one.key,
        label=label,
        name=one.name,
        now=state.now,
        next="" if refused or (following == state.now and not waits) else waits or following,
        note=refused.words if refused and obeyed else note,
        within=between(told) if told and note == foretold and not (refused or view.situation.stalled) else "",
        busy=busy and not refused,
        enabled=not refused,
        rank=one.rank,
    )


def _purpose(view: RunView, state: knob_state.KnobState) -> str:
    if state.knob == "cache":
        return knobs.note(view.snapshot, state)
    return f"fast: {view.snapshot.manifest.fast_form}" if state.knob == "fast_form" else ""


def _foretold(view: RunView, state: knob_state.KnobState, value: str) -> str:
    """What a key would bring, and of a cache what it needs; empty where nothing is foretold, as in the first steps."""
    told = view.situation.forecasts.get((state.knob, value))
    if told is None or view.situation.stalled:
        return "no forecast while stalled" if told else ""
    if state.knob == "fast_form":
        return f"{foretold_note(told)}, {view.snapshot.manifest.fast_form}" if told.is_known else ""
    if state.knob != "cache":
        return foretold_note(told)
    return foretold_note(told) + knobs.short(view.snapshot, state) if told.is_known else ""


def _note(view: RunView, state: knob_state.KnobState, one: KnobKey, obeyed: bool) -> tuple[str, bool] | None:
    if one is _OF_DEPTH:
        return None
    if view.tried and state.knob in view.tried.decided:
        return f"being tried as it ended; decided: {view.tried.decided[state.knob]}", False
    experiment = view.situation.experiment
    if experiment and not experiment.cut_off and experiment.began.knob == state.knob:
        return f"experiment, {experiment.block_words}", True
    if state.asked is not None:
        if view.is_over:
            return f"asked {state.asked}: the run ended before", False
        return _waiting(view, state, one.key if obeyed else ""), True
    if state.failed:
        return f"not switched: {state.failed}", True
    shown = view.comparisons if view.is_over else _newest(view.comparisons)
    newest = next((one for one in reversed(shown) if one.knob == state.knob), None)
    if newest and newest.step is not None:
        if not newest.settled:
            done = newest.after.steps if newest.after else 0
            return (f"{done} steps, too few to tell" if view.is_over else f"settling, {done} steps", not view.is_over)
        if newest.ratio is not None:
            return (than(newest.ratio, newest.old), False)
    return None


def _newest(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The newest switch, and what was turned at the same step."""
    last = comparisons[-1:]
    return [one for one in comparisons if one is last[0] or (one.step and one.step == last[0].step)]


def _waiting(view: RunView, state: knob_state.KnobState, key: str) -> str:
    """`from epoch 3; c takes it back`, or that there is no such epoch; `asked 10:17:11, waits for the batch in flight`.

    key: beside it stands what was asked for; without one that is told too.
    """
    asked = "asked" if key else f"asked {state.asked}"
    if epochs := epochs_until(state.knob, state.coming):
        begun = sum(event.at_ns / 1e9 <= state.asked_s for event in view.snapshot.events.of(EpochStarted))
        first, last = begun + epochs, view.snapshot.manifest.epochs
        if last and first > last:
            return f"too late: from epoch {first}"
        return f"from epoch {first}; {key} takes it back" if key else f"{asked}, from epoch {first}"
    if view.situation.phase in (Phase.STARTING, Phase.IMPORT, Phase.DATA_SET):
        return f"{asked}, taken up at the start"
    return f"{asked} {clock(view.snapshot, state.asked_s)}, waits for the batch in flight"


def newest_experiment(view: RunView) -> ExperimentEnded | None:
    """The newest experiment that is over; None where a knob was turned since."""
    ended = view.snapshot.events.newest(ExperimentEnded)
    steps = [comparison.asked_step for comparison in view.comparisons]
    return ended if ended and ended.step >= max(steps, default=0) else None


def newest_flight(view: RunView) -> Flight | None:
    """The autopilot's newest flight with a move to tell of; None where a knob was turned by anybody else since."""
    newest = next(reversed(flights(view.snapshot.events.of(*OF_FLIGHTS))), None)
    if newest is None or not newest.moves or (view.comparisons and view.comparisons[-1].by != AUTOPILOT):
        return None
    return newest


# -- log -------------------------------------------------------------------------------------------


def log_lines(view: RunView) -> tuple[str, ...]:
    """The log, and the traceback of a training that failed where the log does not end with it."""
    log = view.snapshot.log
    failed = view.situation.failed
    if failed is None:
        return log
    lines = tuple(failed.traceback.splitlines())
    return log if lines and lines[-1] in log[-len(lines) - 5 :] else (*log, *lines)


_HINT = "no switch yet: p turns prefetch on or off\na tries both in turn, and proves which is faster"


@dataclass(frozen=True, eq=False)
class Panes:
    """The widgets of a live screen that a frame fills."""

    header: RunHeader
    knobs: KnobsPane
    card: CardPane
    pipeline: PipelinePane
    happened: HappeningsPane
    machine: MachinePane
    log: LogPane


class Feeder:
    """Feeds the panes of one screen; one that is hidden is not fed.

    A new pane gets its line here. Figures that change all the time are told once a second, in a frame of their own
    (`Slot`), and words only where they differ: see `widgets/basics/pane.py` for what a frame may cost.
    """

    def __init__(self, panes: Panes) -> None:
        self._panes = panes
        self._happenings = Happenings()
        self._told: tuple[object, ...] = ()
        self._headed: tuple[object, ...] = ()
        self._machined: tuple[object, ...] = ()
        self._staged: tuple[object, ...] = ()

    def feed(self, view: RunView, live: bool) -> None:
        """Hand every pane what is new; live: keys are obeyed."""
        self._feed_figures(view)
        panes = self._panes
        if panes.pipeline.display:
            self._feed_stages(view)
        if panes.knobs.display:
            panes.knobs.knobs = knob_rows(view, live)
            panes.knobs.entitle(knobs_title(view, live), last_words(view.situation.record))
        if panes.card.display:
            panes.card.comparisons = view.comparisons
            panes.card.experiment = newest_experiment(view)
            panes.card.underway = view.situation.experiment
            panes.card.flight = newest_flight(view)
            none_yet = _HINT if live else "no switch in this run yet"
            panes.card.hint = "no switch in this run" if view.is_over else none_yet
        if panes.happened.display:
            self._feed_happenings(view)
        if panes.log.display:
            panes.log.lines = log_lines(view)

    def feed_happenings(self, view: RunView) -> None:
        """Hand on what happened, now."""
        self._panes.happened.happenings = self._happenings.take(view)

    def _feed_figures(self, view: RunView) -> None:
        """Once a second: four times nobody can read them."""
        panes, now_s, header = self._panes, view.snapshot.now_s, header_view(view)
        head = second_of(now_s, Slot.HEADER), view.snapshot.life, header.workload, header.epoch, header.state
        if head != self._headed:
            self._headed = head
            panes.header.view = header
        over = view.energy if view.is_over else None
        machine = second_of(now_s, Slot.MACHINE), view.is_over, over, len(view.snapshot.samples) > 0
        if panes.machine.display and machine != self._machined:
            self._machined = machine
            panes.machine.entitle(machine_title(view))
            panes.machine.readings = readings(view)

    def _feed_stages(self, view: RunView) -> None:
        now = view.situation
        staged = second_of(now.now_s, Slot.SEARCH), view.snapshot.life, now.stages, now.located
        if staged != self._staged:
            self._staged = staged
            self._panes.pipeline.view = pipeline_view(view)

    def _feed_happenings(self, view: RunView) -> None:
        waiting = tuple(state.asked for state in view.knobs.values())
        told = (
            len(view.snapshot.events),
            len(view.stalls),
            len(view.compiles),
            len(view.said),
            view.patterns,
            view.comparisons,
            waiting,
        )
        if told != self._told:
            self._told = told
            self.feed_happenings(view)
