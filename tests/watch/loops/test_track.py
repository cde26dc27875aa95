"""Custom loops under `track` run as without it, and their folder has the steps."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfwatch
from tests.runs.folders import FakeClock, make_manifest, read_back, reader_of
from tests.watch.tracked import BATCHES, cause, opened, python, runs_in
from tests.watch.watched import homeless
from tests.whole import events_of
from tfwatch import Track
from tfwatch.core.events import EpochEnded, EpochStarted, Noted, WatchFailed
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Launch, announce_in
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.loops.loop_step_log import LoopStepLog
from tfwatch.watch.profile.step_profiler import StepProfiler

pytestmark = pytest.mark.usefixtures("all_runs_ended")


# -- the loop is the loop --------------------------------------------------------------------------


def test_the_elements_are_the_same_objects_in_the_same_order(tmp_path: Path) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        for _ in range(2):
            got = list(tracked)
            assert len(got) == len(BATCHES)
            assert all(mine is yours for mine, yours in zip(got, BATCHES, strict=True))
    assert len(opened(tracked).steps) == 10


def test_len_is_that_of_the_iterable_and_raises_if_it_has_none(tmp_path: Path) -> None:
    assert len(tfwatch.track(BATCHES, tmp_path)) == 5
    assert not tfwatch.track([], tmp_path)
    endless: Track[int] = tfwatch.track(iter(BATCHES), tmp_path)  # type: ignore[arg-type]
    assert endless
    with pytest.raises(TypeError, match="has no len"):
        len(endless)
    assert list_runs(tmp_path) == []


def test_an_object_that_is_not_iterable_raises_as_without_track(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        list(tfwatch.track(5, tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [None, "elsewhere"])
def test_under_tfwatch_run_a_loop_is_recorded_where_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    announce_in("", launch=Launch(str(tmp_path / "of-run")))
    try:
        for _ in tfwatch.track(range(10), named and tmp_path / named):
            pass
    finally:
        announce_in("")

    (run,) = (tmp_path / (named or "of-run")).iterdir()
    assert len(open_run(run).steps) == 10


def test_a_generator_is_closed_when_its_loop_is_left(tmp_path: Path) -> None:
    closed = []

    def batches() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    for n in tfwatch.track(batches(), tmp_path):
        if n == 3:
            break
    assert closed == [True]


def test_no_batch_is_held(tmp_path: Path) -> None:
    iterator = iter(tfwatch.track((np.zeros(n) for n in range(3)), tmp_path))
    batch = next(iterator)
    held = sys.getrefcount(np.zeros(1))  # the id of a deleted object
    assert sys.getrefcount(batch) == held + 1
    assert len(list(iterator)) == 2


def test_without_tensorflow_none_is_loaded(tmp_path: Path) -> None:
    code = "for n in tfwatch.track(range(3), RUNS): pass\nassert 'tensorflow' not in sys.modules"
    (run,) = python(code, tmp_path / "runs")
    assert len(run.steps) == 3
    assert (run.manifest.device.split()[0], run.manifest.accelerated) == ("CPU", False)


# -- rows ------------------------------------------------------------------------------------------


def make_step_log(
    clock: FakeClock, traced: Callable[[], int] | None = None
) -> tuple[LoopStepLog, RunWriter]:
    writer = RunWriter(None, make_manifest(), clock.clock)
    return LoopStepLog(writer, StepProfiler(writer), traced), writer


def rows_of(writer: RunWriter) -> Any:
    writer.flush()
    return read_back(writer).steps


def test_a_step_is_its_fetch_and_its_body() -> None:
    clock = FakeClock()
    step_log, writer = make_step_log(clock)
    step_log.begin_epoch(0, 0, None)
    for step, (fetch_s, body_s) in enumerate([(0.5, 1.0), (0.25, 2.0), (0.125, 4.0)], 1):
        start_ns = writer.now_ns()
        step_log.begin_fetch(start_ns)
        assert writer.status[:3] == (Phase.WAIT, start_ns, step)
        clock.at_s += fetch_s
        step_log.record_fetch(writer.now_ns(), np.zeros((8, 2)))
        assert writer.status[:3] == (Phase.COMPUTE, writer.now_ns(), step)
        clock.at_s += body_s
    step_log.end_epoch(None)
    assert writer.status[0] == Phase.EPOCH_END
    assert writer.progress[-1] == (24, 3, 0, 3, None)
    rows = rows_of(writer)
    assert rows["wait_ms"].tolist() == [500, 250, 125]
    assert rows["compute_ms"].tolist() == [1000, 2000, 4000]
    assert not rows["host_ms"].any()
    assert not rows["dispatch_ms"].any()
    assert rows["flags"].tolist() == [Flag.EPOCH_START, 0, 0]


class Odd:
    """A batch or a value whose attributes raise."""

    @property
    def shape(self) -> Any:
        raise TypeError("no")

    def __float__(self) -> float:
        raise RuntimeError("no")


@pytest.mark.parametrize("batch", [3, "text", np.zeros(()), (), Odd(), None, {}])
def test_unknown_examples_are_noted_once_and_not_counted(batch: Any) -> None:
    clock = FakeClock()
    step_log, writer = make_step_log(clock)
    step_log.begin_epoch(0, 0, None)
    for one in (np.zeros((8, 2)), batch, batch, np.zeros((8, 2))):
        clock.at_s += 1.0
        step_log.begin_fetch(writer.now_ns())
        step_log.record_fetch(writer.now_ns(), one)
        writer.flush()
    run = read_back(writer)
    snapshot = reader_of(writer, clock.clock).read()
    assert [event.text for event in run.events.of(Noted)] == [
        "examples are not counted: the size of a batch is unknown"
    ]
    assert snapshot.latest is not None
    assert (snapshot.latest.step, snapshot.latest.examples, snapshot.examples_s) == (4, 0, None)


@pytest.mark.parametrize("odd", ["text", np.zeros(3), 10**400, math.nan, Odd()])
def test_values_that_are_not_numbers_are_left_out_of_an_epochs_metrics(odd: Any) -> None:
    step_log, writer = make_step_log(FakeClock())
    step_log.begin_epoch(0, 0, None)
    step_log.end_epoch({"loss": np.float32(0.5), "odd": odd})
    writer.flush()
    assert [event.metrics for event in events_of(read_back(writer), EpochEnded)] == [{"loss": 0.5}]


def test_a_step_that_traces_is_flagged() -> None:
    counts = iter([0, 7, 7, 7, 7, 9])
    step_log, writer = make_step_log(FakeClock(), lambda: next(counts))
    for _ in range(3):
        step_log.begin_fetch(0)
        step_log.record_fetch(0, None)
    step_log.end_step(0)
    assert rows_of(writer)["flags"].tolist() == [Flag.COMPILE, 0, Flag.RETRACE]


def test_every_row_follows_the_one_before(tmp_path: Path) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        for _ in range(3):
            for _ in tracked:
                pass
    run = opened(tracked)
    rows = run.steps
    assert rows["step"].tolist() == list(range(1, 16))
    assert rows["epoch"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert np.flatnonzero(rows["flags"] & Flag.EPOCH_START).tolist() == [0, 5, 10]
    total_ms = rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]
    inside = np.flatnonzero(np.diff(rows["epoch"]) == 0)
    np.testing.assert_allclose(total_ms[inside], np.diff(rows["start_ns"])[inside] / 1e6, rtol=1e-3)
    assert [event.steps for event in events_of(run, EpochStarted)] == [5, 5, 5]
    assert [event.step for event in events_of(run, EpochEnded)] == [5, 10, 15]
    assert (run.manifest.switchable, run.manifest.knobs, run.manifest.steps_per_epoch) == (
        [],
        {},
        5,
    )
    assert run.manifest.split.startswith("the loop's fetches: ")


# -- what fails in tfwatch, and where it cannot be -------------------------------------------------


def test_without_a_home_the_loop_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("platformdirs.user_state_dir", homeless)
    assert len(list(tfwatch.track(BATCHES))) == 5
    assert capsys.readouterr().err == "tfwatch: this loop is not recorded: RuntimeError: no home\n"


def test_an_error_in_tfwatch_never_reaches_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        for n, _ in enumerate(tracked):
            if n == 2:
                monkeypatch.setattr(RunWriter, "step", lambda *_: 1 / 0)
        assert n == 4
        assert len(list(tracked)) == 5
    run = opened(tracked)
    assert (len(events_of(run, WatchFailed)), len(run.steps), cause(run)) == (1, 2, "finished")


def test_a_forked_process_continues_its_loop_and_leaves_its_parents_run(tmp_path: Path) -> None:
    with tfwatch.track(range(6), tmp_path) as tracked:
        steps = iter(tracked)
        next(steps)
        if (child := os.fork()) == 0:
            try:
                rest = list(steps)
                tracked.close()
                mine = sum(1 for _ in tracked)
                tracked.close()
            finally:
                os._exit(0 if (rest, mine) == ([1, 2, 3, 4, 5], 6) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert list(steps) == [1, 2, 3, 4, 5]
    runs = runs_in(tmp_path)
    assert [(cause(run), len(run.steps)) for run in runs] == [("finished", 6)] * 2
    assert [run.folder == tracked.run_path for run in runs] == [
        run.manifest.pid == os.getpid() for run in runs
    ]
