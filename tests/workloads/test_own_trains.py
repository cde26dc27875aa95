"""The user's own file trains as with `fit`, under every switch, and its own prefetch is noted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.whole import digest, events_of, result
from tests.workloads.files import EXAMPLE, IMPORTS, LIVE, MODEL, ONCE, VALIDATION, train
from tfwatch.core.events import DatasetReady, EpochEnded, Noted, PipelineSwitched, SwitchFailed
from tfwatch.core.knobs import Knobs, Setting
from tfwatch.runs.control import Scheduled
from tfwatch.training.trainer import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.tensorflow


def plain_fit(name: str, epochs: int, seed: int) -> tuple[float, str]:
    """Return the result of a script with the same functions, without tfwatch."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(seed)
    scope: dict[str, Any] = {}
    exec(Path(name).read_text(), scope)
    data, model = scope["dataset"](SimpleNamespace(num_parallel_calls=None)), scope["model"]()
    # Keras makes iterators over the data beyond one an epoch, and each shuffles once more (see test_trainer).
    model.fit(tf.data.Dataset.from_tensors((tf.zeros((1, 4)), tf.zeros((1, 1)))), epochs=0, verbose=0)
    history = model.fit(data.repeat(epochs), epochs=epochs, steps_per_epoch=13, verbose=0)
    return history.history["loss"][-1], digest(model)


def test_a_data_set_trains_as_in_a_script_bit_for_bit_under_every_switch(
    written: Callable[[str], str], tmp_path: Path
) -> None:
    name = written(ONCE)
    values: tuple[tuple[int, Setting], ...] = ((3, 4), (9, "default"), (15, "off"), (20, "auto"))
    switches = [Scheduled(step, "prefetch", value) for step, value in values]
    still, outcome = train(name, tmp_path, epochs=2, seed=3)
    assert outcome == Outcome("finished")
    turned, _ = train(name, tmp_path, Knobs(workers=2), *switches, epochs=2, seed=3)
    assert len(events_of(turned, PipelineSwitched)) >= 3
    assert result(turned) == result(still) == plain_fit(name, 2, 3)
    assert (len(still.steps), still.manifest.steps_per_epoch, still.manifest.metric) == (26, 13, "mean_absolute_error")
    assert events_of(still, DatasetReady)[0].images is None


def test_a_pipeline_is_switched_live_and_changes_no_bit(written: Callable[[str], str], tmp_path: Path) -> None:
    name = written(IMPORTS + EXAMPLE + LIVE + MODEL + VALIDATION)
    switches = [Scheduled(2, "workers", 2), Scheduled(7, "prefetch", 2), Scheduled(12, "fast_pipeline", True)]
    still, outcome = train(name, tmp_path, epochs=2, seed=3)
    assert outcome == Outcome("finished")
    turned, _ = train(name, tmp_path, None, *switches, epochs=2, seed=3)
    assert {event.knob for event in events_of(turned, PipelineSwitched)} == {"workers", "prefetch", "fast_pipeline"}
    assert result(turned) == result(still)
    assert "val_loss" in events_of(still, EpochEnded)[-1].metrics


@pytest.mark.parametrize(
    ("stages", "workers", "notes"),
    [
        pytest.param("", "off", [], id="none"),
        pytest.param("", 2, [], id="asked"),
        pytest.param(".prefetch(2)", 2, ["own.py sets prefetch itself: the knobs do not turn it off"], id="prefetch"),
        pytest.param(
            ".map(lambda *xy: xy, num_parallel_calls=2).prefetch(2)",
            "off",
            ["own.py sets num_parallel_calls and prefetch itself: the knobs do not turn it off"],
            id="both",
        ),
    ],
)
def test_prefetch_and_parallel_calls_in_the_file_are_noted(
    stages: str, workers: Setting, notes: list[str], written: Callable[[str], str], tmp_path: Path
) -> None:
    run, _ = train(written(ONCE.replace(".batch(8)", f".batch(8){stages}")), tmp_path, Knobs(workers=workers), steps=2)
    assert [event.text for event in events_of(run, Noted) if " itself: " in event.text] == notes


def test_a_form_with_other_shapes_is_refused_and_training_continues(
    written: Callable[[str], str], tmp_path: Path
) -> None:
    text = LIVE.replace("(tf.float32, tf.float32)))", "(tf.float32, tf.float32))).map(lambda x, y: (x, y, y))")
    run, outcome = train(written(IMPORTS + EXAMPLE + text + MODEL), tmp_path, None, Scheduled(3, "fast_pipeline", True))
    assert outcome == Outcome("finished")
    (refused,) = events_of(run, SwitchFailed)
    assert refused.reason.endswith("own.py:11: pipeline() returns batches of another shape or type under these knobs")
    assert len(run.steps) == 13


def test_modules_beside_the_file_can_be_imported(written: Callable[[str], str], tmp_path: Path) -> None:
    Path("beside.py").write_text("raise ValueError('not today')")
    _, outcome = train(written("import beside\n" + ONCE), tmp_path)
    assert outcome.message == "beside.py:1: ValueError: not today"
