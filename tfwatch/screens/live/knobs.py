"""The switches: each knob with its key, its value, its next value and a note, which is what happens
to it, or its forecast; below them the effect of the newest switch, A/B test or autopilot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.events import (
    AUTOPILOT,
    ExperimentEnded,
    PipelineSwitched,
)
from tfwatch.core.knobs import (
    AUTO,
    CACHE,
    DEFAULT,
    DEVICE_PREFETCH,
    KNOBS,
    MULTIPROCESSING,
    OFF,
    WAIT,
    WORKERS,
    Knob,
    Refusal,
    no_room,
)
from tfwatch.core.rows import Phase
from tfwatch.judge.effects import switching_state
from tfwatch.judge.effects.comparison import LEAST
from tfwatch.judge.effects.switching_state import AUTOPILOT_EVENTS, autopilot_runs
from tfwatch.judge.effects.wording import (
    autopilot_brief,
    autopilot_parts,
    autopilot_text,
    block_text,
    forecast_note,
    gain_text,
    has_times_of,
    kept_text,
    outcome_text,
    subject_text,
)
from tfwatch.judge.findings.switch_lines import key_text, workers_of
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.screens.pane import FramedPane
from tfwatch.screens.text import (
    QUIET_COLOUR,
    column,
    row,
    shorten,
    shorten_clauses,
    wrap_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.switching_state import KnobState
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot


def find_testable_switch(view: RunView) -> Comparison | None:
    """Return the newest switch where an A/B test can repeat it."""
    newest = view.comparisons[-1] if view.comparisons else None
    if newest is None or KNOBS[newest.knob].no_test:
        return None
    return None if view.snapshot.manifest.epochs_until(newest.knob, newest.new) else newest


def cache_refusal(snapshot: Snapshot, state: KnobState) -> str:
    """Return the reason why a cache does not fit into memory; empty where it fits, or is already
    on."""
    if state.coming == "on":
        return ""
    samples = snapshot.samples
    available = float(samples[-1]["memory_available_bytes"]) if len(samples) else None
    return no_room(snapshot.manifest.cache_bytes, available)


@dataclass(frozen=True, slots=True)
class KnobRow:
    """A row of the pane."""

    key: str
    name: str
    #: The current value.
    now: str
    #: The value that the key requests; empty: it requests none.
    next: str
    #: The text beside it.
    note: str
    #: A switch is requested or being measured.
    busy: bool = False
    #: The key has an effect.
    enabled: bool = True
    #: It is the advised switch, was switched, or is being switched: else it is folded away.
    matters: bool = False


def knob_rows(view: RunView, live: bool) -> tuple[KnobRow, ...]:
    """Make the rows of the settings: each knob with its key, its value and its next value."""
    shown = view.snapshot.manifest.knobs
    rows = [_knob_row(view, live, knob) for knob in KNOBS.values() if knob.name in shown]
    can_switch = view.snapshot.manifest.switchable and not view.run_refusal(live)
    if rows and can_switch:
        is_busy = view.situation.autopilot_run is not None
        note = _autopilot_note(view)
        rows.append(KnobRow("f", "autopilot", "", "", note, busy=is_busy, matters=True))
    return tuple(rows)


def _autopilot_note(view: RunView) -> str:
    """Return what the autopilot does, or has found for the settings and the regime that still
    last; else its purpose."""
    if running := view.situation.autopilot_run:
        return f"f ends it; {'; '.join(autopilot_parts(running))}"
    events, regime = view.snapshot.events, view.situation.regime
    newest = next(iter(reversed(autopilot_runs(events.of(*AUTOPILOT_EVENTS)))), None)
    ended = newest.ended if newest else None
    switched = events.newest(PipelineSwitched)
    is_new = ended is None or (regime.cause == "cache" and regime.begin_ns > ended.at_ns)
    # What it takes back itself is switched after its end.
    is_switched = ended and switched and switched.by != AUTOPILOT and switched.at_ns > ended.at_ns
    if newest is None or is_new or is_switched:
        return "finds the fastest settings by itself"
    return autopilot_brief(newest)


#: The note beside a value of the script's own.
_AS_WRITTEN = "as in the script, with what TensorFlow adds"
#: The note beside a knob that asks first.
_ASKS = "other random draws: asks"


def _knob_row(view: RunView, live: bool, knob: Knob) -> KnobRow:
    state = view.knobs[knob.name]
    asks = live and view.snapshot.manifest.needs_consent(knob.name)
    refused = view.run_refusal(live) if asks else view.refusal(knob.name, live)
    if knob.name == CACHE:
        refused = refused or cache_refusal(view.snapshot, state)
    # Else the title gives the reason, not each row.
    can_switch = live and not view.is_over
    status = _status(view, state) if can_switch else ""
    following = switching_state.toggled(state)
    forecast = view.situation.forecasts.get((knob.name, following))
    is_forecast = can_switch and not (refused or status or view.situation.is_stalled)
    forecast_text = _forecast_text(view, state, forecast) if forecast and is_forecast else ""
    if asks and can_switch:
        forecast_text = "; ".join(filter(None, (forecast_text, _ASKS)))
    # A measurement beside other settings comes before a forecast too.
    is_slower = view.situation.better.get((knob.name, following)) == state.now
    gains = not is_slower and (forecast is None or not forecast.is_known or forecast.has_gain)
    shows_next = not refused and (state.asked or (following != state.now and gains))
    if forecast and forecast_text and not gains:
        is_forecast = forecast.is_sure and forecast.differs and not forecast.measured
        text = f"{'about ' if is_forecast else ''}{gain_text(forecast)}"
        text = "measured slower" if is_slower and not forecast.measured else text
        forecast_text = f"{following}: {text}"
        forecast_text = _other_key(view, state) or forecast_text
    is_advised = view.finding.advises(knob)
    is_newest = any(one.knob == knob.name for one in view.comparisons[-1:])
    is_switched = is_newest or state.now != view.snapshot.manifest.knobs.get(knob.name)
    is_busy = bool(status) and not refused
    return KnobRow(
        key=knob.key,
        name=knob.label,
        now=_count_of_auto(view, state, state.now),
        next=_count_of_auto(view, state, state.asked or following) if shows_next else "",
        note=(refused if can_switch else "")
        or status
        or forecast_text
        or (_AS_WRITTEN if state.now == DEFAULT else knob.purpose),
        busy=is_busy,
        enabled=not refused,
        matters=is_advised or is_switched or is_busy,
    )


def _count_of_auto(view: RunView, state: KnobState, value: str) -> str:
    """Return the value, of the workers of a `PyDataset` `auto: 4`."""
    of_py_dataset = MULTIPROCESSING in view.snapshot.manifest.knobs
    is_counted = of_py_dataset and (state.knob, value) == (WORKERS, AUTO)
    return f"{value}: {workers_of(view.situation, value)}" if is_counted else value


def _other_key(view: RunView, state: KnobState) -> str:
    """Return `+ depth 2 → 4: 1.3 x`, where the banner names another key of the knob; else empty."""
    advised = view.finding.forecast
    if not isinstance(advised, Forecast) or advised.knob != state.knob:
        return ""
    return f"{key_text(advised, state.now)}: {gain_text(advised)}"


def _forecast_text(view: RunView, state: KnobState, forecast: Forecast) -> str:
    text = forecast_note(forecast)
    if state.knob != CACHE:
        return text
    needs = view.snapshot.manifest.cache_bytes
    size = f"needs {units.memory(needs)}" if needs is not None and state.coming != "on" else ""
    return ", ".join(filter(None, (text if forecast.is_known else "", size)))


def _status(view: RunView, state: KnobState) -> str:
    experiment = view.situation.experiment
    if experiment and experiment.began.knob == state.knob:
        return f"A/B test, {block_text(experiment)}"
    if state.asked is not None:
        return _waiting(view, state)
    return f"switch failed: {state.failed}" if state.failed else ""


def _waiting(view: RunView, state: KnobState) -> str:
    """Return `requested, from epoch 3`, or `requested, waits for the current batch`. A prefetch to
    the device waits longer the first time: for 6 s with ResNet50."""
    if deferred := view.situation.deferred.get(state.knob):
        return deferred[1]
    if view.situation.phase is Phase.STARTING:
        return "requested, applies at start"
    is_built_first = state.knob == DEVICE_PREFETCH and state.coming != OFF
    until = "until the step is built" if is_built_first else "for the current batch"
    return f"requested, waits {until}"


def effect_lines(view: RunView) -> list[str]:
    """Return the effect of what came last, a switch, an A/B test or the autopilot's moves, in a
    sentence and with the steps before and after; empty without one, and while a test runs."""
    switch = view.comparisons[-1] if view.comparisons else None
    ended = view.snapshot.events.newest(ExperimentEnded)
    if view.situation.experiment:
        return []
    if ended and (switch is None or ended.step >= switch.asked_step):
        return [f"{subject_text(ended.knob, ended.values)}: {kept_text(ended)}"]
    runs = autopilot_runs(view.snapshot.events.of(*AUTOPILOT_EVENTS))
    if runs and runs[-1].moves and (switch is None or switch.by == AUTOPILOT):
        return [f"autopilot: {autopilot_text(runs[-1])}"]
    if switch is None:
        return []
    return [f"{switch.change.words}: {outcome_text(switch, has_steps=False)}", _sides(switch)]


def _sides(switch: Comparison) -> str:
    """Return `23.4 → 13.9 ms/step, data wait 41 → 1 %`, without the data wait where the outcome
    has it; empty below 20 steady steps on a side: the first ones take what the buffers hold."""
    sides = [side for side in (switch.before, switch.after) if side and side.steps >= LEAST]
    if len(sides) < 2:
        return ""
    before_ms, after_ms = (switch.typical(side.step) for side in sides)
    old, new = units.in_one_unit(before_ms, after_ms)
    shares = [switch.typical(side.wait) / max(switch.typical(side.step), 1e-9) for side in sides]
    waits = (
        ""
        if has_times_of(switch, WAIT)
        else f", data wait {100 * shares[0]:.0f} → {units.percent(shares[1])}"
    )
    return f"{'mean ' if switch.in_bursts else ''}{old} → {new} a step{waits}"


#: The widest value, cells: the forecast behind it needs the room.
_LONGEST_VALUE = 12
_NONE = f"no settings to switch: {Refusal.OWN_PIPELINE.words}"
_AWAITED = "the settings appear with the first fit"
_HINT = "no switch yet; a proves a switch by an A/B test"


class KnobsPane(FramedPane):
    """The knobs in rows: their keys switch them. Below: the effect of the newest switch."""

    TITLE = "live switches"

    #: Only the settings that matter now are shown; the key 1 shows all.
    folded: reactive[bool] = reactive(False, repaint=False)
    #: The rows of the settings.
    knobs: tuple[KnobRow, ...] = ()

    watch_folded = FramedPane.repaint_rows

    def news(self, view: RunView) -> object:
        """Return the settings, and the newest switch and the events, with which their effect
        changes."""
        self.knobs = knob_rows(view, view.situation.live)
        newest = view.comparisons[-1:]
        return self.knobs, view.awaits_fit, newest, view.is_over, len(view.snapshot.events)

    def take_news(self, view: RunView) -> None:
        super().take_news(view)
        if view.is_over:
            self.set_titles("settings at the end of the run")
        elif view.awaits_fit:
            self.set_titles("settings")
        elif view.situation.live:
            self.set_titles("live switches")
        else:
            self.set_titles("settings, read only: tfwatch attach has the keys")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        view = self.view
        if view is None or not self.knobs:
            text = _AWAITED if view and view.awaits_fit else _NONE
            return [row((f" {text}", QUIET_COLOUR))]
        shown = [one for one in self.knobs if not self.folded or one.matters]
        names, values, following = (
            max(map(cell_len, texts)) + 1
            for texts in (
                [knob.name for knob in self.knobs],
                [_value_text(knob) for knob in self.knobs],
                [_next_text(knob) for knob in self.knobs],
            )
        )
        knobs = [_row(knob, width, (names, values, following)) for knob in shown]
        if hidden := len(self.knobs) - len(shown):
            more = f"{'all' if hidden == len(self.knobs) else 'more'} settings"
            knobs.append(row(("1  ", "$accent bold"), (more, QUIET_COLOUR)))
        effect = [
            row((line, QUIET_COLOUR if at else "bold"))
            for at, text in enumerate(effect_lines(view) or ("", _hint(view)))
            for line in wrap_text(text, width)
        ]
        gap = [Content()] * (height > len(knobs) + len(effect))
        return [*knobs, *gap, *effect][: max(height, 1)]


def _hint(view: RunView) -> str:
    if view.is_over or not view.situation.live:
        return "no switch in this run" if view.is_over else "no switch in this run yet"
    if refused := view.run_refusal(live=True):
        return f"no switch yet: {refused}"
    is_idle = view.snapshot.manifest.switchable and not view.situation.experiment
    return _HINT if is_idle else ""


def _row(knob: KnobRow, width: int, cells: tuple[int, int, int]) -> Content:
    names, values, following = cells
    faint = "" if knob.enabled else QUIET_COLOUR
    content = row((f"{knob.key:<2} ", faint or "$accent bold"), (column(knob.name, names), faint))
    if knob.now:
        content += row(
            (column(_value_text(knob), values), faint or "bold"),
            (column(_next_text(knob), following) if knob.next else " ", faint),
        )
    room = width - content.cell_length
    note = knob.note if cell_len(knob.note) <= room else knob.note.removeprefix("about ")
    style = "$text-accent" if knob.busy else QUIET_COLOUR
    return content + row((shorten_clauses(note, room), style))


def _value_text(knob: KnobRow) -> str:
    return shorten(knob.now, _LONGEST_VALUE)


def _next_text(knob: KnobRow) -> str:
    return f"next: {shorten(knob.next, _LONGEST_VALUE)}" if knob.next else ""
