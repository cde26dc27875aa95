"""The page about JSON names every key of a run's object, of a finding and of a check-up, and no
other."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.cli.recorded import noisy_rows, record
from tests.docs.pages import ROOT
from tests.doctor.machines import linux
from tfwatch.cli.doctor import to_json as doctor_json
from tfwatch.doctor.checks import judge
from tfwatch.report.document import as_json
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path


def run_json(tmp_path: Path) -> dict[str, Any]:
    return as_json(open_run(record(tmp_path / "one_cnn", noisy_rows(1))))


def keys_of(section: str) -> list[str]:
    """Return the keys in the first column of a section's table."""
    page = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    body = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").partition(" | ")[0] for line in body.splitlines()]
    return [key for row in rows if row.startswith("`") for key in re.findall(r"`(\w+)`", row)]


def test_a_run(tmp_path: Path) -> None:
    assert sorted(keys_of("A run")) == sorted(run_json(tmp_path))


def test_a_finding(tmp_path: Path) -> None:
    (finding,) = run_json(tmp_path)["findings"]

    assert keys_of("A finding") == list(finding)


def test_a_judge() -> None:
    assert keys_of("A check-up") == list(json.loads(doctor_json(judge(linux()))))
