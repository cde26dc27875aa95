"""The runs of the lines that loop: a later loop from the same line continues the run."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import raise_interrupt

if TYPE_CHECKING:
    from types import CodeType

    from tfwatch.watch.loops.tracked_loop import TrackedRun

#: A line that loops: the code, the instruction in it, the thread, and the folder of the runs.
CallSite = tuple[int, int, int, Path | None]
#: The largest number of runs that wait for another loop from their line; older ones end. Lines that
#: came back after their runs had ended take turns, and more of those may wait: the cells of a
#: notebook never come back. Each run that waits takes 1 % of a core.
_MAX_WAITING, _MAX_IN_TURN = 4, 32
#: The newest lines whose runs ended for others; their code is referenced, so that no other code
#: gets its identity.
_MOST_LET_GO = 64
#: The value of `tf.data.INFINITE_CARDINALITY`.
_INFINITE = -1

#: The newest run of each call site, and all runs that still exist.
_newest: dict[CallSite, TrackedRun] = {}
all_runs: weakref.WeakSet[TrackedRun] = weakref.WeakSet()
#: The code of lines whose runs ended for others.
_let_go: dict[CallSite, CodeType] = {}


def find_continued(site: CallSite) -> TrackedRun | None:
    """Return the run that an earlier loop from this site began, and whose object is deleted."""
    run = _newest.get(site)
    return run if run and _waits(run) else None


def _waits(run: TrackedRun) -> bool:
    return not (run.is_over or run.is_looped_again) and run.epoch is None and run.owner() is None


def remember(site: CallSite, run: TrackedRun) -> None:
    """Keep a new run for the next loop from its site."""
    run.takes_turns = _let_go.pop(site, None) is not None
    for known, other in list(_newest.items()):
        if other.is_over:
            del _newest[known]
    waiting = [known for known, other in _newest.items() if _waits(other)]
    once = [known for known in waiting if not _newest[known].takes_turns]
    for known in {*once[:-_MAX_WAITING], *waiting[:-_MAX_IN_TURN]}:
        _let_go[known] = _newest[known].code
        _newest.pop(known).end()
    for known in [*_let_go][:-_MOST_LET_GO]:
        del _let_go[known]
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
