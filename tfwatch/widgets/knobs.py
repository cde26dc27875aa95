"""The knobs: their keys, current values, and what a key would do.

The keys that turn a knob: said once, for the bindings, the footer, the knobs' pane and what undoes a press.

What the cache needs, against what there is.

The knobs: what each stands at, and what its key would do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.knobs import KEYS
from tfwatch.widgets.basics.keyline import Pressed
from tfwatch.widgets.basics.pane import FramedPane
from tfwatch.widgets.basics.text import clauses, column, row, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content
    from textual.geometry import Size

    from tfwatch.analysis.tuning.knob_state import KnobState
    from tfwatch.runs.reader import Snapshot


@dataclass(frozen=True, slots=True)
class KnobKey:
    """A key, as Textual names it, that turns a knob off and on again.

    name: of the knob, in a word. does: what the key does, for the help. purpose: what the knob is; empty where the run
    itself says that. rank: the highest goes first where room is short, in the footer and among the pane's rows.
    in_footer: it stands there too. brief: its name where the footer is short; empty where that is short enough.
    """

    key: str
    knob: str
    name: str
    does: str
    purpose: str
    rank: int
    in_footer: bool = True
    brief: str = ""


PREFETCH = KnobKey(
    KEYS["prefetch"], "prefetch", "prefetch", "prefetch off, or back on", "made while a step runs", 0, brief="pre"
)
#: Each has a row in the knobs' pane; that of prefetch is followed by its depth.
KNOB_KEYS = (
    PREFETCH,
    KnobKey(KEYS["workers"], "workers", "workers", "workers off, or back on", "maps on several cores", 1, brief="work"),
    KnobKey(KEYS["cache"], "cache", "cache", "cache what was made of each example, or forget it", "", 2),
    KnobKey(KEYS["fast_form"], "fast_form", "form", "the pipeline's fast form, or the slow one again", "", 2),
    KnobKey(
        KEYS["latency_ms"], "latency_ms", "latency", "simulated latency off, or back on", "simulated, each batch", 7
    ),
    KnobKey(
        KEYS["shuffle"],
        "shuffle",
        "shuffle",
        "shuffle off, or back on, from the next epoch on",
        "examples in its buffer",
        8,
        False,
    ),
)


def undoes(knob: str) -> str:
    """The key that takes a knob's switch back: its own."""
    return next(one.key for one in KNOB_KEYS if one.knob == knob)


def note(snapshot: Snapshot, state: KnobState) -> str:
    """`needs 338 MB of 16.2 GB`, or `keeps 338 MB` where it is on; empty before the data set is known."""
    needs = snapshot.manifest.cache_bytes
    if needs is None:
        return ""
    if state.coming == "on":
        return f"keeps {units.memory(needs)}"
    return f"needs {units.memory(needs)} of {units.memory(available_bytes(snapshot))}"


def short(snapshot: Snapshot, state: KnobState) -> str:
    """`, 338 MB`: what it needs, behind its forecast; empty where that is not known, or it is on."""
    needs = snapshot.manifest.cache_bytes
    return "" if needs is None or state.coming == "on" else f", {units.memory(needs)}"


def available_bytes(snapshot: Snapshot) -> float | None:
    """The memory that is free, by the newest sample; None before there is one."""
    return float(snapshot.samples[-1]["memory_available_bytes"]) if len(snapshot.samples) else None


#: Cells of a value, of a record by somebody else too: what its key would bring has room behind it.
_LONGEST_VALUE = 12


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One key of the pane.

    key: the key's name to press; label: as it is shown; next: what pressing it asks for, empty where nothing.
    note: what stands beside it; within: a forecast's range, where there is room; busy: asked or settling; enabled: it
    can be pressed; rank: where rows are few the highest goes first.
    """

    key: str
    label: str
    name: str
    now: str
    next: str
    note: str
    within: str = ""
    busy: bool = False
    enabled: bool = True
    rank: int = 0


class KnobsPane(FramedPane, can_focus=True):
    """Rows of knobs; `Pressed` tells the key of the one that was clicked or entered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("enter", "press", "turn this knob", show=False),
    ]

    knobs: reactive[tuple[KnobRow, ...]] = reactive((), repaint=False)
    cursor: reactive[int] = reactive(0, repaint=False)

    watch_cursor = FramedPane.repaint_rows

    def on_mount(self) -> None:
        self.entitle("switch live")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A row a knob."""
        return max(len(self.knobs), 1)

    def watch_knobs(self, old: tuple[KnobRow, ...], new: tuple[KnobRow, ...]) -> None:
        if len(new) != len(old):
            self.refresh(layout=True)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if not self.knobs:
            return [row((" this run has no knobs: the pipeline is the loop's own", "$foreground 65%"))]
        shown = [self.knobs[at] for at in self._in_view(height)]
        names, values, arrows = (
            max(map(cell_len, words), default=0) + gap
            for gap, words in (
                (1, [knob.name for knob in shown if knob.now]),
                (1, [_stands(knob) for knob in shown]),
                (2, [_arrow(knob) for knob in shown]),
            )
        )
        return [self._row(at, width, (names, values, arrows)) for at in self._in_view(height)]

    def _in_view(self, height: int) -> list[int]:
        """Which rows there is room for; the one under the cursor is."""
        kept = list(range(len(self.knobs)))
        while len(kept) > max(height, 1):
            others = (at for at in kept if at != self.cursor or not self.has_focus)
            kept.remove(max(others, key=lambda at: (self.knobs[at].rank, at)))
        return kept

    def _row(self, at: int, width: int, cells: tuple[int, int, int]) -> Content:
        knob = self.knobs[at]
        names, values, arrows = cells
        here = self.has_focus and at == self.cursor
        faint = "" if knob.enabled else "$foreground 50%"
        stands = (column(_stands(knob), values), faint or "bold"), (column(_arrow(knob), arrows), faint)
        name_style = "reverse" if here else faint
        note_style = "$text-accent" if knob.busy else "$foreground 65%"
        found = row(
            (f"{knob.label:<2} ", faint or "$accent bold"),
            (knob.name, name_style),
            " " * max(names - len(knob.name), 1),
            *(stands if knob.now else ()),
        )
        found += row((clauses(knob.note, width - found.cell_length), note_style))
        within = row((f"  ({knob.within})", "$foreground 65%")) if knob.within else row()
        return found + within if found.cell_length + within.cell_length <= width else found

    @property
    def chosen_key(self) -> str:
        """The key of the row under the cursor; empty where there is none."""
        return self.knobs[self.cursor].key if self.cursor < len(self.knobs) else ""

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + rows, 0), max(len(self.knobs) - 1, 0))

    def action_press(self) -> None:
        """Choose the knob under the cursor."""
        self._choose(self.cursor)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        rows = self._in_view(self.content_size.height)
        if at is not None and at.y < len(rows):
            self._choose(rows[at.y])

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _choose(self, at: int) -> None:
        if 0 <= at < len(self.knobs):
            self.cursor = at
            self.post_message(Pressed(self.knobs[at].key))


def _stands(knob: KnobRow) -> str:
    return shortened(knob.now, _LONGEST_VALUE)


def _arrow(knob: KnobRow) -> str:
    return f"> {shortened(knob.next, _LONGEST_VALUE)}" if knob.next else ""
