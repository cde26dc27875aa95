"""A check of a run: lines of text, JSON, JUnit XML, GitHub annotations and a step summary in
markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from tfwatch.core.errors import printable
from tfwatch.judge.comparing.checked_run import worst
from tfwatch.report.comparison_report import signed_percent, value_text
from tfwatch.report.facts import as_object, number, text
from tfwatch.report.markdown import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.comparing.checked_run import CheckedFigure, Outcome

_MARKS: dict[Outcome, str] = {"passed": "✅", "failed": "❌", "inconclusive": "❔"}
_LEVELS: dict[Outcome, str] = {"failed": "error", "inconclusive": "warning", "passed": "notice"}
#: The characters that XML 1.0 cannot hold, surrogates included.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_lines(figures: Sequence[CheckedFigure]) -> list[str]:
    """Return a line for each figure, and the outcome."""
    lines = [f"{one.outcome:12}  {_sentence(one)}" for one in figures]
    return [*lines, worst([one.outcome for one in figures])]


def check_json(
    runs: Sequence[str], baseline: Sequence[str], figures: Sequence[CheckedFigure]
) -> dict[str, Any]:
    """Return the check as one JSON object."""
    return {
        "runs": list(runs),
        "baseline": list(baseline),
        "outcome": worst([one.outcome for one in figures]),
        "checks": [as_object(_CHECK, one) for one in figures],
    }


def _sentence(one: CheckedFigure) -> str:
    """Return `step time 5.8 ms (5.2 to 6.4 ms) without ..., limit 20 ms`, in one line without
    control characters."""
    if one.value is None:
        limit = f", limit {_value(one.limit, one)}" if one.limit is not None else ""
        return printable(f"{one.title}{limit}" + (f": {one.reason}" if one.reason else ""))
    interval = (
        f" ({_value(one.low, one)} to {_value(one.high, one)})" if one.low != one.high else ""
    )
    basis = f" {one.basis}" if one.basis else ""
    reason = f": {one.reason}" if one.reason else ""
    return printable(
        f"{one.title} {_value(one.value, one)}{interval}{basis}, limit"
        f" {_value(one.limit, one)}{reason}"
    )


def _value(value: float | None, one: CheckedFigure) -> str:
    if one.name == "slower_share" and value is not None:
        return signed_percent(value)
    return value_text(value, one.unit)


_CHECK = (
    text("name", "the limit"),
    text("outcome", "of this limit", choices=("passed", "failed", "inconclusive")),
    text("unit", "of `value`, `low`, `high` and `limit`"),
    number("value", "the figure"),
    number("low", "lower end of its 95 % interval"),
    number("high", "its upper end"),
    number("limit", "the limit"),
    text("basis", "the steps that count"),
    text("sentence", "all of it in words", _sentence),
    text("reason", "why it is inconclusive or failed"),
)


def junit_xml(runs: Sequence[str], figures: Sequence[CheckedFigure]) -> str:
    """Return a JUnit report with a test case for each figure; an inconclusive one is skipped."""
    counts = {outcome: sum(one.outcome == outcome for one in figures) for outcome in _MARKS}
    totals = {"tests": str(len(figures)), "failures": str(counts["failed"]), "errors": "0"}
    suites = ElementTree.Element("testsuites", {"name": "tfwatch check", **totals})
    # Jenkins' schema has `skipped` for a suite only.
    of_suite = {"name": _xml(" ".join(runs)), **totals, "skipped": str(counts["inconclusive"])}
    suite = ElementTree.SubElement(suites, "testsuite", of_suite)
    for one in figures:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "tfwatch.check", "name": _xml(one.title)}
        )
        if one.outcome != "passed":
            kind = "failure" if one.outcome == "failed" else "skipped"
            ElementTree.SubElement(case, kind, {"message": _xml(_sentence(one))})
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0"'
        f' encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'
    )


def _xml(text: str) -> str:
    """Return the text without characters that XML cannot hold; the writer escapes the others."""
    return _NOT_XML.sub("\ufffd", text)


def github_annotations(runs: Sequence[str], figures: Sequence[CheckedFigure]) -> list[str]:
    """Return a workflow command for each figure that did not pass."""
    title = _property(f"tfwatch check {' '.join(runs)}")
    return [
        f"::{_LEVELS[one.outcome]} title={title}::{_data(_sentence(one))}"
        for one in figures
        if one.outcome != "passed"
    ]


def _data(text: str) -> str:
    """Return the text as the message of a workflow command, as in GitHub's own toolkit."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def step_summary(runs: Sequence[str], figures: Sequence[CheckedFigure]) -> str:
    """Return a table in GitHub's markdown."""
    outcome = worst([one.outcome for one in figures])
    rows = [f"| {_MARKS[one.outcome]} {one.outcome} | {plain(_sentence(one))} |" for one in figures]
    head = f"### {_MARKS[outcome]} tfwatch check {plain(' '.join(runs))}: {outcome}"
    return (
        "\n".join(
            [head, "", "| outcome | figure, 95 % interval and limit |", "| --- | --- |", *rows, ""]
        )
        + "\n"
    )
