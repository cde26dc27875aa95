"""A group that was read: its ranks, the straggler, the summary, and the JSON object."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.groups import FINISHED, STEPS, write_group
from tests.runs.folders import FakeClock
from tfwatch.core.rows import STEP, Phase
from tfwatch.judge.groups import judged_group
from tfwatch.judge.groups.judged_group import JudgedGroup, state_lines, stopped_word
from tfwatch.report.group_report import (
    group_finding,
    group_json,
    group_markdown,
    group_title,
    rank_rows,
)
from tfwatch.runs.format import EVENTS, MANIFEST, PULSES, NotARunError, Pulse
from tfwatch.runs.format import STEPS as STEPS_FILE
from tfwatch.runs.group import folder_of_rank, open_group
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from pathlib import Path


def judged(folder: Path) -> JudgedGroup:
    return JudgedGroup(open_group(folder, FakeClock(2).clock))


def sentences(group: JudgedGroup) -> str:
    return "\n".join(group_finding(group)[2])


def test_the_finding_names_the_late_rank_and_the_table_has_a_row_a_rank(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [1, 21, 1]))

    _, word, lines = group_finding(group)
    assert group_title(group) == "cnn, 3 ranks"
    assert word == "STRAGGLER rank 1, 67 %"
    assert lines[0].startswith(
        "the other ranks wait 20.0 of 30.0 ms/step for rank 1: it waits 21.0 ms for data"
    )
    assert lines[1] == "without it a step takes about 10.0 of 30.0 ms: 67 % less"
    assert lines[2].startswith("give it what the others have")
    assert rank_rows(group)[0][-3:] == ("0.0 ms", "", "finished")
    assert rank_rows(group)[1][:2] == ("1", str(STEPS))
    assert rank_rows(group)[1][-3:] == ("20.0 ms", "data wait", "finished")


def test_where_all_ranks_starve_alike_that_is_the_finding(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [20, 20, 20]))

    _, word, lines = group_finding(group)
    assert word == "ALL RANKS STARVE 69 %"
    assert lines[0] == "each rank waits 20.0 of 29.0 ms/step for data"


def test_without_a_straggler_the_time_spent_waiting_is_given(tmp_path: Path) -> None:
    assert sentences(judged(write_group(tmp_path / "one", [1, 1.5]))) == (
        "no rank is seen to be late: they wait 2 % of their time for one another; "
        "whether one computes longer is n/a, as processor time and clocks are not known"
    )


@pytest.mark.parametrize("waits", [[1, 21, 1], [1, 1], [5]])
def test_the_json_object_names_the_straggler(waits: list[float], tmp_path: Path) -> None:
    found = group_json(judged(write_group(tmp_path / "one", waits)))

    assert json.dumps(found, allow_nan=False)
    assert (found["straggler"] is None) == (len(waits) < 3)
    assert len(found["ranks"]) == len(waits)


def test_a_rank_that_fetches_inside_its_calls_is_no_proof_of_compute(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [1, 1.2, 1], fetches_in_calls=True))

    assert "no rank is seen to be late" in sentences(group)
    assert "the data wait of 3 ranks is a part of its calls" in sentences(group)
    assert [one["data_wait_seen"] for one in group_json(group)["ranks"]] == [False] * 3


def test_what_is_not_known_has_its_reason(tmp_path: Path) -> None:
    alone, not_split = (
        write_group(tmp_path / "alone", [1]),
        write_group(tmp_path / "two", [1, 9], not_split="by Keras"),
    )

    assert judged(alone).why_not == "only one rank has a run"
    assert judged(not_split).why_not == "the steps of rank 0 are not split: by Keras"
    assert judged(not_split).waiting_share is None
    assert group_finding(judged(alone))[1:] == ("STRAGGLER n/a", ["only one rank has a run"])


def test_missing_unreadable_and_lagging_ranks_are_named(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 1, 1, 1], size=5)
    shutil.rmtree(folder_of_rank(folder, 0))
    (folder_of_rank(folder, 1) / MANIFEST).write_text("{}")
    rows = folder_of_rank(folder, 2) / STEPS_FILE
    rows.write_bytes(rows.read_bytes()[: rows.stat().st_size // 2])

    text = sentences(judged(folder))

    assert group_title(judged(folder)) == "cnn, 2 ranks of 5"
    assert "rank 0 has no run\nrank 4 has no run\nrank 1 cannot be read: " in text
    assert f"rank 2 is {STEPS // 2} steps behind" in text


def test_a_folder_without_a_readable_rank_is_no_group(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1])
    (folder_of_rank(folder, 0) / MANIFEST).write_text("no JSON")

    with pytest.raises(NotARunError, match="no rank of the group has a run"):
        open_group(folder)


def test_a_rank_that_did_not_end_has_another_state(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 1], boot_id="another boot")
    (folder_of_rank(folder, 1) / EVENTS).write_text("")

    states = {one["rank"]: one["state"] for one in group_json(judged(folder))["ranks"]}

    assert states[0] == FINISHED.cause
    assert states[1] != states[0]


def test_a_rank_that_writes_nothing_is_named_with_its_seconds(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 1, 1])
    (folder_of_rank(folder, 1) / EVENTS).write_text("")

    found = JudgedGroup(open_group(folder, FakeClock(43).clock))

    silent = f"rank 1: not responding for 43.0 s, since step {STEPS}"
    assert sentences(found).startswith(silent)
    assert "not responding for 43.0 s" in rank_rows(found)[1][-1]
    assert [(one["state"], one["silent_s"]) for one in group_json(found)["ranks"]] == [
        ("finished", None),
        ("not responding", 43.0),
        ("finished", None),
    ]
    assert stopped_word(found) == "NOT RESPONDING rank 1 for 43.0 s"


def test_a_rank_that_writes_later_than_the_others_does_not_lag(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 1, 1])
    for rank, kept in ((1, STEPS - 20), (2, 5)):
        (folder_of_rank(folder, rank) / EVENTS).write_text("")
        rows = folder_of_rank(folder, rank) / STEPS_FILE
        rows.write_bytes(rows.read_bytes()[: kept * STEP.itemsize])

    found = JudgedGroup(open_group(folder, FakeClock(1).clock))

    assert [one.life for one in found.ranks][1:] == [Life.RUNNING] * 2
    assert [one.behind for one in found.ranks] == [0, 20, 55]
    assert [one.is_lagging for one in found.ranks] == [False, False, False]


def in_phases(folder: Path, *now: tuple[Phase, str]) -> JudgedGroup:
    """Return a group whose ranks are all in the same step, each in a phase since 41 s, with its
    detail."""
    clock = FakeClock(43).clock
    for rank, (phase, detail) in enumerate(now):
        place = folder_of_rank(folder, rank)
        (place / EVENTS).write_text("")
        pulse = Pulse(43 * 10**9, clock.wall_ns(), phase, 2 * 10**9, STEPS + 1, 0, detail)
        (place / PULSES).write_bytes(pulse.encode(7))
    return JudgedGroup(open_group(folder, clock))


IN_CALL = (Phase.COMPUTE, "")


@pytest.mark.parametrize(
    ("phase", "detail", "words"),
    [
        (Phase.WAIT, "", "no batch"),
        (Phase.WAIT, "read (train.py:11)", "no batch"),
        (Phase.HOST, "", "in Python between two steps"),
        (Phase.COMPUTE, "read (train.py:11)", "hangs in its call"),
    ],
)
def test_a_rank_that_holds_the_others_up_is_named_while_it_runs(
    phase: Phase, detail: str, words: str, tmp_path: Path
) -> None:
    found = in_phases(write_group(tmp_path / "one", [1, 1, 1]), IN_CALL, (phase, detail), IN_CALL)

    python = f", in {detail}" if detail else ""
    waits = f"rank 1: {words} for 41.0 s{python}, since step {STEPS}; the other ranks wait for it"
    assert [one.life for one in found.ranks] == [Life.RUNNING] * 3
    assert state_lines(found) == [waits]
    assert stopped_word(found) == f"{words.upper()} rank 1 for 41.0 s"
    ranks = group_json(found)["ranks"]
    assert [one["overdue_s"] for one in ranks] == [None, 41.0, None]
    assert [one["overdue_where"] for one in ranks] == [
        None,
        f"{words}, {detail}".removesuffix(", "),
        None,
    ]
    assert group_json(found)["in_call_s"] is None


def test_a_group_that_hangs_in_a_call_says_so_where_no_rank_is_seen_to_hold_it_up(
    tmp_path: Path,
) -> None:
    found = in_phases(write_group(tmp_path / "one", [1, 1, 1]), IN_CALL, IN_CALL, IN_CALL)

    sentence = f"no step since step {STEPS}, for 41.0 s: all ranks are in the call"
    assert state_lines(found) == [f"{sentence}, and nothing shows which one the others wait for"]
    assert stopped_word(found) == "NO STEP for 41.0 s"
    assert group_json(found)["in_call_s"] == 41.0


def test_the_figures_of_a_long_run_name_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    assert judged(folder).is_whole
    monkeypatch.setattr("tfwatch.runs.group.NEWEST_ROWS", 40)
    monkeypatch.setattr(judged_group, "NEWEST_ROWS", 40)

    found = judged(folder)

    assert group_json(found)["figures_of"] == {"first_step": 21, "last_step": 60, "whole": False}
    assert "Figures of the newest steps, 21 to 60; one rank: tfwatch report" in group_markdown(
        found
    )


def test_ranks_that_are_gone_are_named_by_their_last_sign_of_life_the_first_three_of_them(
    tmp_path: Path,
) -> None:
    folder = write_group(tmp_path / "one", [1] * 5, boot_id="another boot")
    for rank in range(4):
        place = folder_of_rank(folder, rank)
        place.joinpath(EVENTS).write_text("")
        with place.joinpath(STEPS_FILE).open("r+b") as rows:
            rows.truncate(STEP.itemsize * (STEPS - rank))

    lines = state_lines(JudgedGroup(open_group(folder, FakeClock(2).clock)))

    assert lines == [
        f"rank 3: killed at step {STEPS - 3}",
        f"rank 2: killed at step {STEPS - 2}",
        f"rank 1: killed at step {STEPS - 1}",
        "1 more rank no longer trains",
    ]
