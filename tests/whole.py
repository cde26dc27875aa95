"""What tests look for in a run."""

from typing import Any

from tfwatch.runs.snapshot import Snapshot


def events_of(run: Snapshot, kind: type) -> list[Any]:
    """Return the events of a kind."""
    return [event for event in run.events if isinstance(event, kind)]


def only(run: Snapshot, kind: type) -> Any:
    """Return the only event of a kind."""
    (event,) = events_of(run, kind)
    return event
