"""The workloads whose pipelines have a usual and a fast pipeline, with TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.whole import generate_arrays
from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import Knobs
from tfwatch.workloads import registry
from tfwatch.workloads.models import conv, large_images
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    import tensorflow as tf

pytestmark = pytest.mark.tensorflow

WITH_FORMS = [name for name, entry in registry.WORKLOADS.items() if entry.fast]
#: Compared in a test at most, 12 MB: 1 000 examples of most workloads, 90 of the largest.
_VALUES = 3 * 10**6
SETTINGS = Settings(batch_size=6, seed=3, size=6)


@pytest.fixture(autouse=True)
def _few_generated_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    generate_arrays(monkeypatch, 40)


@pytest.fixture
def _small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make images of 33x33 in place of 256x256: their values have a vector's ragged end."""
    monkeypatch.setattr(conv, "_SIDE", 33)
    monkeypatch.setattr(large_images, "_SHAPE", (33, 33, 3))


def prepare(name: str, **changes: Any) -> Prepared:
    prepared: Prepared = registry.load(name).prepare(
        dataclasses.replace(SETTINGS, **changes), lambda _: None
    )
    return prepared


def batches(prepared: Prepared, source: tf.data.Dataset, knobs: Knobs) -> list[Any]:
    return [(np.asarray(x), np.asarray(y)) for x, y in prepared.pipeline(source, knobs)]


@pytest.mark.usefixtures("_small_images")
@pytest.mark.parametrize("name", WITH_FORMS)
def test_both_forms_give_the_same_batches_under_every_knob(name: str) -> None:
    prepared = prepare(name)
    source = prepared.source.take(7).cache()
    slow = batches(prepared, source, Knobs())
    assert [len(y) for _, y in slow[:-1]] == [6] * (len(slow) - 1)
    for knobs in (
        Knobs(fast_pipeline=True),
        Knobs(prefetch=2, workers="auto"),
        Knobs(prefetch="default", workers=3, fast_pipeline=True),
    ):
        for (x, y), (same_x, same_y) in zip(slow, batches(prepared, source, knobs), strict=True):
            np.testing.assert_array_equal(x, same_x)
            np.testing.assert_array_equal(y, same_y)
    spec = prepared.pipeline(prepared.source, Knobs()).element_spec
    assert spec == prepared.pipeline(prepared.source, Knobs(fast_pipeline=True)).element_spec


@pytest.mark.usefixtures("_small_images")
@pytest.mark.parametrize("name", WITH_FORMS)
def test_both_forms_give_the_same_examples_bit_for_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate_arrays(monkeypatch, 1000)
    prepared = prepare(name, batch_size=7, size=7)
    source = prepared.source.take(
        145
    ).cache()  # 1 000 examples, and a vector's ragged end in each batch
    assert len(list(source)) > 1
    slow, fast = (prepared.pipeline(source, Knobs(fast_pipeline=form)) for form in (False, True))
    compared = 0
    for (x, y), (same_x, same_y) in zip(slow, fast, strict=True):
        for one, other in ((x, same_x), (y, same_y)):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        compared += len(x)
        if compared * max(x[0].shape.num_elements(), y[0].shape.num_elements()) > _VALUES:
            break
    assert compared >= 40


@pytest.mark.parametrize("name", WITH_FORMS)
def test_a_seed_repeats_its_epochs_and_each_is_shuffled_differently(name: str) -> None:
    prepared, again = prepare(name), prepare(name)
    first, second = (
        np.concatenate(list(prepared.source.take(5).as_numpy_iterator())) for _ in range(2)
    )
    repeated = np.concatenate(list(again.source.take(5).as_numpy_iterator()))
    np.testing.assert_array_equal(first, repeated)
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("name", WITH_FORMS)
def test_it_learns(name: str) -> None:
    prepared = prepare(name, batch_size=4, size=16)
    model = prepared.model()
    data = prepared.pipeline(prepared.source.take(4).cache(), Knobs(fast_pipeline=True))
    losses = model.fit(data, epochs=6, verbose=0, shuffle=False).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert prepared.validation is not None


def test_settings_default_to_those_of_the_workload() -> None:
    assert registry.settle("dense", {"epochs": None, "seed": 4}) == Settings(epochs=10, seed=4)
    assert registry.settle("dense", {"epochs": 2}).epochs == 2
    with pytest.raises(BadInputError, match="dense takes no --image-size"):
        registry.settle("dense", {"image_size": 32})
    with pytest.raises(BadInputError, match="did you mean generator"):
        registry.settle("generater", {})
