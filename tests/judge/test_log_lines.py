"""The meanings of lines of TensorFlow's log."""

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tfwatch.judge import log_lines
from tfwatch.judge.log_lines import LogFollower, find_meanings, meaning_of, that_matter, wall_s

#: A meaning's name, a tab, and a line as TensorFlow, Keras or tensorflow-metal printed it.
KNOWN = [
    line.split("\t")
    for line in Path(__file__).parent.joinpath("tensorflow_log.tsv").read_text().splitlines()
]
LINES = {name: [line for known, line in KNOWN if known == name] for name, _ in KNOWN}
(NO_CUDA, CU_INIT, *_), (FILLING, FILLED) = (LINES[name] for name in ("no gpu", "shuffle fill"))
ONEDNN = next(line for line in LINES["harmless"] if "oneDNN" in line)


@pytest.mark.parametrize(("name", "line"), [pytest.param(*known, id=known[0]) for known in KNOWN])
def test_a_line_has_its_meaning_and_a_harmless_one_none(name: str, line: str) -> None:
    meaning = meaning_of(line)

    assert (meaning.name if meaning else "harmless") == name
    assert meaning is None or (meaning.text.isprintable() and len(meaning.text) < 120)


def test_no_gpu_is_no_news_where_the_user_hides_them() -> None:
    found = find_meanings([NO_CUDA, FILLING])
    assert that_matter(found, {}) == that_matter(found, {"gpus_hidden": False}) == found
    assert [one.name for one in that_matter(found, {"gpus_hidden": True})] == ["shuffle fill"]


def test_every_meaning_has_its_line() -> None:
    assert log_lines._MATTER.keys() == LINES.keys() - {"harmless"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Epoch 1/20",
        "shuffle buffer",
        "my script allocates 10% of memory",
        "Current allocation summary follows.",
        "x" * 5000 + ONEDNN,
    ],
)
def test_other_lines_have_none(line: str) -> None:
    assert meaning_of(line) is None


@given(some.text())
def test_any_text_is_known_or_not(text: str) -> None:
    found, at_s = (
        meaning_of(text),
        wall_s(text),
    )  # Hypothesis also tries the phrases that it finds in the source
    assert found is None or found.text
    assert at_s is None or at_s > 0


def test_each_meaning_that_matters_appears_once_with_its_time() -> None:
    found = find_meanings(["begin", ONEDNN, NO_CUDA, ONEDNN, CU_INIT, *LINES["retracing"], "end"])

    # The line on retracing holds no time: it is that of the line before.
    assert [(one.name, one.wall_s) for one in found] == [
        ("no gpu", 1795263242.5),
        ("retracing", 1795263247.105042),
    ]


def test_a_dated_line_is_of_the_local_time() -> None:
    at = wall_s("2025-08-18 00:17:16.529690: I tensorflow/x.cc:1] y")

    assert at == datetime(2025, 8, 18, 0, 17, 16, 529690).timestamp()  # noqa: DTZ001 - as TensorFlow writes it
    assert wall_s("2025-99-99 00:17:16.529690: I x") is None
    assert wall_s("WARNING:tensorflow:x") is None


def test_the_shuffle_buffer_is_reported_while_it_fills() -> None:
    log = LogFollower()
    found = []
    for line in ("x", FILLING, "y", FILLED, "z", FILLING.replace("4298", "20"), FILLED):
        log.take([line])
        found.append(log.shuffle)

    assert found == [None, (4298, 50000), (4298, 50000), None, None, (20, 50000), None]


@pytest.mark.parametrize("first", [0, 1, 4, 8])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_no_line_is_read_twice_however_the_log_grows(
    first: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(log_lines, "meaning_of", read.append)
    lines = [str(number) for number in range(20)]
    log = LogFollower()
    for end in [*range(first, 20, step), 20, 20]:
        log.follow(lines[:end][:2], lines[:end][-8:], end)

    assert read == lines
