"""The time of operations that Python runs one by one. No TensorFlow is imported."""

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.folders import FakeClock, make_manifest, read_back
from tfwatch.core.clock import Clock
from tfwatch.core.events import Noted
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.fit.stepping.eager_operations import (
    Calls,
    Operations,
    _tensorflow_calls,
    time_operations,
)

NAMES = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


class Time:
    """A clock that only `advance` moves."""

    def __init__(self) -> None:
        self.ns = 0

    def read(self) -> int:
        return self.ns

    def advance(self, ns: int) -> int:
        self.ns += ns
        return ns


def module_of(time: Time) -> SimpleNamespace:
    """A module of operations that take and return a number of nanoseconds."""
    return SimpleNamespace(**{name: (lambda ns: time.advance(ns)) for name in NAMES})


def timed(operations: Operations, step: Callable[[Any], Any], argument: Any) -> Any:
    operations.begin()
    try:
        return step(argument)
    finally:
        operations.end()


def test_only_the_time_of_operations_counts_and_each_call_starts_at_zero() -> None:
    time = Time()
    module = module_of(time)
    operations = Operations(Calls(module), Clock(now_ns=time.read))

    def step(ns: int) -> int:
        time.advance(1000)  # Python's
        return int(
            module.TFE_Py_Execute(ns)
            + module.TFE_Py_FastPathExecute(ns)
            + module.TFE_Py_ExecuteCancelable(1)
        )

    assert (timed(operations, step, 30), operations.took_ns) == (61, 61)
    assert (timed(operations, step, 5), operations.took_ns) == (11, 11)


def test_after_a_call_and_after_an_error_tensorflow_is_restored() -> None:
    time = Time()
    module = module_of(time)
    before = dict(vars(module))
    operations = Operations(Calls(module), Clock(now_ns=time.read))
    assert vars(module) == before

    def fail(_: Any) -> None:
        module.TFE_Py_Execute(7)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        timed(operations, fail, None)
    assert vars(module) == before


def test_another_threads_operations_are_not_counted() -> None:
    time = Time()
    module = module_of(time)
    operations = Operations(Calls(module), Clock(now_ns=time.read))

    def step(_: Any) -> None:
        other = threading.Thread(target=module.TFE_Py_Execute, args=(50,))
        other.start()
        other.join()
        module.TFE_Py_Execute(2)

    timed(operations, step, None)
    assert (time.ns, operations.took_ns) == (52, 2)


def test_two_threads_count_their_own_operations_and_tensorflow_is_restored() -> None:
    time = Time()
    module = module_of(time)
    before = dict(vars(module))
    calls = Calls(module)
    first_is_in, second_is_in, first_is_out = (
        threading.Event(),
        threading.Event(),
        threading.Event(),
    )
    first = Operations(calls, Clock(now_ns=time.read))
    took: dict[str, int] = {}

    def first_step(_: Any) -> None:
        first_is_in.set()
        assert second_is_in.wait(10)
        module.TFE_Py_Execute(3)

    def second_step(_: Any) -> None:
        second_is_in.set()
        assert first_is_out.wait(10)
        module.TFE_Py_Execute(50)

    def train_second() -> None:
        assert first_is_in.wait(10)
        second = Operations(calls, Clock(now_ns=time.read))
        timed(second, second_step, None)
        took["second"] = second.took_ns

    other = threading.Thread(target=train_second)
    other.start()
    timed(first, first_step, None)
    first_is_out.set()
    other.join(10)

    assert (first.took_ns, took) == (3, {"second": 50})
    assert vars(module) == before


def test_a_step_within_a_step_is_counted_in_both() -> None:
    time = Time()
    module = module_of(time)
    before = dict(vars(module))
    outer, inner = (Operations(calls, Clock(now_ns=time.read)) for calls in [Calls(module)] * 2)

    def step(_: Any) -> None:
        module.TFE_Py_Execute(5)
        timed(inner, module.TFE_Py_Execute, 7)
        module.TFE_Py_Execute(11)

    timed(outer, step, None)

    assert (outer.took_ns, inner.took_ns) == (23, 7)
    assert vars(module) == before


def test_a_tensorflow_without_these_names_is_not_timed_and_the_run_notes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _tensorflow_calls.cache_clear()
    monkeypatch.setitem(
        sys.modules, "tensorflow.python", SimpleNamespace(pywrap_tfe=SimpleNamespace())
    )
    writer = RunWriter(None, make_manifest(), FakeClock().clock)

    assert time_operations(writer) is None
    assert not writer.manifest().op_by_op
    writer.flush()
    (note,) = (event.text for event in read_back(writer).events.of(Noted))
    assert note.startswith(
        "Python time between operations is unknown: operations cannot be timed ("
    )
