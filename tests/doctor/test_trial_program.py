"""The trial of TensorFlow for the check-up, in a real process."""

import os
from pathlib import Path

import pytest

from tfwatch.doctor import trial_program
from tfwatch.doctor.checks import why_wrong
from tfwatch.doctor.trial import LIMIT_S, run_program


@pytest.mark.tensorflow
def test_this_tensorflow_works_and_ignores_the_users_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('this is the user's own')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")  # tf.keras would need tf_keras
    trial = run_program("", LIMIT_S)

    assert trial.outcome == "completed"
    assert [one["device"] for one in trial.trained] == [one["name"] for one in trial.devices]
    assert not any(map(why_wrong, trial.trained))
    assert trial.xla_error == ""
    assert os.getcwd() == str(tmp_path)


@pytest.mark.tensorflow
def test_a_device_whose_weights_stand_still_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    monkeypatch.setattr(keras.optimizers.Adam, "apply_gradients", lambda *_: None)
    trained = {"device": "CPU:0", **trial_program.train_seeded("CPU:0")}

    assert why_wrong(trained).startswith("CPU:0 does not learn: the loss goes from ")
