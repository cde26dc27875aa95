"""The parts of a step by what the user wrote, of a profile: layers, loss, metrics, optimizer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tfwatch.core import units
from tfwatch.core.events import EpochStarted, StepProfiled
from tfwatch.core.rows import Flag, step_ms

if TYPE_CHECKING:
    from tfwatch.core.events import OperationTime
    from tfwatch.runs.buffers import Events
    from tfwatch.runs.snapshot import Snapshot

#: How a part is named where its operations have no name of their own.
_WORDS = {
    "loss": "loss",
    "metric": "metric",
    "optimizer": "optimizer",
    "clipping": "gradient clipping",
    "collective": "collective operations",
    "copy": "copy to the device",
    "other": "other operations",
}
_LAYER = ("forward", "backward")
_SMALL, _SHORTEST, _GAPS = "small operations", "the shortest operations", "launch gaps"


@dataclass(frozen=True, slots=True)
class StepPart:
    """One part of a step."""

    #: `layer`, `loss`, `metric`, `optimizer`, `clipping`, `collective`, `copy`, `other`, `small` or
    #: `gaps`.
    role: str
    name: str
    #: Its class; empty where it is not known.
    kind: str
    #: A step, the mean; of a layer forward and backward.
    took_ms: float
    backward_ms: float = 0.0
    #: Of the time of all operations and of launch gaps, 0 to 1.
    share: float = 0.0
    #: The operation that takes most of it.
    operation: str = ""
    #: The line of the user's that makes most of it; empty: none, or unknown.
    place: str = ""
    #: Operations of it run in a loop of the graph.
    in_loop: bool = False
    #: The layers or the variables that are one row, and the one that takes most of it; empty for
    #: one by itself.
    count: int = 1
    longest: str = ""
    #: That the optimizer updates; empty where it is none, or unknown.
    variable: str = ""
    #: Of that operation; empty where it is not known.
    dtype: str = ""
    #: The CPU computes it while the GPU waits.
    on_host: bool = False

    @property
    def title(self) -> str:
        """Its name: `conv2d (Conv2D)`, `block_3 (6 layers)`, `metric auc (AUC)`."""
        role = f"{self.role} " if self.role in ("metric", "optimizer", "loss") else ""
        name = self.name if self.name.strip() != self.role else ""
        kind = self.kind or (units.counted(self.count, "layer") if self.count > 1 else "")
        kind = f" ({kind})" if kind else ""
        variable = f" of {self.variable}" if self.variable else ""
        return f"{role}{name}{kind}{variable}".strip()

    @property
    def text(self) -> str:
        """It in words: `conv2d (Conv2D), backward 6.1 ms, train.py:41 in call`."""
        backward = f"backward {time_text(self.backward_ms)}" if self.backward_ms else ""
        longest = f"most in {self.longest}" if self.longest else ""
        host = "on the CPU" if self.on_host else ""
        return ", ".join(filter(None, (self.title, host, backward, longest, self.place)))


def time_text(took_ms: float) -> str:
    """Return milliseconds, with two decimals of a short time: many parts are."""
    return units.milliseconds(took_ms) if took_ms >= 1 else f"{units.number(took_ms, 2)} ms"


@dataclass
class _Sum:
    took_ms: float = 0.0
    backward_ms: float = 0.0
    host_ms: float = 0.0
    first: OperationTime | None = None
    place: str = ""
    in_loop: bool = False
    kinds: dict[str, None] = field(default_factory=dict)

    def add(self, one: OperationTime) -> None:
        self.took_ms += one.took_ms
        self.backward_ms += one.took_ms if one.role == "backward" else 0.0
        self.host_ms += one.took_ms if one.on_host else 0.0
        self.first = self.first or one
        # The line of a backward pass may be that of the gradients.
        is_line_of_layer = one.role == "forward" and one.place != ""
        self.place = one.place if is_line_of_layer else self.place or one.place
        self.in_loop = self.in_loop or one.in_loop
        self.kinds[one.kind] = None


#: The steps around a profile that are looked at: it lasts until it is read.
_BEFORE, _AFTER = 100, 1000
#: The usual steps next to it on each side, as the training may become slower by and by; the least
#: number of them.
_USUAL, _LEAST_USUAL = 100, 20


def newest_profile(events: Events) -> StepProfiled | None:
    """Return the newest profile of the model that trains that has operations; None without one."""
    profiles = [one for one in events.of(StepProfiled) if one.operations]
    epochs = events.of(EpochStarted) if profiles else []
    own = takewhile(lambda one: one.model == epochs[-1].model, reversed(epochs))
    begin_ns = min((one.at_ns for one in own), default=0)
    return next((one for one in reversed(profiles) if one.at_ns >= begin_ns), None)


def why_no_profile(events: Events) -> str:
    """Return why the profile that was tried last is missing; empty where it is there, and where
    none was tried."""
    tried = events.of(StepProfiled)
    if not tried or newest_profile(events) is not None:
        return ""
    return tried[-1].missing or "the one that there is belongs to a model that trained before"


def profile_of_run(run: Snapshot) -> StepProfiled | None:
    """Return the newest profile of the model that trains, with all that it cost; None without
    one."""
    profile = newest_profile(run.events)
    if profile is None:
        return None
    rows = run.steps_between(max(profile.step - _BEFORE, 1), profile.step + _AFTER)
    profiled, usual = rows[rows["flags"] == Flag.PROFILED], rows[rows["flags"] == 0]
    at = int(np.searchsorted(usual["step"], profile.step))
    usual = usual[max(at - _USUAL, 0) : at + _USUAL]
    if len(usual) < _LEAST_USUAL or not len(profiled):
        return profile
    # The profiler starts in the host part of the first one.
    start_ms = profiled["host_ms"][0] - np.median(usual["host_ms"])
    slower_ms = start_ms + (step_ms(profiled[1:]) - np.median(step_ms(usual))).sum()
    return msgspec.structs.replace(profile, cost_ms=max(profile.cost_ms, float(slower_ms)))


# Each frame asks a dozen times, and a network of 430 layers takes 0.8 ms.
@lru_cache(maxsize=4)
def step_parts(profile: StepProfiled) -> tuple[StepPart, ...]:
    """Return the parts of a profiled step, the longest first; none where there is no profile."""
    # On a CPU the operations of several threads may be more than the step took.
    rest = {
        "small": (_SMALL, profile.small_ms),
        "other": (_SHORTEST, profile.others_ms),
        "gaps": (_GAPS, profile.gaps_ms or 0.0),
    }
    all_ms = sum(one.took_ms for one in profile.operations) + sum(ms for _, ms in rest.values())
    if not all_ms:
        return ()
    sums: dict[tuple[str, str, str], _Sum] = defaultdict(_Sum)
    for one in profile.operations:
        role = "layer" if one.role in _LAYER and (one.name or one.kind) else one.role
        sums["other" if role in _LAYER else role, one.name, one.variable].add(one)
    parts = [_part(*key, total, all_ms) for key, total in sums.items()]
    named = ((role, name, ms) for role, (name, ms) in rest.items() if ms)
    parts += [StepPart(role, name, "", ms, share=ms / all_ms) for role, name, ms in named]
    return tuple(sorted(parts, key=lambda part: -part.took_ms))


def _part(role: str, name: str, variable: str, total: _Sum, all_ms: float) -> StepPart:
    kinds = ", ".join(filter(None, total.kinds))
    return StepPart(
        role,
        name or kinds or _WORDS.get(role, "the model"),
        kinds if name else "",
        total.took_ms,
        total.backward_ms,
        total.took_ms / all_ms,
        total.first.op if total.first else "",
        total.place,
        total.in_loop,
        variable=variable,
        dtype=total.first.dtype if total.first else "",
        on_host=2 * total.host_ms > total.took_ms,
    )
