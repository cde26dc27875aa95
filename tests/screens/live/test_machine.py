"""The hardware on the screen, over canned runs of several machines."""

import json
import math
import re
from pathlib import Path

import pytest

from tests.judge.test_view import look
from tests.runs.folders import read_back
from tests.screens import hardware
from tests.screens.canned import COMPUTE_BOUND, Canned, Split, usual
from tests.screens.showing import shown
from tfwatch.core import events as facts
from tfwatch.core.knobs import NotTimed
from tfwatch.core.rows import SAMPLE, Phase
from tfwatch.report.run_facts import as_json
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run
from tfwatch.screens.live.machine import missing, readings


def texts(run: Canned) -> dict[str, str]:
    """Return the text of each row of the machine pane."""
    return dict(readings(look(run)))


def test_what_the_machine_does_not_have_is_absent_and_listed_with_its_newest_reason() -> None:
    run = hardware.compute_bound(None)
    run.writer.describe(accelerated=True, copy_not_timed=NotTimed.OWN_LOOP.value)
    for sensor, reason in (("disk", "tool is missing"), ("disk", "tool hangs"), ("heat", "none")):
        run.event(facts.SensorMissing, sensor=sensor, reason=reason, fix="")

    assert {event.sensor: event.reason for event in missing(look(run))} == {
        "disk": "tool hangs",
        "copy to the GPU": NotTimed.OWN_LOOP.value,
    }
    assert not {"n/a", "GPU", "power", "energy"} & set(texts(usual(None)))


def test_unreadable_rows_are_counted(tmp_path: Path) -> None:
    run = usual(tmp_path)
    run.writer.flush()
    with (tmp_path / "events.jsonl").open("a") as events:
        events.write("torn\n")
    run.reader = lambda: Run(RunFolder(tmp_path), run.clock)  # type: ignore[method-assign]

    assert texts(run)["record"] == "1 row or line of this run cannot be read"


def test_a_finished_run_shows_medians() -> None:
    rows = texts(hardware.throttled(None).ended())

    assert rows["GPU"].startswith("95 % busy, ours 92 %")


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e38, -1e38, -1.0, 1e-38], ids=str)
async def test_whatever_a_sample_holds_the_screen_and_the_report_stand(value: float) -> None:
    def read(_: Split) -> dict[str, float]:
        return dict.fromkeys((name for name in SAMPLE.names or () if name != "at_ns"), value)

    run = hardware.on_apple(None, read).steps(400, COMPUTE_BOUND).doing(Phase.COMPUTE, 0.001)
    async with shown(run, (80, 24)) as show:
        await show.press("4")
        assert all(len(row) == 80 for row in show.rows)
        assert not re.search(r"\b(nan|inf)\b", show.text)
    found = as_json(read_back(run.ended().writer, run.clock))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
