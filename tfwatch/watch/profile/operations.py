"""The profile of some steps: what TensorFlow's profiler recorded, by layer and role."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfwatch.core.events import MOST_OPERATIONS, OperationTime, StepProfiled
from tfwatch.watch.profile.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.watch.profile.origins import Origin
    from tfwatch.watch.profile.recorded import Recorded, Time

#: While names are looked up, Python's lock goes to a thread that waits for it after so long,
#: seconds, in place of 5 ms: the training needs it some times in each step.
_YIELD_S = 1e-4


@dataclass(frozen=True)
class Recording:
    """Steps that were recorded.

    by: as of `StepProfiled`. model, graph: of the step, for the names of
    operations; None where they are gone.
    """

    step: int
    steps: int
    step_ms: float
    cost_ms: float
    by: str
    model: Any
    graph: Any


@dataclass
class _Part:
    """The operations of one origin. longest: the path of the longest one; ops: their picoseconds
    by kernel; host_ps: of these, those that the host computes while a GPU waits."""

    longest: str
    ps: int = 0
    host_ps: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    place: str = ""

    def row(self, origin: Origin, steps: int, dtype: str) -> OperationTime:
        """Return its row of a profile, in milliseconds a step."""
        ((longest, _),) = self.ops.most_common(1)
        return OperationTime(
            origin.role,
            origin.name,
            origin.kind,
            longest,
            _ms(self.ps, steps),
            self.place,
            origin.in_loop,
            origin.variable,
            dtype,
            2 * self.host_ps > self.ps,
        )


@contextmanager
def beside_a_training() -> Iterator[None]:
    """Let other threads have Python's lock soon, and collect no garbage: that takes the whole
    process 0.2 to 0.3 s with TensorFlow's objects, and what is made here is freed without."""
    usual_s, collects = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(min(_YIELD_S, usual_s))
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)
        if collects:
            gc.enable()


@beside_a_training()
def profile_of(
    done: Recording, recorded: Recorded, now_ns: int, *, accelerated: bool = False
) -> StepProfiled:
    """Return the profile of a recording, as an event of this moment.

    accelerated: a GPU computes the steps. Without its kernels there is no profile: the host's
    operations only launch them.
    """
    if accelerated and not recorded.on_gpu:
        times_ms = done.step_ms, done.cost_ms
        why = "TensorFlow's profiler sees no kernels of this GPU"
        return StepProfiled(now_ns, done.step, done.steps, *times_ms, missing=why, by=done.by)
    times = recorded.operations
    origins = Origins(done.model, done.graph, {one.path for one in times})
    if not recorded.on_gpu:  # other functions run on the CPU's threads; all kernels are the GPU's
        times = [one for one in times if origins.has(one.path)]
    rows, others_ms = _rows(times, origins, done.steps)
    return StepProfiled(
        now_ns,
        done.step,
        done.steps,
        done.step_ms,
        done.cost_ms,
        recorded.on_gpu,
        rows,
        others_ms,
        _ms(recorded.small_ps, done.steps),
        "" if rows else "TensorFlow's profiler recorded no operations of the step",
        done.by,
        None if recorded.gaps_ps is None else _ms(recorded.gaps_ps, done.steps),
        None if recorded.float32_ps is None else _ms(recorded.float32_ps, done.steps),
    )


# -- rows ------------------------------------------------------------------------------------------


def _rows(
    times: Sequence[Time], origins: Origins, steps: int
) -> tuple[tuple[OperationTime, ...], float]:
    """Return the longest parts, and the time of the others, milliseconds a step."""
    parts: dict[Origin, _Part] = {}
    # Where looking up is limited, the longest count.
    for path, op, ps, on_host in times:
        origin = origins.of(path, op)
        part = parts.setdefault(origin, _Part(path))
        part.ps += ps
        part.host_ps += ps if on_host else 0
        part.ops[op] += ps
        part.place = part.place or origin.place
    ranked = sorted(parts.items(), key=lambda one: -one[1].ps)
    rows = (
        part.row(origin, steps, origins.dtype_of(part.longest))
        for origin, part in ranked[:MOST_OPERATIONS]
    )
    return tuple(rows), _ms(sum(part.ps for _, part in ranked[MOST_OPERATIONS:]), steps)


def _ms(ps: int, steps: int) -> float:
    return ps / 1e9 / max(steps, 1)
