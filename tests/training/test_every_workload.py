"""Every workload learns, through all of a run, at its smallest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tfwatch import workloads
from tfwatch.core.knobs import Knobs
from tfwatch.runs.begin import begin_run
from tfwatch.runs.control import Control
from tfwatch.training.books import Books
from tfwatch.training.plan import Plan
from tfwatch.training.trainer import Trainer
from tfwatch.workloads import arrays, readable
from tfwatch.workloads.shapes import draw

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tensorflow

STEPS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of 30 images."""
    import tensorflow as tf

    top = tmp_path_factory.mktemp("data")
    for name in ("disk", "stripes"):
        (top / name).mkdir()
        for number, pixels in enumerate(draw(name, 30, seed=1)):
            (top / name / f"{number}.jpg").write_bytes(tf.io.encode_jpeg(pixels).numpy())
    return top


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Of each step, as it is told: under `fit` the epoch's mean so far."""
    told: list[float] = []
    tell = Books._tell_progress

    def listen(books: Books, steps: int, examples: int, logs: dict[str, Any]) -> None:
        told.append(logs["loss"])
        tell(books, steps, examples, logs)

    monkeypatch.setattr(Books, "_tell_progress", listen)
    return told


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_its_loss_falls_in_fifty_steps(
    name: str, folder: Path, losses: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str, load: Any, shape: tuple[int, ...], counts: tuple[int, int], say: Any) -> arrays.Arrays:
        return arrays.generated(shape, (400, 20), f"{name} is not asked for in tests")

    monkeypatch.setattr(arrays, "_load", load)
    monkeypatch.setattr(readable, "cache_dir", lambda: tmp_path)
    entry = workloads.WORKLOADS[name]
    own = {"size": 16, "image_size": 32, "data": folder, "weights": "none"}
    asked = {"batch_size": 4, "steps": STEPS, "seed": 1, **{key: own[key] for key in entry.takes}}
    knobs = Knobs(prefetch=1, fast_form=bool(entry.fast))
    writer, _ = begin_run(tmp_path / "runs", name)
    trainer = Trainer(Plan(name, workloads.settle(name, asked), knobs), writer, Control(knobs))
    trainer.start()
    assert trainer.done.wait(120)
    writer.close()
    assert trainer.outcome
    assert (trainer.outcome.cause, len(losses)) == ("finished", STEPS)
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
