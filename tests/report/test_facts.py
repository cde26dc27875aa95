"""The language of the tables of facts: values, words, schema and page of one table."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from tfwatch.report import facts
from tfwatch.report.facts import as_object, known, pick, schema_of, within

PART = (facts.number("took_ms", "its time"), facts.text("why", "its cause", "cause"))
TABLE = (
    facts.text("name", "its name", choices=("a", "b")),
    facts.whole("steps", "completed steps"),
    facts.number("wait_share", "data wait over step time"),
    facts.flag("is_late", "it is late"),
    facts.record("part", "the part", PART),
    facts.rows("parts", "all parts", PART),
    facts.texts("devices", "the devices"),
    facts.mapping("knobs", "the settings"),
)


def subject(**changes: Any) -> SimpleNamespace:
    part = SimpleNamespace(took_ms=1.5, cause="")
    usual = {"name": "a", "steps": 3_477, "wait_share": 0.41, "is_late": False, "part": part}
    return SimpleNamespace(
        **{**usual, "parts": [part], "devices": ("CPU",), "knobs": {"prefetch": "4"}, **changes}
    )


def test_a_subject_is_an_object_of_its_facts() -> None:
    part = {"took_ms": 1.5, "why": None}

    assert as_object(TABLE, subject()) == {
        "name": "a",
        "steps": 3_477,
        "wait_share": 0.41,
        "is_late": False,
        "part": part,
        "parts": [part],
        "devices": ["CPU"],
        "knobs": {"prefetch": "4"},
    }


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_a_missing_figure_is_none_and_reads_n_a(missing: float | None) -> None:
    (share,) = pick(TABLE, "wait_share")

    assert share.value(subject(wait_share=missing)) is None
    assert share.words(subject(wait_share=missing)) == "n/a"
    assert as_object(TABLE, subject(part=None))["part"] is None
    assert as_object(TABLE, subject(knobs={"rate": missing}))["knobs"] == {"rate": None}


def test_the_end_of_a_key_is_the_unit_of_its_words() -> None:
    told = [(fact.name, words) for fact, words in known(TABLE, subject())]

    assert told == [("name", "a"), ("steps", "3 477"), ("wait share", "41 %"), ("is late", "no")]
    assert [fact.words(subject().part) for fact in PART] == ["1.5 ms", "n/a"]
    assert PART[0].name == "took"


def test_facts_of_a_part_are_facts_of_the_whole() -> None:
    (took,) = pick(within(PART, "part"), "took_ms")

    assert took.value(subject()) == 1.5
    assert took.meaning == "its time"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"name": "c"}, id="no choice"),
        pytest.param({"steps": "many"}, id="a text"),
        pytest.param({"parts": [{}]}, id="a key is missing"),
        pytest.param({"more": 1}, id="a key too many"),
    ],
)
def test_the_schema_takes_the_object_and_no_other(change: dict[str, Any]) -> None:
    schema = schema_of(TABLE)
    Draft202012Validator.check_schema(schema)
    judge = Draft202012Validator(schema)

    judge.validate(as_object(TABLE, subject(part=None)))
    with pytest.raises(ValidationError):
        judge.validate({**as_object(TABLE, subject()), **change})
