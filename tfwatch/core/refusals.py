"""The reasons why a knob cannot be switched, as values with their text."""

from __future__ import annotations

from enum import Enum

from tfwatch.core import units
from tfwatch.core.knobs import CACHE, CACHE_SHARE, DEVICE_PREFETCH, MULTIPROCESSING, QUEUE_SIZE

#: The setting of TensorFlow's that a strategy has in place of a prefetch at the end of the
#: pipeline.
PER_REPLICA = "experimental_per_replica_buffer_size"


class Refusal(Enum):
    """A reason that holds for every value of the knob; the member's value is the text for
    people."""

    RUN_IS_OVER = "the run is over"
    RUN_IS_ENDING = "the run is ending"
    NO_FIT_YET = "the script has not called fit yet"
    READ_ONLY = "read only: tfwatch attach switches it"
    FIXED = "fixed in this run's own pipeline"
    NO_SUCH_KNOB = "not a knob of this run"
    NOTHING_TO_CACHE = (
        "its examples are in memory, or tfwatch cannot see which stages of its pipeline are random"
    )
    NO_DEVICE_MEMORY = "nothing to gain: the device computes in the batches' own memory"
    NO_PY_DATASET = "its data is not a PyDataset"
    NOT_OURS = "the pipeline is the script's own, and has no such knob"
    ONE_FOR_ALL = "it takes one setting, for all stages alike"
    SPREAD = "a strategy's pipeline is never switched"
    NOT_SPLIT = (
        "the steps of this fit are not split: its batches are fetched by the model's own train"
        " function"
    )
    ON_DEVICE = (
        "the script's pipeline puts its batches on the device (prefetch_to_device): no stage can"
        " follow"
    )

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
    OWN_LOOP = "the loop is a script's own, and copies inside its step"
    NOT_SPLIT = "the steps are not split into parts"


#: The reason why a pipeline has no such knob.
LACKING = {
    CACHE: Refusal.NOTHING_TO_CACHE,
    DEVICE_PREFETCH: Refusal.NO_DEVICE_MEMORY,
    MULTIPROCESSING: Refusal.NO_PY_DATASET,
    QUEUE_SIZE: Refusal.NO_PY_DATASET,
}


def no_room(needs_bytes: float | None, free_bytes: float | None) -> str:
    """Return the refusal of a cache as text: `needs 4.1 GB, 6.2 GB are free`; empty where it fits.

    Empty too where either figure is unknown.
    """
    if needs_bytes is None or free_bytes is None or needs_bytes <= CACHE_SHARE * free_bytes:
        return ""
    return f"needs {units.memory(needs_bytes)}, {units.memory(free_bytes)} are free"
