"""Whole runs, as `tfwatch train` makes them, and what they train on."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Control
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.opened import Run, open_run
from tfwatch.training.request import Plan
from tfwatch.training.trainer import Outcome, Trainer
from tfwatch.workloads.data import arrays
from tfwatch.workloads.data.synthetic_images import draw

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tfwatch.runs.control.requests import Scheduled
    from tfwatch.workloads.workload import Settings


def run_to_end(plan: Plan, runs_dir: Path, control: Control | None = None) -> tuple[Run, Trainer]:
    """Train, and read the run folder."""
    writer, _ = begin_run(runs_dir, "run")
    trainer = Trainer(plan, writer, control or Control(plan.knobs))
    trainer.start()
    assert trainer.done.wait(120)
    writer.close()
    assert writer.folder
    return open_run(writer.folder), trainer


def train(
    name: str,
    settings: Settings,
    runs_dir: Path,
    *switches: Scheduled,
    knobs: Knobs | None = None,
    control: Control | None = None,
) -> tuple[Run, Outcome]:
    """Train a workload by its name; everything is off unless given."""
    run, trainer = run_to_end(Plan(name, settings, knobs or Knobs(), switches), runs_dir, control)
    assert trainer.outcome
    return run, trainer.outcome


def events_of(run: Run, kind: type) -> list[Any]:
    """Return the events of a kind."""
    return [event for event in run.events if isinstance(event, kind)]


def only(run: Run, kind: type) -> Any:
    """Return the only event of a kind."""
    (event,) = events_of(run, kind)
    return event


def result(run: Run) -> tuple[float | None, str | None]:
    """Return the last loss and the weights' digest: equal only if two trainings were equal bit for bit."""
    assert run.ended
    return run.ended.final_loss, run.ended.weights_sha256


def digest(model: Any) -> str:
    """Return the digest of a model's weights, as a run records it."""
    return hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()


def write_images(top: Path, count: int, *classes: str) -> Path:
    """Write a folder of classes with `count` JPEG files each, as `shapes.draw` draws them."""
    import tensorflow as tf

    for name in classes:
        (top / name).mkdir()
        for number, pixels in enumerate(draw(name, count, seed=1)):
            (top / name / f"{number}.jpg").write_bytes(tf.io.encode_jpeg(pixels).numpy())
    return top


def hold_out_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate on 8 examples in place of hundreds: with small batches that took longer than the training."""
    for name in ("generator", "large_images", "timeseries"):
        monkeypatch.setattr(f"tfwatch.workloads.models.{name}._HELD_OUT", 8)


def generate_arrays(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Generate `count` images in place of a downloaded set, and 20 for validation."""

    def load(
        name: str, load: Any, shape: tuple[int, ...], counts: tuple[int, int], notify: Any
    ) -> arrays.Arrays:
        return arrays.generated(shape, (count, 20), f"{name} is not asked for in tests")

    monkeypatch.setattr(arrays, "_load", load)
