"""The knobs of an input pipeline: prefetch, also to the device, workers, latency, fast pipeline, cache and shuffle."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

#: `off`: no batch is prepared ahead; `default`: TensorFlow's own behaviour; `auto`: tf.data.AUTOTUNE; or a number.
Setting: TypeAlias = Literal["off", "default", "auto"] | int
#: One setting for each map and interleave of a script's pipeline, in the order of the pipeline: `workers` alone.
StageSettings: TypeAlias = tuple[Setting, ...]
#: The value of any knob.
KnobValue: TypeAlias = Setting | float | StageSettings

#: Names in options and JSON that differ from the field's.
_OPTION_NAMES = {
    "latency_ms": "storage-latency",
    "fast_pipeline": "fast-pipeline",
    "device_prefetch": "device-prefetch",
    "queue_size": "queue-size",
}
#: Names on the screen that differ from the field's.
_SCREEN_NAMES = {
    "latency_ms": "latency",
    "fast_pipeline": "fast pipeline",
    "device_prefetch": "device prefetch",
    "queue_size": "queue size",
}
#: The largest buffer or parallelism: a larger one costs memory and gains no speed.
LARGEST = 1024
#: The largest shuffle buffer, examples.
LARGEST_SHUFFLE = 10_000_000
#: The most stages with a setting of their own.
MOST_STAGES = 64
#: Stands between the settings of the stages in a text.
BETWEEN_STAGES = "/"
#: A cache may take this share of the available memory.
CACHE_SHARE = 0.5
#: The key of each knob.
KEYS = {
    "prefetch": "p",
    "workers": "w",
    "fast_pipeline": "t",
    "cache": "c",
    "latency_ms": "l",
    "shuffle": "b",
    "device_prefetch": "g",
    "multiprocessing": "m",
    "queue_size": "k",
}
#: The knobs of a script's `PyDataset`, and those that nothing else has.
PY_DATASET_KNOBS = ("workers", "multiprocessing", "queue_size")
PY_DATASET_ONLY = PY_DATASET_KNOBS[1:]


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings that can change while training runs.

    prefetch: `buffer_size` of the prefetch at the pipeline's end.
    workers: `num_parallel_calls` of the pipeline's maps, all alike, or in a script's pipeline one for each map and
        interleave; of a `PyDataset` its `workers`, where `off` is at most 1.
    latency_ms: simulated storage latency, added to reading each batch's files; 0 is none.
    fast_pipeline: the fast pipeline in place of the slow one that people write.
    cache: compute each example once, up to the first random stage, and keep the result in memory.
    shuffle: `buffer_size` of the source's shuffle, examples; `auto` is the workload's own. It changes with an epoch.
    device_prefetch: `buffer_size` of a prefetch to the GPU's memory after all other stages; off or a number.
    multiprocessing: the workers of a `PyDataset` are processes, not threads. queue_size: its `max_queue_size`, batches;
        `default` is the script's.
    """

    prefetch: Setting = "off"
    workers: Setting | StageSettings = "off"
    latency_ms: float = 0.0
    fast_pipeline: bool = False
    cache: bool = False
    shuffle: Setting = "auto"
    device_prefetch: Setting = "off"
    multiprocessing: bool = False
    queue_size: Setting = "default"

    def with_value(self, knob: str, value: KnobValue) -> Knobs:
        """Return these knobs with one of them changed."""
        match knob:
            case "latency_ms":
                return replace(self, latency_ms=_latency(value))
            case "fast_pipeline":
                return replace(self, fast_pipeline=bool(value))
            case "cache":
                return replace(self, cache=bool(value))
            case "shuffle":
                return replace(self, shuffle=_shuffle(value))
            case "prefetch":
                return replace(self, prefetch=_setting(value))
            case "device_prefetch":
                return replace(self, device_prefetch=_device_prefetch(value))
            case "multiprocessing":
                return replace(self, multiprocessing=bool(value))
            case "queue_size":
                return replace(self, queue_size=_queue_size(value))
        return replace(self, workers=_workers(value))

    def differences(self, other: Knobs) -> list[tuple[str, str, str]]:
        """Return (knob, value here, value in `other`) for each knob that differs."""
        pairs = [(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return [(name, show(here), show(there)) for name, here, there in pairs if here != there]


#: A script's own pipeline has TensorFlow's defaults, and what its author wrote.
AS_WRITTEN = Knobs(prefetch="default", workers="default")


def epochs_until(knob: str, value: str) -> int:
    """Return the number of epochs that must begin before a setting is in effect; 0: the next batch.

    A shuffle's order is fixed for an epoch. A cache fills for the rest of one and in the next, and serves after that.
    A `PyDataset` is read by the same workers for an epoch.
    """
    if knob == "shuffle" or knob in PY_DATASET_ONLY:
        return 1
    return 2 if knob == "cache" and value == "on" else 0


KNOBS = tuple(f.name for f in fields(Knobs))


def option_name(knob: str) -> str:
    """Return the knob's name in `--switch` and `--json`: `storage-latency` for `latency_ms`."""
    return _OPTION_NAMES.get(knob, knob)


def knob_name(knob: str, fast_name: str = "") -> str:
    """Return the knob's name on the screen: `latency`, `fast pipeline (tf.data)`; `fast_name` names that pipeline."""
    name = _SCREEN_NAMES.get(knob, knob)
    return f"{name} ({fast_name})" if fast_name and knob == "fast_pipeline" else name


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A change of one knob, its values as text."""

    knob: str
    old: str
    new: str

    @property
    def back(self) -> KnobChange:
        """The change in the opposite direction."""
        return KnobChange(self.knob, self.new, self.old)

    def words(self, fast_name: str = "") -> str:
        """Return `workers off → 4`; `fast_name` names the fast pipeline."""
        return f"{knob_name(self.knob, fast_name)} {self.old} → {self.new}"


class ChangesKnob:
    """An event about one change of a knob."""

    __slots__ = ()

    knob: str
    old: str
    new: str

    @property
    def change(self) -> KnobChange:
        """The change alone."""
        return KnobChange(self.knob, self.old, self.new)


def parse_setting(text: str) -> Setting:
    """Read `off`, `default`, `auto` or a whole number from 1 to 1024.

    Raises:
        ValueError: the text is none of these; the message is a sentence for the user.
    """
    return _setting(int(text) if text.isascii() and text.isdigit() else text)


def parse_latency(text: str) -> float:
    """Read a latency in milliseconds, 0 to 60 000; `off` is 0.

    Raises:
        ValueError: the text is not a number in that range.
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
    """Read `off` or `on`, the values of the fast pipeline and the cache.

    Raises:
        ValueError: the text is neither.
    """
    if text not in ("off", "on"):
        raise ValueError(f"{text!r} is neither off nor on")
    return text == "on"


def parse_shuffle(text: str) -> Setting:
    """Read `off`, `auto` or a buffer size in examples.

    Raises:
        ValueError: the text is none of these; the message is a sentence for the user.
    """
    return _shuffle(int(text) if text.isascii() and text.isdigit() else text)


def parse_workers(text: str) -> Setting | StageSettings:
    """Read the setting of all maps and interleaves, or one for each of them with `/` between: `default/4`.

    Raises:
        ValueError: a part is no setting, or there are more than 64; the message is a sentence for the user.
    """
    parts = text.split(BETWEEN_STAGES)
    return _workers(
        tuple(parse_setting(part) for part in parts) if len(parts) > 1 else parse_setting(text)
    )


def workers_of(workers: Setting | StageSettings, stage: int) -> Setting:
    """Return the setting of one map or interleave, by its number in the pipeline from 0 on."""
    if not isinstance(workers, tuple):
        return workers
    return workers[stage] if stage < len(workers) else "default"


def stage_value(workers: str, stage: int | None) -> str:
    """Return the setting of one stage from the text of `workers`; `default` where only others have one of their own.

    stage: None for a call that makes several stages.
    """
    if BETWEEN_STAGES not in workers:
        return workers
    values = workers.split(BETWEEN_STAGES)
    return values[stage] if stage is not None and stage < len(values) else "default"


def with_stage(workers: str, stages: int, stage: int, value: str) -> str:
    """Return the text of `workers` with another setting of one of so many stages: `4` becomes `4/off`.

    Raises:
        ValueError: a text is no setting.
    """
    now = parse_workers(workers)
    settings = [workers_of(now, at) for at in range(stages)]
    settings[stage] = parse_setting(value)
    return show(_workers(tuple(settings)))


def show(value: KnobValue) -> str:
    """Return a knob's value as the screen and the events have it: `off`, `on`, `auto`, `4`, `20 ms`, `default/4`."""
    if isinstance(value, tuple):
        return BETWEEN_STAGES.join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g} ms" if value else "off"
    return str(value)


def _one_of(value: object, words: tuple[Setting, ...], what: str, most: int = LARGEST) -> Setting:
    """Return one of these words, or a number from 1 to `most`."""
    for word in words:
        if value == word:
            return word
    if isinstance(value, int) and 1 <= value <= most:
        return value
    raise ValueError(
        f"{value!r} is not {what}: give {', '.join(map(str, words))} or a number from 1 to {most}"
    )


def _setting(value: object) -> Setting:
    return _one_of(value, ("off", "default", "auto"), "a setting")


def _workers(value: object) -> Setting | StageSettings:
    """Return a setting, or those of the stages; the setting alone where all have the same."""
    if not isinstance(value, tuple):
        return _setting(value)
    if not 1 <= len(value) <= MOST_STAGES:
        raise ValueError(f"{len(value)} settings for the stages: give 1 to {MOST_STAGES}")
    settings = tuple(map(_setting, value))
    return settings[0] if len(set(settings)) == 1 else settings


def _latency(value: object) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise ValueError(f"{value!r} is not a latency in milliseconds")


def _shuffle(value: object) -> Setting:
    return _one_of(value, ("off", "auto"), "a shuffle buffer", LARGEST_SHUFFLE)


def _device_prefetch(value: object) -> Setting:
    return _one_of(value, ("off",), "a prefetch to the device")


def _queue_size(value: object) -> Setting:
    return _one_of(value, ("default",), "a queue size")


def as_value(knob: str, text: str) -> KnobValue:
    """Return a knob's value from its text.

    Raises:
        ValueError: the text is not a value of this knob.
    """
    match knob:
        case "fast_pipeline" | "cache" | "multiprocessing":
            return parse_on(text)
        case "latency_ms":
            return parse_latency(text.removesuffix(" ms"))
        case "shuffle":
            return parse_shuffle(text)
        case "device_prefetch":
            return _device_prefetch(int(text) if text.isascii() and text.isdigit() else text)
        case "queue_size":
            return _queue_size(int(text) if text.isascii() and text.isdigit() else text)
        case "workers":
            return parse_workers(text)
    return parse_setting(text)


def describe(knobs: Knobs) -> dict[str, str]:
    """Return every knob's value as in run.json."""
    return {name: show(getattr(knobs, name)) for name in KNOBS}
