"""Runs of other versions of tfwatch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import make_manifest, read, write_run
from tfwatch.core.events import Noted
from tfwatch.core.rows import STEP
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_field_of_a_newer_version_is_ignored(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    (tmp_path / layout.EVENTS).write_text(
        '{"event": "Noted", "at_ns": 1, "text": "x", "colour": "red"}\n'
    )

    assert tuple(read(tmp_path).events) == (Noted(1, "x"),)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(STEP.descr[1:], id="one less"),
        pytest.param([*STEP.descr, ("extra", "<f8")], id="one more"),
        pytest.param([[name, "O"] for name in STEP.names or ()], id="of Python objects"),
        pytest.param(STEP.newbyteorder(">").descr, id="other bytes"),
        pytest.param([["step"]], id="without types"),
        pytest.param("step", id="a text"),
        pytest.param(None, id="nothing"),
    ],
)
def test_steps_with_other_columns_are_not_a_run(columns: object) -> None:
    values = json.loads(make_manifest().encode())
    values["tables"][layout.STEPS] = columns

    with pytest.raises(NotARunError, match=r"steps\.bin|run\.json"):
        Manifest.decode(json.dumps(values))
