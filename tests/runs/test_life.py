from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, make_manifest, write_run
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import Pulse
from tfwatch.runs.liveness import Life, life_of
from tfwatch.runs.run import Run

NOBODY = 2**22 + 1
MINE = psutil.Process().create_time()
FAR: dict[str, Any] = {"boot_id": "b", "machine": {"host": "far"}}
BOX: dict[str, Any] = {"pid": NOBODY, "machine": {"host": "box"}}


def pulse_at(seconds: float) -> Pulse:
    clock = FakeClock(seconds)
    return Pulse(round(seconds * 1e9), clock.wall_ns(), Phase.COMPUTE, 0, 7, 0)


@pytest.mark.parametrize(
    ("changes", "at_s", "life"),
    [
        pytest.param({}, 11.0, Life.RUNNING, id="its process is alive"),
        pytest.param({}, 11.6, Life.NOT_RESPONDING, id="its process does not respond"),
        pytest.param({"pid": NOBODY}, 10.1, Life.KILLED, id="its process is gone"),
        pytest.param(
            {"process_started_s": MINE - 60}, 10.1, Life.KILLED, id="another process has its pid"
        ),
        pytest.param(
            {"process_started_s": MINE + 1},
            10.1,
            Life.RUNNING,
            id="the clock was corrected by a second",
        ),
        pytest.param({"boot_id": "before"}, 10.1, Life.KILLED, id="the machine was started again"),
        pytest.param(FAR, 60.0, Life.RUNNING, id="another machine's"),
        pytest.param(FAR, 71.0, Life.UNKNOWN, id="another machine's, stale"),
        pytest.param(BOX, 12.0, Life.RUNNING, id="a container's"),
        pytest.param(BOX, 71.0, Life.UNKNOWN, id="a container's, stale"),
        pytest.param({"pid": -5}, 10.1, Life.KILLED, id="no process number"),
        pytest.param({"pid": 2**40}, 10.1, Life.KILLED, id="no possible process number"),
    ],
)
def test_the_process_of_a_run_without_an_end_is_looked_up(
    changes: dict[str, Any], at_s: float, life: Life
) -> None:
    assert life_of(make_manifest(**changes), pulse_at(10.0), FakeClock(at_s).clock)[0] is life


def test_a_zombie_is_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        manifest = make_manifest(pid=pid, process_started_s=psutil.Process(pid).create_time())
        assert life_of(manifest, pulse_at(0.0), FakeClock().clock)[0] is Life.KILLED
    finally:
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("pid", "events", "now"),
    [
        pytest.param(
            os.getpid(), [RunEnded(2 * 10**9, "finished", 3)], (Life.ENDED, 2.0), id="end"
        ),
        pytest.param(NOBODY, [], (Life.KILLED, 9.0), id="last pulse of a killed run"),
    ],
)
def test_time_stops_with_a_run(
    tmp_path: Path, pid: int, events: list[RunEnded], now: tuple[Life, float]
) -> None:
    write_run(tmp_path, plain(3), *events, clock=FakeClock(9.0), pid=pid)
    snapshot = Run(RunFolder(tmp_path), FakeClock(50).clock).read()

    assert (snapshot.life, snapshot.now_s) == now


@pytest.mark.parametrize("pid", [os.getpid(), NOBODY], ids=["it trains", "it is over"])
def test_a_moved_folder_is_gone_until_it_is_back(tmp_path: Path, pid: int) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "moved"
    write_run(folder, plain(3), clock=FakeClock(9.0), pid=pid)
    reader = Run(RunFolder(folder), FakeClock(9.5).clock)
    before = reader.read()

    folder.rename(elsewhere)
    gone = reader.read()
    elsewhere.rename(folder)

    assert (gone.life, gone.pulse, gone.now_s) == (Life.GONE, before.pulse, 9.0)
    assert gone.steps_total == 3
    assert reader.read().life is before.life


@pytest.mark.parametrize(
    ("number", "life"),
    [
        (errno.EACCES, Life.NOT_RESPONDING),
        (errno.EIO, Life.NOT_RESPONDING),
        (errno.ESTALE, Life.GONE),
        (errno.ENOTCONN, Life.GONE),
    ],
    ids=["not permitted", "a disk that fails", "deleted on a share", "its server died"],
)
def test_an_unreadable_folder_is_gone_only_with_certain_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, life: Life
) -> None:
    write_run(tmp_path, plain(3), clock=FakeClock(9.0))
    reader = Run(RunFolder(tmp_path), FakeClock(12.0).clock)
    reader.read()

    def refused(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        patch.setattr(type(tmp_path), "stat", refused)
        assert reader.read().life is life


def test_another_machines_time_comes_from_the_wall_clock(tmp_path: Path) -> None:
    write_run(tmp_path, plain(3), clock=FakeClock(30), origin_ns=17, **FAR)

    assert Run(RunFolder(tmp_path), FakeClock(31).clock).read().now_s == pytest.approx(31)


def test_without_a_pulse_file_a_killed_run_opens(tmp_path: Path) -> None:
    write_run(tmp_path, plain(3), pid=NOBODY)
    (tmp_path / layout.PULSES).unlink()

    snapshot = Run(RunFolder(tmp_path), FakeClock(9).clock).read()

    assert (snapshot.life, snapshot.pulse) == (Life.KILLED, None)
    assert snapshot.now_s == pytest.approx(0.06)
