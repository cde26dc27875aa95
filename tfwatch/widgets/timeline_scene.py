"""The scene of a timeline: all that one picture of it is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.analysis.strip import Bars
    from tfwatch.core.events import Paused
    from tfwatch.runs.reader import Snapshot
    from tfwatch.widgets.glyphs import Glyphs
    from tfwatch.widgets.timeline_lanes import Sampled
    from tfwatch.widgets.timeline_rows import Figures
    from tfwatch.widgets.timeline_view import View


@dataclass(frozen=True, eq=False)
class Scene:
    """What a picture is made of. `limits`: all of the run's."""

    snapshot: Snapshot
    view: View
    bars: Bars
    sampled: Sampled
    limits: Sequence[Paused]
    top_ms: float | None
    glyphs: Glyphs
    figures: Figures
    cursor: int | None
