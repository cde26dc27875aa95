"""`tfwatch run` with TensorFlow: scripts in the manner of the Keras guides give what they give
without tfwatch."""

import re
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from tests.bench import scripts
from tests.bench.scripts import Outcome, steps_of
from tfwatch import open_run
from tfwatch.core.events import EpochStarted
from tfwatch.runs.library import list_runs

pytestmark = pytest.mark.tensorflow

#: A frame of a traceback.
FRAME = re.compile(r'^  File "([^"]*)", line (\d+), in (.*)$', re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the runs of tfwatch, and those of the script's own Watch."""
    return tmp_path_factory.mktemp("guide")


@pytest.fixture(scope="module")
def bare(folder: Path) -> Outcome:
    """The script without tfwatch."""
    return scripts.execute(["guide.py", str(folder / "own_bare")], None)


@pytest.fixture(scope="module")
def under(folder: Path) -> Outcome:
    """The script under `tfwatch run`."""
    return scripts.execute(["guide.py", str(folder / "own")], folder / "runs")


def frames(text: str) -> list[tuple[str, ...]]:
    """Return the frames of a traceback; Keras repeats its own where no other is left."""
    return [found for found, _ in groupby(FRAME.findall(text))]


def test_a_script_gives_the_same_weights_output_exit_code_and_traceback(
    bare: Outcome, under: Outcome, folder: Path
) -> None:
    loops, losses, digest = bare.output.splitlines()[-3:]
    assert loops == "['gradient_tape', 'train_on_batch']", bare.errors
    assert (len(losses.split(", ")), len(digest)) == (2, 64)
    assert (under.output, under.code) == (bare.output, bare.code) == (bare.output, 1)
    assert frames(under.errors) == frames(bare.errors) != []
    assert "guide on CPU" in under.errors
    assert [len(open_run(path).steps) for path in list_runs(folder / "own")] == [8]
    assert [steps_of(run) for run in under.runs] == [24, 26, 30, 32, 0]


def test_loops_of_a_scripts_own_are_recorded(under: Outcome) -> None:
    tape, calls, batches, raised = under.runs[1:]
    assert raised.ended
    assert raised.ended.cause == "failed"
    assert np.median(tape.steps["wait_ms"]) > 10.0  # each batch is read for 10 ms
    assert tape.steps["epoch"].tolist() == [0] * 10 + [1] * 10 + [2] * 6
    assert [event.steps for event in tape.events.of(EpochStarted)] == [10] * 3
    assert (len(calls.steps), calls.manifest.not_split) == (30, "")
    assert (len(batches.steps), batches.ended and batches.ended.cause) == (32, "finished")
