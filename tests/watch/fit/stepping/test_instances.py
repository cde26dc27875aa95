"""TensorFlow's instance of a step for other devices: it is built, and nothing runs."""

import threading
from typing import Any

import pytest
import tensorflow as tf

from tests.runs.processes import wait_until
from tfwatch.watch.fit.stepping import instances
from tfwatch.watch.fit.stepping.instances import BesideTraining, build_instance

pytestmark = pytest.mark.tensorflow


def counting(count: Any, *, by_xla: bool = False) -> Any:
    """Return a function that adds the sum of a batch. by_xla: compiled."""
    spec = tf.TensorSpec([None, 2])

    def add(batch: Any) -> Any:
        return count.assign_add(tf.reduce_sum(batch))

    made = tf.function(add, input_signature=[spec], autograph=False, jit_compile=by_xla)
    return made.get_concrete_function()


def test_an_instance_is_built_and_its_function_does_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tensorflow.python.eager import cancellation, execute

    calls: list[tuple[str, Any]] = []
    real = execute.execute_with_cancellation

    def execute_it(name: str, *rest: Any) -> Any:
        calls.append((name, cancellation.context()))
        return real(name, *rest)

    monkeypatch.setattr(execute, "execute_with_cancellation", execute_it)
    count = tf.Variable(0.0)
    function = counting(count)
    build_instance(function, [tf.ones([1, 2])])

    assert float(count) == 0
    assert [name for name, _ in calls][1] == function.name.decode()
    assert [context for _, context in calls] == [None] * 2  # it is that of all threads
    function(tf.ones([1, 2]))
    assert float(count) == 2


def test_nothing_is_built_where_tensorflow_runs_what_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, ran = tf.Variable(0.0), []

    def run(function: Any, arguments: Any) -> None:
        ran.append(function)
        function(*arguments)

    monkeypatch.setattr(instances, "_call_cancelled", run)
    function = counting(count)
    with pytest.raises(RuntimeError, match="runs a call that is cancelled"):
        build_instance(function, [tf.ones([1, 2])])
    assert (len(ran), float(count)) == (1, 0)


def test_a_step_that_xla_compiles_within_is_built_and_one_that_it_compiles_whole_is_not() -> None:
    """XLA runs what is cancelled."""
    count = tf.Variable(0.0)
    whole = counting(count, by_xla=True)
    with pytest.raises(RuntimeError, match="XLA compiles the function"):
        build_instance(whole, [tf.ones([1, 2])])

    step = tf.function(whole, input_signature=[tf.TensorSpec([None, 2])], autograph=False)
    build_instance(step.get_concrete_function(), [tf.ones([1, 2])])
    assert float(count) == 0


def test_work_beside_the_training_is_done_once_on_the_device_of_its_thread() -> None:
    from tensorflow.python.eager import context

    done: list[tuple[str, str]] = []
    beside = BesideTraining(
        lambda: done.append((threading.current_thread().name, context.context().device_name))
    )
    with tf.device("/GPU:7"):
        assert not beside.is_over() or done
    wait_until(beside.is_over)
    ((name, device),) = done
    assert (name, device[-12:]) == ("tfwatch-warm-up", "device:GPU:7")
    assert beside.failure == ""


def test_without_a_thread_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(instances, "start_awaited", none_left)
    beside = BesideTraining(lambda: None)
    assert beside.is_over()
    assert beside.failure == "RuntimeError: can't start new thread"


def test_work_that_fails_says_why() -> None:
    beside = BesideTraining(lambda: [][0])
    wait_until(beside.is_over)
    assert beside.failure == "IndexError: list index out of range"
