"""A comparison of runs as one JSON object; docs/compare.schema.json describes its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.report.document_switches import finite
from tfwatch.report.evidence.comparison_text import SIDES, change_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.live.evidence.compared_runs import ComparedFigure, ComparedRuns, RunToCompare


def comparison_json(sides: Sequence[Sequence[RunToCompare]], found: Sequence[ComparedRuns]) -> dict[str, Any]:
    """Return all comparisons with the first side."""
    document: dict[str, Any] = finite(
        {
            "sides": [{"side": SIDES[n], "runs": [_run(one) for one in side]} for n, side in enumerate(sides)],
            "comparisons": [_comparison(one, SIDES[n]) for n, one in enumerate(found, start=1)],
        }
    )
    return document


def _run(one: RunToCompare) -> dict[str, Any]:
    return {
        "run": one.recorded_name,
        "path": str(one.folder.absolute()) if one.folder else None,
        "workload": one.run.manifest.workload,
        "state": one.state,
        "steps": one.step_count,
        "steady_steps": len(one.rows),
        "ranks": one.rank_count,
    }


def _comparison(found: ComparedRuns, side: str) -> dict[str, Any]:
    return {
        "baseline": "A",
        "side": side,
        "per": "image" if found.by_image else "step",
        "answer": found.answer,
        "speedup": found.estimate.ratio,
        "speedup_low": found.estimate.low,
        "speedup_high": found.estimate.high,
        "steps": found.steps,
        "statistic": "mean" if found.in_bursts else "median",
        "figures": [figure_json(one) for one in found.figures],
        "time_breakdown": [figure_json(one) for one in found.time_spent],
        "loss_epoch": found.loss_epoch,
        "losses": [figure_json(one) for one in found.losses],
        "changes": [
            {"kind": one.kind, "name": change_name(one.name), "from": one.before or None, "to": one.after or None}
            for one in found.changes
        ],
        "spread": {
            "share": found.spread.deviation,
            "degrees_of_freedom": found.spread.freedom,
            "source": found.spread.source,
        },
        "alternating": found.alternating,
        "same_host": found.same_host,
        "others_share_before": found.others[0],
        "others_share_after": found.others[1],
    }


def figure_json(one: ComparedFigure) -> dict[str, Any]:
    """Return one figure of both sides."""
    return {
        "name": one.name,
        "unit": one.unit or None,
        "before": one.before,
        "after": one.after,
        "difference": one.difference,
        "low": one.low,
        "high": one.high,
        "is_clear": one.is_clear,
        "missing": one.missing or None,
    }
