"""The banner: the word, sentence and advice of each state."""

from typing import Any

import pytest

from tests.judge.situations import (
    RUNNING,
    banner,
    changed,
    finding,
    judged,
    losses,
    regime_of_split,
    split,
)
from tests.runs.folders import make_manifest
from tfwatch.core.events import RunEnded, StallLocated, TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.judge.banner import banner as make_banner
from tfwatch.judge.banner import moment_text, stall
from tfwatch.judge.findings.finding import Finding, Tone
from tfwatch.judge.machine import MachineFigures
from tfwatch.judge.other_programs import OtherPrograms
from tfwatch.judge.regime import Regime
from tfwatch.judge.steps.stalls import Stall
from tfwatch.screens.live.header import BannerPane


@pytest.mark.parametrize(
    ("changes", "word", "sentence"),
    [
        pytest.param(
            {"phase": Phase.STARTING, "phase_s": 1.4}, "STARTING", "starting, 1.4 s", id="starting"
        ),
        pytest.param(
            {
                "phase": Phase.STARTING,
                "phase_s": 0.1,
                "detail": "making the image set, 400 of 8 000, 12 s left",
            },
            "STARTING",
            "making the image set, 400 of 8 000, 12 s left",
            id="making images",
        ),
        pytest.param(
            {
                "phase": Phase.WAIT,
                "phase_s": 3.0,
                "step": 1,
                "steps_total": 0,
                "shuffle": (4298, 50000),
            },
            "STARTING",
            "filling the shuffle buffer, 4 298 of 50 000, 3.0 s",
            id="shuffle buffer",
        ),
        pytest.param(
            {"phase": Phase.WAIT, "phase_s": 3.0, "step": 1, "steps_total": 0},
            "STARTING",
            "waiting for the first batch, 3.0 s",
            id="first batch",
        ),
        pytest.param(
            {"phase": Phase.COMPILE, "phase_s": 14.2, "step": 1, "steps_total": 0},
            "COMPILING",
            "first step, 14.2 s so far",
            id="compiling",
        ),
        pytest.param(
            {
                "split": split(9.6, 13, 0.8, 12),
                "regime": regime_of_split(split(9.6, 13, 0.8), 12),
            },
            "MEASURING",
            "the verdict needs 10 s of steps at most: 0 s so far",
            id="measuring",
        ),
        pytest.param(
            {"split": judged(0.2)},
            "OK, data wait 1 %",
            "compute-bound: only 0.2 of 14.0 ms is data wait; the input pipeline is not the limit,"
            " 93 % of the step is compute",
            id="healthy",
        ),
        pytest.param(
            {"split": judged(1.9)},
            "STARVING 12 %",
            "each step waits 1.9 of 15.7 ms for data",
            id="moderate",
        ),
        pytest.param(
            {"split": judged()},
            "STARVING 41 %",
            "each step waits 9.6 of 23.4 ms for data",
            id="starving",
        ),
        pytest.param(
            {"phase": Phase.WAIT, "phase_s": 20.3},
            "NO BATCH FOR 20.3 s",
            "Step 412 waits for its batch: the input pipeline has delivered none.",
            id="stalled now",
        ),
        pytest.param(
            {"phase_s": 20.3}, "STEP 412 RUNS FOR 20.3 s", "in compute", id="long compute"
        ),
        pytest.param(
            {"phase": Phase.HOST, "phase_s": 20.3, "detail": "ModelCheckpoint"},
            "STEP 412 RUNS FOR 20.3 s",
            "in callback ModelCheckpoint",
            id="long callback",
        ),
        pytest.param(
            {"life": "not responding", "silent_s": 3.1},
            "NOT RESPONDING for 3.1 s",
            "training is stopped, asleep, or holds the GIL",
            id="no pulse",
        ),
        pytest.param(
            {"life": "folder gone", "run": "~/runs/20T10"},
            "RUN FOLDER GONE",
            "moved, deleted or unmounted: ~/runs/20T10",
            id="its folder was moved",
        ),
        pytest.param(
            {"life": "killed", "now_s": 11560.0},
            "KILLED (no end record)",
            "at step 412, after 3 h 12 min",
            id="killed",
        ),
        pytest.param(
            {"life": "killed", "phase": Phase.ENDED, "now_s": 60.0},
            "ENDED (no end record)",
            "at step 412, after 1:00",
            id="its end is not on disk",
        ),
        pytest.param(
            {
                "life": "unknown",
                "silent_s": 720.0,
                "manifest": make_manifest(machine={"host": "there"}),
            },
            "UNKNOWN",
            "no new data for 12:00; run on another machine, there",
            id="unknown",
        ),
        pytest.param(
            {
                "ended": RunEnded(11_520_000_000_000, "finished", 5000),
                "life": "ended",
                "epoch": 19,
            },
            "FINISHED",
            "20 epochs, 5 000 steps in 3 h 12 min",
            id="finished",
        ),
        pytest.param(
            {"ended": RunEnded(33_000_000_000, "stopped", 412), "life": "ended"},
            "STOPPED",
            "after 412 steps in 33.0 s",
            id="stopped",
        ),
        pytest.param(
            {
                "failed": TrainingFailed(
                    0, 412, "ValueError: no", 'File "/home/me/train.py", line 41, in f'
                )
            },
            "FAILED at step 412",
            "ValueError: no",
            id="failed",
        ),
        pytest.param(
            {"ended": RunEnded(33_000_000_000, "failed", 12, "no data"), "life": "ended"},
            "FAILED",
            "no data",
            id="failed early",
        ),
        pytest.param(
            {"stopping_s": 20.0},
            "STOPPING",
            "after the current batch (20.0 s so far)",
            id="stopping",
        ),
        pytest.param(
            {"watch_failed": "boom"}, "NOT MEASURED", "tfwatch failed: boom", id="watch failed"
        ),
    ],
)
def test_each_state_has_its_word_and_sentence(
    changes: dict[str, Any], word: str, sentence: str
) -> None:
    assert finding(**changes)[:2] == (word, sentence)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"phase": Phase.VALIDATION, "phase_s": 2.1}, "validation, 2 s", id="validation"
        ),
        pytest.param({"phase": Phase.EPOCH_END, "phase_s": 0.5}, "", id="hardly seen"),
        pytest.param(
            {"phase": Phase.EPOCH_END, "phase_s": 3.1, "detail": "ModelCheckpoint"},
            "end of the epoch, ModelCheckpoint, 3 s",
            id="end of an epoch",
        ),
        pytest.param({"phase": Phase.WAIT, "phase_s": 1.3}, "no batch for 1 s", id="stall"),
        pytest.param({"phase": Phase.COMPILE, "phase_s": 4.0}, "compiling, 4 s", id="retracing"),
        pytest.param(
            {"phase": Phase.HOST, "phase_s": 1.5, "detail": "Log"},
            "step in callback Log for 2 s",
            id="long step",
        ),
        pytest.param(
            {"asked": {"prefetch": "4"}}, "switching prefetch off → 4", id="requested switch"
        ),
    ],
)
def test_what_goes_on_between_steps_belongs_to_the_header(
    changes: dict[str, Any], words: str
) -> None:
    now = changed(RUNNING, split=judged(), **changes)

    assert moment_text(now) == words
    assert banner(now).word == "STARVING 41 %"


def test_a_stall_as_long_as_those_before_is_no_news() -> None:
    stalled = changed(RUNNING, split=judged(), phase=Phase.WAIT, phase_s=16.0)

    assert banner(stalled).word == "NO BATCH FOR 16.0 s"
    assert banner(changed(stalled, longest_step_s=15.0)).word == "STARVING 41 %"
    assert banner(changed(stalled, longest_step_s=15.0, phase_s=19.0)).word.startswith("NO BATCH")


def test_beside_other_programs_no_verdict_is_good_and_the_first_line_names_them() -> None:
    others = OtherPrograms(20.0, 60.0, 1.4, 2, matters=True)
    found = banner(changed(RUNNING, split=judged(0.2), machine=MachineFigures(), others=others))

    assert (found.word, found.tone) == ("OK, data wait 1 %", Tone.WARN)
    assert found.remark == "OTHER PROGRAMS USE 1.4 OF 2 CORES: all times are longer for it"


def test_beside_other_programs_the_first_line_keeps_the_loss() -> None:
    others = OtherPrograms(20.0, 60.0, 1.4, 2, matters=True)
    found = banner(changed(RUNNING, split=judged(), machine=MachineFigures(), others=others))

    remark = f"{found.lost_s:.1f} s avoidable, OTHER PROGRAMS USE 1.4 OF 2 CORES"
    assert found.remark == f"{remark}: all times are longer for it"
    pane = BannerPane()
    pane.banner = found
    assert pane.rows(78, 3)[0].plain == f" STARVING 41 %   {remark}"


def test_the_verdict_before_a_switch_stands_until_the_next_one() -> None:
    before = losses(changed(RUNNING, split=judged()))[0]
    switched = changed(RUNNING, split=split(0.2, 13.0, 0.8, 12), regime=Regime(cause="switch"))
    found = make_banner(switched, (), before)

    assert (found.word, found.loss) == (before.word, before.loss)
    assert found.cause == "that was with the setting before"
    assert found.advice == "measuring the new setting, 5 s of steps at most: 0 s so far"


def test_a_request_during_a_stall_appears_in_the_advice() -> None:
    word, _, advice = finding(phase=Phase.WAIT, phase_s=20.3, asked={"prefetch": "4"})

    assert word == "NO BATCH FOR 20.3 s"
    assert advice == "Requested: prefetch 4; it waits for the current batch. q is safe."


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        ("w, from the next epoch: workers=4", "workers auto requested, from epoch 5"),
        ("w and m, from the next epoch: workers=4", "workers auto requested, from epoch 5; m too"),
        ("more workers for the PyDataset", "more workers for the PyDataset"),
    ],
    ids=["the advised key", "one of two", "another one"],
)
def test_a_request_that_waits_for_an_epoch_stands_in_place_of_its_advice(
    advice: str, shown: str
) -> None:
    now = changed(RUNNING, deferred={"workers": ("auto", "requested, from epoch 5")})
    loss = Finding("input-bound", "STARVING 82 %", "each step waits for data", advice)

    assert make_banner(now, (loss,)).advice == shown


def test_a_killed_run_shows_the_last_evidence() -> None:
    used = {"memory_used": 12.8, "memory_available": 0.2, "swap_used": 9.0}
    machine = MachineFigures({f"{name}_bytes": size * 2**30 for name, size in used.items()})
    manifest = make_manifest(machine={"memory_bytes": 16 * 2**30})

    advice = finding(life="killed", machine=machine, manifest=manifest)[2]

    assert (
        advice
        == "out of memory is likely: memory 12.8 of 16.0 GB, swap 9.0 GB; last phase: compute"
    )


def test_a_failure_names_the_line_that_raised() -> None:
    failed = TrainingFailed(0, 412, "ValueError: no", 'File "/home/me/train.py", line 41, in f')

    assert (
        finding(failed=failed)[2]
        == "train.py:41 - 5 shows the traceback - 411 steps kept - q quits with exit status 1"
    )


def test_a_failure_shows_the_message_of_tensorflow_without_its_graph_node() -> None:
    error = (
        "InvalidArgumentError: {{function_node __wrapped__IteratorGetNext_device_/job:localhost}}"
        " Illegal seek"
    )

    assert (
        finding(failed=TrainingFailed(0, 412, error, ""))[1] == "InvalidArgumentError: Illegal seek"
    )


def test_the_end_sums_up_the_data_wait() -> None:
    ended = RunEnded(100_000_000_000, "finished", 5000)

    stalls = tuple(Stall(9, 0, 1, lost_ms, "") for lost_ms in (2_000, 41_000, 3_000))
    advice = finding(ended=ended, waited_s=25.0, stalls=stalls)[2]

    assert (
        advice == "data wait 25.0 s (25 % of the run), with 3 stalls of 41.0 s at most;"
        " without it: 1:15 at best - tfwatch replay 2026-11-20T10-17-03_cnn"
    )


def test_a_finished_run_shows_the_finding_on_its_last_setting() -> None:
    last = losses(changed(RUNNING, live=False, split=judged()))
    ended = RunEnded(100_000_000_000, "finished", 5000)
    found = banner(changed(RUNNING, ended=ended, waited_s=25.0, last_losses=last))

    assert (found.word, found.tone) == ("FINISHED", Tone.BAD)
    assert (
        found.remark
        == "1 epoch, 5 000 steps in 1:40; data wait 25.0 s (25 % of the run); without it: 1:15 at"
        " best"
    )
    assert found.sentence == "STARVING 41 %, each step waits 9.6 of 23.4 ms for data"
    assert found.brief == "each step waits 9.6 of 23.4 ms for data"
    assert (found.advice, found.code) == (last[0].advice, last[0].code)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param(
            {"ended": RunEnded(33_000_000_000, "failed", 12, "no data")}, "no data", id="failed"
        ),
        pytest.param({"life": "killed"}, "at step 412, after 1:40", id="killed"),
    ],
)
def test_a_failed_or_killed_run_shows_its_cause_with_the_verdict_as_a_remark(
    changes: dict[str, Any], sentence: str
) -> None:
    last = losses(changed(RUNNING, live=False, split=judged()))
    found = banner(changed(RUNNING, last_losses=last, **changes))

    assert (found.sentence, found.code) == (sentence, last[0].code)
    assert found.remark == f"STARVING 41 %; {last[0].advice}"


def test_the_end_of_a_run_without_a_folder_names_none() -> None:
    assert finding(ended=RunEnded(1, "stopped", 5), run="")[2].endswith("- nothing was recorded")


def located(stage: str, place: str = "", thread: str = "") -> StallLocated:
    return StallLocated(23 * 10**9, 412, stage, 20 * 10**9, place, thread)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        pytest.param(
            located("map(read)", "train.py:9 in <module>", "training"),
            "Step 412 waits in map(read): no output for 20.3 s.",
            id="a stage of tf.data's: the training only fetches",
        ),
        pytest.param(
            located("from_generator(rows)", "feed.py:41 in rows", "generator"),
            "Step 412 waits in feed.py:41 in rows, below from_generator(rows): no output for"
            " 20.3 s.",
            id="a generator",
        ),
        pytest.param(
            located("", "feed.py:41 in rows", "training"),
            "Step 412 waits for its batch, at feed.py:41 in rows.",
            id="no stages",
        ),
        pytest.param(
            None,
            "Step 412 waits for its batch: the input pipeline has delivered none.",
            id="not located yet",
        ),
    ],
)
def test_a_stall_names_the_stage_and_the_line(where: StallLocated | None, sentence: str) -> None:
    assert stall(changed(RUNNING, step=412, now_s=40.3, located=where)).sentence == sentence


def test_a_shuffle_buffer_that_fills_comes_first() -> None:
    now = changed(RUNNING, step=412, now_s=40.3, shuffle=(4298, 50_000), located=located("range"))

    assert stall(now).sentence == "Step 412 waits: filling the shuffle buffer, 4 298 of 50 000."


@pytest.mark.parametrize(
    ("phase_s", "median_step_ms", "stalled"),
    [
        pytest.param(0.9, 20.0, False, id="the first batch of an epoch"),
        pytest.param(1.1, 20.0, True, id="many steps long"),
        pytest.param(1.9, 500.0, False, id="hardly four slow steps"),
        pytest.param(2.1, 500.0, True, id="long for slow steps"),
        pytest.param(1.2, None, True, id="nothing measured yet"),
    ],
)
def test_a_wait_is_a_stall_by_the_length_of_a_step(
    phase_s: float, median_step_ms: float | None, stalled: bool
) -> None:
    now = changed(RUNNING, phase=Phase.WAIT, phase_s=phase_s, median_step_ms=median_step_ms)

    assert now.is_stalled is stalled
