"""The trial of TensorFlow for the check-up, in a real process."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.checks import trial_program
from tfwatch.doctor.checks import parting_of_moves
from tfwatch.doctor.trial import try_tensorflow

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.tensorflow
def test_this_tensorflow_works_and_ignores_the_users_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('this is the user's own')\n")
    monkeypatch.chdir(tmp_path)
    trial = try_tensorflow()

    assert trial.outcome == "completed"
    assert [one["device"] for one in trial.trained] == [one["name"] for one in trial.devices]
    assert all(one["placed"] == one["device"] for one in trial.trained)
    assert not any(parting_of_moves(one["device"], one["moves"]) for one in trial.trained)
    assert trial.xla_error == ""
    assert os.getcwd() == str(tmp_path)


@cache
def seeded() -> trial_program.Moves:
    return trial_program.train_seeded("CPU:0", eager=False)[0]


def wrong_at(weight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the weight of this index stand still, in every optimizer."""
    import keras

    apply = keras.optimizers.Adam.apply_gradients

    def without_one(optimizer: Any, pairs: Any) -> Any:
        return apply(
            optimizer, [(0 * one if n == weight else one, of) for n, (one, of) in enumerate(pairs)]
        )

    monkeypatch.setattr(keras.optimizers.Adam, "apply_gradients", without_one)


@pytest.mark.tensorflow
@pytest.mark.parametrize("weight", [pytest.param(2, id="gamma"), pytest.param(7, id="bias")])
def test_a_weight_that_stands_still_parts_from_the_cpu(
    weight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = seeded()
    wrong_at(weight, monkeypatch)
    wrong, _ = trial_program.train_seeded("CPU:0", eager=False)

    assert f"{right[weight][0]} moves otherwise" in parting_of_moves(
        "CPU:0", trial_program.moves_apart(right, wrong)
    )


@pytest.mark.tensorflow
def test_a_device_that_trains_wrongly_parts_from_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    right, adam = seeded(), keras.optimizers.Adam
    monkeypatch.setattr(keras.optimizers, "Adam", lambda rate: adam(rate, beta_1=0.0))
    wrong, _ = trial_program.train_seeded("CPU:0", eager=False)

    assert "moves otherwise" in parting_of_moves("CPU:0", trial_program.moves_apart(right, wrong))
