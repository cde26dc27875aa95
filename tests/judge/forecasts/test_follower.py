"""Forecasts on the screen, of switches that were not made yet."""

from __future__ import annotations

import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned
from tfwatch.core.events import SwitchAsked
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.view import Follower, RunView
from tfwatch.screens.live.knobs import knob_rows

GPU = {"device": "GPU:0 Apple M2 Pro", "accelerated": True}


def look(run: Canned) -> RunView:
    reader = run.reader()
    follower = Follower(live=True)
    run.writer.flush()
    return follower.follow(reader.read(), (), None)


def notes(view: RunView) -> dict[str, str]:
    return {row.name: row.note for row in knob_rows(view, live=True)}


def test_beside_each_knob_stands_what_its_key_would_bring() -> None:
    run = Canned(None, **GPU).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.0)

    found = notes(look(run))

    assert found["prefetch"] == "about 13.9 ms  1.7 x"
    assert " ms  " in found["workers"]


def test_the_banner_promises_the_best_of_them() -> None:
    run = Canned(None, **GPU).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.0)

    assert (
        look(run).finding.advice
        == "p prefetch on: 23.6 to about 13.9 ms, 1.7 x (the rest is compute)"
    )


def test_there_is_none_in_the_first_steps_while_stalled_and_while_a_switch_is_under_way() -> None:
    early = Canned(None, **GPU).started().steps(12, STARVING).doing(Phase.COMPUTE, 0.0)
    stalled = Canned(None, **GPU).started().steps(150, STARVING).doing(Phase.WAIT, 0.0)
    stalled.pass_s(20.0)
    asked = Canned(None, **GPU).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.0)
    asked.event(SwitchAsked, knob="workers", old="off", new="auto", step=asked.step, by="key")

    note = notes(look(early))["prefetch"]
    assert note.startswith("no forecast yet: ")
    assert "of 20 steps" in note
    assert "ms" not in notes(look(stalled))["prefetch"]
    assert notes(look(asked))["prefetch"] == "no forecast while switching"


def test_after_a_switch_the_way_back_is_as_it_was_measured() -> None:
    run = Canned(None, **GPU).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.0)
    reader = run.reader()
    follower = Follower(live=True)
    follower.follow(reader.read(), (), None)
    run.switched("prefetch", "off", "4").steps(1, COMPUTE_BOUND, int(Flag.SWITCH))
    run.steps(120, COMPUTE_BOUND).doing(Phase.COMPUTE, 0.0)
    run.writer.flush()

    view = follower.follow(reader.read(), (), None)

    back = view.situation.forecasts["prefetch", "off"]
    assert back.measured
    assert back.step_ms == pytest.approx(23.4, rel=0.02)


def test_a_run_that_is_over_has_no_forecasts() -> None:
    run = Canned(None, **GPU).started().steps(150, STARVING)
    run.writer.end("finished")

    assert look(run).situation.forecasts == {}
