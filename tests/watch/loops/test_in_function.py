"""Loops over `track` inside a `tf.function`: they run as over the data set itself, and are not
recorded."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import tfwatch
from tests.watch.tracked import ROOT
from tfwatch.runs.library import list_runs
from tfwatch.watch.loops import track

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.tensorflow


def summed(data: Any) -> Any:
    import tensorflow as tf

    total = tf.constant(0, tf.int64)
    for number in data:
        total += number
    return total


def numbered(data: Any) -> Any:
    import tensorflow as tf

    total = tf.constant(0, tf.int64)
    for place, number in enumerate(data):
        total += tf.cast(place, tf.int64) * number
    return total


def beside(data: Any) -> Any:
    import tensorflow as tf

    total = tf.constant(0, tf.int64)
    for one, other in zip(data, data, strict=False):
        total += one * other
    return total


def taken(data: Any) -> Any:
    import tensorflow as tf

    total = tf.constant(0, tf.int64)
    for number in iter(data):
        total += number
    return total


#: How a loop is written; each adds up numbers from 0 to 9 in its own way.
LOOPS = [summed, numbered, beside, taken]


@pytest.fixture(autouse=True)
def _warn_again() -> None:
    track._warn_in_function.cache_clear()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("made_inside", [True, False])
def test_a_tracked_loop_in_a_function_equals_one_over_the_data_set(
    loop: Callable[[Any], Any],
    made_inside: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import tensorflow as tf

    data = tf.data.Dataset.range(10)
    bare = tf.function(loop)(data)
    if made_inside:
        tracked = tf.function(lambda: loop(tfwatch.track(data, tmp_path)))()
    else:
        tracked = tf.function(loop)(tfwatch.track(data, tmp_path))
    assert tracked.numpy() == bare.numpy() > 0
    assert list_runs(tmp_path) == []
    assert (
        capsys.readouterr().err == "tfwatch: a loop inside a tf.function is not recorded: "
        "loop over track(...) outside it, and call the function for each batch\n"
    )


def test_a_tracked_loop_over_distributed_batches_equals_one_over_the_data_set(
    tmp_path: Path,
) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    spread = strategy.experimental_distribute_dataset(tf.data.Dataset.range(10))
    assert tf.function(summed)(tfwatch.track(spread, tmp_path)).numpy() == 45


def test_a_python_loop_is_unrolled_as_without_track(tmp_path: Path) -> None:
    import tensorflow as tf

    assert tf.function(summed)(tfwatch.track(range(10), tmp_path)).numpy() == 45
    assert list_runs(tmp_path) == []


def test_a_tensorflow_that_cannot_loop_over_it_raises_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.setattr(track, "_is_registered", lambda: False)

    class Unknown(tfwatch.Track[Any]):
        """A kind that is not registered with AutoGraph."""

    def loop() -> Any:
        return list(Unknown(tf.data.Dataset.range(10), tmp_path, None, sys._getframe()))

    with pytest.raises(RuntimeError, match="loop over the data set itself"):
        tf.function(loop, autograph=False)()


def test_a_tensorflow_without_the_registries_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow.python.autograph.operators import control_flow

    monkeypatch.delattr(control_flow, "for_loop_registry")
    assert not track.register_with_autograph(type("Kind", (), {}), lambda tracked: tracked)


def test_a_loop_continues_while_another_thread_imports_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert not track.is_in_function()
    assert list(tfwatch.track([1, 2], tmp_path)) == [1, 2]


def test_without_tensorflow_no_function_is_being_traced() -> None:
    code = (
        "import sys; from tfwatch.watch.loops.track import is_in_function; print(is_in_function(),"
        " sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("False")
    assert "'tensorflow'" not in done.stdout


def test_a_loop_outside_that_calls_a_function_is_recorded(tmp_path: Path) -> None:
    import tensorflow as tf

    double = tf.function(lambda number: number * 2)
    with tfwatch.track(tf.data.Dataset.range(10), tmp_path) as tracked:
        assert sum(int(double(number)) for number in tracked) == 90
    assert len(list_runs(tmp_path)) == 1
