"""Lines of Python to paste into the user's own pipeline or training: what a knob does here, written out there.

`dataset` is the user's input pipeline, `model` the model.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.analysis.findings.bottleneck import StageTable

_NAMED_MAP = re.compile(r"map\((?P<name>[^()]+)\)")
#: What stands in place of a function of the user's that has no name that is known.
_FUNCTION = "decode"
#: Fuller calls: so much of what happens between them happens less often.
STEPS_PER_EXECUTION = 8

PRECISION = 'keras.mixed_precision.set_global_policy("mixed_float16")  # before the model is made'
GRAPH = "model.compile(..., run_eagerly=False)  # a loop of your own: @tf.function over its step"
LONGER_CALLS = f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION})  # callbacks run once a call"
FEWER_LAUNCHES = f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION}, jit_compile=True)"
VALIDATE_LESS = "model.fit(..., validation_freq=2)"
ONE_ITERATOR = "model.fit(dataset.repeat(), steps_per_epoch=...)  # no iterator is made anew for each epoch"
REPEATED = (
    "dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch_size).repeat()\n"
    "model.fit(dataset.prefetch(tf.data.AUTOTUNE), steps_per_epoch=...)  # no iterator is made anew for each epoch"
)
PREFETCH = "dataset = dataset.prefetch(tf.data.AUTOTUNE)  # the last stage: batches are made while a step runs"
THREADS = "dataset.workers, dataset.max_queue_size = 4, 8  # before fit: four threads make batches"
MORE_WORKERS = "dataset.workers, dataset.max_queue_size = 8, 16  # before fit"
PROCESSES = "dataset.workers, dataset.use_multiprocessing = 4, True  # before fit, below if __name__ == '__main__':"
PY_DATASET = """class Batches(keras.utils.PyDataset):  # in place of the generator
    def __len__(self): return batches  # in an epoch
    def __getitem__(self, index): return x, y  # the batch with this number
model.fit(Batches({way}), ...)"""
INTERLEAVED = (
    "dataset = tf.data.Dataset.range(4).interleave(lambda n: tf.data.Dataset.from_generator(rows, args=(n, 4), "
    "output_signature=...), cycle_length=4, num_parallel_calls=4)  # rows(n, 4): every fourth batch from the n-th on"
)
FROM_PYTHON = (
    "dataset = tf.data.Dataset.from_generator(rows, output_signature=...).prefetch(tf.data.AUTOTUNE)"
    "  # rows() begins your iterator; the loop goes over dataset"
)
SHARED_CALLS = f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION})  # and a larger batch_size in fit"
SAVE_LESS = "keras.callbacks.ModelCheckpoint(..., save_freq=...)  # in steps"
FROM_GENERATOR = (
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
    "  # TensorFlow operations in place of from_generator: no lock of Python's"
)
_GENERATOR = "tf.data"
#: What a pipeline is without where a knob is off.
_CALLS = {
    "prefetch": ".prefetch()",
    "workers": "num_parallel_calls",
    "cache": ".cache()",
    "fast_form": "the fast pipeline",
    "latency_ms": "the simulated latency",
}


def switch_line(knob: str, value: str, table: StageTable | None = None, form: str = "") -> str:
    """The line that does in a pipeline what a knob turned to a value does here; empty where there is none to add.

    table: its stages, where they are known. form: what the workload's fast pipeline is called.
    """
    if value in ("off", "default"):
        return ""
    if knob == "prefetch":
        return f"dataset = dataset.prefetch({_number(value)})  # the last stage: batches are made while a step runs"
    if knob == "workers":
        name = costliest_map(table)
        return f"dataset = dataset.map({name}, num_parallel_calls={_number(value)})  # in place of .map({name})"
    if knob == "cache":
        return "dataset = dataset.cache()  # after what costs, before shuffle and anything random"
    return _fast(form, costliest_map(table)) if knob == "fast_form" else ""


def switch_phrase(knob: str, value: str, form: str = "") -> str:
    """The same in few words, for a sentence: `num_parallel_calls=tf.data.AUTOTUNE`, `without .cache()`."""
    if value in ("off", "default"):
        return f"without {_CALLS.get(knob, knob)}"
    words = {
        "prefetch": f".prefetch({_number(value)})",
        "workers": f"num_parallel_calls={_number(value)}",
        "cache": ".cache()",
        "fast_form": "tf.data in place of the generator" if form == _GENERATOR else ".batch() before .map()",
    }
    return words.get(knob, f"{knob} {value}")


def pasted_lines(
    knobs: Mapping[str, str], started: Mapping[str, str], table: StageTable | None = None, form: str = ""
) -> str:
    """Lines for every knob that stands elsewhere than at the start, in the order of a pipeline; empty where none does.

    They are for the pipeline as it would be without any of them.
    """
    changed = [knob for knob in _ORDER if knobs.get(knob, "off") not in ("off", started.get(knob, "off"))]
    lines = (switch_line(knob, knobs[knob], table, form) for knob in changed)
    return "\n".join(line for line in lines if line)


def costliest_map(table: StageTable | None) -> str:
    """The function of the map that costs most, as its author named it; `decode` where nobody knows."""
    maps = ((stage.busy_ms, _NAMED_MAP.fullmatch(stage.name)) for stage in (table.stages if table else ()))
    known = [(cost, match["name"]) for cost, match in maps if match and not math.isnan(cost)]
    named = [one for one in known if one[1].isidentifier()]
    return max(named)[1] if named else _FUNCTION


def _fast(form: str, name: str) -> str:
    if form == _GENERATOR:
        return FROM_GENERATOR
    once = f"dataset = dataset.batch(batch_size).map({name}_batch)"
    return f"{once}  # one call a batch, in place of .map({name}).batch(batch_size)"


def _number(value: str) -> str:
    return "tf.data.AUTOTUNE" if value == "auto" else value


_ORDER = ("fast_form", "workers", "cache", "prefetch")
