"""The Python that TensorFlow calls within a step, seen from another thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import FakeClock, make_manifest, written
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.format import decode_pulse
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors.pauses import (
    _CALLER,
    CALL_AGAIN_NS,
    CALL_LASTS_NS,
    PythonCalls,
    python_in_call,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def stuck() -> Iterator[None]:
    """A thread in which TensorFlow has called a function of the user that does not return."""
    begun, ends = threading.Event(), threading.Event()
    called: dict[str, Callable[[Callable[[], object]], None]] = {}
    exec(compile("def call(function):\n    function()\n", f"/lib/{_CALLER}", "exec"), called)

    def read() -> None:
        begun.set()
        ends.wait(60)

    thread = threading.Thread(target=called["call"], args=(read,))
    thread.start()
    assert begun.wait(60)
    yield
    ends.set()
    thread.join()


def detail(writer: RunWriter) -> str:
    writer.flush()
    pulse = decode_pulse(written(writer, layout.PULSES))
    assert pulse
    return pulse.detail


@pytest.mark.usefixtures("stuck")
@pytest.mark.parametrize("phase", [Phase.WAIT, Phase.COMPUTE, Phase.VALIDATION])
def test_the_function_is_named_once_the_phase_lasts_long(phase: Phase) -> None:
    clock = FakeClock(1.0)
    writer = RunWriter(None, make_manifest(), clock.clock)
    calls = PythonCalls(writer)
    writer.status = (phase, 10**9, 7, 0, "")

    calls.poll()
    assert detail(writer) == ""
    clock.at_s += CALL_LASTS_NS / 1e9
    calls.poll()
    named = detail(writer)

    assert named.startswith("read (test_python_calls.py:") is (phase is not Phase.VALIDATION)
    writer.status = (Phase.HOST, 4 * 10**9, 7, 0, "")
    assert detail(writer) == ""


@pytest.mark.usefixtures("stuck")
def test_frames_are_read_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[float] = []
    clock = FakeClock(1.0)

    def read() -> str:
        reads.append(clock.at_s)
        return ""

    monkeypatch.setattr("tfwatch.sensors.pauses.python_in_call", read)
    writer = RunWriter(None, make_manifest(), clock.clock)
    calls = PythonCalls(writer)
    writer.status = (Phase.COMPUTE, 10**9, 7, 0, "")
    for clock.at_s in (2.0, 3.5, 3.6, 4.4, 3.5 + CALL_AGAIN_NS / 1e9):
        calls.poll()

    assert reads == [3.5, 4.5]


def test_other_threads_are_not_named() -> None:
    assert python_in_call() == ""
