"""What changed between two traces, in words; and the events of traces, limited in rate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runs.folders import make_manifest
from tfwatch.core.events import Traced, decode
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.traces import Numbers, TraceLog, change_between, signature_of


class Thing:
    """An argument of which each object is another one."""


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (np.zeros((8, 31)), np.zeros((8, 47)), "words: shape (8, 31) -> (8, 47)"),
        (np.zeros(2), np.zeros(2, "int8"), "words: dtype float64 -> int8"),
        (0.1, 0.09, "words: Python number 0.1 -> 0.09"),
        (True, False, "words: value True -> False"),
        (None, 3, "words: value None -> Python number 3"),
        (Thing(), Thing(), "words: another Thing object"),
        ([1, 2], [1, 3], "words[1]: Python number 2 -> 3"),
        ({"a": 1}, {}, "words['a']: Python number 1 -> none"),
        (1, 1, ""),
    ],
)
def test_the_change_of_an_argument_in_words(before: Any, after: Any, change: str) -> None:
    assert change_between(signature_of({"words": before}), signature_of({"words": after})) == change


def test_an_object_that_raises_when_it_is_read_is_known_by_its_type() -> None:
    class Hostile:
        @property
        def shape(self) -> Any:
            raise RuntimeError("no shape")

    assert signature_of({"it": Hostile()}) == {"it": (("type", "Hostile"),)}


def test_numbers_go_on_where_an_object_is_gone() -> None:
    numbers, kept = Numbers(), Thing()
    assert [numbers.of(kept), numbers.of(Thing()), numbers.of(Thing()), numbers.of(kept)] == [
        1, 2, 3, 1,
    ]  # fmt: skip


def test_objects_that_are_equal_and_have_no_hash_have_numbers_of_their_own() -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

    numbers, one, other = Numbers(), Equal(), Equal()

    assert [numbers.of(one), numbers.of(other), numbers.of(one)] == [1, 2, 1]


def test_many_traces_have_few_events_whose_counts_are_exact(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, make_manifest())
    traces = TraceLog(writer)
    for step in range(1, 501):
        traces.note(step, 2.0, signature_of({"w": step}))
    traces.flush()
    writer.flush()
    events = [decode(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    traced = [event for event in events if isinstance(event, Traced)]

    assert len(traced) < 30
    assert (traced[0].change, traced[1].change) == ("", "w: Python number 1 -> 2")
    assert (traced[-1].step, traced[-1].traces, traced[-1].total_ms) == (500, 500, 1000.0)
