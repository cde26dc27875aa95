"""The step by what the user wrote, one row per layer, loss, metric and optimizer: which takes
most?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.events import StepProfiled
from tfwatch.judge.profile.profiling import fact_lines
from tfwatch.judge.profile.step_groups import step_rows
from tfwatch.judge.profile.step_parts import time_text
from tfwatch.screens.pane import FramedPane
from tfwatch.screens.text import COMPUTE_COLOUR, QUIET_COLOUR, column, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from tfwatch.judge.profile.step_parts import StepPart
    from tfwatch.judge.view import RunView

_NO_PROFILE = "e profiles a few steps: which layer, metric or optimizer takes them"
_READ_ONLY = "n/a: no step of this run was profiled"
#: Cells of the time, of the share, and the least and the most of the bar.
_TIME, _SHARE, _BAR, _WIDEST_BAR = 8, 5, 4, 24
_FORWARD, _BACKWARD = "█", "▒"
#: Below this many rows the head has none.
_LOW = 8
#: The least share of a row of the folded pane.
_MATTERS = 0.1


class StepPane(FramedPane):
    """The parts of the newest profile, the longest first; where rows are few, the shortest have
    none."""

    TITLE = "step by layer"

    #: Only the parts that matter have rows, without their times; the key e shows all.
    folded: reactive[bool] = reactive(False, repaint=False)

    watch_folded = FramedPane.repaint_rows

    def news(self, view: RunView) -> object:
        newest = view.snapshot.events.newest(StepProfiled)
        return newest, view.situation.profile, view.is_over, view.snapshot.manifest.model

    def rows(self, width: int, height: int) -> Sequence[Content]:
        view = self.view
        if view is None:
            return []
        profile, newest = view.situation.profile, view.snapshot.events.newest(StepProfiled)
        missing = f"no profile: {newest.missing}" if newest and newest.missing else ""
        if profile is None:
            text = missing or (_READ_ONLY if view.is_over else _NO_PROFILE)
            facts = fact_lines(view.snapshot.manifest)
            said = [line for one in (text, *facts) for line in wrap_text(one, width)]
            return [row((line, QUIET_COLOUR)) for line in said[:height]]
        parts = step_rows(profile)[: max(height - (height >= _LOW) - bool(missing), 1)]
        shown = [one for one in parts if not self.folded or one.share >= _MATTERS]
        rows = [self._row(part, parts[0], width) for part in shown]
        if height >= _LOW:
            rows.insert(0, row((_head(profile), QUIET_COLOUR)))
        return [*rows, row((missing, QUIET_COLOUR))] if missing else rows

    def _row(self, part: StepPart, longest: StepPart, width: int) -> Content:
        bar = max(_BAR, min(_WIDEST_BAR, width // 6))
        filled = _bar(part, round(part.share / longest.share * bar))
        time = "" if self.folded else f"{time_text(part.took_ms):>{_TIME}} "
        room = max(width - len(time) - _SHARE - bar - 2, 1)
        inner = replace(part, name=part.name.rpartition("/")[2]).title
        shorter = replace(part, longest="", place="").text
        texts = (part.text, shorter, part.title, inner)
        text = column(next((one for one in texts if cell_len(one) <= room), inner), room, "…")
        is_first = part is longest
        return row(
            (f"{time}{units.percent(part.share):>{_SHARE}} ", "bold" if is_first else ""),
            (f"{filled:<{bar}} ", COMPUTE_COLOUR),
            (text, "bold" if is_first else QUIET_COLOUR),
        )


def _bar(part: StepPart, cells: int) -> str:
    backward = round(part.backward_ms / part.took_ms * cells) if part.took_ms else 0
    return _FORWARD * (cells - backward) + _BACKWARD * backward


def _head(profile: StepProfiled) -> str:
    where = "GPU" if profile.on_gpu else "CPU"
    passes = f"{_FORWARD} forward {_BACKWARD} backward"
    return f"{where}: {passes}; its profile cost {time_text(profile.cost_ms)}"
