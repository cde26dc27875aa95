from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import ORIGIN_WALL_NS, FakeClock, write_run
from tfwatch.cli.runs import beyond, why_kept
from tfwatch.core.events import RunEnded
from tfwatch.runs import group as groups
from tfwatch.runs.format import GROUP_FILE, NotARunError
from tfwatch.runs.group import (
    WINDOW_S,
    Membership,
    RankFolder,
    join,
    newest_round,
    rank_folders,
    read_group_file,
)
from tfwatch.runs.library import (
    FolderToRemove,
    find_run,
    list_runs,
    list_single_runs,
    run_name,
    runs_since,
)
from tfwatch.runs.run import open_run

START_S = ORIGIN_WALL_NS / 1e9
ELSEWHERE: dict[str, Any] = {"boot_id": "another", "machine": {"host": "elsewhere"}}


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    groups._joined.clear()
    yield
    groups._joined.clear()


def member(rank: int | None, size: int | None = 2) -> Membership:
    return Membership(rank, size, "TF_CONFIG", "one launch", "tf_config")


def join_as(rank: int | None, runs_dir: Path, started_s: float = START_S) -> RankFolder:
    """Join as a process of its own."""
    groups._joined.clear()
    return join(runs_dir, member(rank), started_s, FakeClock().clock)


def trained(folder: Path, *events: RunEnded, started_s: float = START_S, **changes: Any) -> None:
    write_run(folder, plain(2), *events, process_started_s=started_s, **ELSEWHERE, **changes)


def test_the_ranks_of_a_launch_share_a_folder_whoever_comes_first(tmp_path: Path) -> None:
    found = [join_as(rank, tmp_path, START_S + rank) for rank in (1, 0)]

    assert found[0].folder.parent == found[1].folder.parent
    assert [one.folder.name for one in found] == ["rank-1", "rank-0"]
    assert read_group_file(found[0].folder.parent).size == 2


def test_processes_that_race_share_one_folder(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.runs.begun import begin_run\nwriter, lost"
        " = begin_run(Path(sys.argv[1]), 'cnn'); print('begun', flush=True);"
        " sys.stdin.read()\nwriter.end('finished'); writer.close()"
    )
    config = (
        '{"cluster": {"worker": ["a:1", "b:1", "c:1"]}, "task": {"type": "worker", "index": %d}}'
    )
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program, str(tmp_path)],
                    env={**os.environ, "TF_CONFIG": config % rank},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for rank in range(3)
        ]
        assert [process.stdout and process.stdout.readline() for process in processes] == [
            "begun\n"
        ] * 3

    (group,) = list_runs(tmp_path)
    runs = [open_run(one.folder) for one in rank_folders(group)]
    ranks = [(run.manifest.rank, run.manifest.group_size) for run in runs]
    assert ranks == [(0, 3), (1, 3), (2, 3)]
    assert runs[2].manifest.run == f"{group.name}/rank-2"
    assert [len(list(runs_since(tmp_path, process.pid, 0))) for process in processes] == [1, 1, 1]


def test_a_later_run_of_a_process_lies_beside_its_first(tmp_path: Path) -> None:
    joins = [join(tmp_path, member(1), START_S, FakeClock().clock) for _ in range(3)]

    assert [one.folder.name for one in joins] == ["rank-1", "rank-1-2", "rank-1-3"]


def test_ranks_are_counted_where_no_variable_holds_them(tmp_path: Path) -> None:
    assert [join_as(None, tmp_path).rank for _ in range(3)] == [0, 1, 2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("is_link", [False, True], ids=["another user's", "a link"])
def test_a_group_of_somebody_else_is_not_joined(tmp_path: Path, is_link: bool) -> None:
    theirs = join_as(0, tmp_path).folder.parent
    if is_link:
        theirs.rename(tmp_path / "elsewhere")
        theirs.symlink_to(tmp_path / "elsewhere")
    else:
        os.chown(theirs, 54321, -1)
    joined = join_as(1, tmp_path).folder

    assert joined.parent.name == f"{theirs.name}-2"
    assert not (theirs / joined.name).exists()


def test_on_a_disk_that_shows_another_owner_the_ranks_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as NFS with root_squash: there a file of the user's own has that owner too."""
    monkeypatch.setattr(groups, "_MOST", 3)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    joined = [join_as(rank, tmp_path).folder for rank in (0, 1)]
    for folder in joined:
        trained(folder, ENDED)

    assert [one.name for one in tmp_path.iterdir()] == [joined[0].parent.name]
    assert [one.name for one in joined] == ["rank-0", "rank-1"]
    manifest = open_run(joined[0]).manifest
    assert sorted(runs_since(tmp_path, manifest.pid, 0)) == joined
    assert why_kept(joined[0].parent) == ""


def test_a_rank_that_is_taken_begins_another_group(tmp_path: Path) -> None:
    first, second = join_as(0, tmp_path), join_as(0, tmp_path)

    assert second.folder.parent.name == f"{first.folder.parent.name}-2"


ENDED = RunEnded(2_000_000_000, "finished", 2)


@pytest.mark.parametrize(
    ("later_s", "boot", "is_joined"),
    [
        pytest.param(30.0, ELSEWHERE, True, id="its rank ran on another machine"),
        pytest.param(WINDOW_S + 1, ELSEWHERE, False, id="made long before"),
        pytest.param(30.0, {"pid": 2**22 + 1}, False, id="its rank of this machine is gone"),
    ],
)
def test_a_group_of_an_earlier_launch_is_not_joined(
    tmp_path: Path, later_s: float, boot: dict[str, Any], is_joined: bool
) -> None:
    first = join_as(0, tmp_path)
    write_run(first.folder, plain(2), ENDED, **boot)

    second = join_as(1, tmp_path, START_S + later_s)

    assert (second.folder.parent == first.folder.parent) is is_joined


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"name": 1}', '{"schema": 2}', "\x00", "[" * 10_000]
)
def test_a_damaged_group_file_is_an_error_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / GROUP_FILE).write_text(text)

    with pytest.raises(NotARunError, match=GROUP_FILE):
        read_group_file(tmp_path)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Return a group of two ranks, beside an older and a newer run."""
    write_run(tmp_path / "2020-01-01T00-00-00_cnn", plain(2), ENDED)
    write_run(tmp_path / "2099-01-01T00-00-00_cnn", plain(2), ENDED)
    for rank in (0, 1):
        joined = join_as(rank, tmp_path)
        trained(joined.folder, ENDED, rank=rank, group=joined.folder.parent.name, group_size=2)
    return joined.folder.parent


def test_a_group_is_one_entry_among_the_runs_by_its_date(group: Path) -> None:
    names = [one.name for one in list_runs(group.parent)]

    assert names == ["2099-01-01T00-00-00_cnn", group.name, "2020-01-01T00-00-00_cnn"]
    assert [run_name(one) for one in list_single_runs(group.parent)] == [
        names[0],
        f"{group.name}/rank-0",
        f"{group.name}/rank-1",
        names[2],
    ]


def test_a_group_and_its_ranks_are_found_by_name(group: Path) -> None:
    assert find_run(group.name[:5], group.parent) == group
    assert find_run(str(group), group.parent / "elsewhere") == group
    assert find_run(f"{group.name}/rank-1", group.parent) == group / "rank-1"
    assert find_run(f"{group.name[:4]}/rank-1", group.parent) == group / "rank-1"
    with pytest.raises(FileNotFoundError):
        find_run(f"{group.name[:4]}/rank-9", group.parent)
    assert open_run(group / "rank-1").manifest.rank == 1
    with pytest.raises(
        NotARunError, match=f"group of ranks: name one of them, as {group.name}/rank-0"
    ):
        open_run(group)


def test_the_newest_run_of_the_processes_is_shown(group: Path) -> None:
    trained(group / "rank-1-2", rank=1)

    assert [one.folder.name for one in newest_round(rank_folders(group))] == ["rank-1-2"]


def test_a_group_is_removed_as_a_whole_and_kept_while_a_rank_trains(group: Path) -> None:
    assert list(beyond([group], None, 0, None)) == [group]
    write_run(group / "rank-1-2", plain(2))  # by this process, which lives
    assert "still runs" in why_kept(group)
    assert list(beyond([group], None, 0, None)) == []

    FolderToRemove(group).remove()

    assert not group.exists()
