"""The limit of a run, and the setting to try next."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain, restart
from tests.report.written_runs import open_written
from tfwatch.core.events import EpochStarted, GpuFound, OperationTime, RunEnded, StepProfiled
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report import run_facts
from tfwatch.runs.snapshot import Snapshot

COMPUTE_BOUND, WAITS = (0.1, 12.0, 0.5), (9.0, 12.0, 0.5)


def end_of(rows: Rows) -> RunEnded:
    """The end of a run with the last of its steps."""
    ends = restart(rows.copy())[-1]
    took_ms = float(ends["wait_ms"] + ends["compute_ms"] + ends["host_ms"])
    return RunEnded(int(ends["start_ns"] + took_ms * 1e6), "finished", len(rows))


def of(wait: float, compute: float, host: float, dispatch: float = 2.0) -> Rows:
    return make_steps(np.full(100, wait), compute=compute, host=host, dispatch=dispatch)


@pytest.mark.parametrize(
    ("rows", "changes", "says"),
    [
        pytest.param(
            of(*WAITS),
            {"knobs": {"prefetch": "off"}, "switchable": ["prefetch"]},
            ".prefetch(4): try it, gain not sure",
            id="off",
        ),
        pytest.param(
            of(*WAITS),
            {"knobs": {"prefetch": "4"}},
            "prefetch cannot hide the wait: make batches",
            id="on",
        ),
        pytest.param(
            of(*WAITS),
            {"knobs": {"prefetch": "default"}},
            ".prefetch(tf.data.AUTOTUNE)",
            id="a script's",
        ),
        pytest.param(of(*WAITS), {}, ".prefetch(tf.data.AUTOTUNE)", id="a loop's"),
    ],
)
def test_a_run_that_starves_has_the_advice_for_its_prefetch(
    tmp_path: Path, rows: Rows, changes: dict[str, Any], says: str
) -> None:
    advice, *_ = remedy(open_written(tmp_path / "run", rows, end_of(rows), **changes))

    assert says in advice


def remedy(run: Snapshot) -> list[str]:
    """The advice for a run, and the lines of its code; empty without a finding."""
    finding = JudgedRun(run).losses[0]
    return [finding.advice, *finding.code.splitlines()]


@pytest.mark.parametrize(("name", "idle"), [("Tesla T4", True), ("GeForce GTX 1660", False)])
def test_tensor_cores_idle_where_the_gpu_has_them(tmp_path: Path, name: str, idle: bool) -> None:
    rows = of(*COMPUTE_BOUND)
    multiplies = OperationTime("forward", "dense", "Dense", "sgemm", 9.0)
    profile = StepProfiled(2, 50, 3, 12.0, 9.0, True, (multiplies,), float32_ms=9.0)
    gpu = GpuFound(1, "nvml", name, None, False)
    run = open_written(tmp_path / "run", rows, gpu, profile, end_of(rows), accelerated=True)

    assert ("idle-tensor-cores" in [one.kind for one in JudgedRun(run).losses]) is idle


def test_a_last_epoch_that_a_limit_of_steps_cuts_short_says_nothing_of_the_time_between_epochs(
    tmp_path: Path,
) -> None:
    rows = np.concatenate([plain(100), plain(1)])
    rows["step"], rows["epoch"] = np.arange(1, 102), np.repeat([0, 1], [100, 1])
    rows["wait_ms"][100], rows["flags"][100] = 3000, Flag.EPOCH_START
    rows = restart(rows)
    ended = RunEnded(int(rows["start_ns"][-1]) + 4 * 10**9, "finished", 101)
    epochs = [EpochStarted(int(rows["start_ns"][at]), n, 2, 100) for n, at in enumerate((0, 100))]

    run = open_written(tmp_path / "run", rows, *epochs, ended, knobs={"prefetch": "default"})

    assert remedy(run)[0].startswith("longer epochs") is False


def test_what_python_takes_op_by_op_is_told(tmp_path: Path) -> None:
    rows = make_steps(np.zeros(100), compute=5.9, host=0.1, dispatch=5.1)
    run = open_written(tmp_path / "run", rows, end_of(rows), op_by_op=True)

    assert remedy(run)[0].startswith("leave run_eagerly=True out of compile")
    assert run_facts.as_json(run)["last_setting"]["dispatch_ms"]["median"] == pytest.approx(5.1)
