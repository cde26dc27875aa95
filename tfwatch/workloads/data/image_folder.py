"""Folders of images: a user's listed, the synthetic one made once, and the files that cannot be decoded.

A folder has a sub-folder for each class. Every file is decoded once, and the result is stored in the cache folder.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import platformdirs

from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.runs.format import write_atomically
from tfwatch.workloads.data.synthetic_images import CLASSES, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tensorflow as tf
    from numpy.typing import NDArray

SUFFIXES = (".jpg", ".jpeg")
#: First bytes of the formats that TensorFlow's JPEG decoder reads: JPEG, and misnamed PNG and GIF.
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8")

IMAGES_PER_CLASS = 800
_CHUNK = 50
_QUALITY = 62
_ABANDONED_NS = 3600 * 10**9


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """The JPEG files of a folder whose sub-folders are classes, in the order of their names.

    paths: as bytes, because a name may be invalid text. labels: the indices of the classes.
    sizes_bytes, changed_ns: these distinguish a file from a later one of the same name.
    """

    folder: Path
    classes: tuple[str, ...]
    paths: tuple[bytes, ...]
    labels: NDArray[np.int32]
    sizes_bytes: tuple[int, ...]
    changed_ns: tuple[int, ...]


def cache_dir() -> Path:
    """Return the folder of files that tfwatch can make again."""
    return Path(platformdirs.user_cache_dir("tfwatch", appauthor=False))


def list_images(folder: Path) -> ImageFolder:
    """List a folder of classes; a class is a sub-folder that holds JPEG files at any depth.

    Raises:
        BadInputError: the folder does not exist, cannot be read, or holds no class or no JPEG file.
    """
    folder = Path(os.path.expanduser(folder))
    found = [
        (name, files)
        for name, path in _class_folders(folder)
        if (files := sorted(_jpeg_files(path)))
    ]
    if not found:
        raise BadInputError(f"{folder} has sub-folders, but no .jpg or .jpeg file in any of them")
    files = [file for _, files in found for file in files]
    return ImageFolder(
        folder=folder,
        classes=tuple(name for name, _ in found),
        paths=tuple(path for path, _, _ in files),
        labels=np.repeat(np.arange(len(found), dtype=np.int32), [len(files) for _, files in found]),
        sizes_bytes=tuple(size for _, size, _ in files),
        changed_ns=tuple(changed for _, _, changed in files),
    )


def check_images(folder: Path) -> None:
    """Check that a folder of classes holds at least one file that begins like an image.

    Raises:
        BadInputError: as `list_images`, or no file begins like an image.
    """
    images = list_images(folder)
    if not any(_begins_like_an_image(path) for path in images.paths):
        raise BadInputError(
            f"none of the {units.count(len(images.paths))} files in {images.folder} is a JPEG image"
        )


def make_images(report: Callable[[str], None], clock: Clock = SYSTEM) -> Path:
    """Return the folder of the synthetic image set, made on first use; `report` gets progress texts.

    Where the cache folder cannot be written, it is a temporary folder that is removed when the process ends.

    Raises:
        BadInputError: neither folder can be written.
    """
    home = cache_dir() / "images-v1"
    if _is_complete(home):
        return home
    try:
        return _make_in(home.parent, home.name, report, clock)
    except OSError as error:
        reason = error.strerror or str(error)
    try:
        place = Path(tempfile.mkdtemp(prefix="tfwatch-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        return _make_in(
            place,
            home.name,
            lambda text: report(f"{text} - for this run only, cache: {reason}"),
            clock,
        )
    except OSError as error:
        raise BadInputError(
            f"the image set cannot be made: {error.strerror or error} in {tempfile.gettempdir()}, "
            f"{reason} in {home.parent}; give your own with --data"
        ) from error


def _class_folders(folder: Path) -> list[tuple[str, Path]]:
    try:
        entries = sorted((e.name, Path(e.path)) for e in os.scandir(folder) if e.is_dir())
    except FileNotFoundError:
        raise BadInputError(f"there is no folder {folder}") from None
    except NotADirectoryError:
        raise BadInputError(f"{folder} is not a folder") from None
    except OSError as error:
        raise BadInputError(f"{folder} cannot be read: {error.strerror or error}") from error
    visible = [(name, path) for name, path in entries if not name.startswith(".")]
    if not visible:
        raise BadInputError(
            f"{folder} has no sub-folders: put each class's images into a sub-folder named after it"
        )
    return visible


def _jpeg_files(folder: Path) -> Iterator[tuple[bytes, int, int]]:
    """Yield (path, bytes, time of change) of each file, without hidden and unreadable ones."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                path = os.path.join(place, name)
                try:
                    status = os.stat(path)
                except OSError:
                    continue
                yield os.fsencode(path), status.st_size, status.st_mtime_ns


def _begins_like_an_image(path: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4).startswith(_MAGIC)
    except OSError:
        return False


def _is_complete(folder: Path) -> bool:
    try:
        return len(list_images(folder).paths) == IMAGES_PER_CLASS * len(CLASSES)
    except BadInputError:
        return False


def _make_in(place: Path, name: str, report: Callable[[str], None], clock: Clock) -> Path:
    """Make the set under a temporary name, then rename it, so that no process sees an incomplete set."""
    place.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=place))
    try:
        _fill(part, report, clock)
        part.chmod(0o755)
        return _move_into_place(part, place / name)
    finally:
        _remove_parts(place, name, part, clock)


def _remove_parts(place: Path, name: str, mine: Path, clock: Clock) -> None:
    """Remove the parts of this attempt, and of others that were killed more than an hour ago."""
    for part in place.glob(f"{name}.part-*"):
        with contextlib.suppress(OSError):
            if (
                part.name.startswith(mine.name)
                or clock.wall_ns() - part.stat().st_mtime_ns > _ABANDONED_NS
            ):
                shutil.rmtree(part)


def _move_into_place(part: Path, home: Path) -> Path:
    """Rename the complete set to its place; if another process was first, use that set."""
    if home.exists() and not _is_complete(home):
        with contextlib.suppress(FileNotFoundError):
            home.rename(part.with_name(f"{part.name}-old"))
    try:
        part.rename(home)
    except OSError:
        if not _is_complete(home):
            raise
    return home


def _fill(part: Path, report: Callable[[str], None], clock: Clock) -> None:
    total, start_ns = IMAGES_PER_CLASS * len(CLASSES), clock.now_ns()
    report(f"making the image set, 0 of {units.count(total)} (once)")
    for name in CLASSES:
        (part / name).mkdir()
    chunks = [(name, first) for first in range(0, IMAGES_PER_CLASS, _CHUNK) for name in CLASSES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for done, future in enumerate(
                as_completed([pool.submit(_make_chunk, part, *c) for c in chunks]), 1
            ):
                future.result()
                left_s = (clock.now_ns() - start_ns) / 1e9 / done * (len(chunks) - done)
                made = f"{units.count(done * _CHUNK)} of {units.count(total)}"
                report(f"making the image set, {made}, {left_s:.0f} s left (once)")
        finally:
            pool.shutdown(cancel_futures=True)


def _make_chunk(part: Path, name: str, first: int) -> None:
    import tensorflow as tf

    seed = list(CLASSES).index(name) * IMAGES_PER_CLASS + first
    for number, pixels in enumerate(draw(name, _CHUNK, seed), first + 1):
        data = tf.io.encode_jpeg(tf.constant(pixels), quality=_QUALITY, chroma_downsampling=True)
        (part / name / f"{number:05d}.jpg").write_bytes(data.numpy())


_BATCH = 64


def readable(images: ImageFolder, report: Callable[[str], None]) -> NDArray[np.bool_]:
    """Return for each file True where TensorFlow decodes it; `report` gets progress texts of the first check."""
    path = cache_dir() / "checked" / f"{_key(images)}.json"
    count = len(images.paths)
    good = np.ones(count, dtype=np.bool_)
    broken = _load_broken(path, count)
    if broken is None:
        broken = _find_broken(images, report)
        _save_broken(path, broken)
    good[broken] = False
    return good


def decode(data: tf.Tensor) -> tf.Tensor:
    """Decode a file's bytes to pixels of three channels; a file is broken where this fails."""
    import tensorflow as tf

    return tf.io.decode_jpeg(data, channels=3)


def _key(images: ImageFolder) -> str:
    """Return a hash of the files, their sizes and times of change."""
    digest = hashlib.sha256()
    for path, size, changed in zip(
        images.paths, images.sizes_bytes, images.changed_ns, strict=True
    ):
        digest.update(b"%s\0%d %d\0" % (os.path.abspath(path), size, changed))
    return digest.hexdigest()[:32]


def _load_broken(path: Path, count: int) -> list[int] | None:
    try:
        broken = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    known = isinstance(broken, list) and all(isinstance(n, int) and 0 <= n < count for n in broken)
    return broken if known else None


def _save_broken(path: Path, broken: list[int]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(broken))
    except OSError:
        # The next start checks the files again; nothing else is lost.
        return


def _find_broken(images: ImageFolder, report: Callable[[str], None]) -> list[int]:
    """Decode all files on all cores; return the numbers of those that fail."""
    import tensorflow as tf

    count, paths = len(images.paths), tf.constant(images.paths)

    def pixels_of(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The size is an output because TensorFlow skips computations without one.
        return number, tf.size(decode(tf.io.read_file(paths[number])))

    decoded = tf.data.Dataset.range(count).map(pixels_of, num_parallel_calls=tf.data.AUTOTUNE)
    good = np.zeros(count, dtype=np.bool_)
    report(f"checking {units.counted(count, 'image')} (once)")
    for numbers, _ in decoded.ignore_errors().batch(_BATCH):
        good[numbers.numpy()] = True
        report(
            f"checking the images, {units.count(int(numbers[-1]) + 1)} of {units.count(count)} (once)"
        )
    return [int(number) for number in np.flatnonzero(~good)]
