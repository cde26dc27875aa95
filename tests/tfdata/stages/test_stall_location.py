"""The line of Python that runs during a stall, of the training or of a generator."""

from __future__ import annotations

import sys
import sysconfig
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.tfdata.stages.stall_location import find_running_line

if TYPE_CHECKING:
    from types import FrameType

TRAINS, OTHER = 1, 2
SCRIPT_OPS = "/site/tensorflow/python/ops/script_ops.py"
LIBRARY = str(Path(sysconfig.get_path("stdlib")) / "queue.py")


def frame(*files: str) -> FrameType:
    """Return the innermost frame of functions `f0`, `f1`... in these files, the outermost first."""
    innermost: list[Any] = []
    call: Any = lambda: innermost.append(sys._getframe(1))  # noqa: E731
    for n in reversed(range(len(files))):
        names: dict[str, Any] = {"inner": call}
        exec(
            compile(f"def f{n}():\n    inner()", files[n], "exec"), names
        )  # a function in a file of that name
        call = names[f"f{n}"]
    call()
    found: FrameType = innermost[0]
    return found


def test_the_running_line_is_the_innermost_outside_libraries() -> None:
    frames = {TRAINS: frame("/home/me/train.py", "/home/me/feed.py", LIBRARY)}

    assert find_running_line(TRAINS, frames) == ("feed.py:2 in f1", "training")


@pytest.mark.parametrize(
    "folder", ["/opt/base/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages"]
)
def test_a_library_of_another_environment_on_the_path_is_none_of_the_users_lines(
    folder: str,
) -> None:
    frames = {
        TRAINS: frame("/home/me/train.py", f"{folder}/tensorflow/python/autograph/impl/api.py")
    }

    assert find_running_line(TRAINS, frames) == ("train.py:2 in f0", "training")


def test_a_function_that_tensorflow_called_precedes_the_training_line() -> None:
    frames = {
        TRAINS: frame("/home/me/train.py"),
        OTHER: frame(SCRIPT_OPS, "/home/me/rows.py", LIBRARY),
    }

    assert find_running_line(TRAINS, frames) == ("rows.py:2 in f1", "generator")


def test_a_thread_that_tensorflow_did_not_call_is_ignored() -> None:
    frames = {TRAINS: frame("/home/me/train.py"), OTHER: frame("/home/me/server.py")}

    assert find_running_line(TRAINS, frames) == ("train.py:2 in f0", "training")


COPY = "/tmp/__autograph_generated_file1_.py"
API = str(Path(sysconfig.get_path("purelib")) / "tensorflow/python/autograph/impl/api.py")


def test_a_line_of_a_copy_by_autograph_is_the_line_that_it_was_made_of() -> None:
    frames = {TRAINS: frame("/home/me/train.py"), OTHER: frame(SCRIPT_OPS, API, COPY, API)}
    origin = SimpleNamespace(
        loc=SimpleNamespace(filename="/home/me/maps.py", lineno=7), function_name="read"
    )

    found = find_running_line(TRAINS, frames, lambda: [{}, {(COPY, 2): origin}])

    assert found == ("maps.py:7 in read", "generator")


def test_a_copy_by_autograph_of_unknown_origin_is_ignored() -> None:
    frames = {TRAINS: frame("/home/me/train.py"), OTHER: frame(SCRIPT_OPS, API, COPY, API)}

    assert find_running_line(TRAINS, frames, lambda: []) == ("train.py:2 in f0", "training")


def test_if_all_frames_are_in_libraries_no_line_is_named() -> None:
    over = threading.Event()
    waiting = threading.Thread(target=over.wait)
    waiting.start()
    try:
        found = find_running_line(waiting.ident or 0)
    finally:
        over.set()
        waiting.join()

    assert found == ("", "")


@pytest.mark.tensorflow
def test_a_py_function_defined_in_a_mapped_function_is_located_at_its_line() -> None:
    import tensorflow as tf

    began, over = threading.Event(), threading.Event()

    def slow(number: Any) -> Any:
        def read(value: Any) -> Any:
            began.set()
            over.wait(60)
            return value

        return tf.py_function(read, [number], tf.int64)

    fetch = threading.Thread(target=lambda: next(iter(tf.data.Dataset.range(1).map(slow))))
    fetch.start()
    try:
        assert began.wait(60)
        found = find_running_line(0)
    finally:
        over.set()
        fetch.join()

    line = slow.__code__.co_firstlineno + 3
    assert found == (f"test_stall_location.py:{line} in read", "generator")


def test_without_a_training_thread_no_line_is_named() -> None:
    assert find_running_line(0, {OTHER: frame("/home/me/server.py")}) == ("", "")
