"""The table of knobs: what can change of an input pipeline while training runs, and why a knob
cannot be switched. A value is a text everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from tfwatch.core import units

#: Nothing is done ahead or in parallel; a cache is dropped.
OFF: Final = "off"
ON: Final = "on"
#: TensorFlow's own behaviour; of a script's pipeline what its author wrote.
DEFAULT: Final = "default"
#: tf.data.AUTOTUNE.
AUTO: Final = "auto"

PREFETCH: Final = "prefetch"
WORKERS: Final = "workers"
CACHE: Final = "cache"
PINNED: Final = "pinned"
DEVICE_PREFETCH: Final = "device_prefetch"
MULTIPROCESSING: Final = "multiprocessing"

#: The parts of a step, in its order.
WAIT, COPY, COMPUTE, HOST = "data wait", "copy", "compute", "host"
PARTS: Final = (WAIT, COPY, COMPUTE, HOST)

#: The largest buffer or parallelism: a larger one costs memory and gains no speed.
LARGEST: Final = 1024
#: The workers of a `PyDataset` under `auto` on a machine with fewer cores: threads mostly wait for
#: their files.
LEAST_AUTO_WORKERS: Final = 4
#: A cache may take this share of the available memory.
CACHE_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob."""

    #: The field of `Knobs`, and its name in a run folder.
    name: str
    #: Its key on the live screen.
    key: str
    #: What the key does, for the help.
    action: str
    #: What the knob is, beside its value; empty where the run describes it.
    purpose: str
    #: What it stands for in code, `{}` in place of its value; empty where there is no such call.
    call: str
    #: The values that are words.
    words: tuple[str, ...]
    #: The largest value that is a number; 0: none is.
    largest: int = 0
    #: The value that its key turns on first.
    first_on: str = AUTO
    #: The parts of a step that it can move beside an accelerator. On a CPU that trains, whose cores
    #: loaders and training share, every knob can move all of them.
    moves: tuple[str, ...] = (WAIT, COPY, HOST)
    #: The epochs that begin before a value is in effect; 0: it is with the next batch. `off` waits
    #: for one at most.
    epochs: int = 0
    #: A `PyDataset` has it, from the next epoch on.
    of_py_dataset: bool = False
    #: Why it has no A/B test; empty where it has one.
    no_test: str = ""
    #: Where room is short, the footer drops the highest rank first.
    rank: int = 0

    @property
    def label(self) -> str:
        """The name on the screen."""
        return self.name.replace("_", " ")

    def check(self, text: str) -> str:
        """Return a value in its one spelling: `04` is `4`.

        Raises:
            ValueError: the text is no value; the message is a sentence for the user.
        """
        if text in self.words:
            return text
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= self.largest:
            return str(int(text))
        numbers = [f"a number from 1 to {self.largest}"] if self.largest else []
        *first, last = [*self.words, *numbers]
        values = f"{', '.join(first)} or {last}" if first else last
        raise ValueError(f"{text!r} is not a setting: give {values}")


_TABLE = (
    Knob(
        PREFETCH,
        key="p",
        action="prefetch off, or back on",
        purpose="prepares batches during a step",
        call=".prefetch({})",
        words=(OFF, DEFAULT, AUTO),
        largest=LARGEST,
        first_on="4",
    ),
    Knob(
        WORKERS,
        key="w",
        action="workers off, or back on",
        purpose="prepares data in parallel",
        call="num_parallel_calls={}",
        words=(OFF, DEFAULT, AUTO),
        largest=LARGEST,
        of_py_dataset=True,
        rank=1,
    ),
    Knob(
        CACHE,
        key="c",
        action="cache the prepared examples, or drop the cache",
        purpose="",
        call=".cache()",
        words=(OFF, ON),
        first_on=ON,
        epochs=2,
        no_test="cache: no A/B test, the cached examples would serve both settings",
        rank=2,
    ),
    Knob(
        PINNED,
        key="n",
        action="batches in pinned memory, which the GPU reads directly, or off",
        purpose="batches in memory that the GPU reads",
        call="map_and_batch(lambda *parts: parts, 1)",
        words=(OFF, ON),
        first_on=ON,
        moves=PARTS,
        rank=3,
    ),
    Knob(
        DEVICE_PREFETCH,
        key="g",
        action="prefetch to the GPU's memory, or off",
        purpose="copies batches to the GPU ahead",
        call="prefetch_to_device({})",
        words=(OFF,),
        largest=LARGEST,
        first_on="2",
        moves=PARTS,
        rank=4,
    ),
    Knob(
        MULTIPROCESSING,
        key="m",
        action="the PyDataset's workers are processes, or threads again, from the next epoch on",
        purpose="the workers are processes",
        call="use_multiprocessing={}",
        words=(OFF, ON),
        first_on=ON,
        moves=PARTS,
        epochs=1,
        of_py_dataset=True,
        rank=4,
    ),
)
KNOBS: Final = {knob.name: knob for knob in _TABLE}
#: The knobs of the copy to a device with memory of its own.
COPY_KNOBS: Final = (PINNED, DEVICE_PREFETCH)
#: The batches that are copied into pinned memory beside each other: with one, a step over arrays
#: with a prefetch to the device took an H200 7.8 ms in place of 7.0.
PINNED_CALLS: Final = 2
PY_DATASET_KNOBS: Final = tuple(knob.name for knob in _TABLE if knob.of_py_dataset)


@dataclass(frozen=True, slots=True)
class Knobs:
    """The values of all knobs."""

    #: `buffer_size` of the prefetch at the pipeline's end.
    prefetch: str = OFF
    #: `num_parallel_calls` of the pipeline's maps, all alike; of a `PyDataset` its workers.
    workers: str = OFF
    #: Each example is computed once, up to the first random stage, and kept in memory.
    cache: str = OFF
    #: Batches are copied into memory that the GPU reads directly.
    pinned: str = OFF
    #: `buffer_size` of a prefetch to the GPU's memory after all other stages.
    device_prefetch: str = OFF
    #: The workers of a `PyDataset` are processes, not threads.
    multiprocessing: str = OFF

    def with_value(self, knob: str, value: str) -> Knobs:
        """Return these knobs with one of them changed.

        Raises:
            ValueError: the text is not a value of this knob.
        """
        return replace(self, **{knob: check_value(knob, value)})

    def differences(self, other: Knobs) -> list[tuple[str, str, str]]:
        """Return (knob, value here, value in `other`) for each knob that differs."""
        mine, theirs = self.values(), other.values()
        return [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]

    def values(self) -> dict[str, str]:
        """Return every knob's value."""
        return {name: getattr(self, name) for name in KNOBS}


#: A script's own pipeline has TensorFlow's defaults, and what its author wrote.
AS_WRITTEN: Final = Knobs(prefetch=DEFAULT, workers=DEFAULT)


def check_value(knob: str, text: str) -> str:
    """Return a knob's value in its one spelling: `04` is `4`.

    Raises:
        ValueError: there is no such knob, or the text is not a value of it; the message is a
        sentence for the user.
    """
    if knob not in KNOBS:
        raise ValueError(f"{knob!r} is not a knob")
    return KNOBS[knob].check(text)


def epochs_until(knob: str, value: str) -> int:
    """Return the number of epochs that must begin before a value is in effect; 0: the next batch.

    A cache fills for the rest of one and in the next, and serves after that; one that is off is
    left with the next epoch. A `PyDataset` is read by the same workers for an epoch.
    """
    epochs = KNOBS[knob].epochs
    return min(epochs, 1) if value == OFF else epochs


def number_of(value: str) -> int | None:
    """Return a value as a number; None where it is a word."""
    return int(value) if value.isdigit() else None


def option_name(knob: str) -> str:
    """Return the knob's name in `--switch` and `--json`: `device-prefetch`."""
    return knob.replace("_", "-")


def knob_name(knob: str) -> str:
    """Return the knob's name on the screen: `device prefetch`."""
    return KNOBS[knob].label if knob in KNOBS else knob


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A change of one knob."""

    knob: str
    old: str
    new: str

    @property
    def back(self) -> KnobChange:
        """The change in the opposite direction."""
        return KnobChange(self.knob, self.new, self.old)

    @property
    def words(self) -> str:
        """`workers off → 4`."""
        return f"{knob_name(self.knob)} {self.old} → {self.new}"


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


# -- why not --------------------------------------------------------------------------------------


class Refusal(Enum):
    """A reason that holds for every value of the knob; the member's value is the text for
    people."""

    RUN_IS_OVER = "the run is over"
    RUN_IS_ENDING = "the run is ending"
    NO_FIT_YET = "the script has not called fit yet"
    READ_ONLY = "read only: tfwatch attach switches it"
    ONE_STEP = "each fit has one step: no batch comes after it"
    UNREAD = "its pipeline is not read yet"
    NO_SUCH_KNOB = "not a knob of this run"
    OWN_PIPELINE = "the loop has its own pipeline"
    NOTHING_TO_CACHE = (
        "its examples are in memory, or tfwatch cannot see which stages of its pipeline are random"
    )
    NO_DEVICE_MEMORY = "nothing to gain: the device computes in the batches' own memory"
    NO_PY_DATASET = "its data is not a PyDataset"
    SPREAD = "a strategy's pipeline is never switched"
    NOT_SPLIT = (
        "the steps of this fit are not split: its batches are fetched by the model's own train"
        " function"
    )
    CACHE_FILE = "the file of its cache is not complete, and only one iterator can write it"
    ON_DEVICE = (
        "the script's pipeline puts its batches on the device (prefetch_to_device): no stage can"
        " follow"
    )
    RAGGED_ROWS = "its batches are single rows of a ragged tensor, which no stage can follow"

    @property
    def words(self) -> str:
        """The reason as text."""
        return self.value


class NotTimed(Enum):
    """A reason why the copy of batches to the device is not timed; the member's value is the text
    for people."""

    CPU = "nothing is copied: the CPU computes in the batches' own memory"
    UNIFIED = "unified memory: the GPU reads batches where they are, and nothing is copied"
    SMALL = "batches are small: their copy is a part of launching"
    EAGER = "operations run one by one, and each copies its own inputs"
    NOT_PLAIN = "batches are not plain tensors on one device"
    ELSEWHERE = "the model is not on the first GPU alone"
    SPREAD = (
        "batches are spread over several devices, and copied to them within TensorFlow's iterator"
    )
    IN_GRAPH = "steps_per_execution: copies happen inside the call"
    PINNED = "batches are in pinned memory: the GPU reads them while the step is launched"
    DRAWS = (
        "the step draws random numbers, and would draw others if its batches were copied before its"
        " call"
    )
    BUILDS = "TensorFlow builds the step for batches that are copied before its call"
    NOT_BUILT = "TensorFlow cannot build the step for batches that are copied before its call"
    OWN_LOOP = "the loop is a script's own, and copies inside its step"
    NOT_SPLIT = "the steps are not split into parts"


#: The reason why a pipeline has no such knob.
LACKING = {
    CACHE: Refusal.NOTHING_TO_CACHE,
    PINNED: Refusal.NO_DEVICE_MEMORY,
    DEVICE_PREFETCH: Refusal.NO_DEVICE_MEMORY,
    MULTIPROCESSING: Refusal.NO_PY_DATASET,
}


def no_room(needs_bytes: float | None, free_bytes: float | None) -> str:
    """Return the refusal of a cache as text: `needs 4.1 GB, 6.2 GB are free`; empty where it fits.

    Empty too where either figure is unknown.
    """
    if needs_bytes is None or free_bytes is None or needs_bytes <= CACHE_SHARE * free_bytes:
        return ""
    return f"needs {units.memory(needs_bytes)}, {units.memory(free_bytes)} are free"
