"""The cnn workload on tiny folders of images, with TensorFlow."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.whole import write_images
from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import Knobs
from tfwatch.workloads.data import image_folder
from tfwatch.workloads.data.synthetic_images import draw
from tfwatch.workloads.models import cnn
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import tensorflow as tf

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("own_cache")]

SETTINGS = Settings(batch_size=8, image_size=16, seed=7)
EVERY_KNOB = [
    pytest.param(Knobs(prefetch=3), id="prefetch 3"),
    pytest.param(Knobs(workers=4), id="workers 4"),
    pytest.param(Knobs(prefetch="auto", workers="auto"), id="both auto"),
    pytest.param(Knobs(prefetch="default", workers="default"), id="both default"),
    pytest.param(Knobs(workers="default", latency_ms=2.0), id="latency under default"),
    pytest.param(Knobs(prefetch=2, workers=2, latency_ms=2.0), id="latency, 2 and 2"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two classes with 61 readable images."""
    top = write_images(tmp_path_factory.mktemp("data"), 31, "disk", "dots")
    (top / "dots" / "30.jpg").unlink()
    return top


def prepare(folder: Path, **changes: Any) -> Prepared:
    settings = dataclasses.replace(SETTINGS, data=folder, **changes)
    cnn.check(settings)
    return cnn.prepare(settings, lambda _: None)


def drain(batches: tf.data.Dataset | Iterator[Any]) -> list[tuple[Any, ...]]:
    return [tuple(part.numpy() for part in batch) for batch in batches]


def assert_same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    assert len(one) == len(other) > 0
    for here, there in zip(one, other, strict=True):
        for part, same in zip(here, there, strict=True):
            np.testing.assert_array_equal(part, same)


@pytest.fixture(scope="module")
def epochs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The batches of three epochs with everything off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_folder, "cache_dir", lambda: tmp_path_factory.mktemp("cache"))
        plain = prepare(folder)
    batches = plain.pipeline(plain.source, Knobs())
    return [drain(batches) for _ in range(3)]


def test_an_epoch_holds_each_training_image_once_and_ends_ragged(folder: Path) -> None:
    ready = prepare(folder)
    assert (ready.images, ready.steps_per_epoch, ready.skipped) == (55, 7, 0)
    epoch = drain(ready.source)
    assert [len(batch[0]) for batch in epoch] == [8] * 6 + [7]
    assert len({path for batch in epoch for path in batch[0]}) == 55
    assert sorted(number for batch in epoch for number in batch[2]) == list(range(55))


def test_validation_holds_the_other_images(folder: Path) -> None:
    ready = prepare(folder)
    assert ready.validation is not None
    labels = [label for _, batch in drain(ready.validation) for label in batch]
    assert len(labels) == 6
    assert ready.validation.cardinality().numpy() == 1


def test_each_epoch_is_shuffled_differently_and_a_seed_repeats_all_epochs(folder: Path) -> None:
    ready, again = prepare(folder), prepare(folder)
    first, second = drain(ready.source), drain(ready.source)
    assert_same(first, drain(again.source))
    assert_same(second, drain(again.source))
    assert [tuple(batch[2]) for batch in first] != [tuple(batch[2]) for batch in second]
    assert first[0][3] != second[0][3]


@pytest.mark.parametrize("knobs", EVERY_KNOB)
def test_no_setting_changes_a_bit(folder: Path, epochs: list[Any], knobs: Knobs) -> None:
    turned = prepare(folder)
    batches = turned.pipeline(turned.source, knobs)
    for one in epochs[:2]:
        assert [len(labels) for _, labels in one] == [8] * 6 + [7]
        assert_same(one, drain(batches))


def test_several_pipelines_over_one_epoch_give_the_batches_of_one(
    folder: Path, epochs: list[Any]
) -> None:
    import tensorflow as tf

    again = prepare(folder)
    rest, pieces = list(again.source), []
    for knobs in (
        Knobs(),
        Knobs(prefetch=2, workers=3),
        Knobs(prefetch="default", workers="default"),
        Knobs(),
    ):
        count = 2 if len(rest) > 2 else len(rest)
        part = [tuple(tensor.numpy() for tensor in batch) for batch in rest[:count]]
        stream = tf.data.Dataset.from_generator(
            lambda part=part: iter(part), output_signature=again.source.element_spec
        )
        pieces += drain(again.pipeline(stream, knobs))
        rest = rest[count:]
    assert not rest
    assert_same(epochs[0], pieces)


@pytest.mark.parametrize("knobs", EVERY_KNOB)
def test_a_cache_changes_no_bit_and_once_it_is_full_no_file_is_read(
    folder: Path, epochs: list[Any], tmp_path: Path, knobs: Knobs
) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    cached, knobs = prepare(data), dataclasses.replace(knobs, cache=True)
    assert cached.store is not None
    cached.store.open()
    assert_same(epochs[0], drain(cached.pipeline(cached.source, knobs)))
    assert cached.store.examples_of().is_full
    shutil.rmtree(data)
    full = cached.pipeline(cached.source, knobs)
    for one in epochs[1:]:
        assert_same(one, drain(full))
    cached.store.close()


def test_a_cache_that_is_half_full_makes_the_rest(folder: Path, epochs: list[Any]) -> None:
    cached = prepare(folder)
    assert cached.store is not None
    assert_same(epochs[0][:3], drain(cached.pipeline(cached.source, Knobs(cache=True)).take(3)))
    assert not cached.store.examples_of().is_full
    assert_same(
        epochs[1], drain(cached.pipeline(cached.source, Knobs(cache=True, workers=2, prefetch=2)))
    )
    assert cached.store.examples_of().is_full


def test_images_are_augmented_differently_in_each_epoch(folder: Path) -> None:
    ready = prepare(folder, batch_size=64)
    epochs = []
    for _ in range(2):
        numbers = next(iter(ready.source))
        (pixels, _), *_ = drain(ready.pipeline(_only(numbers), Knobs()))
        epochs.append(pixels[np.argsort(numbers[2].numpy())])
    assert epochs[0].shape == (55, 16, 16, 3)
    assert 0 <= epochs[0].min() < epochs[0].max() <= 1
    assert (epochs[0] != epochs[1]).any(axis=(1, 2, 3)).all()


def _only(batch: tuple[tf.Tensor, ...]) -> tf.data.Dataset:
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(batch)


def test_broken_files_are_skipped_counted_and_named(folder: Path, tmp_path: Path) -> None:
    import tensorflow as tf

    data = tmp_path / "data"
    (data / "disk").mkdir(parents=True)
    whole = (folder / "disk" / "0.jpg").read_bytes()
    pixels = draw("disk", 1, seed=3)[0]
    files = {
        "good.jpg": whole,
        "grey.jpg": tf.io.encode_jpeg(pixels[..., :1], format="grayscale").numpy(),
        "png.jpg": tf.io.encode_png(pixels).numpy(),
        "cut.jpg": whole[: len(whole) // 2],
        "empty.jpg": b"",
        "words.jpg": b"not an image",
    }
    for name, content in files.items():
        (data / "disk" / name).write_bytes(content)
    ready = prepare(data)
    assert (ready.images, ready.skipped) == (3, 3)
    assert list(ready.examples) == ["disk/cut.jpg", "disk/empty.jpg", "disk/words.jpg"]
    assert [len(labels) for _, labels in drain(ready.pipeline(ready.source, Knobs()))] == [3]


def test_files_that_all_break_on_decoding_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "1.jpg").write_bytes(b"\xff\xd8\xff and no more")
    with pytest.raises(BadInputError, match=r"none of the 1 JPEG files in .* can be decoded"):
        prepare(tmp_path)


def test_the_check_of_the_images_is_stored_until_a_file_changes(folder: Path) -> None:
    listed, reported = image_folder.list_images(folder), list[str]()
    assert image_folder.readable(listed, reported.append).all()
    assert reported[-1] == "checking the images, 61 of 61 (once)"
    reported.clear()
    assert image_folder.readable(listed, reported.append).all()
    assert not reported
    os.utime(folder / "disk" / "0.jpg", ns=(1, random.getrandbits(40)))
    image_folder.readable(image_folder.list_images(folder), reported.append)
    assert reported


def test_the_model_trains_on_a_batch_and_is_the_same_for_the_same_seed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cnn, "_FILTERS", (8,))
    ready = prepare(folder)
    batch = next(iter(ready.pipeline(ready.source, Knobs())))
    losses = []
    for _ in range(2):
        model = ready.model()
        assert model.output_shape == (None, 2)
        losses.append([float(model.train_on_batch(*batch)[0]) for _ in range(3)])
    assert losses[0] == losses[1]
    assert losses[0][2] < losses[0][0]


@pytest.fixture
def _small_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_folder, "IMAGES_PER_CLASS", 4)
    monkeypatch.setattr(image_folder, "_CHUNK", 2)


@pytest.mark.usefixtures("_small_set")
def test_the_image_set_is_made_once_and_the_same_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = list[str]()
    first = image_folder.make_images(reported.append)
    assert reported[0] == "making the image set, 0 of 40 (once)"
    assert reported[-1] == "making the image set, 40 of 40, 0 s left (once)"
    assert (first / "disk" / "00001.jpg").is_file()
    assert [path.name for path in first.parent.iterdir()] == ["images-v1"]
    assert image_folder.make_images(pytest.fail) == first
    monkeypatch.setattr(image_folder, "cache_dir", lambda: tmp_path)
    second = image_folder.make_images(reported.append)
    assert _contents(first) == _contents(second)


@pytest.mark.usefixtures("_small_set")
def test_an_incomplete_set_is_made_again() -> None:
    home = image_folder.make_images(lambda _: None)
    whole = _contents(home)
    (home / "disk" / "00002.jpg").unlink()
    assert _contents(image_folder.make_images(lambda _: None)) == whole
    assert [path.name for path in home.parent.iterdir()] == ["images-v1"]


@pytest.mark.usefixtures("_small_set")
def test_the_second_of_two_processes_uses_the_set_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill, reported = image_folder._fill, list[str]()

    def overtaken(part: Path, report: Any, clock: Any) -> None:
        monkeypatch.setattr(image_folder, "_fill", fill)
        image_folder.make_images(reported.append)
        fill(part, report, clock)

    monkeypatch.setattr(image_folder, "_fill", overtaken)
    home = image_folder.make_images(lambda _: None)
    assert reported
    assert len(image_folder.list_images(home).paths) == 40
    assert [path.name for path in home.parent.iterdir()] == ["images-v1"]


@pytest.mark.usefixtures("_small_set")
def test_without_a_cache_folder_the_image_set_is_temporary_and_reported_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(image_folder, "cache_dir", lambda: tmp_path / "file")
    reported = list[str]()
    home = image_folder.make_images(reported.append)
    assert not home.is_relative_to(tmp_path / "file")
    assert len(image_folder.list_images(home).paths) == 40
    assert (
        reported[-1]
        == "making the image set, 40 of 40, 0 s left (once) - for this run only, cache: File exists"
    )


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.jpg"))
    }
