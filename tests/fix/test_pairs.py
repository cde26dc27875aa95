"""Pairs of runs of copies of a script: what is kept, what is not, and that no copy is left."""

import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.recorded import noisy_rows, record, trained
from tests.judge.step_rows import make_steps
from tests.runs.folders import FakeClock
from tfwatch.core.errors import BadInputError
from tfwatch.core.rows import PROGRESS
from tfwatch.fix.changes import BY_NAME, ScriptChange, Wanted
from tfwatch.fix.pairs import PAIRS, PairedRuns
from tfwatch.fix.tried import Tried
from tfwatch.fix.user_file import UserFile
from tfwatch.judge.comparing.run_to_compare import RunToCompare
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import ScriptTrial

SOURCE = "import keras\nmodel.compile('adam')\n"
STEPS_8, JIT = BY_NAME["steps_per_execution"], BY_NAME["jit_compile"]
POLICY = BY_NAME["mixed_bfloat16"]


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

    def measure(self, script: Path, trial: ScriptTrial) -> RunToCompare:
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


class Epochs:
    """Runs of 12 epochs of 20 steps, 0.4 s each, with 0.4 s between two without the change, whose
    source has a word."""

    def __init__(self, folder: Path, word: str = "changed") -> None:
        self.folder, self.word = folder, word
        self.trials: list[ScriptTrial] = []

    def measure(self, script: Path, trial: ScriptTrial) -> RunToCompare:
        number, gap_ns = len(self.trials), 0 if self.word in script.read_text() else 400_000_000
        self.trials.append(trial)
        rows = make_steps(np.full(240, 2.0), compute=17.0, host=1.0)
        rows["epoch"] = np.arange(240) // 20
        rows["start_ns"] += rows["epoch"].astype(np.uint64) * np.uint64(gap_ns)
        folder = record(self.folder / str(number), rows, start_s=10.0 * number)
        progress = np.array([(2, 64, 8, 0, 8, 0.5)], dtype=PROGRESS)
        (folder / "progress.bin").write_bytes(progress.tobytes())
        return RunToCompare(JudgedRun(open_run(folder)), str(number))


def tried(
    runs: Any,
    folder: Path,
    change: ScriptChange = STEPS_8,
    budget_s: float = 1e3,
    epochs: int = 12,
    step_ms: float = 20.0,
) -> tuple[Tried, str]:
    clock = FakeClock()
    until_ns = clock.now_ns() + round(budget_s * 1e9)
    pairs = PairedRuns("train.py", runs.measure, clock.clock, until_ns, lambda _: None)
    file = UserFile.read("train.py", sys.maxsize)
    rows = noisy_rows(1, step_ms=step_ms)
    judged = JudgedRun(open_run(record(folder / "first", rows, steps_per_epoch=20, epochs=epochs)))
    answer = pairs.try_change(file, file.text, change, judged)
    assert os.listdir() == ["train.py"]
    assert Path("train.py").read_text() == SOURCE
    return answer


def test_a_gain_that_clears_2_percent_is_kept(tmp_path: Path) -> None:
    runs = Runs(tmp_path, new_ms=16.0)
    found, text = tried(runs, tmp_path)
    new = "import keras\nmodel.compile('adam', steps_per_execution=8)\n"
    assert (found.kept, text) == (True, new)
    assert found.outcome.startswith("1.25 x faster (")
    assert runs.sources == [new, SOURCE, SOURCE, new, new, SOURCE]
    assert "over 3 pairs" in found.outcome, "one that is clear by then"


@pytest.mark.parametrize("new_ms", [20.0, 19.9])
def test_less_is_not_kept(tmp_path: Path, new_ms: float) -> None:
    runs = Runs(tmp_path, new_ms)
    found, text = tried(runs, tmp_path)
    assert (found.kept, text) == (False, SOURCE)
    assert len(runs.sources) in (4, 2 * PAIRS)


def test_a_change_that_is_slower_is_given_up_after_two_pairs(tmp_path: Path) -> None:
    runs = Runs(tmp_path, new_ms=24.0)
    assert tried(runs, tmp_path)[0].outcome == "not faster in 2 pairs of runs"
    assert len(runs.sources) == 4


@pytest.mark.parametrize(
    ("change", "loss", "spread", "kept"),
    [
        pytest.param(STEPS_8, 0.5 + 1e-6, 0.0, False, id="the same bit for bit"),
        pytest.param(JIT, 0.5 + 1e-6, 0.0, True, id="rounds otherwise"),
        pytest.param(JIT, 0.6, 0.0, False, id="trains something else"),
        pytest.param(STEPS_8, 0.6, 0.02, True, id="within the spread of plain runs"),
        pytest.param(STEPS_8, math.nan, 0.0, False, id="a loss that is NaN"),
        pytest.param(POLICY, 0.6, 0.0, True, id="another training, which the user allows"),
    ],
)
def test_the_losses_have_to_agree(
    change: ScriptChange, loss: float, spread: float, kept: bool, tmp_path: Path
) -> None:
    found, _ = tried(Runs(tmp_path, 16.0, loss, spread), tmp_path, change)
    assert found.kept == kept
    assert ("loss" in found.outcome) == (not kept or bool(change.kind))


@pytest.mark.parametrize(("loss", "spread", "kept"), [(0.5, 0.0, True), (0.6, 0.02, False)])
def test_a_map_is_moved_only_where_the_losses_prove_that_nothing_else_changes(
    loss: float, spread: float, kept: bool, tmp_path: Path
) -> None:
    """A map such as `x / tf.reduce_max(x)` gives other values over a batch."""
    change = replace(BY_NAME["batch_first"], make=lambda text: text + "# changed\n")
    found, _ = tried(Runs(tmp_path, 16.0, loss, spread), tmp_path, change)
    assert found.kept == kept
    assert ("may compute something else over a batch" in found.outcome) != kept


def test_after_the_budget_no_run_begins(tmp_path: Path) -> None:
    runs = Runs(tmp_path, new_ms=16.0)
    assert tried(runs, tmp_path, budget_s=0.0)[0].outcome == "not tried: the budget is used up"
    assert runs.sources == []


class Fails:
    """Runs that end with an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def measure(self, script: Path, trial: ScriptTrial) -> RunToCompare:
        raise self.error


def test_a_script_that_fails_with_the_change_is_not_changed(tmp_path: Path) -> None:
    error = BadInputError("the script cannot be tried: its exit code is 1")
    found, text = tried(Fails(error), tmp_path)
    assert (found.kept, text) == (False, SOURCE)
    assert "its exit code is 1" in found.outcome


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_no_copy_is_left_where_a_run_is_interrupted(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        tried(Fails(error), tmp_path)
    assert os.listdir() == ["train.py"]
    assert Path("train.py").read_text() == SOURCE


def test_the_changes_are_those_that_the_findings_name_or_the_user_allows() -> None:
    found = [
        Finding("a", "A", "", arguments=("steps_per_execution", "jit_compile")),
        Finding("b", "B", "", "leave run_eagerly=True out of compile", arguments=("run_eagerly",)),
        Finding("c", "C", "", "without jit_compile=True", "model.compile(...)"),
        Finding("validation", "D", ""),
    ]
    named = ["run_eagerly", "steps_per_execution", "jit_compile", "validation_freq"]
    assert [one.name for one in Wanted().changes(found)] == named
    allowed = Wanted(allowed=("precision",)).changes(found)
    assert [one.name for one in allowed] == [*named, "mixed_bfloat16"]
    assert [one.name for one in Wanted(("jit_compile", "live")).changes(found)] == ["jit_compile"]


def test_a_metric_is_left_out_where_the_profile_of_the_step_names_it_and_the_user_allows_it() -> (
    None
):
    wanted, found = Wanted(allowed=("metrics",)), [Finding("metric", "COMPUTE", "")]
    assert (wanted.needs_profile, Wanted(allowed=("order",)).needs_profile) == (True, False)
    assert [one.name for one in wanted.changes(found)] == ["metrics"]
    assert wanted.changes([]) == []


def test_a_validation_is_tried_by_whole_epochs(tmp_path: Path) -> None:
    """Epochs take as long, and a run with the change lacks the time between them."""
    change = replace(BY_NAME["validation_freq"], make=lambda text: text + "# changed\n")
    runs = Epochs(tmp_path)
    found, _ = tried(runs, tmp_path, change)
    assert found.kept
    assert found.outcome.startswith("2.00 x faster")
    assert runs.trials[0] == ScriptTrial(10 * 20 + 2, validates=True)


def test_a_cache_is_tried_once_it_is_full(tmp_path: Path) -> None:
    change = replace(BY_NAME["take_first"], make=lambda text: text + "# changed\n")
    runs = Epochs(tmp_path)
    assert tried(runs, tmp_path, change)[0].outcome.startswith("2.00 x faster")
    assert runs.trials[0] == ScriptTrial(6 * 20 + 2, validates=True)


def test_of_long_epochs_fewer_are_run(tmp_path: Path) -> None:
    change = replace(BY_NAME["take_first"], make=lambda text: text + "# changed\n")
    runs = Epochs(tmp_path)
    tried(runs, tmp_path, change, step_ms=1500.0)
    assert runs.trials[0].steps == 5 * 20 + 2, "of 30 s each"
    assert "an epoch takes 6" in tried(runs, tmp_path / "b", change, step_ms=3000.0)[0].outcome


@pytest.mark.parametrize(("name", "least"), [("take_first", 4), ("validation_freq", 11)])
def test_a_change_of_epochs_needs_so_many(name: str, least: int, tmp_path: Path) -> None:
    change = replace(BY_NAME[name], make=lambda text: text + "# changed\n")
    runs = Epochs(tmp_path)
    found, _ = tried(runs, tmp_path, change, epochs=least - 1)
    assert found.outcome == f"not tried: its fit has fewer than {least} epochs"
    assert tried(runs, tmp_path / "again", change, epochs=least)[0].estimate
