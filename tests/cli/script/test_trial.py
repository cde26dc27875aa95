"""The first steps of a script in a process of its own, as `tfwatch fix --only` takes them."""

from pathlib import Path

import pytest

from tfwatch.cli import main
from tfwatch.cli.script import trial as trials
from tfwatch.cli.script.request import RunOptions
from tfwatch.fix import pairs
from tfwatch.runs.script_process import ScriptTrial

FITS = """
import sys
from pathlib import Path
import keras
import numpy as np

class Writes(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        Path("epoch").touch()

x = np.zeros((2560, 8), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae", keras.metrics.AUC(name="auc")])
try:
    saves = keras.callbacks.ModelCheckpoint("saved.keras", save_freq=10)
    model.fit(x, x[:, :1], batch_size=8, epochs=99, verbose=0, callbacks=[saves, Writes()])
finally:
    print(model.jit_compile, keras.config.dtype_policy().name, model.optimizer.iterations.numpy())
Path("after").touch()
"""
LOOPS = """
import keras
import tensorflow as tf

weight = tf.Variable(1.0)
optimizer = keras.optimizers.SGD()
for value in tf.data.Dataset.range(10**9).map(lambda one: tf.cast(one, tf.float32)):
    with tf.GradientTape() as tape:
        loss = weight * value
    optimizer.apply(tape.gradient(loss, [weight]), [weight])
"""


def trial(script: str, change: str) -> int:
    Path("train.py").write_text(script)
    return main(["fix", "--only", change, "train.py"])


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_script_without_a_fit_cannot_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert trial("print('no training')", "jit_compile") == 2
    said = capsys.readouterr().err
    assert "the script cannot be tried; it has no fit; no training" in said


def test_an_interpreter_that_is_not_there_is_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("train.py").touch()
    assert main(["fix", "--only", "jit_compile", "--python", "/no/python", "train.py"]) == 2
    sentence = "tfwatch: /no/python cannot be started: No such file or directory\n"
    assert capsys.readouterr().err == sentence


def test_a_process_that_does_not_end_after_its_run_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setattr(trials, "_LOOK_S", 0.05)
    runs = tmp_path / "runs"
    Path("train.py").write_text(
        "import time\nfrom tests.cli.fake_fits import fit\nfit(3)\ntime.sleep(600)\n"
    )
    options = RunOptions(["train.py", str(runs)], runs, headless=True, trial=ScriptTrial(60))
    run = trials.measure(options, "run 1")
    assert run.run.ended


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ("steps_per_execution", "steps_per_execution=8"),
        ("run_eagerly", "not tried: compile has no run_eagerly=True"),
    ],
)
def test_a_change_is_tried_and_nothing_after_its_steps_runs(
    change: str,
    outcome: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pairs, "PAIRS", 1)
    assert trial(FITS, change) in (0, 1)
    assert outcome in capsys.readouterr().err
    assert {one.name for one in Path().iterdir()} <= {"train.py", "epoch"}
    assert Path("train.py").read_text() == FITS


@pytest.mark.tensorflow
def test_a_loop_of_the_scripts_own_is_not_run_to_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trial(LOOPS, "jit_compile") == 2
    assert "a loop of the script's own cannot be tried: train.py:7" in capsys.readouterr().err
