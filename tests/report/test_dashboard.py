"""The dashboard and the page on metrics name those that are served."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CODE = (ROOT / "tfwatch" / "report" / "metrics.py").read_text(encoding="utf-8")
_SERVED = set(re.findall(r'families\.(?:gauge|counter)\(\s*"(\w+)"', _CODE))
_NAME = re.compile(r"\b(?:tfwatch|hw|system|process)_[a-z_]+\b")


def test_the_dashboard_queries_metrics_that_are_served() -> None:
    dashboard = json.loads((ROOT / "assets" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in _NAME.findall(query)} - {"system_memory_state"}

    assert len(queries) > 10
    assert named <= _SERVED


def test_the_page_has_each_metric() -> None:
    page = (ROOT / "docs" / "prometheus.md").read_text(encoding="utf-8")

    assert len(_SERVED) > 20
    assert [name for name in sorted(_SERVED) if f"`{name}`" not in page] == []
