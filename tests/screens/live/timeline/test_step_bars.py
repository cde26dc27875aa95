"""The step strip as rows of cells: # data wait, . host, = compute, / compile, ! a stall."""

import numpy as np
import pytest

from tfwatch.core.rows import Flag
from tfwatch.runs.sums import TimeColumns
from tfwatch.screens.live.timeline.step_bars import (
    BarPart,
    Cells,
    next_top,
    stack,
    with_open_step,
    with_traces,
)

NAN = float("nan")
TEXTURE = {
    BarPart.COMPUTE: "=",
    BarPart.MUTED: "/",
    BarPart.HOST: ".",
    BarPart.WAIT: "#",
    BarPart.STALL: "!",
    BarPart.NOTHING: " ",
}


def columns(
    *parts: tuple[float, float, float], steps: int | list[int] = 10, flags: list[int] | None = None
) -> TimeColumns:
    """Quarter seconds from 0 on, each (wait, host, compute) ms."""
    wait, host, compute = (
        np.array(values, dtype=np.float64) for values in zip(*parts, strict=True)
    )
    counts = np.where(np.isnan(wait), 0, steps)
    starts = np.arange(len(parts), dtype=np.float64) * 0.25
    bits = np.array(flags or [0] * len(parts), dtype=np.uint16)
    end_s, copy = float(starts[-1]) + 0.25, np.full(len(parts), np.nan)
    return with_traces(TimeColumns(starts, end_s, counts, wait, compute, host, copy, bits))


def coarse(cells: Cells) -> list[str]:
    return ["".join(TEXTURE[BarPart(part)] for part in row) for row in cells.lower.tolist()]


def fine(cells: Cells, part: BarPart) -> list[str]:
    """Draw the height of a part in each cell where it is the lower one."""
    blocks = " ▁▂▃▄▅▆▇█"
    filled = np.where(cells.lower == part, cells.height, 0)
    return ["".join(blocks[height] for height in row) for row in filled.tolist()]


GAP = (NAN, NAN, NAN)
STARVED, COMPUTE_BOUND = (10.0, 5.0, 15.0), (0.0, 5.0, 15.0)


def test_compute_host_and_wait_stack_and_prefetch_cuts_the_cap_off() -> None:
    cells = stack(
        columns(STARVED, STARVED, GAP, COMPUTE_BOUND, COMPUTE_BOUND),
        top_ms=30.0,
        rows=6,
        fine=False,
    )
    assert coarse(cells) == [
        "##   ",
        "##   ",
        ".. ..",
        "== ==",
        "== ==",
        "== ==",
    ]


def test_fine_cells_split_at_an_eighth_with_the_upper_part_behind() -> None:
    cells = stack(columns((7.5, 0.0, 12.5), (5.0, 0.0, 15.0)), top_ms=20.0, rows=2, fine=True)
    assert fine(cells, BarPart.COMPUTE) == ["▂▄", "██"]
    assert cells.upper[0].tolist() == [BarPart.WAIT, BarPart.WAIT]


def test_a_thin_wait_is_always_drawn_or_never_so_that_a_strip_has_no_speckles() -> None:
    """Wherever the compute ends within its cell, 0.3 ms of wait on a 20 ms axis leaves no trace."""
    compute_bound = columns(*((0.3, 0.0, 10.0 + n * 0.15) for n in range(16)))
    moderate = columns(*((2.0, 0.0, 10.0 + n * 0.15) for n in range(16)))
    hidden, shown = (
        stack(bars, top_ms=20.0, rows=4, fine=True) for bars in (compute_bound, moderate)
    )
    assert not ((hidden.lower == BarPart.WAIT) | (hidden.upper == BarPart.WAIT)).any()
    assert ((shown.lower == BarPart.WAIT) | (shown.upper == BarPart.WAIT)).any(axis=0).all()


@pytest.mark.parametrize(
    ("host_ms", "drawn"),
    [
        pytest.param((1.8, 2.4, 2.6), False, id="half a row is rarely reached"),
        pytest.param((2.4, 2.6, 2.7), True, id="half a row is mostly reached"),
    ],
)
def test_thin_host_time_is_drawn_for_all_columns_or_for_none(
    host_ms: tuple[float, ...], drawn: bool
) -> None:
    bars = columns(*((8.0, host, 10.0) for host in host_ms))
    rows = coarse(stack(bars, top_ms=30.0, rows=6, fine=False))
    assert [("." in column) for column in zip(*rows, strict=True)] == [drawn] * 3


def test_a_wait_beyond_the_top_is_a_stall_of_full_height() -> None:
    cells = stack(
        columns(COMPUTE_BOUND, (3500.0, 5.0, 15.0), COMPUTE_BOUND), top_ms=30.0, rows=3, fine=False
    )
    assert coarse(cells) == [" ! ", "...", "==="]


def test_a_compile_is_muted_as_long_as_it_lasts() -> None:
    compiling = (0.0, 0.0, 600.0)
    bars = columns(
        GAP,
        compiling,
        compiling,
        COMPUTE_BOUND,
        steps=[0, 1, 0, 10],
        flags=[0, int(Flag.COMPILE), 0, 0],
    )
    assert bars.is_traced.tolist() == [False, True, True, False]
    assert coarse(stack(bars, top_ms=30.0, rows=2, fine=False))[0] == " // "


@pytest.mark.parametrize(
    ("since_s", "expected"),
    [
        pytest.param(
            0.6, "  !!", id="a stall fills the columns in which nothing began, and the newest"
        ),
        pytest.param(0.9, "    ", id="a step younger than 0.15 s is not drawn"),
        pytest.param(0.8, "   !", id="it shows beside finished steps when it stands out from them"),
    ],
)
def test_the_open_wait_is_a_wall(since_s: float, expected: str) -> None:
    bars = with_open_step(
        columns(COMPUTE_BOUND, COMPUTE_BOUND, GAP, COMPUTE_BOUND), since_s, 0.99, BarPart.WAIT
    )
    assert coarse(stack(bars, top_ms=30.0, rows=3, fine=False))[0] == expected


def test_the_top_ignores_stalls_and_keeps_still() -> None:
    stalled = columns(STARVED, *[(9000.0, 5.0, 15.0)] * 40, steps=[10] + [0] * 40)
    assert next_top(stalled, None) == 40.0
    assert next_top(columns((0.0, 0.0, 21.0)), 40.0) == 40.0, "half used: it stays"
    assert next_top(columns((0.0, 0.0, 14.0)), 40.0) == 20.0, "less than half used: it shrinks"
    assert next_top(columns(GAP), 40.0) == 40.0, "nothing to go by: it stays"
    assert next_top(columns(GAP), None) is None


def test_the_steps_that_share_a_column_with_a_stall_do_not_stretch_the_axis() -> None:
    young = [(0.0, 0.0, 25.0)] * 8
    assert next_top(columns(*young, (875.0, 0.0, 25.0)), None) == 30.0
    assert next_top(columns((880.0, 0.0, 20.0), (900.0, 0.0, 20.0), steps=1), None) == 1000.0, (
        "all steps are long"
    )
