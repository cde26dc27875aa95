"""The text about a loss that is NaN or infinite."""

import pytest

from tests.judge.situations import RUNNING, banner, changed, judged
from tests.judge.step_rows import plain
from tests.runs.folders import read_back, write_run
from tfwatch.core.events import LossDiverged, Paused, RunEnded, TrainableIgnored
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.machine import MachineFigures
from tfwatch.judge.troubles import beside, current_divergence, divergence_text, divergences_text

AT_151 = LossDiverged(0, 1151, "NaN", 1150)
THIRD = LossDiverged(2, 1310, "infinite", 1300)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        pytest.param(AT_151, "loss is NaN since step 1 151", id="known to the step"),
        pytest.param(
            THIRD,
            "loss is infinite since one of the steps 1 301 to 1 310",
            id="a call of ten steps",
        ),
        pytest.param(LossDiverged(0, 1, "NaN", 0), "loss is NaN since step 1", id="from the first"),
    ],
)
def test_since_when(event: LossDiverged, words: str) -> None:
    assert divergence_text(event) == words


@pytest.mark.parametrize(
    ("events", "loss", "words"),
    [
        pytest.param([], None, "", id="never"),
        pytest.param([AT_151], None, "loss is NaN since step 1 151", id="to the end"),
        pytest.param(
            [AT_151],
            0.5,
            "loss was NaN from step 1 151 on, finite again at the end",
            id="for a time",
        ),
        pytest.param(
            [AT_151, THIRD],
            None,
            "loss is infinite since one of the steps 1 301 to 1 310",
            id="twice",
        ),
    ],
)
def test_all_of_a_run(events: list[LossDiverged], loss: float | None, words: str) -> None:
    writer = write_run(None, plain(1), *events)
    writer.progress.append((8, 1, 0, 1, loss))
    writer.flush()
    run = read_back(writer)

    assert divergences_text(run) == words
    assert (current_divergence(run) is not None) == words.startswith("loss is")


def test_a_diverged_loss_makes_an_ok_banner_a_warning() -> None:
    ok = changed(RUNNING, split=judged(0.2), machine=MachineFigures({"thermal_level": 3}))
    assert banner(ok).tone is Tone.GOOD

    found = banner(changed(ok, diverged=AT_151))

    assert (found.word, found.tone) == ("OK, data wait 1 %", Tone.WARN)
    assert found.remark == "loss is NaN since step 1 151; heat is heavy: clocks are lowered"


def test_the_banner_of_a_finished_run_reports_a_diverged_loss() -> None:
    ended = changed(
        RUNNING, life="ended", ended=RunEnded(10**10, "finished", 1400), diverged=AT_151
    )

    assert banner(ended).remark.startswith("loss is NaN since step 1 151")
    assert banner(ended).tone is Tone.WARN


def test_a_diverged_loss_does_not_hide_starving() -> None:
    found = banner(changed(RUNNING, split=judged(), diverged=AT_151))

    assert (found.word, found.tone, found.remark) == (
        "STARVING 41 %",
        Tone.BAD,
        "loss is NaN since step 1 151",
    )


def test_a_callback_that_held_the_training_up_is_named_once() -> None:
    pauses = [
        Paused(n, "callback", took_ms, "Log", "run.py:9 in f")
        for n, took_ms in enumerate((1500, 90, 1700))
    ]
    run = read_back(
        write_run(None, plain(9), *pauses, Paused(9, "checkpoint", 700.0, "ModelCheckpoint"))
    )
    found = [one for one in beside(run, MachineFigures()) if one.kind == "callback-stall"]

    assert [one.sentence for one in found] == [
        "callback Log (run.py:9 in f) held the training up for 3.2 s (2 times, the longest 1.7 s)",
        "callback ModelCheckpoint held the training up for 0.7 s (1 time, the longest 0.7 s)",
    ]


def test_layers_whose_trainable_has_no_effect_are_named_with_the_remedy() -> None:
    events = [
        TrainableIgnored(1, ["old"]),
        TrainableIgnored(2, ["encoder/conv", "encoder/dense"], ["head"]),
    ]
    run = read_back(write_run(None, plain(1), *events))

    (found,) = beside(run, MachineFigures())
    assert found.kind == "trainable-ignored"
    assert found.sentence == (
        "frozen, but still trained: encoder/conv and 1 more; trainable, but not trained: head"
        " (no compile() since)"
    )
    assert found.advice == "model.compile(...) again after a change of trainable"
