"""The card: did the newest switch, A/B test or autopilot help? The steps before and after it are
bars on one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import AUTOPILOT, ExperimentEnded
from tfwatch.judge.effects import wording
from tfwatch.judge.effects.tuner_events import AUTOPILOT_EVENTS, autopilot_runs
from tfwatch.judge.effects.wording import LABEL
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, HOST_COLOUR, QUIET_COLOUR, WAIT_COLOUR
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import column, row
from tfwatch.screens.live.knobs import experiment_offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.tuner_events import AutopilotRun
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.judge.view import RunView
    from tfwatch.screens.basics.text import Part

_TITLE = "did it help?"
_HINT = (
    "no switch yet: p switches prefetch on or off",
    "a runs an A/B test and shows which setting is faster",
)
_NONE = ("no setting to switch, so nothing to compare",)
_PAINT = (WAIT_COLOUR, COMPUTE_COLOUR, HOST_COLOUR)
#: The same where no difference is proved.
_FADED = (f"{WAIT_COLOUR} 45%", f"{COMPUTE_COLOUR} 45%", "$foreground 25%")


@dataclass(frozen=True, slots=True)
class Side:
    """A setting and its step."""

    label: str
    #: Data wait, compute and host of the step; None before it has steady steps.
    parts_ms: tuple[float, float, float] | None
    figure: str
    #: Follows the figure where there is room.
    more: str = ""


@dataclass(frozen=True, slots=True)
class CardContent:
    """The content of the card."""

    #: The result, in the frame.
    note: str = ""
    sides: tuple[Side, ...] = ()
    paint: tuple[str, str, str] = _PAINT
    lines: tuple[Part, ...] = ()
    #: The names of the bars' parts, with their milliseconds on both sides.
    legend: tuple[str, ...] = ()


def card_content(view: RunView) -> CardContent:
    """Make the content of the card: of the test that runs, else of what came last."""
    if running := view.situation.experiment:
        tested = wording.subject_text(running.began.knob, running.began.values)
        lines = (f"A/B test: {tested}", "bold"), (wording.experiment_progress(running), "bold")
        return CardContent("runs until the answer is clear", lines=lines)
    if ended := _newest_experiment(view):
        return _of_experiment(ended)
    if run := _newest_autopilot_run(view):
        return _of_autopilot(run)
    if view.comparisons:
        return _of_switch(view.comparisons[-1], experiment_offer(view, view.situation.live))
    return CardContent(lines=tuple((line, QUIET_COLOUR) for line in _hint(view)))


def _hint(view: RunView) -> tuple[str, ...]:
    if view.is_over or not view.situation.live:
        return ("no switch in this run" if view.is_over else "no switch in this run yet",)
    return _HINT if view.snapshot.manifest.switchable or view.awaits_fit else _NONE


def _newest_experiment(view: RunView) -> ExperimentEnded | None:
    """Return the newest finished A/B test; None where a switch followed it."""
    ended = view.snapshot.events.newest(ExperimentEnded)
    steps = [comparison.asked_step for comparison in view.comparisons]
    return ended if ended and ended.step >= max(steps, default=0) else None


def _newest_autopilot_run(view: RunView) -> AutopilotRun | None:
    """Return the newest run of the autopilot, if it has moves and no other switch followed it."""
    runs = autopilot_runs(view.snapshot.events.of(*AUTOPILOT_EVENTS))
    is_last = not view.comparisons or view.comparisons[-1].by == AUTOPILOT
    return runs[-1] if runs and runs[-1].moves and is_last else None


def _of_experiment(ended: ExperimentEnded) -> CardContent:
    sides = (
        _whole_side(wording.setting_text(ended.knob, value), ms)
        for value, ms in ended.step_ms.items()
    )
    paint = _PAINT if _is_proved(ended.answer) else _FADED
    subject = wording.subject_text(ended.knob, ended.values)
    lines = ((f"{subject}: {wording.kept_text(ended)}", QUIET_COLOUR),)
    return CardContent(wording.answer_text(ended), tuple(sides), paint, lines)


def _of_autopilot(run: AutopilotRun) -> CardContent:
    at_end = "now" if run.ended is None else "at the end"
    pairs = ("at the start", run.before_ms), (at_end, run.after_ms)
    sides = (_whole_side(label, ms) for label, ms in pairs if ms is not None)
    is_proved = run.estimate is not None and _is_proved(run.estimate.answer)
    lines = tuple((wording.move_line(move), QUIET_COLOUR) for move in reversed(run.moves))
    paint = _PAINT if is_proved else _FADED
    return CardContent(f"autopilot: {wording.autopilot_text(run)}", tuple(sides), paint, lines)


def _whole_side(label: str, took_ms: float) -> Side:
    return Side(label, (0.0, took_ms, 0.0), units.milliseconds(took_ms))


def _of_switch(switch: Comparison, offer: str) -> CardContent:
    sides = (
        _switch_side(switch, switch.old, switch.before),
        _switch_side(switch, switch.new, switch.after),
    )
    paint = _PAINT
    if switch.estimate is not None and not _is_proved(switch.answer):
        paint = (WAIT_COLOUR, *_FADED[1:]) if switch.has_other_wait else _FADED
    lines = ((offer, "$text-accent"),) if offer else ()
    legend = tuple(wording.part_texts(switch))
    return CardContent(wording.outcome_text(switch), sides, paint, lines, legend)


def _switch_side(switch: Comparison, value: str, side: Breakdown | None) -> Side:
    label = wording.setting_text(switch.knob, value)
    if side is None:
        return Side(label, None, f"no steady steps {'yet' if value == switch.new else 'before it'}")
    step_ms = switch.typical(side.step)
    wait, compute, host = map(switch.typical, (side.wait, side.compute, side.host))
    figure = f"{'mean ' if switch.in_bursts else ''}{units.milliseconds(step_ms)}"
    share = wait / step_ms if step_ms > 0 else 0.0
    return Side(label, (wait, compute, host), figure, f", starving {units.percent(share)}")


def _is_proved(answer: str) -> bool:
    return answer in ("faster", "slower")


class CardPane(FramedPane):
    """Shows an `CardContent`."""

    DEFAULT_CSS = """
    CardPane { border-subtitle-style: bold; border-subtitle-color: $text-accent; }
    """

    content: reactive[CardContent] = reactive(CardContent(), repaint=False)

    _shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.set_titles(_TITLE)

    def show(self, view: RunView) -> None:
        """Show the effect of the newest switch of a view, once a second and with each event."""
        second = second_of(view.snapshot.now_s, Slot.SEARCH)
        key = second, view.is_over, len(view.snapshot.events)
        if key != self._shown:
            self._shown, self.content = key, card_content(view)

    def watch_content(self) -> None:
        self.set_titles(_TITLE, self.content.note)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        effect = self.content
        lines = self._bars(width)
        if self.has_class("-bare") and effect.sides:  # no frame shows the result
            lines.append(row((effect.note, "bold")))
        lines += [row(line) for line in effect.lines]
        return [*lines, self._legend()] if effect.legend else lines

    def _bars(self, width: int) -> list[Content]:
        sides = self.content.sides
        label = max((LABEL, *(cell_len(side.label) + 1 for side in sides)))
        has_room = width >= label + 44
        longest = max((sum(side.parts_ms or ()) for side in sides), default=0.0)
        lines = []
        for side in sides:
            figure = f" {side.figure}{side.more if has_room else ''}"
            room = max(8, width - label - max(9, len(figure)))
            bar = self._bar(side.parts_ms, room / longest if longest > 0 else 0.0)
            style = "$foreground 65%" if side.parts_ms is None else "bold"
            lines.append(row((column(side.label, label), "bold"), *bar, (figure, style)))
        return lines

    def _bar(self, parts_ms: tuple[float, ...] | None, cells_a_ms: float) -> list[Part]:
        if parts_ms is None:
            return []
        wait, _, host = (round(part * cells_a_ms) for part in parts_ms)
        total = round(sum(parts_ms) * cells_a_ms)
        wait = min(wait, total)
        host = min(host, total - wait)
        cells = wait, total - wait - host, host
        pairs = zip(self._glyphs_of_parts, cells, self.content.paint, strict=True)
        return [(glyph * count, style) for glyph, count, style in pairs]

    @property
    def _glyphs_of_parts(self) -> tuple[str, str, str]:
        return self.glyphs.wait, self.glyphs.compute, self.glyphs.host

    def _legend(self) -> Content:
        effect = self.content
        named = zip(self._glyphs_of_parts, effect.paint, effect.legend, strict=True)
        pieces = [row((char, style), (f" {words}", QUIET_COLOUR)) for char, style, words in named]
        return Content(" ").join(pieces)
