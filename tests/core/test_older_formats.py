"""Events that earlier versions wrote."""

from __future__ import annotations

import json

import pytest

from tfwatch.core.events import (
    AutopilotEnded,
    Event,
    MoveJudged,
    MoveMade,
    Noted,
    PipelineSwitched,
    decode,
    encode,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.core.older_formats import translate_manifest

MADE = {"at_ns": 5, "step": 100, "knob": "prefetch", "old": "off", "new": "4", "why": "made ahead"}
JUDGED = {"at_ns": 6, "step": 150, "knob": "prefetch", "old": "off", "new": "4", "before_ms": 23.4}
MORE = {"after_ms": 9.2, "steps": 40, "kept": True}
SWITCHED = {
    "at_ns": 5,
    "knob": "fast_form",
    "old": "off",
    "new": "on",
    "asked_step": 2,
    "step": 3,
    "took_ms": 1,
    "by": "key",
}
WORKERS, FORM = KnobChange("workers", "off", "4"), KnobChange("fast_pipeline", "off", "on")
LATENCY = KnobChange("latency_ms", "20 ms", "off")


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        pytest.param("", (), id="one knob alone"),
        pytest.param("workers off > 4", (WORKERS,), id="two"),
        pytest.param(
            "workers off > 4, fast form off > on", (WORKERS, FORM), id="a name of two words"
        ),
        pytest.param("latency 20 ms > off", (LATENCY,), id="a value of two words"),
    ],
)
def test_the_other_knobs_of_a_move_are_read_from_a_sentence(
    words: str, changes: tuple[KnobChange, ...]
) -> None:
    made = decode(json.dumps({"event": "MoveMade", **MADE, "beside": words}))
    judged = decode(json.dumps({"event": "MoveJudged", **JUDGED, **MORE, "beside": words}))

    assert isinstance(made, MoveMade)
    assert isinstance(judged, MoveJudged)
    assert made.beside == judged.beside == changes


def test_a_sentence_without_a_knob_is_no_event() -> None:
    assert decode(json.dumps({"event": "MoveMade", **MADE, "beside": "half of it"})) is None


def test_a_refusal_is_recognized_by_its_first_word() -> None:
    texts = ["autopilot ended: no", "experiment failed: no", "experimental"]

    notes = [decode(json.dumps({"event": "Noted", "at_ns": 1, "text": text})) for text in texts]

    assert [isinstance(note, Noted) and note.is_refusal for note in notes] == [True, True, False]


@pytest.mark.parametrize("of_order", [True, False])
def test_a_refusal_is_read_from_its_older_field(of_order: bool) -> None:
    note = decode(
        json.dumps(
            {"event": "Noted", "at_ns": 1, "text": "experiment failed: no", "of_order": of_order}
        )
    )

    assert note == Noted(1, "experiment failed: no", is_refusal=of_order)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("fed", "not_starving"),
        ("floor", "compute_floor"),
        ("tried", "nothing_left"),
        ("user", "user"),
    ],
)
def test_the_cause_of_an_autopilots_end_has_a_new_name(written: str, read: str) -> None:
    ended = decode(encode(AutopilotEnded(6, 170, written, "a sentence", 169)))

    assert isinstance(ended, AutopilotEnded)
    assert ended.cause == read


@pytest.mark.parametrize(
    "event",
    [
        MoveMade(5, 100, "prefetch", "off", "4", "made ahead", beside=(WORKERS, LATENCY)),
        MoveJudged(6, 150, "prefetch", "off", "4", 23.4, 9.2, 40, True),
        Noted(1, "experiment ended: no", is_refusal=True),
        Noted(1, "experiment ended: no"),
    ],
)
def test_current_events_are_read_unchanged(event: Event) -> None:
    assert decode(encode(event)) == event


@pytest.mark.parametrize(
    ("split", "read"),
    [
        pytest.param("none: not in a graph", ("", "not in a graph"), id="not split"),
        pytest.param("exact", ("exact", ""), id="split"),
    ],
)
def test_the_reason_why_steps_are_not_split_is_read_from_a_prefix(
    split: str, read: tuple[str, str]
) -> None:
    fields = translate_manifest({"split": split})

    assert (fields["split"], fields.get("not_split", "")) == read


def test_the_fast_pipeline_is_read_by_its_earlier_name() -> None:
    knobs = {"prefetch": "off", "fast_form": "off"}
    ended = {"at_ns": 1, "step": 2, "cause": "budget", "reason": "", "steps": 2, "knobs": knobs}

    manifest = translate_manifest(
        {"fast_form": "tf.data", "knobs": knobs, "switchable": ["prefetch", "fast_form"]}
    )
    switched = decode(json.dumps({"event": "PipelineSwitched", **SWITCHED}))
    search = decode(json.dumps({"event": "AutopilotEnded", **ended}))

    later = {"prefetch": "off", "fast_pipeline": "off"}
    assert manifest == {
        "fast_pipeline": "tf.data",
        "knobs": later,
        "switchable": ["prefetch", "fast_pipeline"],
    }
    assert isinstance(switched, PipelineSwitched)
    assert switched.knob == "fast_pipeline"
    assert isinstance(search, AutopilotEnded)
    assert search.knobs == later
