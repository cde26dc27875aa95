"""The bounds of the figures that a run folder holds: a figure outside them is damage, or from no training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from tfwatch.core.knobs import KNOBS

#: The longest run: 100 days. Times of a run are below it.
LATEST_NS: Final = 100 * 86_400 * 10**9
#: The longest part of a step, and the longest pause: 11 days.
LONGEST_MS: Final = 1e9
#: The latest date in nanoseconds since 1970: the year 2262.
LATEST_WALL_NS: Final = 2**63 - 1
#: The largest figure of a machine: a thousand terabytes.
LARGEST_FIGURE: Final = 1e15
#: Steps and epochs are 32 bits in the rows; the next one fits too.
LARGEST_COUNT: Final = 2**32 - 2
#: A number of examples, and any other whole number, is exact as a float.
LARGEST_WHOLE: Final = 2**53
#: Step times differ by less.
SMALLEST_RATIO: Final = 1e-9
LARGEST_RATIO: Final = 1e9
#: The most cores of a machine.
MOST_CORES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `least` to `most`. A float holds any number, and NaN is in no range."""

    least: float
    most: float

    def __contains__(self, value: Any) -> bool:
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Least:
    """A list with at least this many items."""

    items: int

    def __contains__(self, value: list[Any]) -> bool:
        return len(value) >= self.items

    def __str__(self) -> str:
        return f"a list of at least {self.items}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these texts."""

    texts: tuple[str, ...]

    def __contains__(self, value: Any) -> bool:
        return value in self.texts

    def __str__(self) -> str:
        return f"one of {', '.join(self.texts)}"


@dataclass(frozen=True, slots=True)
class Hexadecimal:
    """So many lower-case hexadecimal digits, or nothing."""

    digits: int

    def __contains__(self, value: str) -> bool:
        return not value or (len(value) == self.digits and not set(value) - set("0123456789abcdef"))

    def __str__(self) -> str:
        return f"{self.digits} hexadecimal digits"


#: Nanoseconds since the run's clock origin.
Moment: TypeAlias = Annotated[int, Between(0, LATEST_NS)]
#: Nanoseconds since 1970.
WallTime: TypeAlias = Annotated[int, Between(0, LATEST_WALL_NS)]
#: Nanoseconds of a machine's monotonic clock.
ClockTime: TypeAlias = Annotated[int, Between(0, LATEST_WALL_NS)]
#: Steps, epochs, rounds and files.
Count: TypeAlias = Annotated[int, Between(0, LARGEST_COUNT)]
#: Examples.
Whole: TypeAlias = Annotated[int, Between(0, LARGEST_WHOLE)]
#: A seed.
Seed: TypeAlias = Annotated[int, Between(-(2**63), 2**63)]
Milliseconds: TypeAlias = Annotated[float, Between(0, LONGEST_MS)]
#: Milliseconds that a machine sleeps: up to 100 days.
SleepMilliseconds: TypeAlias = Annotated[float, Between(0, LATEST_NS / 1e6)]
#: A number of bytes.
Bytes: TypeAlias = Annotated[int, Between(0, LARGEST_FIGURE)]
ByteCounts: TypeAlias = Annotated[dict[str, int], Between(0, LARGEST_FIGURE)]
#: A computed number of bytes.
MeanBytes: TypeAlias = Annotated[float, Between(0, LARGEST_FIGURE)]
#: A share of a whole; rounding may exceed it.
Share: TypeAlias = Annotated[float, Between(0, 1.001)]
#: A ratio of two step times.
Ratio: TypeAlias = Annotated[float, Between(SMALLEST_RATIO, LARGEST_RATIO)]
#: A change of a step time, as a share of it.
Change: TypeAlias = Annotated[float, Between(-1, LARGEST_RATIO)]
#: Seconds since 1970 at which a process started.
StartTime: TypeAlias = Annotated[float, Between(0, LATEST_WALL_NS / 1e9)]
CoreCount: TypeAlias = Annotated[int, Between(0, MOST_CORES)]
#: A number of cores; a container's may be a part of one.
Cores: TypeAlias = Annotated[float, Between(0, MOST_CORES)]
#: A limit of memory; where there is none, some systems report 2**63.
MemoryLimit: TypeAlias = Annotated[int, Between(0, 2**63)]
#: A process number.
ProcessId: TypeAlias = Annotated[int, Between(1, 2**31 - 1)]
#: The names of a list that is never empty.
Names: TypeAlias = Annotated[list[str], Least(1)]
#: Step times by setting.
StepTimes: TypeAlias = Annotated[dict[str, float], Between(0, LONGEST_MS)]


Knob: TypeAlias = Annotated[str, OneOf(KNOBS)]
Sha256: TypeAlias = Annotated[str, Hexadecimal(64)]
NotFinite: TypeAlias = Annotated[str, OneOf(("NaN", "infinite"))]
Answer: TypeAlias = Annotated[str, OneOf(("faster", "slower", "same", "unclear"))]
ExperimentCause: TypeAlias = Annotated[
    str, OneOf(("clear", "budget", "cancelled", "key", "stopped", "ended", "failed"))
]
AutopilotCause: TypeAlias = Annotated[
    str, OneOf(("not_starving", "compute_floor", "nothing_left", "user", "over", "budget", "failed"))
]

#: What `Annotated` declares of a field.
Bound: TypeAlias = Between | Least | OneOf | Hexadecimal
