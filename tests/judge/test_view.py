"""From snapshots to what panes show, without an app."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.hardware import swapping, throttled
from tests.screens.showing import header_of
from tests.screens.states import starving
from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.rows import PROGRESS, Flag, Phase, Rows
from tfwatch.judge.effects.switching_state import KnobRequest
from tfwatch.judge.event_rows import EventCollector
from tfwatch.judge.findings.situation import left_s
from tfwatch.judge.steps.steady_steps import Verdict
from tfwatch.judge.view import Follower, RunView
from tfwatch.screens.live.knobs import knob_rows


def look(run: Canned, asks: tuple[KnobRequest, ...] = (), live: bool = True) -> RunView:
    reader = run.reader()
    return Follower(live).follow(reader.read(), asks, None)


def test_a_stall_is_counted_from_the_pulse_and_belongs_to_the_waiting() -> None:
    run = usual(None)
    waited_s = look(run).situation.waited_s
    run.at_s += 20.0
    view = look(run.doing(Phase.WAIT, 20.0))

    assert view.situation.is_stalled
    assert view.situation.phase_s == pytest.approx(20.0)
    assert view.situation.waited_s == pytest.approx(waited_s + 20.0, abs=0.1)


def test_a_verdict_does_not_outlive_the_setting_it_was_made_on() -> None:
    run = Canned(None).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.0)
    reader = run.reader()
    follower = Follower(live=True)
    split = follower.follow(reader.read(), (), None).situation.split
    assert split
    assert split.verdict is Verdict.HIGHLY

    run.switched("prefetch", "off", "4").steps(1, COMPUTE_BOUND, int(Flag.SWITCH)).steps(
        120, (0.5, 12.9, 0.8)
    )
    run.doing(Phase.COMPUTE, 0.0).writer.flush()

    split = follower.follow(reader.read(), (), None).situation.split
    assert split
    assert split.verdict is Verdict.NOT


def test_stalls_are_found_once_however_the_steps_come(tmp_path: Path) -> None:
    run = Canned(tmp_path).started()
    reader = run.reader()
    follower = Follower(live=True)
    for _ in range(5):
        run.steps(3, STARVING).steps(1, (2000.0, 13.0, 0.8)).steps(40, STARVING).writer.flush()
        view = follower.follow(reader.read(), (), None)

    assert [stall.step for stall in view.situation.stalls] == [5, 49, 93, 137, 181]
    assert view.situation.stalls == look(run).situation.stalls


def test_a_stall_that_a_run_was_left_in_is_one_of_its_stalls() -> None:
    run = Canned(None).started().steps(150, COMPUTE_BOUND).doing(Phase.WAIT, 0.0)
    run.at_s += 30.0
    run.writer.end("stopped", "left before the current batch ended")
    view = look(run)

    assert [(stall.step, round(stall.lost_ms)) for stall in view.situation.stalls] == [
        (152, 30_000)
    ]
    assert view.situation.waited_s == pytest.approx(30.0, abs=0.2)
    assert "with 1 stall of 30.0 s at most" in view.finding.advice


FILLING = (
    "I0000 00:00:1795169831.799911   30980 shuffle_dataset_op.cc:453] ShuffleDatasetV3:2: Filling"
    " up shuffle buffer (this may take a while): 4298 of 50000\n"
)
FILLED = "I0000 00:00:1795169840.655238   30980 shuffle_dataset_op.cc:483] Shuffle buffer filled.\n"


def logging(folder: Path, text: str = "") -> Canned:
    run = Canned(folder)
    run.log.write_text(text)
    return run


def test_the_shuffle_buffer_is_read_from_tensorflows_log(tmp_path: Path) -> None:
    run = logging(tmp_path, FILLING)
    run.at_s = 9.0
    finding = look(run.begin_epoch().doing(Phase.WAIT, 3.0)).finding

    assert finding.sentence == "filling the shuffle buffer, 4 298 of 50 000, 3.0 s"
    assert finding.advice == "settings can be changed already"


def test_what_the_shuffle_buffer_held_an_epoch_ago_is_not_told(tmp_path: Path) -> None:
    run = logging(tmp_path, FILLING + FILLED).started().steps(40, COMPUTE_BOUND).begin_epoch()
    run.at_s += 2.0

    assert "shuffle" not in look(run.doing(Phase.WAIT, 2.0)).finding.sentence


def test_a_line_of_tensorflow_that_matters_is_a_row_at_its_time(tmp_path: Path) -> None:
    run = logging(tmp_path, "WARNING: All log messages before absl::InitializeLog() is called\n")
    reader = run.reader()
    follower, rows = Follower(live=True), EventCollector()
    run.at_s = 20.0
    before = [row.text for row in rows.take(follower.follow(reader.read(), (), None))]
    with (tmp_path / "log.txt").open("a") as log:
        log.write(FILLING + FILLED + "a line of somebody else's\n" + FILLING)
    after = rows.take(follower.follow(reader.read(), (), None))

    assert before == []
    assert [(round(row.at_s, 1), row.text) for row in after] == [
        (
            8.8,
            (
                "TensorFlow (5 log): training waits while the shuffle buffer fills; it fills again"
                " in every epoch"
            ),
        ),
    ]


def test_what_is_unrecorded_is_told_with_its_step() -> None:
    run = usual(None)
    run.writer.lost = facts.RecordingLost(0, "disk full", 451)

    view = look(run)

    assert view.finding.advice == "NOT RECORDED since step 452: disk full; training goes on"
    assert header_of(view).endswith("NOT RECORDED")


@pytest.mark.parametrize(
    ("knob", "value", "note"),
    [
        ("workers", "auto", "requested, waits for the current batch"),
        ("device_prefetch", "2", "requested, waits until the step is built"),
    ],
)
def test_a_request_of_this_screen_is_shown_at_once(knob: str, value: str, note: str) -> None:
    knobs = ("prefetch", "workers", "device_prefetch")
    run = usual(None, knobs=dict.fromkeys(knobs, "off"), switchable=[*knobs])

    rows = knob_rows(look(run, (KnobRequest(knob, value, run.at_s),)), live=True)

    assert [row.note for row in rows if row.name == knob.replace("_", " ")] == [note]


def test_a_setting_that_measured_slower_is_no_forecast() -> None:
    """`off: no gain` stood beside `default → off: 1.17 x slower`, measured beside other workers."""
    view = look(usual(None))
    for better in ({("workers", "auto"): "off"}, {}):
        situation = replace(view.situation, better=better)
        (row,) = (
            one
            for one in knob_rows(replace(view, situation=situation), live=True)
            if one.name == "workers"
        )
        assert (row.note == "auto: measured slower") == bool(better), row


def test_a_setting_keeps_its_row_while_the_way_back_is_measured() -> None:
    run = usual(None)
    run.switched("workers", "off", "auto").steps(100, STARVING)
    run.switched("workers", "auto", "off").steps(10, STARVING)

    rows = {row.name: row for row in knob_rows(look(run), live=True)}

    assert rows["workers"].matters


def test_everything_rare_is_a_row() -> None:
    run = usual(None)
    run.event(facts.Slept, slept_ms=12_000.0)
    run.event(facts.RecordingLost, reason="disk full", step=8112)
    run.event(facts.RecordingResumed).event(facts.WatchFailed, reason="boom").event(
        facts.Noted, text="a note"
    )
    run.event(
        facts.SwitchFailed,
        knob="prefetch",
        reason="no memory",
        old="off",
        new="4",
        step=1,
        now="off",
    )
    place = "train.py:41 in on_epoch_end"
    run.event(
        facts.Paused, cause="checkpoint", took_ms=1500.0, detail="ModelCheckpoint", place=place
    )
    run.event(facts.Paused, cause="callback", took_ms=50.0, detail="too short to be told")
    run.event(facts.Paused, cause="process stopped", took_ms=7000.0, detail="in compute")
    run.event(facts.EpochEnded, epoch=1, step=300, metrics={"loss": 1.2, "val_loss": 1.5})
    run.steps(1, (3500.0, 13.0, 0.8)).ended("stopped", "by q")

    told = [f"{row.mark} {row.text}" for row in EventCollector().take(look(run))]

    assert told == [
        "C compiled in 2.5 s, not counted",
        ("E epoch 1: 33.3 ms/step, data wait 29 %, loss 1.31, acc 0.42, validation 0.3 s"),
        "p prefetch off → 4 at step 301: 1.69 x faster (1.67 to 1.71) over 150 steps",
        "Z asleep for 12.0 s, not counted",
        "! not recorded from step 8 112 on: disk full",
        "! recording again; the rows kept in memory are now on disk",
        "! tfwatch failed and stopped measuring: boom",
        ". a note",
        "p prefetch off → 4 at step 1: failed: no memory; prefetch off continues",
        "S no step for 1.5 s: checkpoint ModelCheckpoint, train.py:41 in on_epoch_end",
        ". paused for 7.0 s in compute: the process was stopped",
        "E epoch 2: 34.0 ms/step, data wait 60 %, val_loss 1.5, loss 1.2",
        "S no batch for 3.5 s at step 452",
        ". stopped after 452 steps: by q",
    ]


@pytest.mark.parametrize(
    ("cause", "detail", "row"),
    [
        pytest.param("finished", "", "✓ finished after 41 steps", id="to its end"),
        pytest.param(
            "stopped", "KeyboardInterrupt", ". stopped by you after 41 steps", id="ctrl+c"
        ),
        pytest.param("failed", "OOM", "X failed after 41 steps: OOM", id="an error"),
    ],
)
def test_an_end_is_marked_as_a_failure_only_where_it_is_one(
    cause: str, detail: str, row: str
) -> None:
    run = Canned(None).started().steps(40, COMPUTE_BOUND).ended(cause, detail)

    newest = EventCollector().take(look(run))[-1]

    assert f"{newest.mark} {newest.text}" == row


def test_a_pause_before_the_first_epoch_held_no_training_up() -> None:
    pause = {"cause": "swap", "took_ms": 1500.0, "detail": "30 MB"}
    run = Canned(None).event(facts.Paused, **pause)
    assert list(EventCollector().take(look(run))) == []
    run.begin_epoch().event(facts.Paused, **pause)
    assert len(EventCollector().take(look(run))) == 1


def test_heat_and_swapping_are_one_row_a_stretch() -> None:
    view = look(throttled(None))
    rows = EventCollector().take(view)

    assert [f"{row.mark} {row.text}" for row in rows][-1:] == [
        "H slowed by heat for 10.0 s (moderate)"
    ]
    swapped = EventCollector().take(look(swapping(None)))
    assert [f"{row.mark} {row.text}" for row in swapped][-1:] == [
        "M swapping for 15.0 s: memory was too small"
    ]


def test_rows_that_come_one_by_one_are_those_of_the_whole_run() -> None:
    run = swapping(None)
    reader, rows = run.reader(), EventCollector()
    follower = Follower(live=True)
    rows.take(follower.follow(reader.read(), (), None))
    run.steps(150, COMPUTE_BOUND).event(facts.Paused, cause="swap", took_ms=1000.0, detail="40 MB")
    run.writer.flush()
    grown = rows.take(follower.follow(reader.read(), (), None))

    assert [row.text for row in grown] == [row.text for row in EventCollector().take(look(run))]


def test_no_switch_is_advised_that_is_already_requested() -> None:
    run = starving(None)
    assert ("prefetch", "4") in look(run).situation.forecasts
    asked = look(run, (KnobRequest("prefetch", "4", run.at_s),)).situation.forecasts
    assert ("prefetch", "4") not in asked


def test_the_advice_has_the_forecast_of_the_knobs_row_in_each_frame() -> None:
    run = starving(None, accelerated=True, device="GPU:0 Apple M2 Pro")
    reader = run.reader()
    follower = Follower(live=True)
    seen = set()
    for frame in range(12):
        slower = (STARVING[0] + 2 * frame, *STARVING[1:])
        run.steps(10, slower).doing(Phase.COMPUTE, 0.001).writer.flush()
        view = follower.follow(reader.read(), (), None)
        forecast = view.situation.forecasts["prefetch", "4"]
        seen.add(text := units.milliseconds(forecast.step_ms))
        assert text in view.finding.advice
    assert len(seen) > 1


def progress(seconds: int, steps_s: int) -> Rows:
    rows = np.zeros(2 * seconds + 1, dtype=PROGRESS)
    rows["at_ns"] = np.arange(len(rows)) * 500_000_000
    rows["step"] = np.arange(len(rows)) * steps_s // 2
    return rows


def test_the_remaining_time_is_estimated_at_the_pace_of_the_last_minute() -> None:
    assert left_s(progress(10, 50), 1500) == pytest.approx(20.0)
    assert left_s(progress(10, 50), 100) == 0.0
