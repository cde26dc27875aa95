"""What a pilot may expect of a switch: the run as he sees it, for `analysis.forecast`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.forecast import Forecast, forecast
from tfwatch.live.evidence import evidence_now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.analysis.moving import Foretell
    from tfwatch.pilot.driver import Driver


def outlook(driver: Driver) -> Foretell:
    """The step after knobs are turned to values, by all that is known now; None where nothing can be said."""
    known = evidence_now(driver.snapshot, driver.rows)

    def foretell(turned: Mapping[str, str]) -> Forecast | None:
        (knob, value), *beside = turned.items()
        found = forecast(known, knob, value, dict(beside))
        return found if found.is_known else None

    return foretell
