"""The settings: each knob with its key, its value, its next value, and a note: what happens to it,
its measured effect or its forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.events import EpochStarted
from tfwatch.core.knobs import (
    CACHE,
    KNOBS,
    Knob,
    no_room,
)
from tfwatch.core.rows import Phase
from tfwatch.judge.effects import knob_state
from tfwatch.judge.effects.comparison import ENOUGH_STEPS
from tfwatch.judge.effects.wording import (
    autopilot_parts,
    block_text,
    checked_forecast_text,
    forecast_note,
    interval_text,
    subject_text,
    versus_text,
)
from tfwatch.screens.basics.keyline import Pressed
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import clock, column, row, shorten, shorten_clauses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content
    from textual.geometry import Size

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.knob_state import KnobState
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot


def find_open_switch(view: RunView, live: bool) -> Comparison | None:
    """Return the newest switch where its steps prove no difference and an A/B test can; live: keys
    reach the training.

    None while one runs, and while the new setting lacks steps.
    """
    newest = view.comparisons[-1] if view.comparisons else None
    if newest is None or newest.answer != "unclear" or newest.effect is None or not newest.settled:
        return None
    situation, state = view.situation, view.knobs.get(newest.knob)
    is_busy = (
        bool(situation.experiment or situation.autopilot_run)
        or state is None
        or state.coming != newest.new
    )
    refused = view.refusal(newest.knob, live) or KNOBS[newest.knob].no_test
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

    key: str
    name: str
    #: The current value.
    now: str
    #: The value that the key requests; empty: it requests none.
    next: str
    #: The text beside it.
    note: str
    #: The prediction interval of a forecast, shown where there is room.
    forecast_range: str = ""
    #: A switch is requested or being measured.
    busy: bool = False
    #: The key has an effect.
    enabled: bool = True
    #: Where rows are few, the highest rank goes first.
    rank: int = 0


def knob_rows(view: RunView, live: bool) -> tuple[KnobRow, ...]:
    """Make the rows of the settings: each knob with its key, its value and its next value."""
    rows = list(_knob_rows(view, live))
    if rows and live and view.snapshot.manifest.switchable and not view.is_over:
        autopilot = view.situation.autopilot_run
        note = (
            f"f ends it; {'; '.join(autopilot_parts(autopilot))}"
            if autopilot
            else "finds the fastest settings by itself"
        )
        rows.append(KnobRow("f", "autopilot", "", "", note, busy=autopilot is not None))
    return tuple(rows)


def title(view: RunView, live: bool) -> str:
    """Return the title of the settings; a read-only run, a finished one and an awaited one have
    their own."""
    if view.is_over:
        return "settings at the end of the run"
    if view.awaits_fit:
        return "settings"
    return "live switches" if live else "settings, read only: tfwatch attach has the keys"


def knob_of(key: str) -> str:
    """Return the knob that a row's key switches; empty where it switches none."""
    return next((one.name for one in KNOBS.values() if one.key == key), "")


def _knob_rows(view: RunView, live: bool) -> Iterator[KnobRow]:
    for knob in KNOBS.values():
        if knob.name in view.snapshot.manifest.knobs:
            yield _knob_row(view, live, knob)


def _knob_row(view: RunView, live: bool, knob: Knob) -> KnobRow:
    state = view.knobs[knob.name]
    refused = view.refusal(knob.name, live)
    if knob.name == CACHE:
        refused = refused or cache_refusal(view.snapshot, state)
    can_switch = live and not view.is_over  # else the title gives the reason, not each row
    status = _status(view, state, knob.key if can_switch else "")
    measured = "" if status else _measured(view, state)
    following = knob_state.toggled(state)
    forecast = view.situation.setting.forecasts.get((knob.name, following))
    forecast_text = _forecast_text(view, state, forecast) if can_switch else ""
    purpose = knob.purpose or (_cache_note(view.snapshot, state) if knob.name == CACHE else "")
    is_quiet = bool(status or measured or refused) or view.situation.is_stalled
    is_forecast = forecast is not None and forecast.is_known and can_switch and not is_quiet
    # Beside a measured effect the other value would read as a recommendation.
    shows_next = not refused and not measured and (state.asked or following != state.now)
    return KnobRow(
        key=knob.key,
        name=knob.label,
        now=state.now,
        next=(state.asked or following) if shows_next else "",
        note=(refused if can_switch else "") or status or measured or forecast_text or purpose,
        forecast_range=interval_text(forecast) if forecast and is_forecast else "",
        busy=bool(status) and not refused and not view.is_over,
        enabled=not refused,
        rank=knob.rank,
    )


def _forecast_text(view: RunView, state: KnobState, forecast: Forecast | None) -> str:
    """Return the forecast of a switch, and the memory that a cache needs; empty where there is no
    forecast yet."""
    if forecast is None:
        return ""
    if view.situation.is_stalled:
        return "no forecast while stalled"
    if not forecast.is_known:
        return "" if state.knob == CACHE else forecast_note(forecast)
    needs = view.snapshot.manifest.cache_bytes if state.knob == CACHE else None
    size = "" if needs is None or state.coming == "on" else f", {units.memory(needs)}"
    return f"about {forecast_note(forecast)}{size}"


def _status(view: RunView, state: KnobState, key: str) -> str:
    """Return what happens to a knob: it is requested, tested or measured; empty where nothing does.

    key: its key, where its row shows the requested value; empty where the text has to.
    """
    experiment = view.situation.experiment
    if experiment and experiment.began.knob == state.knob:
        return f"A/B test, {block_text(experiment)}"
    if state.asked is not None:
        if view.is_over:
            return f"requested {state.asked}: the run ended first"
        return _waiting(view, state, key)
    if state.failed:
        return f"switch failed: {state.failed}"
    newest = _newest_of(view, state)
    if newest and not newest.settled:
        done = newest.after.steps if newest.after else 0
        return (
            f"{'not enough steps' if view.is_over else 'measuring'}: {done} of {ENOUGH_STEPS} steps"
        )
    return ""


def _measured(view: RunView, state: KnobState) -> str:
    newest = _newest_of(view, state)
    return versus_text(newest) if newest and newest.effect is not None else ""


def _newest_of(view: RunView, state: KnobState) -> Comparison | None:
    """Return the knob's newest switch whose new setting has steps; None where another knob was
    switched since, but not in a run that is over."""
    shown = view.comparisons if view.is_over else _newest(view.comparisons)
    newest = next((one for one in reversed(shown) if one.knob == state.knob), None)
    return newest if newest and newest.step is not None else None


def _newest(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the newest switch, and the other switches at the same step."""
    last = comparisons[-1:]
    return [one for one in comparisons if one.step == last[0].step]


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


def available_bytes(snapshot: Snapshot) -> float | None:
    """Return the free memory of the newest sample; None before the first sample."""
    return float(snapshot.samples[-1]["memory_available_bytes"]) if len(snapshot.samples) else None


#: The widest value, cells: the forecast behind it needs the room.
_LONGEST_VALUE = 12
_NONE = "no settings to switch: the loop has its own pipeline"
_AWAITED = "the settings appear with the first fit"


class KnobsPane(FramedPane, can_focus=True):
    """The knobs in rows; a row that is entered, or clicked twice, posts `Pressed` with its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("enter", "press", "switch this knob", show=False),
    ]

    knobs: reactive[tuple[KnobRow, ...]] = reactive((), repaint=False)
    cursor: reactive[int] = reactive(0, repaint=False)
    #: The row of the last click, until the pane loses the focus.
    _clicked: int | None = None
    #: The text without any knob.
    _none: str = _NONE

    watch_cursor = FramedPane.repaint_rows

    def on_mount(self) -> None:
        self.set_titles("live switches")

    def show(self, view: RunView) -> None:
        """Show the settings of a view."""
        live = view.situation.live
        self._none = _AWAITED if view.awaits_fit else _NONE
        self.knobs = knob_rows(view, live)
        self.set_titles(title(view, live), checked_forecast_text(view.situation.record))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return one row per knob."""
        return max(len(self.knobs), 1)

    def watch_knobs(self, old: tuple[KnobRow, ...], new: tuple[KnobRow, ...]) -> None:
        if len(new) != len(old):
            self.refresh(layout=True)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if not self.knobs:
            return [row((f" {self._none}", "$foreground 65%"))]
        at_rows = self._in_view(height)
        cells = _column_cells([self.knobs[at] for at in at_rows])
        return [self._row(at, width, cells) for at in at_rows]

    def _in_view(self, height: int) -> list[int]:
        """Return the rows that fit; the row under the cursor always does."""
        kept = list(range(len(self.knobs)))
        while len(kept) > max(height, 1):
            others = (at for at in kept if at != self.cursor or not self.has_focus)
            kept.remove(max(others, key=lambda at: (self.knobs[at].rank, at)))
        return kept

    def _row(self, at: int, width: int, cells: tuple[int, int, int]) -> Content:
        knob = self.knobs[at]
        names, values, arrows = cells
        here = self.has_focus and at == self.cursor
        faint = "" if knob.enabled else "$foreground 65%"
        following = column(_next_text(knob), arrows) if knob.next else " "
        value_parts = (column(_value_text(knob), values), faint or "bold"), (following, faint)
        name_style = "reverse" if here else faint
        note_style = "$text-accent" if knob.busy else "$foreground 65%"
        content = row(
            (f"{knob.key:<2} ", faint or "$accent bold"),
            (knob.name, name_style),
            " " * max(names - len(knob.name), 1),
            *(value_parts if knob.now else ()),
        )
        room = width - content.cell_length
        note = knob.note if cell_len(knob.note) <= room else knob.note.removeprefix("about ")
        content += row((shorten_clauses(note, room), note_style))
        interval = (
            row((f"  ({knob.forecast_range})", "$foreground 65%")) if knob.forecast_range else row()
        )
        return (
            content + interval if content.cell_length + interval.cell_length <= width else content
        )

    @property
    def chosen_key(self) -> str:
        """The key of the row under the cursor; empty without one."""
        return self.knobs[self.cursor].key if self.cursor < len(self.knobs) else ""

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + rows, 0), max(len(self.knobs) - 1, 0))

    def action_press(self) -> None:
        """Press the key of the row under the cursor."""
        self._choose(self.cursor)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        rows = self._in_view(self.content_size.height)
        if at is not None and 0 <= at.y < len(rows):
            self._select_or_choose(rows[at.y])

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self._clicked = None
        self.refresh()

    def _select_or_choose(self, at: int) -> None:
        """Select a row at the first click, press its key at the next."""
        if at == self._clicked:
            self._choose(at)
        self.cursor = self._clicked = at

    def _choose(self, at: int) -> None:
        if 0 <= at < len(self.knobs):
            self.cursor = at
            self.post_message(Pressed(self.knobs[at].key))


def _column_cells(knobs: Sequence[KnobRow]) -> tuple[int, int, int]:
    """Return the cells of the names, the values and the next values."""
    names = [knob.name for knob in knobs if knob.now]
    columns = ((1, names), (1, map(_value_text, knobs)), (1, map(_next_text, knobs)))
    name, value, following = (max(map(cell_len, texts), default=0) + gap for gap, texts in columns)
    return name, value, following


def _value_text(knob: KnobRow) -> str:
    return shorten(knob.now, _LONGEST_VALUE)


def _next_text(knob: KnobRow) -> str:
    return f"next: {shorten(knob.next, _LONGEST_VALUE)}" if knob.next else ""
