"""Ctrl-C while a training waits in TensorFlow for a tf.data service.

Python runs the handler of a signal between two bytecodes of the main thread, and a fetch from a service that is gone
never returns to them. A thread of its own sees the signal, and cancels the fetch: then the script gets its
KeyboardInterrupt as ever. Where the fetch goes on in spite of that, the second ctrl+c ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, warn_user
from tfwatch.core.threads import thread_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

#: A main thread that has stood still for so long after a signal waits in TensorFlow.
STUCK_S = 2.0
_LOOK_S = 0.1
_MOST_BYTES = 64
_AGAIN = "the training waits for the feed, and does not respond to ctrl+c: ctrl+c again ends it"


@dataclass(frozen=True, slots=True)
class WaitingFit:
    """A `fit` that waits for a feed, as `Interrupts` sees it.

    is_waiting: whether it waits for a batch now. cancel: ends the wait. leave: ends the process, with the run's end
    recorded.
    """

    is_waiting: Callable[[], bool]
    cancel: Callable[[], None]
    leave: Callable[[], None]


class Interrupts:
    """A block in the main thread whose SIGINTs are seen while a C function does not return.

    It does nothing in another thread, and where the script has a wakeup descriptor of its own.
    """

    def __init__(self, fit: WaitingFit, stuck_s: float = STUCK_S) -> None:
        self._fit = fit
        self._stuck_s = stuck_s
        self._is_again = False
        self._main = threading.get_ident()
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread() or _has_wakeup_descriptor():
            return
        self._pipe = reading, writing = os.pipe()
        os.set_blocking(writing, False)
        _ours.append(writing)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(
            target=self._run, args=(reading,), name="tfwatch-interrupts", daemon=True
        ).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pipe:
            _, writing = self._pipe
            _leave_wakeup(writing)
            os.close(writing)

    def _run(self, reading: int) -> None:
        with fails_open(
            lambda why: warn_user(f"ctrl+c may have no effect while the training waits: {why}")
        ):
            while numbers := os.read(reading, _MOST_BYTES):
                if signal.SIGINT in numbers:
                    self._interrupted()
        os.close(reading)

    def _interrupted(self) -> None:
        """Cancel the fetch; with the first ctrl+c only where the script does not handle it itself."""
        is_again, self._is_again = self._is_again, True
        if not self._is_stuck():
            return
        if is_again or signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._fit.cancel()
            if not self._is_stuck():
                return
        if is_again:
            self._fit.leave()
        else:
            warn_user(_AGAIN)

    def _is_stuck(self) -> bool:
        """Return whether the main thread stands still in one place while it waits for a batch."""
        begun, still = self._place(), threading.Event()
        for _ in range(round(self._stuck_s / _LOOK_S)):
            still.wait(_LOOK_S)
            if self._place() != begun or not self._fit.is_waiting():
                return False
        return True

    def _place(self) -> tuple[FrameType | None, int]:
        """Return the frame and the instruction of the main thread; frames compare by identity."""
        frame = thread_frames().get(self._main)
        return frame, frame.f_lasti if frame else 0


#: The descriptor of the block that runs.
_ours: list[int] = []


def _leave_wakeup(writing: int) -> None:
    """Have signals write to this descriptor no more; one that the script has set since then stays."""
    _ours.remove(writing)
    if (now := signal.set_wakeup_fd(-1)) != writing:
        signal.set_wakeup_fd(now)


def _has_wakeup_descriptor() -> bool:
    """Return whether the script has one, as asyncio does."""
    before = signal.set_wakeup_fd(-1)
    if before != -1:
        signal.set_wakeup_fd(before)
    return before != -1


def _leave_in_child() -> None:
    """Leave the descriptor to the parent: its forked processes get the same ctrl+c."""
    with fails_open(lambda _: None):
        for writing in tuple(_ours):
            _leave_wakeup(writing)


os.register_at_fork(after_in_child=_leave_in_child)
