"""Weights from one run to the next: what is restored, and what is reset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from tests.whole import events_of, run_to_end
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import Noted
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Phase
from tfwatch.runs.control.requests import Control
from tfwatch.runs.create import begin_run
from tfwatch.training.request import Plan
from tfwatch.training.trainer import Trainer
from tfwatch.workloads.workload import Settings

pytestmark = pytest.mark.tensorflow


def compiled(optimizer: Any = "adam", width: int = 4, policy: str = "float32") -> Any:
    import keras

    keras.utils.set_random_seed(width)
    layers = [keras.Input((8,)), keras.layers.Dense(width), keras.layers.Dense(2)]
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential(layers)
    model.compile(optimizer, "mse")
    keras.config.set_dtype_policy("float32")
    return model


@pytest.fixture(scope="module")
def trained() -> Any:
    model = compiled()
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(64, 8)), rng.normal(size=(64, 2)), verbose=0)
    return model


@pytest.fixture(scope="module")
def saved(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tfwatch.training import weights

    path = tmp_path_factory.mktemp("runs") / "earlier" / "last.weights.h5"
    path.parent.mkdir()
    weights.save(trained, path)
    return path


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def restored(model: Any, path: Path) -> str:
    from tfwatch.training import weights

    return weights.restore(model, path)


def test_weights_and_the_optimizers_state_are_restored(trained: Any, saved: Path) -> None:
    model = compiled()
    assert restored(model, saved) == "starts with the weights and the optimizer state of earlier"
    assert same(model.get_weights(), trained.get_weights())
    assert same(*([value.numpy() for value in one.optimizer.variables] for one in (model, trained)))
    assert [path.name for path in saved.parent.iterdir()] == ["last.weights.h5"]


def test_the_learning_rate_is_that_of_the_new_run(trained: Any, saved: Path) -> None:
    import keras

    model = compiled(keras.optimizers.Adam(0.5))
    restored(model, saved)
    assert float(model.optimizer.learning_rate) == 0.5
    assert int(model.optimizer.iterations) == int(trained.optimizer.iterations) == 2


@pytest.mark.parametrize(
    ("optimizer", "policy"),
    [
        pytest.param("sgd", "float32", id="other variables"),
        pytest.param("nadam", "float32", id="as many variables"),
        pytest.param("adam", "mixed_float16", id="wrapped for mixed precision"),
    ],
)
def test_another_optimizer_is_reset(optimizer: str, policy: str, trained: Any, saved: Path) -> None:
    model, fresh = compiled(optimizer, policy=policy), compiled(optimizer, policy=policy)
    sentence = restored(model, saved)
    assert (
        sentence == "starts with the weights of earlier; the optimizer is another one and is reset"
    )
    assert same(model.get_weights(), trained.get_weights())
    assert float(model.optimizer.learning_rate) == float(fresh.optimizer.learning_rate)
    assert int(model.optimizer.iterations) == 0


def test_a_missing_file_or_one_of_another_model_is_bad_input(saved: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.weights.h5"
    damaged.write_bytes(saved.read_bytes()[:500])
    for model, path in (
        (compiled(width=5), saved),
        (compiled(), damaged),
        (compiled(), tmp_path / "none.weights.h5"),
    ):
        with pytest.raises(BadInputError, match="does not fit this model: "):
            restored(model, path)


def test_a_file_in_the_current_folder_is_named_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match=r"^none\.weights\.h5 does not fit this model: "):
        restored(compiled(), Path("none.weights.h5"))


def test_a_file_that_cannot_be_written_leaves_nothing(trained: Any, tmp_path: Path) -> None:
    from tfwatch.training import weights

    with pytest.raises(OSError, match="none"):
        weights.save(trained, tmp_path / "none" / "last.weights.h5")


# -- by the trainer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_run_starts_where_the_previous_one_ended(
    mode: Literal["graph", "eager"], tmp_path: Path
) -> None:
    settings = Settings(size=8, steps=8, optimizer="sgd", learning_rate=0.1)
    run, first = run_to_end(Plan("matmul", settings, Knobs()), tmp_path / "runs")
    assert run.path
    path = run.path / "last.weights.h5"
    assert first.save_weights(path) == ""

    plan = Plan(
        "matmul", replace(settings, learning_rate=0.0, mode=mode), Knobs(), start_weights=path
    )
    restarted, second = run_to_end(plan, tmp_path / "runs")
    assert second.outcome
    assert second.outcome.cause == "finished", second.outcome.message
    assert same(second.model.get_weights(), first.model.get_weights())
    notes = [event.text for event in events_of(restarted, Noted)]
    assert f"starts with the weights and the optimizer state of {run.path.name}" in notes


def test_weights_are_saved_only_while_they_do_not_change(
    tmp_path: Path, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, _ = begin_run(tmp_path / "runs", "cnn")
    trainer = Trainer(Plan("cnn", Settings(), Knobs()), writer, Control())
    path = tmp_path / "last.weights.h5"
    assert trainer.save_weights(path) == "the model is not built yet"
    trainer.model = trained
    writer.phase(Phase.COMPUTE)
    assert trainer.save_weights(path) == "a step is running"
    assert not path.exists()
    writer.phase(Phase.WAIT)
    assert trainer.save_weights(path) == ""
    assert path.exists()
    save, path = trained.save_weights, tmp_path / "later.weights.h5"

    def moves_on(*args: Any, **options: Any) -> None:
        save(*args, **options)
        writer.phase(Phase.COMPUTE)

    monkeypatch.setattr(trained, "save_weights", moves_on)
    writer.phase(Phase.WAIT)
    assert trainer.save_weights(path) == "a step began while they were saved"
    assert not path.exists()
    writer.close()
