"""The effect of a switch: the step before and after it as bars on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.events import AUTOPILOT, ExperimentEnded
from tfwatch.judge.effects import wording
from tfwatch.judge.effects.tuner_events import AUTOPILOT_EVENTS, autopilot_runs
from tfwatch.judge.effects.wording import LABEL
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, HOST_COLOUR, QUIET_COLOUR, WAIT_COLOUR
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import column, row
from tfwatch.screens.live.settings.knob_rows import experiment_offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.tuner_events import AutopilotRun, RunningExperiment
    from tfwatch.judge.steps.verdict import Breakdown
    from tfwatch.judge.view import RunView

#: Older comparisons below the newest, at most.
_OLDER = 50
_TITLE = "did it help?"
_HINT = (
    "no switch yet: p switches prefetch on or off\na runs an A/B test and shows which setting is"
    " faster"
)
_NONE = "no setting to switch, so nothing to compare"


class CardPane(FramedPane, can_focus=True):
    """The newest comparison as two stacked bars, the older ones in a line each."""

    DEFAULT_CSS = """
    CardPane { border-subtitle-style: bold; border-subtitle-color: $text-accent; }
    """

    #: Oldest first.
    comparisons: reactive[tuple[Comparison, ...]] = reactive((), repaint=False)
    #: The newest finished one where no switch followed it; it comes first.
    experiment: reactive[ExperimentEnded | None] = reactive(None, repaint=False)
    #: The one that runs now.
    running_experiment: reactive[RunningExperiment | None] = reactive(None, repaint=False)
    #: The newest with moves where no other switch followed it; it comes first.
    autopilot_run: reactive[AutopilotRun | None] = reactive(None, repaint=False)
    #: The key that answers the newest comparison where it proves no difference; else empty.
    offer: reactive[str] = reactive("", repaint=False)
    #: The text before the first switch.
    hint: reactive[str] = reactive("", repaint=False)

    watch_hint = watch_offer = FramedPane.repaint_rows

    def on_mount(self) -> None:
        self.set_titles(_TITLE)

    def show(self, view: RunView) -> None:
        """Show the effect of the newest switch of a view."""
        self.comparisons = view.comparisons
        self.offer = experiment_offer(view, view.situation.live)
        self.experiment = newest_experiment(view)
        self.running_experiment = view.situation.experiment
        self.autopilot_run = newest_autopilot_run(view)
        can_switch = bool(view.snapshot.manifest.switchable) or view.awaits_fit
        none_yet = (
            (_HINT if can_switch else _NONE) if view.situation.live else "no switch in this run yet"
        )
        self.hint = "no switch in this run" if view.is_over else none_yet

    def _update_titles(self) -> None:
        note = wording.outcome_text(self.comparisons[-1]) if self.comparisons else ""
        if self.running_experiment:
            note = wording.experiment_status(self.running_experiment)
        elif self.experiment:
            note = wording.answer_text(self.experiment)
        elif self.autopilot_run:
            note = wording.autopilot_text(self.autopilot_run)
        self.set_titles(_TITLE, note)
        self.repaint_rows()

    watch_comparisons = watch_experiment = watch_running_experiment = watch_autopilot_run = (
        _update_titles
    )

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.running_experiment:
            running = self.running_experiment
            words = (
                f"A/B test: {wording.experiment_subject(running)}",
                wording.experiment_progress(running),
            )
            return [row((line, "bold")) for line in words]
        if self.autopilot_run and not self.experiment:
            return self._autopilot_rows(self.autopilot_run, width)
        if self.experiment:
            return self._experiment_rows(self.experiment, width)
        if not self.comparisons:
            return [row((line, "$foreground 65%")) for line in self.hint.split("\n")]
        newest = self.comparisons[-1]
        longest = wording.longest_ms(newest)
        lines = [self._bar(newest, newest.old, newest.before, longest, width)]
        lines.append(self._bar(newest, newest.new, newest.after, longest, width))
        if self.has_class("-bare"):
            lines.append(row((wording.outcome_text(newest), "bold")))
        if self.offer:
            lines.append(row((self.offer, "$text-accent")))
        lines.append(self._legend(newest))
        older = reversed(self.comparisons[:-1][-_OLDER:])
        return [
            *lines,
            *(row((wording.comparison_line(old), "$foreground 65%")) for old in older),
        ]

    def _experiment_rows(self, ended: ExperimentEnded, width: int) -> list[Content]:
        """Draw a bar for each setting, then the result, then the switches before the experiment."""
        lines = self._step_bars(
            {wording.setting_text(ended.knob, value): ms for value, ms in ended.step_ms.items()},
            width,
            _is_proved(ended.answer),
        )
        is_bare = self.has_class("-bare")  # else the frame shows the result
        lines.append(
            row((wording.experiment_line(ended), "bold" if is_bare else "$foreground 65%"))
        )
        if ended.step_ms and not _is_proved(ended.answer):
            lines.append(row(("grey: the difference may be noise", QUIET_COLOUR)))
        older = reversed(self.comparisons[-_OLDER:])
        return [
            *lines,
            *(row((wording.comparison_line(old), "$foreground 65%")) for old in older),
        ]

    def _autopilot_rows(self, run: AutopilotRun, width: int) -> list[Content]:
        """Draw the step at the start and now as bars, then each move with its forecast, newest
        first."""
        sides = {
            "at the start": run.before_ms,
            "now" if run.ended is None else "at the end": run.after_ms,
        }
        step_ms = {side: took_ms for side, took_ms in sides.items() if took_ms is not None}
        lines = self._step_bars(
            step_ms, width, run.estimate is not None and _is_proved(run.estimate.answer)
        )
        if self.has_class("-bare"):
            lines.append(row((wording.autopilot_text(run), "bold")))
        moves = [row((wording.move_line(move), "$foreground 65%")) for move in reversed(run.moves)]
        return [*lines, *moves]

    def _step_bars(
        self, step_ms: Mapping[str, float], width: int, is_proved: bool
    ) -> list[Content]:
        """Draw a bar for each step time, grey where their difference is not proved."""
        style = COMPUTE_COLOUR if is_proved else QUIET_COLOUR
        longest = max(step_ms.values(), default=0.0)
        lines, wide = [], _label_cells(step_ms)
        for label, took_ms in step_ms.items():
            figure = f" {units.milliseconds(took_ms)}"
            cells = (
                round(max(8, width - wide - len(figure)) * took_ms / longest) if longest > 0 else 0
            )
            lines.append(
                row(
                    (column(label, wide), "bold"),
                    (self.glyphs.compute * cells, style),
                    (figure, "bold"),
                )
            )
        return lines

    def _bar(
        self, switch: Comparison, value: str, side: Breakdown | None, longest: float, width: int
    ) -> Content:
        wide = _label_cells(
            wording.setting_text(switch.knob, one) for one in (switch.old, switch.new)
        )
        label = column(wording.setting_text(switch.knob, value), wide)
        if side is None:
            return row(
                (label, "bold"),
                (
                    f" no steady steps {'yet' if value == switch.new else 'before it'}",
                    "$foreground 65%",
                ),
            )
        step_ms = switch.typical(side.step)
        figure = f" {'mean ' if switch.in_bursts else ''}{units.milliseconds(step_ms)}"
        starving = f", starving {units.percent(side.wait_share)}"
        figure += starving if width >= wide + 44 else ""
        cells = wording.cells(side, step_ms, longest, max(8, width - wide - max(9, len(figure))))
        glyphs = self.glyphs
        parts = zip(cells, _paint(switch), (glyphs.wait, glyphs.compute, glyphs.host), strict=True)
        return row(
            (label, "bold"),
            *((char * count, style) for count, style, char in parts),
            (figure, "bold"),
        )

    def _legend(self, switch: Comparison) -> Content:
        """Name the parts of the bars, with their milliseconds on both sides."""
        glyphs = self.glyphs
        named = zip(
            (glyphs.wait, glyphs.compute, glyphs.host),
            _paint(switch),
            wording.part_texts(switch),
            strict=True,
        )
        pieces = [
            row((char, style), (f" {words}", "$foreground 65%")) for char, style, words in named
        ]
        return Content(" ").join(pieces)


_PAINT = (WAIT_COLOUR, COMPUTE_COLOUR, HOST_COLOUR)
#: The same where no difference is proved.
_FADED = (f"{WAIT_COLOUR} 45%", f"{COMPUTE_COLOUR} 45%", "$foreground 25%")


def _paint(switch: Comparison) -> tuple[str, str, str]:
    if switch.estimate is None or _is_proved(switch.answer):
        return _PAINT
    return (WAIT_COLOUR, *_FADED[1:]) if switch.has_other_wait else _FADED


def _label_cells(labels: Iterable[str]) -> int:
    """Return the cells of the column of the bars' labels: a blank at least follows each."""
    return max((LABEL, *(cell_len(label) + 1 for label in labels)))


def _is_proved(answer: str) -> bool:
    return answer in ("faster", "slower")


def newest_experiment(view: RunView) -> ExperimentEnded | None:
    """Return the newest finished experiment; None where a switch followed it."""
    ended = view.snapshot.events.newest(ExperimentEnded)
    steps = [comparison.asked_step for comparison in view.comparisons]
    return ended if ended and ended.step >= max(steps, default=0) else None


def newest_autopilot_run(view: RunView) -> AutopilotRun | None:
    """Return the newest run of the autopilot, if it has moves and no other switch followed it."""
    newest = next(reversed(autopilot_runs(view.snapshot.events.of(*AUTOPILOT_EVENTS))), None)
    if (
        newest is None
        or not newest.moves
        or (view.comparisons and view.comparisons[-1].by != AUTOPILOT)
    ):
        return None
    return newest
