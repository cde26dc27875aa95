"""Did it help: the step before and after a switch, on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive

from tfwatch.analysis.tuning import search_text, switch_text
from tfwatch.analysis.tuning.comparison import Restart
from tfwatch.analysis.tuning.switch_text import LABEL
from tfwatch.core import units
from tfwatch.widgets.basics.glyphs import COMPUTE_COLOUR, HOST_COLOUR, WAIT_COLOUR
from tfwatch.widgets.basics.pane import FramedPane
from tfwatch.widgets.basics.text import column, row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.analysis.tuning.search_text import Flight, Underway
    from tfwatch.core.events import ExperimentEnded

#: So many older comparisons are listed below the newest, at most.
_OLDER = 50


class CardPane(FramedPane):
    """The newest comparison as two stacked bars, the older ones a line each.

    Attributes:
        comparisons: oldest first.
        experiment: the newest one that is over, where no switch came after it: it stands first. underway: one that
            goes on.
        flight: the autopilot's newest, where no other switch came after it: so does that. It has moves.
        hint: what is said before the first switch.
    """

    DEFAULT_CSS = """
    CardPane { border-subtitle-style: bold; border-subtitle-color: $text-accent; }
    """

    comparisons: reactive[tuple[Comparison, ...]] = reactive((), repaint=False)
    experiment: reactive[ExperimentEnded | None] = reactive(None, repaint=False)
    underway: reactive[Underway | None] = reactive(None, repaint=False)
    flight: reactive[Flight | None] = reactive(None, repaint=False)
    hint: reactive[str] = reactive("", repaint=False)

    watch_hint = FramedPane.repaint_rows

    def on_mount(self) -> None:
        self.entitle("did it help?")

    def watch_comparisons(self) -> None:
        self._head()

    def watch_experiment(self) -> None:
        self._head()

    def watch_underway(self) -> None:
        self._head()

    def watch_flight(self) -> None:
        self._head()

    def _head(self) -> None:
        note = switch_text.outcome(self.comparisons[-1]) if self.comparisons else ""
        if self.underway:
            note = self.underway.outlook
        elif self.experiment:
            note = search_text.answer(self.experiment)
        elif self.flight:
            note = search_text.gave(self.flight)
        self.entitle("did it help?", note)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.underway:
            words = f"experiment: {self.underway.subject}", self.underway.progress
            return [row((line, "bold")) for line in words]
        if self.flight and not self.experiment:
            return self._flown(self.flight, width, height)
        if self.experiment:
            return self._tried(self.experiment, width)
        if not self.comparisons:
            return [row((line, "$foreground 65%")) for line in self.hint.split("\n")]
        newest = self.comparisons[-1]
        longest = switch_text.longest_ms(newest)
        lines = [self._bar(newest, newest.old, newest.before, longest, width)]
        lines.append(self._bar(newest, newest.new, newest.after, longest, width))
        if self.has_class("-bare") and newest.step is not None:
            lines.append(row((switch_text.outcome(newest), "bold")))
        lines.append(self._legend(newest))
        if isinstance(newest, Restart):
            lines.append(row((f"restarted: {switch_text.turned(newest.changes)}", "$foreground 65%")))
        older = reversed(self.comparisons[:-1][-_OLDER:])
        return [*lines, *(row((switch_text.in_a_line(old), "$foreground 65%")) for old in older)]

    def _tried(self, ended: ExperimentEnded, width: int) -> list[Content]:
        """An experiment: a bar a setting, then what it proved, then the switches before it."""
        lines = self._steps({switch_text.setting(ended.knob, value): ms for value, ms in ended.step_ms.items()}, width)
        whole = self.has_class("-bare")  # else the frame tells what it proved
        proved = search_text.in_a_line(ended) if whole else search_text.how(ended)
        lines.append(row((proved, "bold" if whole else "$foreground 65%")))
        older = reversed(self.comparisons[-_OLDER:])
        return [*lines, *(row((switch_text.in_a_line(old), "$foreground 65%")) for old in older)]

    def _flown(self, flight: Flight, width: int, height: int) -> list[Content]:
        """A flight: the step as it began and as it is, then each move with its forecast, the newest first."""
        sides = {"as it began": flight.before_ms, "now" if flight.ended is None else "at its end": flight.after_ms}
        lines = self._steps({side: step_ms for side, step_ms in sides.items() if step_ms is not None}, width)
        if self.has_class("-bare"):
            lines.append(row((search_text.gave(flight), "bold")))
        moves = [row((search_text.move_line(move), "$foreground 65%")) for move in reversed(flight.moves)]
        return [*lines, *moves]

    def _steps(self, step_ms: Mapping[str, float], width: int) -> list[Content]:
        """A bar for each of several steps' times."""
        longest = max(step_ms.values(), default=0.0)
        lines = []
        for label, took_ms in step_ms.items():
            figure = f" {units.milliseconds(took_ms)}"
            cells = round(max(8, width - LABEL - len(figure)) * took_ms / longest) if longest > 0 else 0
            lines.append(
                row((column(label, LABEL), "bold"), (self.glyphs.compute * cells, COMPUTE_COLOUR), (figure, "bold"))
            )
        return lines

    def _bar(self, switch: Comparison, value: str, side: Breakdown | None, longest: float, width: int) -> Content:
        label = column(switch_text.label(switch, value), LABEL)
        if side is None:
            return row((label, "bold"), (switch_text.missing(switch, value), "$foreground 65%"))
        step_ms = switch.typical(side.step)
        figure = f" {'mean ' if switch.in_bursts else ''}{switch_text.duration(switch, step_ms)}"
        starving = f", starving {units.percent(side.wait_share)}"
        figure += starving if width >= LABEL + 44 else ""
        cells = switch_text.cells(side, step_ms, longest, max(8, width - LABEL - max(9, len(figure))))
        glyphs = self.glyphs
        parts = zip(cells, _PAINT, (glyphs.wait, glyphs.compute, glyphs.host), strict=True)
        return row((label, "bold"), *((char * count, style) for count, style, char in parts), (figure, "bold"))

    def _legend(self, switch: Comparison) -> Content:
        """What the cells stand for, with what they take on both sides."""
        glyphs = self.glyphs
        named = zip((glyphs.wait, glyphs.compute, glyphs.host), _PAINT, switch_text.parts(switch), strict=True)
        pieces = [row((char, style), (f" {words}", "$foreground 65%")) for char, style, words in named]
        return Content(" ").join(pieces)


_PAINT = (WAIT_COLOUR, COMPUTE_COLOUR, HOST_COLOUR)
