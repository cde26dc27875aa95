"""Lines as dots of braille, or a character each; and the run in one line."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.live.curves import Frame, PlotLine, draw_plot, figure
from tfwatch.screens.live.timeline.step_bars import bars_of_time
from tfwatch.screens.live.whole_run_line import Marks, draw

BLOCKS = choose_glyphs(colour=True, unicode=True)
ASCII = choose_glyphs(colour=False, unicode=False)


def _line(y: list[float], mark: str = "*", style: str = "") -> PlotLine:
    return PlotLine(np.arange(len(y), dtype=np.float64), np.array(y), mark, style)


def _text(lines: list[PlotLine], frame: Frame, unicode: bool = False) -> list[str]:
    rows = draw_plot(lines, frame, BLOCKS if unicode else ASCII)
    return ["".join(text for text, _ in row) for row in rows]


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right() -> None:
    frame = Frame((0, 4), (0, 4), 5, 5)
    assert _text([_line([0, 1, 2, 3, 4])], frame) == ["    *", "   * ", "  *  ", " *   ", "*    "]


def test_a_steep_line_has_no_gaps() -> None:
    frame = Frame((0, 3), (0, 10), 4, 6)
    rows = _text([_line([0, 0, 10, 10])], frame)
    assert all("*" in row for row in rows)
    assert rows[0].endswith("**")
    assert rows[-1].startswith("**")


def test_what_a_longer_line_has_beyond_the_frame_is_not_drawn_into_its_last_column() -> None:
    assert _text([_line([0, 0, 0, 9, 0, 9])], Frame((0, 2), (0, 9), 3, 3)) == ["   ", "   ", "***"]


def test_braille_has_two_by_four_dots_in_a_cell() -> None:
    frame = Frame((0, 1), (0, 4), 2, 1)
    assert [_text([_line([y, y])], frame, unicode=True) for y in (0, 1, 2, 3)] == [
        ["⣀⣀"],
        ["⠤⠤"],
        ["⠒⠒"],
        ["⠉⠉"],
    ]


def test_a_later_line_is_drawn_over_an_earlier_one() -> None:
    frame = Frame((0, 2), (0, 1), 3, 1)
    rows = draw_plot([_line([0, 0, 0], ".", "faint"), _line([0, 0], "*", "bold")], frame, ASCII)
    assert rows == [[("**", "bold"), (".", "faint")]]


def test_a_logarithm_leaves_out_what_has_none() -> None:
    frame = Frame((0, 3), (0.01, 10.0), 4, 4, is_log=True)
    assert _text([_line([0.01, 0.1, 1.0, 10.0])], frame) == ["   *", "  * ", " *  ", "*   "]
    assert _text([_line([-1.0, 0.0, float("nan"), float("inf")])], frame) == ["    "] * 4


def test_a_point_outside_is_not_drawn() -> None:
    frame = Frame((0, 1), (0, 1), 2, 1)
    assert draw_plot([], frame, ASCII, [(5.0, 0.5, ""), (0.0, 2.0, "")]) == [[("  ", "")]]
    assert draw_plot([], frame, ASCII, [(0.0, 0.5, "good")]) == [[("o", "good"), (" ", "")]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (12.345, "12.3"),
        (1234.5, "1e+03"),
        (0.00012, "1e-04"),
        (-0.5, "-0.5"),
        (None, "n/a"),
        (0, "0"),
    ],
)
def test_a_figure_has_at_most_five_characters(value: float | None, text: str) -> None:
    assert figure(value) == text


EPOCHS = ((0.0, "1"), (3.0, "2"), (5.9, "10"))


def _run_rows(
    height: int, unicode: bool = False, epochs: tuple[tuple[float, str], ...] = EPOCHS
) -> list[str]:
    waits = np.array([10.0, 10.0, 0.0, 0.0, np.nan, 0.0])
    steps = np.where(np.isnan(waits), 0, 20)
    parts = (waits, waits * 0 + 1.0, waits * 0 + 9.0)
    bars = bars_of_time(np.arange(6.0), 6.0, steps, parts, np.zeros(6, dtype=np.uint16))
    marks = Marks(switches=((2.1, "p"),), stalls_s=(1.5,), epochs=epochs)
    rows = draw(bars, marks, height, BLOCKS if unicode else ASCII)
    return ["".join(text for text, _ in row) for row in rows]


def test_the_run_in_one_row_has_its_switches_and_stalls_among_the_bars() -> None:
    assert _run_rows(1, epochs=()) == ["=Sp. ."]
    assert _run_rows(1, unicode=True, epochs=()) == ["▇▇p▃ ▃"]


def test_one_or_two_rows_have_the_epochs_that_fit_between_the_other_marks() -> None:
    assert _run_rows(1, epochs=((0.0, "10"), (3.0, "20"))) == ["=Sp20."], (
        "a mark would cut the first one"
    )
    assert _run_rows(2, epochs=((3.0, "20"), (5.0, "3"))) == ["==.. .", " Sp20 "], (
        "too near to the one before"
    )


def test_more_rows_have_the_marks_and_the_epochs_below_the_bars() -> None:
    assert _run_rows(2, epochs=()) == ["==.. .", " Sp   "]
    assert _run_rows(3) == ["==.. .", " Sp   ", "1  2  "], "a number that would be cut is left out"
