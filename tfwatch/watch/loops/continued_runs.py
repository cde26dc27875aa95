"""The runs of the lines that loop: a later loop from the same line continues the run."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import raise_interrupt

if TYPE_CHECKING:
    from tfwatch.watch.loops.tracked_loop import TrackedRun

#: A line that loops: the code, the instruction in it, the thread, and the folder of the runs.
CallSite = tuple[int, int, int, Path | None]
#: The largest number of runs that wait for another loop from their line; older ones end. Each takes
#: 1 % of a core.
_MAX_WAITING = 8
#: The value of `tf.data.INFINITE_CARDINALITY`.
_INFINITE = -1

#: The newest run of each call site, and all runs that still exist.
_newest: dict[CallSite, TrackedRun] = {}
all_runs: weakref.WeakSet[TrackedRun] = weakref.WeakSet()


def find_continued(site: CallSite) -> TrackedRun | None:
    """Return the run that an earlier loop from this site began, and whose object is deleted."""
    run = _newest.get(site)
    return run if run and _waits(run) else None


def _waits(run: TrackedRun) -> bool:
    return not (run.is_over or run.is_looped_again) and run.epoch is None and run.owner() is None


def remember(site: CallSite, run: TrackedRun) -> None:
    """Keep a new run for the next loop from its site."""
    for known, other in list(_newest.items()):
        if other.is_over:
            del _newest[known]
    waiting = [known for known, other in _newest.items() if _waits(other)]
    for known in waiting[:-_MAX_WAITING]:
        _newest.pop(known).end()
    _newest[site] = run
    all_runs.add(run)


def length_of(iterable: object) -> int | None:
    """Return the length of an iterable; None where it has none."""
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001  the iterable is the user's; of unknown or infinite length it raises
        raise_interrupt(error)
        return None


def is_endless(iterable: Any) -> bool:
    """Return whether a data set of tf.data repeats without end: a loop over it is left and never
    exhausted."""
    try:
        return int(iterable.cardinality()) == _INFINITE
    except Exception as error:  # noqa: BLE001  the iterable is the user's
        raise_interrupt(error)
        return False


def _disown() -> None:
    _newest.clear()
    for run in list(all_runs):
        run.disown()


os.register_at_fork(after_in_child=_disown)
