"""The time breakdown of a run."""

import numpy as np
import pytest

from tests.judge.built_runs import COMPUTE, HOST, STEPS, WAIT, RunBuilder, whole_run
from tfwatch.core.events import EpochStarted, Paused, Slept, WatchFailed
from tfwatch.core.rows import Phase
from tfwatch.judge.steps.time_breakdown import (
    PARTS,
    RunningTimeBreakdown,
    TimeSpent,
    make_time_breakdown,
)


def expect(entry: TimeSpent, **parts: float) -> None:
    found = {name: getattr(entry, name) for name in PARTS}
    assert found == pytest.approx({**dict.fromkeys(PARTS, 0.0), **parts}, abs=1e-4)


def test_every_second_of_a_run_belongs_to_a_part() -> None:
    time_breakdown = whole_run().time_breakdown(Phase.ENDED)

    expect(time_breakdown.start, unaccounted_s=10.0)
    steps = {"compute_s": 1.7, "data_wait_s": 0.2, "host_s": 0.1}
    between = {"first_batch_s": 0.5 + 2.998, "validation_s": 2.0, "epoch_end_s": 1.0}
    expect(time_breakdown.epochs[0], compile_s=4.0, **steps, **between)
    expect(time_breakdown.epochs[1], **steps, **between)
    expect(time_breakdown.epochs[2], **steps, **between)
    assert [entry.steps for entry in (*time_breakdown.epochs, time_breakdown.total)] == [
        100,
        100,
        100,
        300,
    ]
    assert [entry.epoch for entry in time_breakdown.epochs] == [0, 1, 2]


def test_epochs_beyond_what_a_row_counts_to_keep_their_numbers() -> None:
    built, numbers = RunBuilder().started(), [65_535, 65_536, 65_537]
    for epoch in numbers:
        built.begin(epoch).end(epoch)
    built.rows = [(at, step, int(epoch) & 0xFFFF, *rest) for at, step, epoch, *rest in built.rows]
    assert [entry.epoch for entry in built.time_breakdown(Phase.ENDED).epochs] == numbers


@pytest.mark.parametrize(
    "cut_s", [0.5, 6.5, 8.0, 9.5, 10.2, 12.0, 17.8, 20.0, 22.0, 23.9, 30.0, 38.0, 42.2]
)
def test_it_sums_to_the_wall_wherever_the_run_was_cut(cut_s: float) -> None:
    built = whole_run()
    built.rows = [
        row for row in built.rows if row[0] / 1e9 + sum(row[4::1]) / 1e3 - row[5] / 1e3 <= cut_s
    ]
    built.events = [event for event in built.events if event.at_ns / 1e9 <= cut_s]
    for doing in (None, *Phase):
        time_breakdown = make_time_breakdown(built.sums(), built.events, cut_s, doing)

        assert time_breakdown.total.wall_s == pytest.approx(cut_s, rel=1e-3), doing
        parts_s = sum(entry.wall_s for entry in (time_breakdown.start, *time_breakdown.epochs))
        assert parts_s == pytest.approx(cut_s, rel=1e-3), doing
        assert all(getattr(time_breakdown.total, name) >= 0 for name in PARTS), doing


def test_the_current_phase_counts_as_its_part() -> None:
    built = RunBuilder().started().begin(0).step(0)
    before = built.time_breakdown(Phase.WAIT).total
    built.at_s += 20.0

    assert built.time_breakdown(Phase.WAIT).total.data_wait_s == pytest.approx(
        before.data_wait_s + 20
    )
    assert built.time_breakdown(Phase.HOST).total.host_s == pytest.approx(before.host_s + 20)
    assert built.time_breakdown(Phase.VALIDATION).total.validation_s == pytest.approx(
        before.validation_s + 20
    )
    assert built.time_breakdown().total.unaccounted_s == pytest.approx(before.unaccounted_s + 20)


def test_an_epoch_that_waits_for_its_first_batch_lies_between_epochs() -> None:
    built = whole_run()
    built.events.append(EpochStarted(round(built.at_s * 1e9), 3, 4, STEPS))
    built.at_s += 5.0

    time_breakdown = built.time_breakdown(Phase.WAIT)

    expect(time_breakdown.epochs[3], first_batch_s=5.0)
    assert time_breakdown.epochs[3].epoch == 3


def test_a_callback_before_watch_that_ends_the_epoch_is_no_host_time() -> None:
    built = RunBuilder().begin(0).end(0).begin(1)
    built.rows[99] = (*built.rows[99][:7], HOST + 3000.0, np.nan)
    built.events = [event for event in built.events if isinstance(event, EpochStarted)]
    built.events[1] = EpochStarted(built.events[1].at_ns + 3 * 10**9, 1, 2, STEPS)
    built.rows[100] = (built.rows[100][0] + 3 * 10**9, *built.rows[100][1:])
    built.at_s += 3.0

    entry = built.time_breakdown().epochs[0]

    assert entry.host_s == pytest.approx(0.1)
    assert entry.epoch_end_s == pytest.approx(3.0)


def test_a_sleep_belongs_to_its_epoch_and_to_the_wall() -> None:
    built = whole_run()
    built.events.insert(4, Slept(built.events[4].at_ns, 60_000.0))

    time_breakdown = built.time_breakdown()

    assert time_breakdown.total.wall_s == pytest.approx(built.at_s + 60)
    assert [entry.asleep_s for entry in time_breakdown.epochs] == [0, 60, 0]


def test_time_after_tfwatch_failed_is_unaccounted() -> None:
    built = RunBuilder().begin(0).step(0)
    built.events.append(WatchFailed(round(built.at_s * 1e9), "boom"))
    built.at_s += 100.0

    assert built.time_breakdown(Phase.HOST).total.unaccounted_s == pytest.approx(100.0)


def test_lost_rows_are_unaccounted() -> None:
    built = RunBuilder().begin(0).end(0).begin(1)
    del built.rows[40:60]

    entry = built.time_breakdown().epochs[0]

    assert entry.unaccounted_s == pytest.approx(0.4)
    assert entry.steps == 80


def test_a_timed_copy_is_no_compute_and_the_parts_still_sum_to_the_wall() -> None:
    built, usual = whole_run(copy_ms=5.0), whole_run().time_breakdown(Phase.ENDED)
    found = built.time_breakdown(Phase.ENDED)

    assert found.total.wall_s == pytest.approx(built.at_s)
    for entry, plain in zip(
        (*found.epochs, found.total), (*usual.epochs, usual.total), strict=True
    ):
        assert entry.copy_s == pytest.approx(0.005 * entry.steps)
        assert entry.compute_s == pytest.approx(plain.compute_s - 0.005 * entry.steps)
        assert entry.compile_s == pytest.approx(plain.compile_s)
        assert entry.copies == entry.steps
        assert (plain.copy_s, plain.copies) == (0.0, 0)


@pytest.mark.parametrize("copy_ms", [np.nan, 5.0])
def test_a_running_time_breakdown_equals_the_whole_one_at_every_moment(copy_ms: float) -> None:
    running, built = RunningTimeBreakdown(), RunBuilder(copy_ms).started()
    for epoch in range(40):
        built.begin(epoch, 300.0).end(epoch, validation_s=0.4, callbacks_s=0.2)
        if epoch == 20:
            built.events.append(Slept(built.events[-1].at_ns, 5000.0))
        total, newest = running.take(built.sums(), built.events, built.at_s, Phase.EPOCH_END)
        time_breakdown = built.time_breakdown(Phase.EPOCH_END)
        assert newest == time_breakdown.epochs[-len(newest) :]
        expect(total, **{name: getattr(time_breakdown.total, name) for name in PARTS})
        assert (total.steps, total.copies) == (
            time_breakdown.total.steps,
            time_breakdown.total.copies,
        )


def test_what_follows_the_last_call_of_an_epoch_is_measured_against_the_other_calls() -> None:
    built = whole_run()
    sums = built.sums().copy()
    row = sums[-1]
    row["calls"], row["last_host_ms"], row["host_ms"] = 10, 30.0, 300.0
    before = make_time_breakdown(sums, built.events, 1000.0).epochs[-1]
    row["calls"] = row["steps"]
    after = make_time_breakdown(sums, built.events, 1000.0).epochs[-1]

    assert before.host_s == pytest.approx(0.3)
    assert after.host_s < 0.28


@pytest.mark.parametrize(
    ("where", "parts", "first"),
    [
        ("in data wait", {"wait": 20_000.0}, False),
        ("in data wait", {"wait": 20_000.0}, True),
        ("in compute", {"compute": 20_000.0}, False),
    ],
)
def test_a_stop_of_the_process_is_no_data_wait_and_no_compute(
    where: str, parts: dict[str, float], first: bool
) -> None:
    built, usual = RunBuilder(), RunBuilder()
    for run, more in ((built, parts), (usual, {})):
        run.begin(0, more.get("wait", WAIT) if first else WAIT)
        run.step(0, WAIT if first else more.get("wait", WAIT), more.get("compute", COMPUTE))
        run.end(0)
    built.events.append(Paused(built._ns(), "process stopped", 19_990.0, where))

    found, expected = built.time_breakdown().total, usual.time_breakdown().total

    assert found.unaccounted_s == pytest.approx(19.99)
    assert found.data_wait_s + found.first_batch_s == pytest.approx(
        expected.data_wait_s + expected.first_batch_s, abs=0.011
    )
    assert found.compute_s == pytest.approx(expected.compute_s, abs=0.011)
    assert found.wall_s == pytest.approx(built.at_s)
