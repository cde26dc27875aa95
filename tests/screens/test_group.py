"""The screen of a group: the finding, the ranks, and a disk that hangs."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.groups import write_group
from tests.runs.folders import FakeClock
from tests.screens.showing import rows_of
from tfwatch.core.clock import Clock
from tfwatch.judge.groups.judged_group import JudgedGroup, judge_group
from tfwatch.runs.folder import SLOW_S
from tfwatch.runs.group import open_group
from tfwatch.screens.group import READ_S, TIMES, GroupApp, GroupReader
from tfwatch.screens.overlays import Leave


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> JudgedGroup:
    """A group of twelve ranks, of which rank 5 waits for data."""
    waits = [21.0 if rank == 5 else 1.0 + rank / 100 for rank in range(12)]
    folder = write_group(tmp_path_factory.mktemp("runs") / "[b]one", waits)
    return judge_group(open_group(folder, FakeClock(2).clock))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> JudgedGroup:
    """A group of 64 ranks, of which rank 40 waits for data."""
    folder = write_group(
        tmp_path_factory.mktemp("runs") / "many", [8.0 if rank == 40 else 1.0 for rank in range(64)]
    )
    return judge_group(open_group(folder, FakeClock(2).clock))


class Now:
    """Reads in the calling thread."""

    def __init__(self, target: Callable[[], None], **_: object) -> None:
        self.start = target


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwatch.runs.folder.threading.Thread", Now)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (20, 4)])
@pytest.mark.parametrize("unicode", [True, False])
async def test_the_screen_shows_the_late_rank_at_every_size(
    width: int, height: int, unicode: bool, group: JudgedGroup
) -> None:
    app = GroupApp(GroupReader(lambda: group), unicode=unicode, colour=unicode)
    async with app.run_test(size=(width, height)):
        text = "\n".join(rows_of(app.screen))

    assert "STRAGGLER rank 5, 66 %" in text or width < 50
    assert ("[b]one" in text) is (width >= 50)
    assert ("data wait" in text) is (width >= 80)
    assert unicode or text.isascii()


@pytest.mark.usefixtures("_at_once")
async def test_y_copies_the_summary_and_q_quits(group: JudgedGroup) -> None:
    app = GroupApp(GroupReader(lambda: group))
    async with app.run_test(size=(100, 30)) as pilot:
        assert rows_of(app.screen)[-1].rstrip().endswith("q quit")
        await pilot.press("y")
        assert app.clipboard.startswith(
            "### cnn, 12 ranks\n\n**STRAGGLER rank 5, 66 %**: the other"
        )
        await pilot.press("q")

    assert app.return_value is Leave.LEFT


async def test_a_disk_that_hangs_blocks_no_key_and_is_reported(group: JudgedGroup) -> None:
    clock, responds, reads = FakeClock(0), threading.Event(), threading.Event()

    def read() -> JudgedGroup:
        reads.set()
        assert responds.wait(60)
        return group

    reader = GroupReader(read, Path("/mnt/runs/one"), clock.clock)
    app = GroupApp(reader)
    async with app.run_test(size=(100, 30)) as pilot:
        assert reads.wait(60)
        clock.at_s = SLOW_S + 2
        app.frame()
        await pilot.pause()
        assert "the disk has not responded for 5.0 s: /mnt/runs/one" in "\n".join(
            rows_of(app.screen)
        )
        await pilot.press("down", "q")
        responds.set()

    assert app.return_value is Leave.LEFT


@pytest.mark.usefixtures("_at_once")
def test_a_group_that_cannot_be_read_says_why_and_is_read_again(group: JudgedGroup) -> None:
    errors = [OSError("stale file handle")]

    def read() -> JudgedGroup:
        if errors:
            raise errors.pop()
        return group

    clock = FakeClock(0)
    reader = GroupReader(read, clock=clock.clock)
    reader.begin()
    assert "stale file handle" in reader.trouble()
    assert reader.wait(0) == reader.trouble()
    assert reader.judged is None
    clock.at_s = READ_S
    reader.begin()
    assert reader.trouble() == ""
    assert reader.judged is group


@pytest.mark.usefixtures("_at_once")
def test_a_group_that_takes_long_to_read_is_read_less_often(group: JudgedGroup) -> None:
    clock, reads = FakeClock(0), list[float]()

    def read() -> JudgedGroup:
        reads.append(clock.at_s)
        clock.at_s += 0.5
        return group

    reader = GroupReader(read, clock=Clock(clock.now_ns, clock.wall_ns, clock.now_ns))
    for at_s in (0.0, 1.0, TIMES / 4, 0.5 + TIMES / 2, 20.0):
        clock.at_s = at_s
        reader.begin()

    assert reads == [0.0, 0.5 + TIMES / 2]


@pytest.mark.usefixtures("_at_once")
async def test_the_table_begins_with_the_rank_that_the_finding_names(many: JudgedGroup) -> None:
    async with GroupApp(GroupReader(lambda: many)).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        listed = [row.split()[0] for row in rows_of(pilot.app.screen) if "finished" in row]

    assert listed[:3] == ["40", "0", "1"]
