"""Text from outside is data, and rows keep their width."""

import pytest
from textual.content import Content

from tfwatch.screens.text import (
    column,
    cut_row,
    fit,
    plain,
    shorten_clauses,
    single_width,
    wrap_text,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(
            "[bold]Tensor[float32][/bold]", "[bold]Tensor[float32][/bold]", id="markup stays"
        ),
        pytest.param("\x1b[31mred\x1b[0m", "red", id="colours go"),
        pytest.param("\x1b]2;title\x07after", "after", id="titles go"),
        pytest.param("a\x1b[2Jb\x9bc", "ab?c", id="screens are not cleared"),
        pytest.param(
            "in user code:\r\n\n    File\n", "in user code: File", id="several lines are one"
        ),
        pytest.param("a\tb", "a       b", id="tabs"),
        pytest.param("größer 図", "größer 図", id="letters of any script"),
    ],
)
def test_nothing_that_a_terminal_obeys_gets_through(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("width", "shortened"),
    [
        pytest.param(
            99,
            "It is on. w workers: about 19.5 ms, 1.4 x (the cores); map(read) waits - q",
            id="total",
        ),
        pytest.param(
            61, "It is on. w workers: about 19.5 ms, 1.4 x; map(read) waits", id="two parts"
        ),
        pytest.param(40, "w workers: about 19.5 ms, 1.4 x", id="its last sentence"),
        pytest.param(30, "w workers: about 19.5 ms", id="its first figure"),
    ],
)
def test_shortened_advice_keeps_its_number(width: int, shortened: str) -> None:
    assert (
        shorten_clauses(
            "It is on. w workers: about 19.5 ms, 1.4 x (the cores); map(read) waits - q", width
        )
        == shortened
    )


def test_a_call_is_cut_before_it_or_behind_it() -> None:
    assert (
        shorten_clauses("slow: Data(workers=4, several=True), so that", 35)
        == "slow: Data(workers=4, several=True)"
    )
    assert shorten_clauses("slow: Data(workers=4, several=True), so that", 34) == "slow"


def test_the_name_of_a_stage_of_two_is_not_cut() -> None:
    slow = "waits for data: map(load), batch(16) runs serially, on one core"
    assert shorten_clauses(slow, 60) == "waits for data: map(load), batch(16) runs serially"
    assert shorten_clauses(slow, 30) == "waits for data"
    assert shorten_clauses("waits: shuffle, repeat takes 9 ms", 20) == "waits"


def test_the_highest_rank_goes_first() -> None:
    parts = [(0, Content("aa")), (2, Content("bb")), (1, Content("cc"))]

    assert fit(parts, 10).plain == "aa  bb  cc"
    assert fit(parts, 9).plain == "aa  cc"
    assert fit(parts, 1).plain == "aa"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        pytest.param(28, "2 workers on 2 cores, serial", id="it fits"),
        pytest.param(27, "2 workers on 2 cores, …", id="between words"),
        pytest.param(20, "2 workers on 2 …", id="within a word"),
        pytest.param(6, "2 wor…", id="a word wider than half of the row"),
    ],
)
def test_a_row_is_cut_between_words(width: int, shown: str) -> None:
    assert cut_row(Content("2 workers on 2 cores, serial"), width).plain == shown


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        pytest.param("abcdef", 4, "abc.", id="cut"),
        pytest.param("図書館", 4, "図 .", id="a wide one that does not fit whole"),
        pytest.param("e\u0301e\u0301", 4, "e\u0301e\u0301  ", id="marks take no cell"),
    ],
)
def test_a_column_is_so_many_cells(text: str, width: int, shown: str) -> None:
    assert column(text, width, ".") == shown


def test_where_a_character_has_to_be_a_cell_the_others_are_question_marks() -> None:
    assert single_width("p 図→e\u0301") == "p ?→e?"
    assert single_width("a\tb") == "a  "


def test_a_text_is_folded_between_words_and_within_those_that_are_too_long() -> None:
    assert wrap_text("one two", 5) == ["one", "two"]
    assert wrap_text("図書館 ab", 4) == ["図書", "館", "ab"]
    assert wrap_text("one two", 5, "  ") == ["one", "  two"]
