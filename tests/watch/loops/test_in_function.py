"""Loops over `track` inside a `tf.function` are refused."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import tfwatch
from tfwatch.runs.library import list_runs
from tfwatch.watch.loops import track

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tensorflow


def test_a_tracked_loop_in_a_function_raises_a_sentence(tmp_path: Path) -> None:
    import tensorflow as tf

    def loop(data: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for number in data:
            total += number
        return total

    with pytest.raises(RuntimeError, match="outside it, and call the function"):
        tf.function(loop)(tfwatch.track(tf.data.Dataset.range(10), tmp_path))
    assert list_runs(tmp_path) == []


def test_a_loop_continues_while_another_thread_imports_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert not track.is_in_function()
    assert list(tfwatch.track([1, 2], tmp_path)) == [1, 2]
