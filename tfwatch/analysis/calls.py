"""Steps that ran several in one call (`steps_per_execution`).

What follows a call stands in the row of its last step: the host part of the others is 0, which no step has that is a
call of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: Calls that their usual host part is told from.
_CALLS = 3


def spread_hosts(rows: Rows) -> Rows:
    """The rows with the host part of each call spread over its steps; as they are where each step is a call.

    Steps of a call that has not ended keep their 0.
    """
    ends = np.flatnonzero(rows["host_ms"])
    if not len(ends) or len(ends) == len(rows):
        return rows
    sizes = np.diff(ends, prepend=-1)
    spread: Rows = rows.copy()
    spread["host_ms"][: ends[-1] + 1] = np.repeat(rows["host_ms"][ends] / sizes, sizes)
    return spread


def hosts_over_usual(rows: Rows) -> NDArray[np.float32]:
    """Each row's host part; where calls have several steps, what it is over the median of all calls."""
    hosts: NDArray[np.float32] = rows["host_ms"]
    if np.count_nonzero(hosts) == len(hosts):
        return hosts
    calls = hosts[(hosts > 0) & (rows["flags"] == 0)]
    if len(calls) < _CALLS:
        return hosts
    over: NDArray[np.float32] = np.maximum(hosts - np.median(calls), 0)
    return over
