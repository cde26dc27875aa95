"""Other programs that take cores: in the findings and the summary, and beside a switch."""

from pathlib import Path

import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.event_rows import EventCollector
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.judge.other_programs import OthersFollower, other_programs_of_run
from tfwatch.judge.view import Follower
from tfwatch.report.text import as_text

ALONE, LOADED = {"process_cores": 1.9, "cpu_cores": 2.0}, {"process_cores": 0.6, "cpu_cores": 2.0}


def train(run: Canned, seconds: int, *, beside: bool) -> Canned:
    """Train for so many seconds, alone or beside other programs."""
    for _ in range(2 * seconds):
        run.lasting(0.5, STARVING).sample(**(LOADED if beside else ALONE))
        if beside:
            run.event(facts.Paused, cause="CPU contention", took_ms=500.0)
    return run


def begun() -> Canned:
    run = Canned(None)
    return run.begin_epoch().doing(Phase.COMPUTE, 0.001)


@pytest.mark.parametrize(
    ("loaded_s", "alone_s", "matters"),
    [
        pytest.param(30, 0, True, id="all the time"),
        pytest.param(10, 20, True, id="a third of it"),
        pytest.param(5, 25, False, id="a sixth of it"),
        pytest.param(2, 0, False, id="too early to say"),
    ],
)
def test_they_matter_for_a_quarter_of_the_time(loaded_s: int, alone_s: int, matters: bool) -> None:
    run = train(train(begun(), loaded_s, beside=True), alone_s, beside=False)

    assert OthersFollower().now(run.snapshot()).matters is matters


def test_a_load_that_ended_is_named_for_most_of_a_minute() -> None:
    run, follower = train(begun(), 20, beside=True), OthersFollower()
    assert follower.now(run.snapshot()).text == "other programs use 1.4 of 2 cores"

    train(run, 50, beside=False)
    found = follower.now(run.snapshot())
    assert (found.matters, found.text) == (True, "other programs use 1.4 of 2 cores")

    train(run, 12, beside=False)
    assert not follower.now(run.snapshot()).matters


def test_the_summary_begins_with_them_and_the_findings_have_them(tmp_path: Path) -> None:
    run = train(train(begun(), 10, beside=True), 10, beside=False).ended().snapshot()
    words = "other programs used 1.4 of 2 cores for 10.0 of 19.7 s: all times are longer for it"

    assert as_text(run, tmp_path).splitlines()[1] == words
    assert words in [one.sentence for one in JudgedRun(run).findings]
    assert not other_programs_of_run(train(begun(), 20, beside=False).snapshot()).matters


def test_a_switch_that_is_measured_beside_them_says_so() -> None:
    run = train(begun(), 20, beside=True).switched("prefetch", "off", "4")
    run.steps(1, COMPUTE_BOUND, int(Flag.SWITCH)).lasting(10.0, COMPUTE_BOUND)
    run.doing(Phase.COMPUTE, 0.001)
    rows = EventCollector().take(Follower(live=True).follow(run.snapshot(), (), None))

    assert any("faster" in one.text and "while other programs used 1.4" in one.text for one in rows)
