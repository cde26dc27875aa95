"""The loops of a script's own code: those that train are recorded, and every loop runs as it does
bare.

A fake TensorFlow stands in for the real one; `tests/cli/script/test_run_trains.py` runs the real
one.
"""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.watch.tracked import cause, end_all, runs_in
from tfwatch.core.user_code import find_users_frame, is_users
from tfwatch.runs.library import list_runs
from tfwatch.watch.loops.found_loops import FoundLoops
from tfwatch.watch.script.patches import patch_tensorflow

WEIGHT = SimpleNamespace(trainable=True)
PIXELS = np.zeros(3)


class Batches:
    """The iterator of a fake data set."""

    def __init__(self, elements: list[Any]) -> None:
        self._elements = iter(elements)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        element = next(self._elements)
        if callable(element):
            element()
        if isinstance(element, Exception):
            raise element
        return element


class Hooked:
    """A fake TensorFlow whose loops are noticed."""

    def __init__(self, runs_dir: Path) -> None:
        class Dataset:
            def __init__(self, *elements: Any) -> None:
                self.elements = list(elements)

            def __iter__(self) -> Any:
                return Batches(self.elements)

            def __len__(self) -> int:
                return len(self.elements)

        class GradientTape:
            def gradient(self, target: Any, sources: Any) -> Any:
                return target

        self.Dataset: Any = Dataset
        self.tape = GradientTape()
        self.loops = FoundLoops(runs_dir)
        self.is_eager = True
        tensorflow = SimpleNamespace(
            data=SimpleNamespace(Dataset=Dataset),
            GradientTape=GradientTape,
            Variable=np.matrix,
            nest=SimpleNamespace(flatten=lambda nested: list(nested)),
            executing_eagerly=lambda: self.is_eager,
        )
        self.patches = patch_tensorflow(tensorflow, self.loops)

    def train(self, *_: Any) -> None:
        self.tape.gradient(0, [WEIGHT])


class Optimizer:
    """An optimizer that steps inside a function that is traced already."""

    iterations = 0


@pytest.fixture
def tf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooked]:
    monkeypatch.setattr("tfwatch.watch.loops.found_loops.find_trace_count", lambda _note: None)
    yield Hooked(tmp_path)
    end_all()


def steps_of(runs_dir: Path) -> list[list[int]]:
    """Return the epoch of each step of each run."""
    end_all()
    return [run.steps["epoch"].tolist() for run in runs_in(runs_dir)]


def test_a_loop_that_trains_is_recorded_from_its_first_step(tf: Hooked, tmp_path: Path) -> None:
    data, seen = tf.Dataset(*range(5)), []
    for _ in range(3):
        for batch in data:
            seen.append(batch)
            tf.train()

    assert seen == [0, 1, 2, 3, 4] * 3
    assert steps_of(tmp_path) == [[0] * 5 + [1] * 5 + [2] * 5]
    (run,) = runs_in(tmp_path)
    assert (run.manifest.steps_per_epoch, run.steps["step"].tolist()) == (5, list(range(1, 16)))


@pytest.mark.parametrize("wrap", [iter, enumerate, zip], ids=lambda wrap: wrap.__name__)
def test_each_loop_from_a_line_is_an_epoch_of_its_run(
    wrap: Any, tf: Hooked, tmp_path: Path
) -> None:
    data = tf.Dataset(1, 2)
    for _ in range(
        20
    ):  # the interpreter specializes the call: its instruction is another one from then on
        for _ in wrap(data):
            tf.train()

    assert steps_of(tmp_path) == [[epoch for epoch in range(20) for _ in range(2)]]


@pytest.mark.parametrize(
    "body", [lambda tf: None, lambda tf: tf.tape.gradient(0, [PIXELS])], ids=["counts", "pixels"]
)
def test_a_loop_that_does_not_train_leaves_no_run(
    tf: Hooked, tmp_path: Path, body: Callable[[Hooked], None]
) -> None:
    for _ in tf.Dataset(*range(40)):
        body(tf)

    assert list(tmp_path.iterdir()) == []


def test_a_loop_that_trains_late_is_recorded_from_there(tf: Hooked, tmp_path: Path) -> None:
    for batch in tf.Dataset(*range(40)):
        if batch >= 30:
            tf.train()

    assert steps_of(tmp_path) == [[0] * 10]


def test_a_validation_from_the_same_line_is_not_recorded(tf: Hooked, tmp_path: Path) -> None:
    optimizer = Optimizer()
    tf.loops.note_optimizer(optimizer)
    for trains in (True, False, True, False):
        for _ in tf.Dataset(1, 2, 3):
            optimizer.iterations += trains

    assert steps_of(tmp_path) == [[0, 0, 0, 1, 1, 1]]


def test_of_nested_loops_the_inner_one_is_recorded(tf: Hooked, tmp_path: Path) -> None:
    for _ in tf.Dataset(*range(3)):
        for batch in tf.Dataset(*range(4)):
            tf.train(batch)

    assert steps_of(tmp_path) == [[0] * 4 + [1] * 4 + [2] * 4]


def test_a_loop_in_the_body_that_only_reads_changes_nothing(tf: Hooked, tmp_path: Path) -> None:
    for _ in tf.Dataset(*range(4)):
        tf.train()
        assert sum(tf.Dataset(1, 2, 3)) == 6

    assert steps_of(tmp_path) == [[0] * 4]


def test_zipped_data_sets_are_one_loop_and_wait_for_both(tf: Hooked, tmp_path: Path) -> None:
    slow = tf.Dataset(*(lambda: time.sleep(0.02) for _ in range(4)))
    for _ in range(2):
        pairs = zip(tf.Dataset(1, 2, 3), slow, strict=False)
        seen = []
        for one, _ in pairs:
            seen.append(one)
            tf.train()
        assert seen == [1, 2, 3]

    assert steps_of(tmp_path) == [[0, 0, 0, 1, 1, 1]]
    (run,) = runs_in(tmp_path)
    assert (
        run.steps["wait_ms"][1:] >= 20
    ).all()  # the first one is not known to train when it waits


def test_a_second_iterator_that_is_read_later_in_the_step_is_data_wait_too(
    tf: Hooked, tmp_path: Path
) -> None:
    slow = tf.Dataset(*(lambda: time.sleep(0.02) for _ in range(8)))
    for _ in range(2):
        ones, others = iter(tf.Dataset(1, 2, 3, 4)), iter(slow)
        for _ in range(4):
            next(ones)
            tf.train()
            time.sleep(0.001)
            next(others)
            tf.train()

    assert steps_of(tmp_path) == [[0] * 4 + [1] * 4]
    (run,) = runs_in(tmp_path)
    assert (run.steps["wait_ms"][1:] >= 20).all()
    assert cause(run) == "finished"


def test_two_loops_in_turn_have_a_run_each(tf: Hooked, tmp_path: Path) -> None:
    one, other = tf.Dataset(1, 2, 3), tf.Dataset(*range(5))
    for _ in range(2):
        for _ in one:
            tf.train()
        for _ in other:
            tf.train()

    assert sorted(steps_of(tmp_path)) == [[0] * 5 + [1] * 5, [0] * 3 + [1] * 3]


def test_many_loops_in_turn_do_not_begin_a_run_each_time(tf: Hooked, tmp_path: Path) -> None:
    lines = "".join("for _ in data: train()\n" for _ in range(7))
    code = compile(
        f"for _ in range(10):\n{textwrap.indent(lines, '    ')}", "/home/me/tasks.py", "exec"
    )
    exec(code, {"data": tf.Dataset(1, 2), "train": tf.train, "__name__": "__main__"})

    end_all()
    runs = runs_in(tmp_path)
    assert sum(len(run.steps) for run in runs) == 7 * 10 * 2
    assert len(runs) <= 10  # the first three had ended when their lines came back
    assert {run.manifest.loop for run in runs} == {f"tasks.py:{line}" for line in range(2, 9)}


@pytest.mark.parametrize("many", [2, 3])
def test_a_loop_that_is_left_is_recorded_as_far_as_it_went(
    tf: Hooked, tmp_path: Path, many: int
) -> None:
    for place, _ in enumerate(tf.Dataset(*range(9)), 1):
        tf.train()
        if place == many + 1:
            break

    assert steps_of(tmp_path) == [[0] * (many + 1)]


def test_a_generator_over_a_data_set_is_closed_as_bare(tf: Hooked, tmp_path: Path) -> None:
    closed = []

    def batches() -> Generator[Any, None, None]:
        try:
            yield from tf.Dataset(*range(9))
        finally:
            closed.append(True)

    source = batches()
    for batch in source:
        tf.train()
        if batch == 3:
            break
    source.close()

    assert closed == [True]
    assert steps_of(tmp_path) == [[0] * 4]


def test_an_iterator_is_one_of_its_kind_and_is_left_alone_at_its_end(tf: Hooked) -> None:
    iterator = iter(tf.Dataset(1))

    assert isinstance(iterator, Batches)
    assert (type(iterator).__name__, type(iterator).__module__) == ("Batches", __name__)
    assert list(iterator) == [1]
    assert type(iterator) is Batches


def test_an_error_of_the_pipeline_is_the_users_and_the_runs(tf: Hooked, tmp_path: Path) -> None:
    def loop() -> None:
        for _ in tf.Dataset(1, 2, ValueError("no such image")):
            tf.train()

    with pytest.raises(ValueError, match="no such image"):
        loop()
    end_all()

    assert [(cause(run), len(run.steps)) for run in runs_in(tmp_path)] == [("failed", 2)]


def test_what_a_fit_reads_is_not_recorded(tf: Hooked, tmp_path: Path) -> None:
    with tf.loops.fit():
        for _ in tf.Dataset(*range(9)):
            tf.train()
    for _ in tf.Dataset(*range(9)):
        with tf.loops.fit():
            tf.train()

    assert list_runs(tmp_path) == []


def test_a_thread_that_reads_for_a_training_is_not_recorded(tf: Hooked, tmp_path: Path) -> None:
    data, got = tf.Dataset(*range(9)), []
    for _ in data:
        reader = threading.Thread(target=lambda: got.extend(data))
        reader.start()
        reader.join()
        tf.train()

    assert len(got) == 81
    assert steps_of(tmp_path) == [[0] * 9]


def test_a_traced_step_shows_by_its_optimizer(tf: Hooked, tmp_path: Path) -> None:
    optimizer = Optimizer()
    tf.loops.note_optimizer(optimizer)
    for _ in tf.Dataset(*range(5)):
        optimizer.iterations += 1
    for _ in tf.Dataset(*range(5)):
        pass

    assert steps_of(tmp_path) == [[0] * 5]


def test_in_a_graph_the_iterator_is_left_alone(tf: Hooked) -> None:
    tf.is_eager = False

    assert type(iter(tf.Dataset(1))) is Batches


def test_a_forked_process_records_nothing(
    tf: Hooked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for _ in tf.Dataset(*range(5)):
        tf.train()

    assert list_runs(tmp_path) == []


def test_what_fails_in_tfwatch_is_one_sentence_and_the_loop_goes_on(
    tf: Hooked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tfwatch.watch.loops.found_loops.begin_or_continue", lambda *_: 1 / 0)
    seen = []
    for batch in tf.Dataset(*range(5)):
        seen.append(batch)
        tf.train()

    assert seen == [0, 1, 2, 3, 4]
    assert (
        capsys.readouterr().err
        == "tfwatch: this loop is not recorded: ZeroDivisionError: division by zero\n"
    )


def test_patches_are_taken_back(tf: Hooked) -> None:
    tf.patches.close()

    assert type(iter(tf.Dataset(1))) is Batches
    assert not hasattr(type(tf.tape).gradient, "__wrapped__")


def users_frame_of(module: str, file: str, name: str = "loop") -> Any:
    """Return the user's frame of a loop in a function of another module."""
    space: dict[str, Any] = {"__name__": module}
    exec(compile(f"def {name}(function): return function()", file, "exec"), space)
    return space[name](lambda: find_users_frame(sys._getframe(1)))


@pytest.mark.parametrize(
    ("module", "file", "is_the_users"),
    [
        ("train", "/home/me/train.py", True),
        ("__main__", "<stdin>", True),
        ("keras.src.layers", "/venv/lib/python3.11/site-packages/keras/src/layers.py", False),
        ("thing", "/usr/lib/python3/dist-packages/thing.py", False),
        ("queue", os.__file__.replace("os.py", "queue.py"), False),
        ("tfwatch.watch.loops.track", is_users.__wrapped__.__code__.co_filename, False),
        ("tqdm.std", "/venv/lib/python3.11/site-packages/tqdm/std.py", True),
    ],
)
def test_whose_loop_it_is(module: str, file: str, is_the_users: bool) -> None:
    assert (users_frame_of(module, file) is not None) == is_the_users


def test_a_module_that_runs_from_an_installed_package_is_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__package__="mine.train"))
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(__path__=["/v/site-packages/mine"]))
    is_users.cache_clear()

    assert is_users("/v/site-packages/mine/train/loop.py")
    assert not is_users("/v/site-packages/keras/src/layers.py")
    is_users.cache_clear()
