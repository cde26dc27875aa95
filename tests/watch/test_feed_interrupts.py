"""Ctrl-C while a training waits in TensorFlow for a tf.data service that is gone."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.watch.script.feed_interrupts import Interrupts, WaitingFit

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Short, and long enough for the thread that looks.
STUCK_S = 0.2
WAIT_S = 10.0


class Training:
    """A main thread that waits for a batch until `cancel`, where that has an effect; it notes what happens to it."""

    def __init__(self, has_effect: bool = True) -> None:
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.batch = threading.Event()
        self.interrupts: Interrupts | None = None
        self._has_effect = has_effect
        self._thread = threading.Thread(target=self._run)
        self._made = threading.Event()

    def __enter__(self) -> Training:
        self._thread.start()
        assert self._made.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.batch.set()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        self.interrupts = Interrupts(
            WaitingFit(lambda: not self.batch.is_set(), self._cancel, self._leave), STUCK_S
        )
        self._made.set()
        self.batch.wait(WAIT_S)

    def _cancel(self) -> None:
        self.calls.put("cancel")
        if self._has_effect:
            self.batch.set()

    def _leave(self) -> None:
        self.calls.put("leave")


def press_ctrl_c() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def python_handler() -> Iterator[None]:
    """The handler of a Python that nobody has changed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handler")
def test_ctrl_c_cancels_a_wait_that_lasts_and_the_second_one_ends_the_process_where_that_has_no_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Training(has_effect=False) as training:
        assert training.interrupts
        with training.interrupts:
            press_ctrl_c()
            assert training.calls.get(timeout=WAIT_S) == "cancel"
            press_ctrl_c()
            assert [training.calls.get(timeout=WAIT_S) for _ in range(2)] == ["cancel", "leave"]
    assert "does not respond to ctrl+c: ctrl+c again ends it" in capsys.readouterr().err


@pytest.mark.usefixtures("python_handler")
def test_a_script_that_handles_ctrl_c_itself_is_interrupted_by_the_second_one_only() -> None:
    handled: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: handled.append(number))
    with Training() as training:
        assert training.interrupts
        with training.interrupts:
            press_ctrl_c()
            with pytest.raises(queue.Empty):
                training.calls.get(timeout=2 * STUCK_S)
            press_ctrl_c()
            assert training.calls.get(timeout=WAIT_S) == "cancel"
    assert handled == [signal.SIGINT] * 2


@pytest.mark.usefixtures("python_handler")
def test_the_wakeup_descriptor_of_the_script_stays_and_that_of_the_block_goes() -> None:
    with Training() as training:
        assert training.interrupts
        with training.interrupts:
            ours = signal.set_wakeup_fd(-1)
        assert ours != -1
        assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.tensorflow
def test_a_fetch_that_is_cancelled_raises_a_keyboard_interrupt() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.cancellation import CancellableFetches, cancellable_call
    from tfwatch.tfdata.live_switch import BatchIterator

    never = tf.queue.FIFOQueue(1, [tf.int64], [()])

    def wait(number: Any) -> Any:
        return number if number == 0 else never.dequeue()

    def fetch(fetches: CancellableFetches) -> None:
        batches = BatchIterator(iter(tf.data.Dataset.range(2).map(wait)))
        assert int(batches.next()[0]) == 0
        threading.Timer(STUCK_S, fetches.cancel).start()
        batches.next()

    def call(fetches: CancellableFetches) -> None:
        graph = tf.function(lambda: never.dequeue())
        threading.Timer(STUCK_S, fetches.cancel).start()
        with cancellable_call():
            graph()

    for blocks in (fetch, call):
        with pytest.raises(KeyboardInterrupt), CancellableFetches() as fetches:
            blocks(fetches)


@pytest.mark.tensorflow
def test_an_error_within_a_block_is_raised_as_it_is_and_cancels_no_later_fetch() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.cancellation import CancellableFetches, cancellable_call
    from tfwatch.tfdata.live_switch import BatchIterator

    ended = iter(tf.data.Dataset.range(0))
    graph = tf.function(lambda: next(ended))
    with CancellableFetches():
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError), cancellable_call():
                graph()
            batches = BatchIterator(iter(tf.data.Dataset.range(1)))
            assert int(batches.next()[0]) == 0
            with pytest.raises(StopIteration):
                batches.next()
