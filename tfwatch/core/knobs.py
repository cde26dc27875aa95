"""The settings of an input pipeline that a user turns: prefetch, workers, simulated latency, form, cache, shuffle."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

#: `off`: nothing works ahead; `default`: TensorFlow's own behaviour; `auto`: tf.data.AUTOTUNE; or a number.
Setting: TypeAlias = Literal["off", "default", "auto"] | int

#: Knobs whose name for the user is not their field's.
_SPELT = {"latency_ms": "storage-latency", "fast_form": "fast-form"}
#: Knobs whose name on the screen is not their field's.
_NAMES = {"latency_ms": "latency", "fast_form": "fast form"}
#: The largest buffer or parallelism taken: above it memory, not speed, is what changes.
LARGEST = 1024
#: The largest shuffle buffer taken, examples.
LARGEST_SHUFFLE = 10_000_000
#: A cache may take this share of the memory that is available.
CACHE_SHARE = 0.5
#: The key that turns each knob.
KEYS = {"prefetch": "p", "workers": "w", "fast_form": "t", "cache": "c", "latency_ms": "l", "shuffle": "b"}


@dataclass(frozen=True, slots=True)
class Knobs:
    """What can change while training runs.

    prefetch: `buffer_size` of the prefetch at the pipeline's end.
    workers: `num_parallel_calls` of its maps.
    latency_ms: simulated storage latency, added to reading each batch's files; 0 is none.
    fast_form: the fast form of the pipeline in place of the slow one that people write.
    cache: keep what was made of each example, before anything random, and make it once.
    shuffle: `buffer_size` of the source's shuffle, examples; `auto` is the workload's own. From an epoch's start on.
    """

    prefetch: Setting = "off"
    workers: Setting = "off"
    latency_ms: float = 0.0
    fast_form: bool = False
    cache: bool = False
    shuffle: Setting = "auto"

    def turned(self, knob: str, value: Setting | float) -> Knobs:
        """The same knobs with one of them turned."""
        match knob:
            case "latency_ms":
                return replace(self, latency_ms=float(value))
            case "fast_form":
                return replace(self, fast_form=bool(value))
            case "cache":
                return replace(self, cache=bool(value))
            case "shuffle":
                return replace(self, shuffle=_shuffle(value))
            case "prefetch":
                return replace(self, prefetch=_setting(value))
        return replace(self, workers=_setting(value))

    def differences(self, other: Knobs) -> list[tuple[str, str, str]]:
        """(knob, value here, value there) for each knob that differs."""
        pairs = [(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return [(name, show(here), show(there)) for name, here, there in pairs if here != there]


def epochs_until(knob: str, value: str) -> int:
    """How many times an epoch has to begin before a setting, in words, is in effect; 0 is the next batch.

    A shuffle's order is promised for an epoch. A cache fills for the rest of one and in the next, and then serves.
    """
    if knob == "shuffle":
        return 1
    return 2 if knob == "cache" and value == "on" else 0


KNOBS = tuple(f.name for f in fields(Knobs))


def spelt(knob: str) -> str:
    """A knob by the name that `--switch` takes and `--json` prints: `storage-latency` for `latency_ms`."""
    return _SPELT.get(knob, knob)


def knob_name(knob: str, form: str = "") -> str:
    """A knob as the screen calls it: `latency` for `latency_ms`, `fast form (tf.data)` where `form` names that form."""
    name = _NAMES.get(knob, knob)
    return f"{name} ({form})" if form and knob == "fast_form" else name


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A knob and the values that it is turned from and to, in words."""

    knob: str
    old: str
    new: str

    @property
    def back(self) -> KnobChange:
        """The change that takes it back."""
        return KnobChange(self.knob, self.new, self.old)

    def words(self, form: str = "") -> str:
        """`workers off > 4`; `form` names the pipeline's fast form."""
        return f"{knob_name(self.knob, form)} {self.old} > {self.new}"


class ChangesKnob:
    """A fact about one change of a knob."""

    __slots__ = ()

    knob: str
    old: str
    new: str

    @property
    def change(self) -> KnobChange:
        """The change by itself."""
        return KnobChange(self.knob, self.old, self.new)


def parse_setting(text: str) -> Setting:
    """Read `off`, `default`, `auto` or a whole number from 1 to 1024.

    Raises:
        ValueError: it is none of these; the message is a sentence for the user.
    """
    return _setting(int(text) if text.isascii() and text.isdigit() else text)


def parse_latency(text: str) -> float:
    """Read a latency in milliseconds, 0 to 60 000; `off` is 0.

    Raises:
        ValueError: it is not a number in that range.
    """
    if text == "off":
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 60_000:
        raise ValueError(f"{text!r} is not a latency: give milliseconds from 0 to 60000")
    return value


def parse_on(text: str) -> bool:
    """Read `off` or `on`, as the fast form and the cache have them.

    Raises:
        ValueError: it is neither.
    """
    if text not in ("off", "on"):
        raise ValueError(f"{text!r} is neither off nor on")
    return text == "on"


def parse_shuffle(text: str) -> Setting:
    """Read `off`, `auto` or a buffer size in examples.

    Raises:
        ValueError: it is none of these; the message is a sentence for the user.
    """
    return _shuffle(int(text) if text.isascii() and text.isdigit() else text)


def show(value: Setting | float) -> str:
    """A knob's value as the screen and the events say it: `off`, `on`, `auto`, `4`, `20 ms`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g} ms" if value else "off"
    return str(value)


def _setting(value: object) -> Setting:
    if value == "off" or value == "default" or value == "auto":
        return value
    if isinstance(value, int) and 1 <= value <= LARGEST:
        return value
    raise ValueError(f"{value!r} is not a setting: give off, default, auto or a number from 1 to {LARGEST}")


def _shuffle(value: object) -> Setting:
    if value == "off" or value == "auto":
        return value
    if isinstance(value, int) and 1 <= value <= LARGEST_SHUFFLE:
        return value
    raise ValueError(f"{value!r} is no shuffle buffer: give off, auto or a number from 1 to {LARGEST_SHUFFLE}")


def as_value(knob: str, text: str) -> Setting | float:
    """A knob's value from its words.

    Raises:
        ValueError: they are no value of this knob.
    """
    match knob:
        case "fast_form" | "cache":
            return parse_on(text)
        case "latency_ms":
            return parse_latency(text.removesuffix(" ms"))
        case "shuffle":
            return parse_shuffle(text)
    return parse_setting(text)


def describe(knobs: Knobs) -> dict[str, str]:
    """Every knob's value as run.json holds it."""
    return {name: show(getattr(knobs, name)) for name in KNOBS}
