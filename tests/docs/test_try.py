"""docs/try.ipynb runs from top to bottom, finds the loss, and proves the gain.

`TFWATCH_DOCS=write` keeps its outputs, as a reader sees them who does not run it.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

NOTEBOOK = ROOT / "docs/try.ipynb"
_STEP_TIMES = re.compile(r"^step time +([\d.]+) ms +([\d.]+) ms", re.MULTILINE)


@pytest.mark.tensorflow
def test_the_notebook_finds_the_loss_and_proves_the_gain(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", str(NOTEBOOK)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command += ["--output", str(tmp_path / "run")]
    subprocess.run(command, check=True, capture_output=True, env=environment)

    cells = json.loads((tmp_path / "run.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [text for cell in cells if (text := _output(cell))]
    assert len(outputs) == 3, outputs
    slow, _, compared = outputs
    before_ms, after_ms = map(float, _STEP_TIMES.findall(compared)[0])
    assert "each step waits" in slow
    assert after_ms < before_ms  # 5 to 12 times less, also beside a load of 20
    if os.environ.get("TFWATCH_DOCS") == "write":
        _keep(cells)


def test_the_kept_outputs_are_those_of_the_story() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    slow, _, compared = [text for cell in cells if (text := _output(cell))]

    assert "each step waits" in slow
    assert "x faster than A" in compared


def _output(cell: dict[str, Any]) -> str:
    """Return the text below a cell, without what TensorFlow logs."""
    outputs = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
    return "".join(
        "".join(one.get("text", one.get("data", {}).get("text/plain", ""))) for one in outputs
    )


def _keep(cells: list[dict[str, Any]]) -> None:
    """Write the cells into the notebook, without what TensorFlow logs."""
    for cell in cells:
        cell.pop("id", None)
        cell["metadata"] = {}
        if "outputs" in cell:
            cell["outputs"] = [one for one in cell["outputs"] if one.get("name") != "stderr"]
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    notebook["cells"] = cells
    NOTEBOOK.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
