"""Forecasts on the screen, of switches that were not made yet."""

from tests.screens.canned import STARVING, Canned
from tfwatch.core.events import SwitchAsked
from tfwatch.core.rows import Phase
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
    assert notes(look(asked))["prefetch"] == "no forecast: switching"


def test_a_run_that_is_over_has_no_forecasts() -> None:
    run = Canned(None, **GPU).started().steps(150, STARVING)
    run.writer.end("finished")

    assert look(run).situation.forecasts == {}
