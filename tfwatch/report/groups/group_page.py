"""The page of a group: the finding, a row a rank, the group's steps, and each rank's own figures folded in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.live.groups.rank_lines import state_lines
from tfwatch.report.groups.group_chart import make_group_chart
from tfwatch.report.groups.group_document import group_json
from tfwatch.report.groups.group_sections import (
    make_group_figures,
    make_group_verdict,
    make_hold_ups,
    make_rank_rows,
)
from tfwatch.report.html.templates import environment, page_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.analysis.groups.step_sums import GroupSteps
    from tfwatch.live.groups.judged_group import JudgedGroup
    from tfwatch.report.groups.group_sections import RankSection
    from tfwatch.report.html.redaction import Redaction
    from tfwatch.runs.library.labels import Labels


def as_group_html(
    judged: JudgedGroup,
    steps: GroupSteps | None,
    sections: Sequence[RankSection],
    labels: Labels,
    redaction: Redaction | None = None,
) -> str:
    """Return the page of a group.

    steps: those of the chart. sections: of its ranks. redaction: replaces paths, names and the hosts.
    """
    group, manifest = judged.group, next(iter(judged.group.ranks.values())).manifest
    size, rows = group.file.size, make_rank_rows(judged)
    page = {
        "style": page_style(),
        "is_redacted": redaction is not None,
        "title": manifest.title,
        "label": labels.name,
        "tags": labels.tags,
        "name": group.folder.name,
        "ranks": units.counted(len(group.ranks), "rank") + (f" of {size}" if size and size != len(group.ranks) else ""),
        "launcher": group.file.launcher,
        "state": judged.state,
        "states": state_lines(judged),
        "steps": units.counted(min(one.step for one in judged.ranks), "step"),
        "date": local_time(group.file.began_wall_ns).strftime("%d %b %Y, %H:%M"),
        "verdict": make_group_verdict(judged),
        "figures": make_group_figures(judged),
        "chart": make_group_chart(steps),
        "rows": rows,
        "has_machine": any(row.machine for row in rows),
        "hold_ups": make_hold_ups(steps),
        "hold_up_count": len(steps.hold_ups) if steps else 0,
        "sections": sections,
        "versions": list(manifest.versions.items()),
        "raw": json.dumps(group_json(judged), indent=1).split("\n"),
    }
    return environment(redaction).get_template("group.html.j2").render(page)
