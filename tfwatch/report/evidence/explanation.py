"""The findings on a run as text and as one JSON object, for an assistant or a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.report.document_switches import by_name, finite
from tfwatch.report.evidence.comparison_report import value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.live.evidence.explained_run import Fact, Finding
    from tfwatch.live.evidence.run_to_compare import RunToCompare


def explanation_json(one: RunToCompare, found: Sequence[Finding]) -> dict[str, Any]:
    """Return the explanation; docs/explain.schema.json describes its keys."""
    manifest = one.run.manifest
    document: dict[str, Any] = finite(
        {
            "run": one.recorded_name,
            "path": str(one.folder.absolute()) if one.folder else None,
            "ranks": one.rank_count,
            "workload": manifest.workload,
            "device": manifest.device or None,
            "state": one.state,
            "steps": one.step_count,
            "verdict": one.judged.summary.verdict.value,
            "knobs": by_name(one.judged.situation.knobs),
            "findings": [_finding_json(finding) for finding in found],
        }
    )
    return document


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "rank": finding.rank,
        "finding": f"{finding.word}: {finding.sentence}",
        "evidence": [_fact_json(fact) for fact in finding.evidence],
        "suggestion": finding.advice or None,
        "code": finding.code or None,
        "confidence": finding.confidence,
        "confidence_reason": finding.reason,
    }


def _fact_json(fact: Fact) -> dict[str, Any]:
    figures = {"value": fact.value, "unit": fact.unit or None, "low": fact.low, "high": fact.high}
    return {"name": fact.name, **figures, "basis": fact.basis or None}


def explanation_lines(one: RunToCompare, found: Sequence[Finding]) -> list[str]:
    """Return the explanation as text; text from outside is in one line each, without control characters."""
    ranks = f", {units.counted(one.rank_count, 'rank')}" if one.rank_count else ""
    head = f"{one.name} ({one.run.manifest.title}{ranks}): {one.state}, {units.counted(one.step_count, 'step')}"
    lines = [printable(head)]
    for finding in found:
        of_rank = "" if finding.rank is None else f"rank {finding.rank}: "
        lines += ["", printable(f"{of_rank}{finding.word}: {finding.sentence}")]
        lines += [printable(f"  evidence    {_fact_text(fact)}") for fact in finding.evidence]
        lines += [printable(f"  suggestion  {finding.advice}")] if finding.advice else []
        lines += [printable(f"  code        {line}") for line in finding.code.split("\n") if line]
        lines += [printable(f"  confidence  {finding.confidence}: {finding.reason}")]
    return lines if found else [*lines, "", f"no finding: {one.judged.summary.verdict.value}"]


def _fact_text(fact: Fact) -> str:
    name = fact.name.replace("_", " ")
    if isinstance(fact.value, str):
        return f"{name}: {fact.value}"
    if fact.unit == "MHz":
        return f"{name} {fact.value:.0f} MHz"
    if fact.unit == "step":
        return f"{name} {units.count(int(fact.value))}"
    interval = ""
    if fact.low is not None and fact.high is not None:
        interval = f" ({value_text(fact.low, fact.unit)} to {value_text(fact.high, fact.unit)})"
    basis = f" {fact.basis}" if fact.basis else ""
    return f"{name} {value_text(fact.value, fact.unit)}{interval}{basis}"
