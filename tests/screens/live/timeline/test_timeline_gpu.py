"""The GPU's lane of the timeline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.screens.timelines import COMPUTE_BOUND, STARVED, rows, shown
from tfwatch.core.events import PipelineSwitched, SensorMissing
from tfwatch.screens.live.timeline.picture import GUTTER

if TYPE_CHECKING:
    from tests.screens.runs import CannedRun


def half_busy(
    run: CannedRun, seconds: float, busy: float, ours: float, **columns: float
) -> CannedRun:
    """Write steps with these GPU samples."""
    run.columns = {"gpu_busy": busy, "gpu_process_busy": ours, **columns}
    run.many(seconds, *COMPUTE_BOUND)
    return run


async def test_the_gpu_stands_below_the_steps_on_the_same_axis(run: CannedRun) -> None:
    run.columns = {"gpu_busy": 0.5, "gpu_process_busy": 0.5, "gpu_power_w": 9.84}
    run.many(8.0, *STARVED)
    run.writer.event(
        PipelineSwitched(run.now_ns, "prefetch", "off", "4", 330, run.step + 1, 3.0, "key")
    )
    run.columns = {"gpu_busy": 1.0, "gpu_process_busy": 0.87, "gpu_power_w": 19.84}
    run.many(8.0, *COMPUTE_BOUND)
    async with shown(run, 120, 16) as (app, _):
        assert rows(app.timeline)[-3:-1] == [
            # The sample in which the switch fell is of both.
            f"GPU    {' ' * 27}{' ' * 30}{'#' * 32}   100 %",
            f"busy   {' ' * 27}{'#' * 62}   19.8 W, 87 ours",
        ]


@pytest.mark.parametrize(
    ("ours", "power_w", "figure"),
    [
        (0.87, 9.84, "91 %, 87 ours"),
        (float("nan"), 9.84, "91 %, 9.8 W"),
        (float("nan"), 412.0, "91 %, 412 W"),
    ],
)
async def test_a_small_screen_has_one_row_of_it(
    run: CannedRun, ours: float, power_w: float, figure: str
) -> None:
    half_busy(run, 8.0, 0.91, ours, gpu_power_w=power_w)
    async with shown(run) as (app, _):
        texts = rows(app.timeline)
    assert texts[-1].endswith(f" {figure}")
    assert texts[-1].startswith("GPU ")


async def test_what_is_not_known_of_the_gpu_is_a_gap_and_an_idle_one_a_line(run: CannedRun) -> None:
    half_busy(run, 4.0, 0.0, 0.0)
    half_busy(run, 4.0, float("nan"), float("nan"))
    half_busy(run, 4.0, 1.0, 1.0)
    async with shown(run) as (app, _):
        assert re.fullmatch(r"GPU +\.{8} {8}#{8}  100 %", rows(app.timeline)[-1]), rows(
            app.timeline
        )[-1]


async def test_the_figures_of_a_late_sensor_stand_where_they_were_true(run: CannedRun) -> None:
    half_busy(run, 4.0, 0.0, 0.0, gpu_late_ms=2000.0)
    half_busy(run, 4.0, 1.0, 1.0, gpu_late_ms=2000.0)
    async with shown(run) as (app, _):
        texts = rows(app.timeline)
    strip, gpu = texts[-3], texts[-1]
    assert gpu.index("#") - GUTTER == strip.index("=") - GUTTER + 4


async def test_a_gpu_whose_sensor_died_is_seen_where_it_was(run: CannedRun) -> None:
    half_busy(run, 10.0, 0.9, 0.9)
    run.writer.event(SensorMissing(run.now_ns, "GPU", "NVML: GPU is lost", "tfwatch tries again"))
    half_busy(run, 60.0, float("nan"), float("nan"))
    async with shown(run) as (app, _):
        assert not [text for text in rows(app.timeline) if text.startswith("GPU")]
        app.timeline.jump_to(8.0)
        assert next(text for text in rows(app.timeline) if text.startswith("GPU")).endswith(
            " 90 %, 90 ours"
        )
