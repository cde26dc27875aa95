"""A group that was read: its ranks, the straggler, the summary, and the JSON object."""

import shutil
from pathlib import Path

import pytest

from tests.groups import STEPS, meeting_rows, write_group
from tests.runs.folders import FakeClock, write_run
from tfwatch.core.events import RunEnded, TrainingFailed
from tfwatch.core.rows import STEP, Phase
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.groups.judged_group import JudgedGroup, judge_group
from tfwatch.report.group_report import group_json, rank_cells
from tfwatch.runs.format import EVENTS, MANIFEST, PULSES, Pulse
from tfwatch.runs.format import STEPS as STEPS_FILE
from tfwatch.runs.group import folder_of_rank, open_group


def judged(folder: Path, at_s: float = 2) -> JudgedGroup:
    return judge_group(open_group(folder, FakeClock(at_s).clock))


def states(group: JudgedGroup) -> list[str]:
    return [row.state for row in group.rows]


def test_the_finding_names_the_late_rank_and_the_table_has_a_row_a_rank(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [1, 21, 1]))

    assert (group.title, group.word) == ("cnn, 3 ranks", "STRAGGLER rank 1, 67 %")
    assert group.named_rank == 1
    assert group.sentences[0].startswith(
        "the other ranks wait 20.0 of 30.0 ms/step for rank 1: it waits 21.0 ms for data"
    )
    cells = [rank_cells(row) for row in group.rows]
    assert cells[0][-3:] == ("0.0 ms", "", "finished")
    assert cells[1][:2] == ("1", str(STEPS))
    assert cells[1][-3:] == ("20.0 ms", "data wait", "finished")


def test_where_all_ranks_starve_alike_that_is_the_finding(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [20, 20, 20]))

    assert group.word == "ALL RANKS STARVE 69 %"
    assert group.tone is Tone.BAD
    assert group.sentences[0] == "each rank waits 20.0 of 29.0 ms/step for data"
    assert group.sentences[1] == "the screen of a rank names the cause: tfwatch replay one/rank-0"
    assert group.sentences[2].startswith("no rank is seen to be late")


def test_ranks_of_a_strategy_that_starve_alike_hide_the_late_one(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [20, 20, 20], replicas=["GPU:0"]))

    assert group.word == "ALL RANKS STARVE 69 %"
    assert group.sentences[2] == (
        "whether a rank is late is not known: a fetch from a distributed data set of unknown"
        " length waits for the slowest rank"
    )
    found = group_json(group)
    assert (found["straggler"], found["waiting_share"]) == (None, None)
    assert found["straggler_not_known"].startswith("a fetch from a distributed data set")
    assert rank_cells(group.rows[0])[-3] == "n/a", "by how much it is late"


def test_the_larger_loss_of_a_late_rank_and_of_all_comes_first(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [20, 25, 20]))

    assert group.word == "ALL RANKS STARVE 59 %"
    assert group.sentences[2].startswith("the other ranks wait 5.0 of 34.0 ms/step for rank 1")


def test_without_a_straggler_the_time_spent_waiting_is_given(tmp_path: Path) -> None:
    assert judged(write_group(tmp_path / "one", [1, 1.5])).sentences[0] == (
        "no rank is seen to be late: they wait 2 % of their time for one another; "
        "whether one computes longer is n/a, as processor time and clocks are not known"
    )


def test_a_rank_that_fetches_inside_its_calls_is_no_proof_of_compute(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [1, 1.2, 1], fetches_in_calls=True))

    assert group.sentences[0].startswith("no rank is seen to be late")
    assert "the data wait of 3 ranks is a part of its calls" in group.sentences[0]


def test_what_is_not_known_has_its_reason(tmp_path: Path) -> None:
    alone, not_split = (
        write_group(tmp_path / "alone", [1]),
        write_group(tmp_path / "two", [1, 9], not_split="by Keras"),
    )

    assert judged(alone).why_not == "only one rank has a run"
    assert judged(not_split).why_not == "the steps of rank 0 are not split: by Keras"
    assert judged(not_split).waiting_share is None
    assert judged(alone).word == "STRAGGLER n/a"
    assert judged(alone).sentences == (
        "whether a rank is late is not known: only one rank has a run",
    )


def test_a_group_without_the_runs_of_some_ranks_is_not_well(tmp_path: Path) -> None:
    group = judged(write_group(tmp_path / "one", [1, 1.5], size=8))

    assert (group.tone, group.word) == (Tone.WARN, "NO RUN OF 6 RANKS")
    assert group.sentences[0] == (
        "nothing is known of rank 2, 3, 4, 5, 6 and 1 more: no run of it can be read"
    )


def test_missing_and_unreadable_ranks_are_named(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 1, 1, 1], size=5)
    shutil.rmtree(folder_of_rank(folder, 0))
    (folder_of_rank(folder, 1) / MANIFEST).write_text("{}")

    group = judged(folder)

    assert group.title == "cnn, 2 ranks of 5"
    assert states(group)[0] == states(group)[4] == "no run"
    assert states(group)[1].startswith("cannot be read: ")
    missing = group_json(group)["ranks"][0]
    assert (missing["run"], missing["last_step"], missing["state"]) == (None, None, None)
    assert rank_cells(group.rows[0])[1] == "n/a"


def test_a_rank_that_writes_nothing_is_named_with_its_seconds(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 21, 1])
    (folder_of_rank(folder, 2) / EVENTS).write_text("")

    found = judged(folder, 43)

    assert (found.word, found.named_rank) == ("NOT RESPONDING rank 2 for 43.0 s", 2)
    silent = f"rank 2: not responding for 43.0 s, after step {STEPS}; the other ranks wait for it"
    assert found.sentences[0] == silent
    assert found.sentences[1].startswith("the other ranks wait 20.0 of 30.0 ms/step for rank 1")
    assert [(one["state"], one["stopped_s"]) for one in group_json(found)["ranks"]] == [
        ("finished", None),
        ("finished", None),
        ("not responding", 43.0),
    ]


def test_a_rank_that_failed_says_why(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 1])
    failed = (TrainingFailed(1, 30, "ValueError: no", ""), RunEnded(10**9, "failed", 30, "no"))
    write_run(folder_of_rank(folder, 1), meeting_rows([1], [1])[0][:30], *failed, rank=1)

    found = judged(folder)

    assert found.word == "FAILED rank 1"
    assert states(found)[1] == "failed at step 30: ValueError: no"


def in_phases(folder: Path, *now: tuple[Phase, str]) -> JudgedGroup:
    """Return a group whose ranks are all in the same step, each in a phase since 41 s, with its
    detail."""
    clock = FakeClock(43).clock
    for rank, (phase, detail) in enumerate(now):
        place = folder_of_rank(folder, rank)
        (place / EVENTS).write_text("")
        pulse = Pulse(43 * 10**9, clock.wall_ns(), phase, 2 * 10**9, STEPS + 1, 0, detail)
        (place / PULSES).write_bytes(pulse.encode(7))
    return judge_group(open_group(folder, clock))


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
    assert states(found) == ["running", f"{words} for 41.0 s{python}", "running"]
    assert found.word == f"{words.upper()} rank 1 for 41.0 s"
    assert [one["stopped_s"] for one in group_json(found)["ranks"]] == [None, 41.0, None]
    assert group_json(found)["in_call_s"] is None


def test_a_group_that_hangs_in_a_call_says_so_where_no_rank_is_seen_to_hold_it_up(
    tmp_path: Path,
) -> None:
    found = in_phases(write_group(tmp_path / "one", [1, 1, 1]), IN_CALL, IN_CALL, IN_CALL)

    assert found.sentences[0].startswith(f"no step since step {STEPS}: all ranks are in the call")
    assert found.word == "NO STEP for 41.0 s"
    assert group_json(found)["in_call_s"] == 41.0


def test_of_ranks_that_are_gone_the_one_with_the_oldest_sign_of_life_is_named(
    tmp_path: Path,
) -> None:
    folder = write_group(tmp_path / "one", [1] * 3, boot_id="another boot")
    for rank in range(3):
        place = folder_of_rank(folder, rank)
        place.joinpath(EVENTS).write_text("")
        with place.joinpath(STEPS_FILE).open("r+b") as rows:
            rows.truncate(STEP.itemsize * (STEPS - rank))

    found = judged(folder)

    assert found.word == "KILLED rank 2"
    assert states(found)[0] == "killed"
