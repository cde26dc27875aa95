"""When a run's loss was no finite number, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.situations import RUNNING, judged
from tfwatch.analysis.findings.banner import banner
from tfwatch.analysis.findings.loss import current_divergence, divergence_text, divergences, divergences_text
from tfwatch.analysis.findings.machine import Machine
from tfwatch.analysis.findings.situation import Tone
from tfwatch.analysis.steps.verdict import Verdict
from tfwatch.core.events import LossDiverged, LossRecovered, Noted, RunEnded

AT_151 = LossDiverged(0, 1151, "NaN", 1150)
AGAIN = LossRecovered(1, 1200)
LATER = LossDiverged(2, 1310, "infinite", 1300)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        pytest.param(AT_151, "loss is NaN since step 1 151", id="known to the step"),
        pytest.param(LATER, "loss is infinite since one of the steps 1 301 to 1 310", id="a call of ten steps"),
        pytest.param(LossDiverged(0, 1, "NaN", 0), "loss is NaN since step 1", id="from the first"),
    ],
)
def test_since_when(event: LossDiverged, words: str) -> None:
    assert divergence_text(event) == words


@pytest.mark.parametrize(
    ("events", "words"),
    [
        pytest.param([Noted(0, "a")], "", id="never"),
        pytest.param([AT_151], "loss is NaN since step 1 151", id="to the end"),
        pytest.param(
            [AT_151, AGAIN], "loss was NaN from step 1 151 on, finite again from step 1 200 on", id="for a time"
        ),
        pytest.param(
            [AT_151, AGAIN, LATER],
            "loss is infinite since one of the steps 1 301 to 1 310 (2 times NaN or infinite)",
            id="twice",
        ),
    ],
)
def test_all_of_a_run(events: list[object], words: str) -> None:
    assert divergences_text(divergences(events)) == words


def test_what_is_finite_again_does_not_last() -> None:
    assert current_divergence([AT_151]) is AT_151
    assert current_divergence([AT_151, AGAIN]) is None
    assert current_divergence([AT_151, AGAIN, LATER]) is LATER
    assert current_divergence([]) is None


def test_the_banner_of_a_fed_run_is_no_good_news_then() -> None:
    fed = replace(RUNNING, judgement=judged(Verdict.NOT, 0.2), machine=Machine(heat=3))
    assert banner(fed).tone is Tone.GOOD

    found = banner(replace(fed, diverged=AT_151))

    assert (found.word, found.tone) == ("OK, data wait 1 %", Tone.WARN)
    assert found.remark == "loss is NaN since step 1 151; heat is heavy: clocks are lowered"


def test_the_banner_says_it_of_a_run_that_is_over() -> None:
    ended = replace(RUNNING, life="ended", ended=RunEnded(10**10, "finished", 1400), diverged=AT_151)

    assert banner(ended).remark.startswith("loss is NaN since step 1 151")
    assert banner(ended).tone is Tone.WARN


def test_a_starving_run_starves_nonetheless() -> None:
    found = banner(replace(RUNNING, judgement=judged(Verdict.HIGHLY), diverged=AT_151))

    assert (found.word, found.tone, found.remark) == ("STARVING 41 %", Tone.BAD, "loss is NaN since step 1 151")
