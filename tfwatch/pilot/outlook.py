"""What a pilot may expect of a switch: the run as he sees it, for `analysis.forecast`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.forecast import Forecast, forecast
from tfwatch.analysis.grounds import Grounds, gather
from tfwatch.analysis.stages import stage_table
from tfwatch.analysis.switches import compare
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.analysis.grounds import Evidence
    from tfwatch.analysis.moving import Foretell
    from tfwatch.pilot.driver import Driver


def outlook(driver: Driver) -> Foretell:
    """The step after knobs are turned to values, by all that is known now; None where nothing can be said."""
    known = _evidence(driver)

    def foretell(turned: Mapping[str, str]) -> Forecast | None:
        (knob, value), *beside = turned.items()
        found = forecast(known, knob, value, dict(beside))
        return found if found.is_known else None

    return foretell


def _evidence(driver: Driver) -> Evidence:
    snapshot = driver.snapshot
    switches: list[SwitchAsked | PipelineSwitched | SwitchFailed] = snapshot.events.of(
        SwitchAsked, PipelineSwitched, SwitchFailed
    )
    compared = compare(switches, snapshot.steps_total, driver.rows)
    table = stage_table(snapshot.stages, snapshot.stages_found)
    switched = snapshot.events.of(PipelineSwitched)
    grounds = Grounds(snapshot.manifest, driver.rows, snapshot.samples, lambda step, at_ns: table, switched)
    return gather(grounds, compared, snapshot.steps_total, driver.now_ns())
