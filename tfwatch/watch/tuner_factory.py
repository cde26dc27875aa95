"""The factory of a script's tuner. The tuner is a room above this one, so the package hands its factory down.

Every import of tfwatch loads this module: it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from tfwatch.runs.control.requests import Control
    from tfwatch.runs.writer import RunWriter

    class Tuner(Protocol):
        """The thread of a run's A/B tests and its autopilot."""

        def start(self) -> None: ...

        def stop(self) -> None: ...


#: Makes the tuner of a run; `tfwatch/__init__.py` sets it.
make_tuner: Callable[[RunWriter, Control], Tuner]
