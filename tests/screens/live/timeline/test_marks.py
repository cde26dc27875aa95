"""The marks below the bars, as a row of text."""

import pytest

from tests.judge.test_view import look
from tests.screens.canned import usual
from tfwatch.core.events import Noted
from tfwatch.judge.event_rows import EventCollector, EventRow
from tfwatch.screens.live.timeline.lanes import place

EDGES_S = [n * 0.25 for n in range(41)]
SWITCH = EventRow(2.5, "", "p", "prefetch off > 4: 1.7 x faster", "$text-accent")
EPOCH = EventRow(1.5, "", "E", "epoch 1: loss 1.31")
STALL = EventRow(1.0, "", "S", "no batch for 3.5 s, shuffle", "$text-error")


def placed(*rows: EventRow) -> str:
    text = [" "] * 40
    for label in place(rows, EDGES_S):
        text[label.column : label.column + len(label.text)] = label.text
    return "".join(text).rstrip()


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param((EPOCH,), "      E epoch 1", id="the first words of its sentence"),
        pytest.param(
            (SWITCH, EPOCH), "      E   p prefetch off > 4", id="what matters comes first"
        ),
        pytest.param((STALL, EPOCH), "    S no batch for 3.5 s", id="what has no room is dropped"),
        pytest.param(
            (EventRow(9.9, "", "p", "prefetch off > 4"),),
            " " * 22 + "p prefetch off > 4",
            id="at the right edge it ends there",
        ),
        pytest.param(
            (EventRow(1.0, "", "X", "図\x1b[2J館"),), "    X ??", id="one cell a character"
        ),
    ],
)
def test_a_label_stands_at_its_column_and_leaves_a_blank(
    rows: tuple[EventRow, ...], text: str
) -> None:
    assert placed(*rows) == text


def test_a_column_has_its_newest_event_that_has_a_mark() -> None:
    run = usual(None).event(Noted, text="harmless")
    rows = EventCollector().take(look(run))
    assert [row.mark for row in rows] == ["C", "E", "p", "."]
    edges_s = [0.0, rows[1].at_s + 1e-3, run.at_s + 1.0]
    assert [row.mark for row in rows.newest_in_each(edges_s)] == ["E", "p"]
