"""Listing and checking folders of classes, without TensorFlow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tfwatch.core.errors import BadInputError
from tfwatch.workloads.data.image_folder import check_images, list_images
from tfwatch.workloads.data.synthetic_images import CLASSES, SIDE, draw
from tfwatch.workloads.models import cnn
from tfwatch.workloads.registry import load
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from pathlib import Path

JPEG = b"\xff\xd8\xff\xe0 and so on"


def put(folder: Path, name: str, data: bytes = JPEG) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_sub_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    put(tmp_path, "zebra/1.jpg")
    put(tmp_path, "ant/2.JPEG")
    put(tmp_path, "ant/1.Jpg")
    images = list_images(tmp_path)
    assert images.classes == ("ant", "zebra")
    assert [path.rsplit(b"/", 2)[1:] for path in images.paths] == [
        [b"ant", b"1.Jpg"],
        [b"ant", b"2.JPEG"],
        [b"zebra", b"1.jpg"],
    ]
    assert images.labels.tolist() == [0, 0, 1]
    assert images.sizes_bytes == (len(JPEG),) * 3


def test_files_deeper_in_a_class_belong_to_it(tmp_path: Path) -> None:
    put(tmp_path, "ant/2019/1.jpg")
    assert list_images(tmp_path).classes == ("ant",)


def test_hidden_files_other_kinds_and_folders_without_images_are_skipped(tmp_path: Path) -> None:
    put(tmp_path, "ant/1.jpg")
    put(tmp_path, "ant/._1.jpg")
    put(tmp_path, "ant/notes.txt")
    put(tmp_path, ".git/1.jpg")
    put(tmp_path, "empty/notes.txt")
    images = list_images(tmp_path)
    assert images.classes == ("ant",)
    assert len(images.paths) == 1


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS refuses file names that are not UTF-8")
def test_a_file_name_may_be_invalid_text(tmp_path: Path) -> None:
    (tmp_path / "ant").mkdir()
    with open(bytes(tmp_path) + b"/ant/\xff.jpg", "wb") as file:
        file.write(JPEG)
    assert list_images(tmp_path).paths[0].endswith(b"/ant/\xff.jpg")


def _missing(folder: Path) -> Path:
    return folder / "nowhere"


def _a_file(folder: Path) -> Path:
    return put(folder, "file.jpg")


def _flat(folder: Path) -> Path:
    return put(folder, "1.jpg").parent


def _no_jpeg(folder: Path) -> Path:
    return put(folder, "ant/1.txt").parent.parent


def _all_broken(folder: Path) -> Path:
    put(folder, "ant/2.jpg", b"")
    return put(folder, "ant/1.jpg", b"<html>").parent.parent


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        pytest.param(_missing, "there is no folder {}", id="missing"),
        pytest.param(_a_file, "{} is not a folder", id="a file"),
        pytest.param(
            _flat,
            "{} has no sub-folders: put each class's images into a sub-folder named after it",
            id="no classes",
        ),
        pytest.param(
            _no_jpeg,
            "{} has sub-folders, but no .jpg or .jpeg file in any of them",
            id="no JPEG files",
        ),
        pytest.param(
            _all_broken, "none of the 2 files in {} is a JPEG image", id="all plainly broken"
        ),
    ],
)
def test_a_bad_folder_is_reported_in_one_sentence(
    make: object, sentence: str, tmp_path: Path
) -> None:
    folder = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(BadInputError) as caught:
        cnn.check(Settings(data=folder))
    assert str(caught.value) == sentence.format(folder)


def test_one_possible_image_passes_the_first_check(tmp_path: Path) -> None:
    put(tmp_path, "ant/1.jpg", b"<html>")
    put(tmp_path, "ant/2.jpg", b"\x89PNG under a wrong name")
    check_images(tmp_path)
    assert len(list_images(tmp_path).paths) == 2


def test_the_network_has_a_smallest_image() -> None:
    cnn.check(Settings(image_size=16))
    with pytest.raises(BadInputError, match="image size of 15 is too small"):
        cnn.check(Settings(image_size=15))


def test_the_nearest_workload_is_named() -> None:
    assert load("cnn") is cnn
    with pytest.raises(BadInputError, match="no workload 'cn': did you mean cnn"):
        load("cn")


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_drawn_the_same_from_the_same_seed(name: str) -> None:
    once, again, other = draw(name, 3, seed=1), draw(name, 3, seed=1), draw(name, 3, seed=2)
    assert once.shape == (3, SIDE, SIDE, 3)
    assert (once == again).all()
    assert (once != other).any()
    assert once.std() > 10
