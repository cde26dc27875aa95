"""The page about JSON and the schema are those of the table of facts; `TFWATCH_DOCS=write` writes
them."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.doctor.machines import linux
from tfwatch.cli.doctor import to_json as doctor_json
from tfwatch.doctor.checks import judge
from tfwatch.report.facts import describe
from tfwatch.report.run_facts import RUN, schema

if TYPE_CHECKING:
    from pathlib import Path

PAGE, SCHEMA = ROOT / "docs/json.md", ROOT / "docs/run.schema.json"
_GENERATED = re.compile(r"(?<=test_json\.py -->\n).*", re.DOTALL)


def written() -> dict[str, str]:
    """The generated files as they should be."""
    keys = "\n" + "\n".join(describe(RUN, "A run"))
    page = PAGE.read_text(encoding="utf-8")
    return {
        PAGE.name: _GENERATED.sub(lambda _: keys, page),
        SCHEMA.name: json.dumps(schema(), indent=1) + "\n",
    }


@pytest.mark.parametrize("path", [PAGE, SCHEMA], ids=lambda path: path.name)
def test_a_generated_file_is_that_of_the_table(path: Path) -> None:
    if os.environ.get("TFWATCH_DOCS") == "write":
        path.write_text(written()[path.name], encoding="utf-8")

    assert path.read_text(encoding="utf-8") == written()[path.name]
    assert len(_GENERATED.findall(PAGE.read_text(encoding="utf-8"))) == 1


def test_the_check_up_has_its_keys() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## A check-up\n")[2].partition("<!--")[0]

    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(
        json.loads(doctor_json(judge(linux())))
    )
