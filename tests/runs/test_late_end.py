"""The end of a run whose process was ended by a signal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.analysis.step_rows import plain
from tests.runs.folders import FakeClock, make_writer, opened, write_run
from tfwatch.runs import format as layout
from tfwatch.runs.liveness import Life
from tfwatch.runs.scripts.script_process import record_signal

if TYPE_CHECKING:
    from pathlib import Path

#: The number of no process.
GONE = 2**22 + 1


@pytest.mark.parametrize(
    ("signum", "ended"),
    [
        (signal.SIGTERM, ("stopped", "the process was ended by SIGTERM", 7)),
        (signal.SIGSEGV, ("failed", "the process was ended by SIGSEGV", 7)),
        (35, ("failed", "the process was ended by signal 35", 7)),
        (signal.SIGKILL, None),
    ],
)
def test_a_signal_is_the_end_of_a_run(signum: int, ended: tuple[str, str, int] | None, tmp_path: Path) -> None:
    write_run(tmp_path, plain(7), pid=GONE)
    with (tmp_path / layout.EVENTS).open("a") as events:
        events.write('{"event": "torn')

    record_signal(tmp_path, signum, FakeClock(1).clock)

    run = opened(tmp_path)
    assert (run.ended and (run.ended.cause, run.ended.detail, run.ended.steps)) == ended
    assert run.life is (Life.ENDED if ended else Life.KILLED)


def test_a_run_that_has_ended_keeps_its_end(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.end("finished")
    writer.close()

    record_signal(tmp_path, signal.SIGTERM, FakeClock(1).clock)

    run = opened(tmp_path)
    assert run.ended
    assert run.ended.cause == "finished"
