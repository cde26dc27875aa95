"""Heat on macOS: the system's thermal pressure, which any program may read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.sensors.asked import Asked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.sensors import Availability

KEY = "com.apple.system.thermalpressurelevel"
NOTIFYUTIL = ("/usr/bin/notifyutil", "-g", KEY)
#: It takes some 8 ms of a core, and heat is slow.
PERIOD_S = 4.0
#: nominal, moderate, heavy, trapping and sleeping (libkern/OSThermalNotification.h) as `thermal_level` in
#: `core.rows.SAMPLE` has them: this system has no light, and what follows heavy is critical.
LEVELS = (0.0, 2.0, 3.0, 4.0, 4.0)

_LEVEL = re.compile(rf"^{re.escape(KEY)} ([0-4])[ \t\r]*$", re.MULTILINE | re.ASCII)


class ThermalSensor:
    """Whether heat makes the machine slower."""

    name = "heat"

    def __init__(self) -> None:
        self._asked = Asked(NOTIFYUTIL, parse_notifyutil, PERIOD_S)

    def available(self) -> Availability:
        """Where notifyutil works."""
        return self._asked.available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """`thermal_level`."""
        newest = self._asked.newest(now_ns)
        return {} if newest is None else {"thermal_level": LEVELS[newest[1]]}


def parse_notifyutil(text: str) -> int | None:
    """The level, 0 to 4, an index of `LEVELS`; None where there is none: a failure is printed in its place."""
    found = _LEVEL.search(text)
    return int(found[1]) if found else None
