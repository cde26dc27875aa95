"""The pages about JSON and Prometheus, and the schema, are those of the tables.

`TFWATCH_DOCS=write` writes them.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tfwatch.report.facts import describe
from tfwatch.report.metrics import METRICS, describe_metrics
from tfwatch.report.run_facts import RUN, schema

if TYPE_CHECKING:
    from pathlib import Path

PAGE, SCHEMA = ROOT / "docs/json.md", ROOT / "docs/run.schema.json"
PROMETHEUS, DASHBOARD = ROOT / "docs/prometheus.md", ROOT / "assets/grafana-dashboard.json"
_GENERATED = re.compile(r"(?<=test_generated\.py -->\n).*(?=<!-- end -->)", re.DOTALL)
_METRIC = re.compile(r"\btfwatch_[a-z_]+\b")


def written() -> dict[str, str]:
    """The generated files as they should be."""
    keys = "\n" + "\n".join(describe(RUN, "A run"))
    metrics = "\n".join(describe_metrics())
    return {
        PAGE.name: _GENERATED.sub(lambda _: f"{keys}\n", PAGE.read_text(encoding="utf-8")),
        PROMETHEUS.name: _GENERATED.sub(
            lambda _: f"\n{metrics}\n\n", PROMETHEUS.read_text(encoding="utf-8")
        ),
        SCHEMA.name: json.dumps(schema(), indent=1) + "\n",
    }


@pytest.mark.parametrize("path", [PAGE, PROMETHEUS, SCHEMA], ids=lambda path: path.name)
def test_a_generated_file_is_that_of_the_table(path: Path) -> None:
    if os.environ.get("TFWATCH_DOCS") == "write":
        path.write_text(written()[path.name], encoding="utf-8")

    assert path.read_text(encoding="utf-8") == written()[path.name]
    assert path == SCHEMA or len(_GENERATED.findall(path.read_text(encoding="utf-8"))) == 1


def test_the_dashboard_queries_metrics_that_are_served() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for query in queries for name in _METRIC.findall(query)}

    assert len(queries) > 10
    assert named <= {one.name for one in METRICS}
