"""The bounds of values that are read from a file, as types; a value beyond them is damage."""

from __future__ import annotations

import json
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from tfwatch.core.knobs import KNOBS

#: The longest run: 100 days. Times of a run are below it.
LATEST_NS: Final = 100 * 86_400 * 10**9
#: The longest part of a step, and the longest pause: 11 days.
LONGEST_MS: Final = 1e9
#: The latest date in nanoseconds since 1970: the year 2262.
LATEST_WALL_NS: Final = 2**63 - 1
#: The largest figure of a machine: a thousand terabytes.
LARGEST_FIGURE: Final = 10**15
#: Steps and epochs are 32 bits in the rows; the next one fits too.
LARGEST_COUNT: Final = 2**32 - 2
#: Step times differ by less.
SMALLEST_RATIO: Final = 1e-9
LARGEST_RATIO: Final = 1e9
#: The most cores of a machine.
MOST_CORES: Final = 2**20


def _between(least: float, most: float) -> Meta:
    return Meta(ge=least, le=most)


def one_of(*texts: str) -> Meta:
    """Return the bounds of a text that is one of these."""
    return Meta(pattern=rf"\A(?:{'|'.join(texts)})\Z")


#: Nanoseconds since the run's clock origin.
Moment: TypeAlias = Annotated[int, _between(0, LATEST_NS)]
#: Nanoseconds since 1970.
WallTime: TypeAlias = Annotated[int, _between(0, LATEST_WALL_NS)]
#: Nanoseconds of a machine's monotonic clock.
ClockTime: TypeAlias = Annotated[int, _between(0, LATEST_WALL_NS)]
#: Steps, epochs, rounds and files.
Count: TypeAlias = Annotated[int, _between(0, LARGEST_COUNT)]
#: Examples: a whole number that is exact as a float.
Whole: TypeAlias = Annotated[int, _between(0, 2**53)]
Milliseconds: TypeAlias = Annotated[float, _between(0, LONGEST_MS)]
Bytes: TypeAlias = Annotated[int, _between(0, LARGEST_FIGURE)]
#: A ratio of two step times.
Ratio: TypeAlias = Annotated[float, _between(SMALLEST_RATIO, LARGEST_RATIO)]
#: Seconds since 1970 at which a process started.
StartTime: TypeAlias = Annotated[float, _between(0, LATEST_WALL_NS / 1e9)]
CoreCount: TypeAlias = Annotated[int, _between(0, MOST_CORES)]
#: A number of cores; a container's may be a part of one.
Cores: TypeAlias = Annotated[float, _between(0, MOST_CORES)]
ProcessId: TypeAlias = Annotated[int, _between(1, 2**31 - 1)]
Knob: TypeAlias = Annotated[str, one_of(*KNOBS)]

_ENCODER = msgspec.json.Encoder(enc_hook=float)  # Keras returns metrics as numpy scalars


def encode_json(value: object) -> bytes:
    """Return a value as JSON in one line: what is not finite is null, half a surrogate pair is `?`.

    Raises:
        TypeError, ValueError: a part of it is neither JSON nor a number.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:  # the name of a file may hold any bytes
        text = json.dumps(msgspec.to_builtins(value, enc_hook=float), ensure_ascii=False)
        return _ENCODER.encode(json.loads(text.encode(errors="replace")))
