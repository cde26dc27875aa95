"""Pairs of runs of copies of a script: what is kept, what is not, and that no copy is left."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.cli.recorded import noisy_rows, record, trained
from tests.runs.folders import FakeClock
from tfwatch.core.errors import BadInputError
from tfwatch.core.rows import PROGRESS
from tfwatch.fix.arguments import Argument
from tfwatch.fix.pairs import PAIRS, PairedRuns, wanted_arguments
from tfwatch.fix.user_file import UserFile
from tfwatch.judge.comparing.run_to_compare import RunToCompare
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from tfwatch.fix.tried import Tried

SOURCE = "model.compile('adam')\n"
STEPS_8 = Argument("steps_per_execution", "8")
JIT = Argument("jit_compile", "True")


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("train.py").write_text(SOURCE)


class Runs:
    """Runs of a script whose steps with a change take `new_ms`, and those without it 20 ms.

    loss: of each run with the change; spread: by how much the losses of plain runs differ. source:
    the script without the change.
    """

    def __init__(
        self,
        folder: Path,
        new_ms: float,
        loss: float = 0.5,
        spread: float = 0.0,
        source: str = SOURCE,
    ) -> None:
        self.folder, self.new_ms, self.loss, self.spread = folder, new_ms, loss, spread
        self.source = source
        self.sources: list[str] = []

    def measure(self, script: Path, steps: int) -> RunToCompare:
        source, number = script.read_text(), len(self.sources)
        assert script.parent == Path.cwd()
        assert script.name.startswith(".train.py.")
        self.sources.append(source)
        is_new = source != self.source
        rows = noisy_rows(number, step_ms=self.new_ms if is_new else 20.0)
        loss = self.loss if is_new else 0.5 + self.spread * number
        begun, _, ended = trained(rows)
        folder = record(self.folder / str(number), rows, begun, ended, start_s=10.0 * number)
        progress = np.array([(1, 32, 1, 0, 1, 0.7), (2, 64, 8, 0, 8, loss)], dtype=PROGRESS)
        (folder / "progress.bin").write_bytes(progress.tobytes())
        return RunToCompare(JudgedRun(open_run(folder)), str(number))


def tried(runs: Any, argument: Argument = STEPS_8, budget_s: float = 1e3) -> tuple[Tried, str]:
    clock = FakeClock()
    pairs = PairedRuns(
        runs.measure, 100, clock.clock, clock.now_ns() + round(budget_s * 1e9), lambda _: None
    )
    file = UserFile.read("train.py", sys.maxsize)
    answer = pairs.try_argument(file, file.text, argument)
    assert os.listdir() == ["train.py"]
    assert Path("train.py").read_text() == SOURCE
    return answer


def test_a_gain_that_clears_2_percent_is_kept(tmp_path: Path) -> None:
    runs = Runs(tmp_path, new_ms=16.0)
    found, text = tried(runs)
    new = "model.compile('adam', steps_per_execution=8)\n"
    assert (found.kept, text) == (True, new)
    assert found.outcome.startswith("1.25 x faster (")
    assert runs.sources == [new, SOURCE, SOURCE, new] * (PAIRS // 2)


@pytest.mark.parametrize("new_ms", [20.0, 19.9])
def test_less_is_not_kept(tmp_path: Path, new_ms: float) -> None:
    found, text = tried(Runs(tmp_path, new_ms))
    assert (found.kept, text) == (False, SOURCE)


def test_a_change_that_is_slower_is_given_up_after_two_pairs(tmp_path: Path) -> None:
    runs = Runs(tmp_path, new_ms=24.0)
    assert tried(runs)[0].outcome == "not faster in 2 pairs of runs"
    assert len(runs.sources) == 4


@pytest.mark.parametrize(
    ("argument", "loss", "spread", "kept"),
    [
        pytest.param(STEPS_8, 0.5 + 1e-6, 0.0, False, id="the same bit for bit"),
        pytest.param(JIT, 0.5 + 1e-6, 0.0, True, id="rounds otherwise"),
        pytest.param(JIT, 0.6, 0.0, False, id="trains something else"),
        pytest.param(STEPS_8, 0.6, 0.02, True, id="within the spread of plain runs"),
        pytest.param(STEPS_8, math.nan, 0.0, False, id="a loss that is NaN"),
    ],
)
def test_the_losses_have_to_agree(
    argument: Argument, loss: float, spread: float, kept: bool, tmp_path: Path
) -> None:
    found, _ = tried(Runs(tmp_path, 16.0, loss, spread), argument)
    assert found.kept == kept
    assert ("loss" in found.outcome) != kept


def test_after_the_budget_no_run_begins(tmp_path: Path) -> None:
    runs = Runs(tmp_path, new_ms=16.0)
    assert tried(runs, budget_s=0.0)[0].outcome == "not tried: the budget is used up"
    assert runs.sources == []


class Fails:
    """Runs that end with an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def measure(self, script: Path, steps: int) -> RunToCompare:
        raise self.error


def test_a_script_that_fails_with_the_change_is_not_changed() -> None:
    found, text = tried(Fails(BadInputError("the script cannot be tried: its exit code is 1")))
    assert (found.kept, text) == (False, SOURCE)
    assert "its exit code is 1" in found.outcome


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_no_copy_is_left_where_a_run_is_interrupted(error: BaseException) -> None:
    with pytest.raises(type(error)):
        tried(Fails(error))
    assert os.listdir() == ["train.py"]
    assert Path("train.py").read_text() == SOURCE


def test_the_arguments_are_those_that_the_findings_name_in_their_order() -> None:
    found = [
        Finding("a", "A", "", arguments=("steps_per_execution", "jit_compile")),
        Finding("b", "B", "", "leave run_eagerly=True out of compile", arguments=("run_eagerly",)),
        Finding("c", "C", "", "without jit_compile=True", "model.compile(...)"),
    ]
    assert [one.text for one in wanted_arguments(found)] == [
        "steps_per_execution=8",
        "jit_compile=True",
        "run_eagerly=False",
    ]
