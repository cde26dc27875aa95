"""The present regime of a run: where it begins, and what counts in it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from tests.judge.built_runs import STEPS, RunBuilder, whole_run
from tests.judge.situations import RUNNING, changed
from tests.judge.step_rows import make_steps
from tests.judge.steps.test_any_run import RecordedRun, runs
from tfwatch.core.events import (
    CodeSample,
    CodeSampled,
    EpochStarted,
    PipelineSwitched,
    StagesFound,
    Traced,
)
from tfwatch.core.rows import STEP, Flag, Phase, Rows
from tfwatch.judge.findings.ranking import find_losses
from tfwatch.judge.regime import CodeTime, Regime, RunningRegime, regime_of
from tfwatch.judge.steps.time_breakdown import PARTS, TimeSpent

#: The stages of a pipeline that keeps its elements.
CACHED = StagesFound(0, 0, ["map(read)", "cache", "batch(8)"], ["Map", "CacheDatasetV2", "BatchV2"])


def judged(built: RunBuilder) -> Regime:
    return regime_of(np.array(built.rows, dtype=STEP), built.events, built.at_s, Phase.COMPUTE)


def switch(built: RunBuilder, knob: str = "prefetch", row: int = STEPS) -> int:
    """Switch a knob at this row, and return the moment."""
    old = built.rows[row]
    built.rows[row] = (*old[:3], int(old[3]) | int(Flag.SWITCH), *old[4:])
    at_ns, step = int(old[0]), int(old[1])
    built.events.append(PipelineSwitched(at_ns, knob, "off", "4", step - 1, step, 1.0, "key"))
    return at_ns


def sampled(at_s: float, place: str, samples: int = 10) -> CodeSampled:
    one = CodeSample("HOST", "Plotter", "", place, samples)
    return CodeSampled(round(at_s * 1e9), 20.0, [one])


def test_a_run_begins_with_its_first_epoch() -> None:
    regime = judged(whole_run())

    assert (regime.cause, regime.begin_ns) == ("start", 10 * 10**9)
    assert (regime.epochs, regime.fits, regime.models) == (3, 1, 1)
    assert regime.spent.compile_s == pytest.approx(4.0)
    assert regime.spent.wall_s == pytest.approx(whole_run().at_s - 10.0)
    assert regime.before.wall_s == 0.0


def test_a_switch_begins_one() -> None:
    built = whole_run()
    at_ns = switch(built, row=STEPS + 50)

    regime = judged(built)

    assert (regime.cause, regime.begin_ns) == ("switch", at_ns)
    assert regime.spent.steps == 2 * STEPS - 50
    assert regime.spent.compile_s == 0.0
    assert regime.spent.wall_s == pytest.approx(built.at_s - at_ns / 1e9)


@pytest.mark.parametrize(
    ("knob", "cause", "steps"),
    [
        pytest.param("", "cache", 2 * STEPS, id="in the first epoch"),
        pytest.param("cache", "cache", STEPS, id="in the epoch after its switch"),
        pytest.param("prefetch", "switch", 2 * STEPS, id="filled before another switch"),
    ],
)
def test_a_cache_that_an_epoch_has_filled_begins_one(knob: str, cause: str, steps: int) -> None:
    built = whole_run()
    built.events.insert(0, CACHED)
    if knob:
        at_ns = switch(built, knob)
        built.events.insert(0, StagesFound(at_ns, 1, CACHED.names, CACHED.kinds))

    regime = judged(built)

    assert (regime.cause, regime.spent.steps) == (cause, steps)
    filled_s = regime.before.wall_s
    assert filled_s == pytest.approx((regime.begin_ns / 1e9 - 10.0) if not knob else filled_s)
    assert bool(filled_s) is (cause == "cache")


def test_an_epoch_that_still_fills_the_cache_is_the_run() -> None:
    built = RunBuilder().started().begin(0, 3000.0, compile_ms=4000.0).end(0)
    built.events.insert(0, CACHED)

    assert judged(built).cause == "start"


@pytest.mark.parametrize("row", [0, STEPS], ids=["the start", "a switch"])
def test_samples_and_traces_before_it_do_not_count(row: int) -> None:
    built = whole_run()
    at_s = built.rows[row][0] / 1e9 - 0.6  # before the epoch
    if row:
        at_s = switch(built) / 1e9
    built.events += [
        sampled(at_s - 0.5, "train.py:1 in load"),
        Traced(round((at_s - 0.5) * 1e9), 1, 900.0, "before"),
        sampled(at_s + 0.5, "train.py:9 in plot"),
        Traced(round((at_s + 0.5) * 1e9), STEPS + 5, 900.0, "input 0: shape (8, 3) -> (8, 4)"),
    ]

    regime = judged(built)

    assert regime.code == (CodeTime("HOST", "Plotter", "", "train.py:9 in plot", 0.2),)
    assert regime.code_in("HOST") == list(regime.code)
    assert regime.code_in("BETWEEN_FITS") == []
    assert regime.trace_change == "input 0: shape (8, 3) -> (8, 4)"


def test_models_and_fits_are_counted_by_the_epochs_that_began() -> None:
    built = whole_run()
    starts = [event for event in built.events if isinstance(event, EpochStarted)]
    for number, event in enumerate(starts):
        at = built.events.index(event)
        built.events[at] = EpochStarted(event.at_ns, event.epoch, 3, STEPS, number + 1, number + 1)

    regime = judged(built)

    assert (regime.models, regime.fits, regime.first_traces) == (3, 3, 1)


def test_an_epoch_that_took_longer_once_is_not_typical() -> None:
    built = RunBuilder().started()
    for epoch in range(5):
        built.begin(epoch).end(epoch, callbacks_s=30.0 if epoch == 1 else 1.0)

    regime = judged(built)

    assert regime.spent.epoch_end_s == pytest.approx(34.0)
    assert regime.typical_s("epoch_end_s") == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("lives_s", "first_s", "waited_s"),
    [
        # It wakes after 0.02, 0.06, 0.14, 0.30, 0.62, ... 5.1, 10.22 s.
        pytest.param((6.0, 6.0), (0.0, 4.22), 4.22, id="until it wakes"),
        pytest.param((6.0, 6.0), (0.0, 0.03), 0.0, id="it was woken"),
        pytest.param((0.5, 0.4, 0.4), (0.3, 0.13, 0.02), 0.12, id="one of two"),
        pytest.param((0.61, 0.6), (0.0, 0.66), 0.65, id="it slept again"),
        pytest.param((400.0, 9.0), (0.0, 42.0), 41.9, id="a minute at most"),
    ],
)
def test_an_epoch_may_wait_for_the_autotuning_thread_of_the_one_before(
    lives_s: tuple[float, ...], first_s: tuple[float, ...], waited_s: float
) -> None:
    newest = tuple(
        TimeSpent(compute_s=life_s, first_batch_s=wait_s)
        for life_s, wait_s in zip(lives_s, first_s, strict=True)
    )
    spent = TimeSpent(first_batch_s=sum(first_s))
    regime = Regime(spent=spent, epochs=len(newest), newest=newest)

    assert regime.tuning_s == pytest.approx(waited_s)
    assert replace(regime, fills_shuffle=True).tuning_s == 0.0


def test_a_shuffle_that_only_the_first_epoch_fills_is_over() -> None:
    built = whole_run()
    first = built.rows[0]
    built.rows[0] = (*first[:3], int(first[3]) | int(Flag.SHUFFLE_FILL), *first[4:])

    assert judged(RunBuilder().started().begin(0)).fills_shuffle is False
    assert judged(built).fills_shuffle is False

    second = built.rows[STEPS]
    built.rows[STEPS] = (*second[:3], int(second[3]) | int(Flag.SHUFFLE_FILL), *second[4:])
    built.rows = built.rows[: STEPS + 1]
    assert judged(built).fills_shuffle is True


def hosts(values: np.ndarray) -> Rows:
    return make_steps(np.zeros(len(values)), host=values)


@pytest.mark.parametrize("count", [50, 20_000])
@pytest.mark.parametrize("at_once", [30_000, 7])
def test_host_time_that_grows_is_that_of_the_first_and_the_last_tenth(
    count: int, at_once: int
) -> None:
    rows, running = hosts(np.linspace(1, 9, count)), RunningRegime()
    for begin in range(0, count, at_once):
        running.add(rows[begin : begin + at_once], [])

    first_ms, last_ms = running.now(1.0, None).host_growth_ms

    assert first_ms == pytest.approx(1.4, rel=0.15)
    assert last_ms == pytest.approx(8.6, rel=0.15)


def test_a_long_step_now_and_then_is_no_growth() -> None:
    steps = np.where(np.arange(1000) % 300 == 299, 1500.0, 0.1)
    assert regime_of(hosts(steps), [], 1.0, None).host_growth_ms == pytest.approx((0.1, 0.1))


@pytest.mark.parametrize("block", [30_000, 7])
def test_the_steps_that_hold_most_of_the_host_time_are_counted(block: int) -> None:
    rows, running = hosts(np.where(np.arange(1000) % 300 == 299, 1500.0, 0.1)), RunningRegime()
    rows["host_ms"][499] = 9000.0  # at an epoch's end, which is no part of the steps
    rows["flags"][500] |= Flag.EPOCH_START
    for begin in range(0, 1000, block):
        running.add(rows[begin : begin + block], [])

    count, each_ms = running.now(1.0, None).slow_host

    assert count == 3
    assert each_ms == pytest.approx(1500.0)


def test_even_host_time_is_in_no_few_steps() -> None:
    count, each_ms = regime_of(hosts(np.linspace(5.0, 7.0, 100)), [], 1.0, None).slow_host

    assert count == 99
    assert each_ms == pytest.approx(6.0, rel=0.01)


def test_a_run_without_steps_has_no_host_time() -> None:
    assert regime_of(hosts(np.zeros(0)), [], 1.0, None).slow_host == (0, 0.0)
    assert np.isnan(regime_of(hosts(np.zeros(0)), [], 1.0, None).host_growth_ms).all()


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_it_is_the_same_however_the_rows_come(block: int) -> None:
    built = whole_run()
    built.events.insert(0, CACHED)
    rows, running = np.array(built.rows, dtype=STEP), RunningRegime()

    for first in range(0, len(rows), block):
        part = rows[first : first + block]
        end_ns = rows["start_ns"][first + block] if first + block < len(rows) else 2**62
        running.add(
            part, [one for one in built.events if _begin(first, part) <= one.at_ns < end_ns]
        )
        running.now(float(part["start_ns"][-1]) / 1e9, Phase.COMPUTE)

    whole, came = judged(built), running.now(built.at_s, Phase.COMPUTE)
    assert (came.cause, came.begin_ns, came.epochs) == (whole.cause, whole.begin_ns, whole.epochs)
    assert came.spent.steps == whole.spent.steps
    assert came.spent.wall_s == pytest.approx(whole.spent.wall_s)
    assert came.before.wall_s == pytest.approx(whole.before.wall_s)


def _begin(first: int, part: Rows) -> int:
    return int(part["start_ns"][0]) if first else 0


@given(runs())
def test_every_second_of_any_regime_belongs_to_a_part(recorded: RecordedRun) -> None:
    regime = regime_of(recorded.rows, recorded.events, recorded.length_s, Phase.WAIT)
    now = changed(RUNNING, regime=regime, is_whole=True)

    length_s = recorded.length_s - regime.begin_ns / 1e9
    assert regime.spent.wall_s - regime.spent.asleep_s == pytest.approx(
        max(length_s, 0.0), abs=1e-3
    )
    assert all(getattr(regime.spent, part) >= -1e-6 for part in PARTS)
    assert sum(one.lost_s for one in find_losses(now)) <= regime.spent.active_s + 1e-6
