"""Events that earlier versions wrote."""

from __future__ import annotations

import json

import pytest

from tfwatch.core.events import Event, MoveJudged, MoveMade, Noted, decode, encode
from tfwatch.core.knobs import KnobChange
from tfwatch.core.older_formats import translated_manifest

MADE = {"at_ns": 5, "step": 100, "knob": "prefetch", "old": "off", "new": "4", "why": "made ahead"}
JUDGED = {"at_ns": 6, "step": 150, "knob": "prefetch", "old": "off", "new": "4", "before_ms": 23.4}
MORE = {"after_ms": 9.2, "steps": 40, "kept": True}
WORKERS, FORM = KnobChange("workers", "off", "4"), KnobChange("fast_form", "off", "on")
LATENCY = KnobChange("latency_ms", "20 ms", "off")


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        pytest.param("", (), id="one knob alone"),
        pytest.param("workers off > 4", (WORKERS,), id="two"),
        pytest.param("workers off > 4, fast form off > on", (WORKERS, FORM), id="a name of two words"),
        pytest.param("latency 20 ms > off", (LATENCY,), id="a value of two words"),
    ],
)
def test_what_a_move_turned_beside_was_a_sentence(words: str, changes: tuple[KnobChange, ...]) -> None:
    made = decode(json.dumps({"event": "MoveMade", **MADE, "beside": words}))
    judged = decode(json.dumps({"event": "MoveJudged", **JUDGED, **MORE, "beside": words}))

    assert isinstance(made, MoveMade)
    assert isinstance(judged, MoveJudged)
    assert made.beside == judged.beside == changes


def test_a_sentence_that_names_no_knob_is_no_event() -> None:
    assert decode(json.dumps({"event": "MoveMade", **MADE, "beside": "half of it"})) is None


def test_a_note_of_an_order_was_known_by_its_first_word() -> None:
    texts = ["autopilot ended: no", "experiment failed: no", "experimental"]

    notes = [decode(json.dumps({"event": "Noted", "at_ns": 1, "text": text})) for text in texts]

    assert [isinstance(note, Noted) and note.of_order for note in notes] == [True, True, False]


@pytest.mark.parametrize(
    "event",
    [
        MoveMade(5, 100, "prefetch", "off", "4", "made ahead", beside=(WORKERS, LATENCY)),
        MoveJudged(6, 150, "prefetch", "off", "4", 23.4, 9.2, 40, True),
        Noted(1, "experiment ended: no", of_order=True),
        Noted(1, "experiment ended: no"),
    ],
)
def test_what_is_written_now_is_read_as_it_was(event: Event) -> None:
    assert decode(encode(event)) == event


@pytest.mark.parametrize(
    ("split", "read"),
    [
        pytest.param("none: not in a graph", ("", "not in a graph"), id="not told apart"),
        pytest.param("exact", ("exact", ""), id="told apart"),
    ],
)
def test_why_steps_were_not_split_stood_behind_a_word(split: str, read: tuple[str, str]) -> None:
    fields = translated_manifest({"split": split})

    assert (fields["split"], fields.get("not_split", "")) == read
