"""Lines of Python for the user's own pipeline or training, which do there what a knob does in
tfwatch.

`dataset` is the user's input pipeline, `model` the model.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfwatch.core.knobs import (
    CACHE,
    DEFAULT,
    DEVICE_PREFETCH,
    KNOBS,
    MULTIPROCESSING,
    OFF,
    PER_REPLICA,
    PREFETCH,
    PY_DATASET_KNOBS,
    QUEUE_SIZE,
    WORKERS,
)
from tfwatch.core.script_code import edited_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.script_code import CodeEdit
    from tfwatch.judge.stages import StageTable

_NAMED_MAP = re.compile(r"map\((?P<name>[^()]+)\)")
#: The name in place of a user's function whose name is unknown.
_FUNCTION = "decode"
#: The `steps_per_execution` to try: callbacks run this many times less often.
STEPS_PER_EXECUTION = 8
PRECISION = 'keras.mixed_precision.set_global_policy("mixed_float16")  # before the model is made'
LONGER_CALLS = (
    f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION})  # callbacks run once per call"
)
FEWER_LAUNCHES = f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION}, jit_compile=True)"
CACHE_AFTER = "dataset = dataset.cache()  # after {stage}, both before shuffle and anything random"
UINT8 = (
    "dataset = dataset.map(lambda x, y: (tf.cast(x, tf.uint8), y))  # whole numbers to 255, scaled"
    " in the model:\nkeras.layers.Rescaling(1 / 255)  # the first layer casts on the device"
)
DEVICE_PREFETCH_LINE = (
    'dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", {depth}))  # the'
    " last stage"
)
#: Batches that a strategy prepares ahead for each replica in place of one.
BUFFER_PER_REPLICA = 4
SPREAD = (
    f"options = tf.distribute.InputOptions({PER_REPLICA}={BUFFER_PER_REPLICA})  # batches ahead for"
    " each replica\ndataset = strategy.experimental_distribute_dataset(dataset, options)  # fit"
    " takes it too"
)
ONE_ITERATOR_OF_LOOP = (
    "batches = iter(dataset.repeat())  # before the loop; next(batches) in each step"
)
SERVICE = (
    "# one machine: DispatchServer(DispatcherConfig(port=5050)).join(), of"
    ' tf.data.experimental.service\n# each machine: WorkerServer(WorkerConfig("HOST:5050",'
    ' worker_address="ITS_NAME:%port%")).join()\nservice ='
    ' tf.data.experimental.service.distribute("distributed_epoch", "grpc://HOST:5050")\ndataset ='
    " dataset.apply(service)  # before .batch(); or unchanged: tfwatch run --feed HOST:5050"
)
FEWER_FITS = "model.fit(..., epochs=epochs)  # in place of a loop over fit"
#: Rows of 2 kB in batches of 256 took 0.4 ms a batch this way, as in Keras, and 1.3 ms by
#: `from_tensor_slices`.
_FROM_ARRAYS = """with tf.device("CPU"): x, y = tf.constant(x), tf.constant(y)
order = tf.data.Dataset.range(len(x)).shuffle(len(x)).batch(batch_size).repeat()
rows = lambda n: (tf.gather(x, n), tf.gather(y, n))
dataset = order.map(rows, num_parallel_calls=tf.data.AUTOTUNE)"""
THREADS = (
    "dataset.workers, dataset.max_queue_size = 4, 8  # before fit: four threads prepare batches"
)
MORE_WORKERS = "dataset.workers, dataset.max_queue_size = 8, 16  # before fit"
PROCESSES = (
    "dataset.workers, dataset.use_multiprocessing = 4, True  # before fit, below if __name__ =="
    " '__main__':"
)
PY_DATASET = """class Batches(keras.utils.PyDataset):  # in place of the generator
    def __len__(self): return batches  # in an epoch
    def __getitem__(self, index): return x, y  # the batch with this number
model.fit(Batches({way}), ...)"""
FROM_PYTHON = (
    "dataset = tf.data.Dataset.from_generator(rows,"
    " output_signature=...).prefetch(tf.data.AUTOTUNE)  # rows() returns your iterator; loop over"
    " dataset"
)
SHARED_CALLS = (
    f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION})  # the same steps; or larger"
    " batches"
)
CALLS_ON_ARRAYS = (
    f"model.compile(..., steps_per_execution={STEPS_PER_EXECUTION})  # the same steps\n"
    "model.fit(x, y, batch_size=4 * batch_size, ...)  # or this: fewer, other steps"
)
SMALLER_ARRAYS = (
    'x = x.astype("uint8")  # images of whole numbers to 255: a quarter of the bytes\n'
    "keras.layers.Rescaling(1 / 255)  # the model's first layer casts"
)
FROM_GENERATOR = (
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
    "  # TensorFlow operations in place of from_generator: they do not hold the GIL"
)
_NOT_MEASURED: Mapping[tuple[str, str], str] = MappingProxyType({})


def switch_line(
    knob: str,
    value: str,
    table: StageTable | None = None,
    code: Sequence[CodeEdit] = (),
) -> str:
    """Return the line of Python that sets a knob to a value in a pipeline; empty where there is
    none to add.

    table: its stages, where they are known. code: the changes of the script's own lines, where they
    are known: then it is these lines, each with its place.
    """
    if own := edited_lines(code, {knob: value}):
        return own
    if value in ("off", "default"):
        return ""
    if knob == PREFETCH:
        return (
            f"dataset = dataset.prefetch({_number(value)})  # the last stage: prepares batches"
            " while a step runs"
        )
    if knob == WORKERS:
        return _parallel_map(costliest_map(table), _number(value))
    if knob == CACHE:
        return (
            "dataset = dataset.cache()  # after the slow stages, before shuffle and anything random"
        )
    if knob == DEVICE_PREFETCH:
        return DEVICE_PREFETCH_LINE.format(depth=_number(value))
    return ""


def one_iterator(steps_per_epoch: int | None, *, of_arrays: bool = False) -> str:
    """Return the lines that give all epochs one iterator. steps_per_epoch: those of the run, None
    where unknown."""
    repeated = "dataset.prefetch(tf.data.AUTOTUNE)" if of_arrays else "dataset.repeat()"
    fit = (
        f"model.fit({repeated}, steps_per_epoch={steps_per_epoch or '...'})  # one iterator for all"
        " epochs"
    )
    return f"{_FROM_ARRAYS}\n{fit}" if of_arrays else fit


def shuffle_lines(shuffle: str, below: str, steps_per_epoch: int | None, *, of_loop: bool) -> str:
    """Return the lines after which no epoch waits for a shuffle buffer. shuffle: its call; below:
    the map below it."""
    steps = f"model.fit(dataset, steps_per_epoch={steps_per_epoch or '...'})"
    then = (
        "batches = iter(dataset) before the loop, next(batches) in each step" if of_loop else steps
    )
    repeat = f"dataset = dataset.{shuffle}.repeat()  # the buffer stays full; then {then}"
    if not below:
        return repeat
    before = f"dataset = dataset.{shuffle}.{call(below)}  # in place of .{call(below)}.{shuffle}"
    return f"{before}\n# or: {repeat}"


def call(stage: str) -> str:
    """Return a stage as a call: `map(...)` for `map`, whose function has no name."""
    return stage if stage.endswith(")") else f"{stage}(...)"


def parallel_map(stage: str) -> str:
    """Return the line that makes the calls of the map of this stage parallel."""
    return _parallel_map(_function(stage), "tf.data.AUTOTUNE")


def waiting_map(stage: str, threads: int) -> str:
    """Return the lines that let more calls of a map wait than the machine has cores: each of them
    needs a thread."""
    return "\n".join(
        (
            _parallel_map(_function(stage), str(threads)),
            "options = tf.data.Options()",
            f"options.threading.private_threadpool_size = {threads}",
            "dataset = dataset.with_options(options)  # after the last stage",
        )
    )


def interleaved(stage: str) -> str:
    """Return the line that interleaves four of a generator, and what the generator has to do for
    it."""
    kind, _, name = stage.removesuffix(")").partition("(")
    name = name if kind == "from_generator" and name.isidentifier() else "rows"
    return (
        "dataset = tf.data.Dataset.range(4).interleave(lambda n:"
        f" tf.data.Dataset.from_generator({name}, args=(n, 4), output_signature=...),"
        f" cycle_length=4, num_parallel_calls=4)  # {name}(n, 4): every fourth element from the"
        " n-th on"
    )


def _parallel_map(name: str, calls: str) -> str:
    return f"dataset = dataset.map({name}, num_parallel_calls={calls})  # in place of .map({name})"


def _function(stage: str) -> str:
    match = _NAMED_MAP.search(stage)
    return match["name"] if match and match["name"].isidentifier() else _FUNCTION


def switch_phrase(knob: str, value: str) -> str:
    """Return the same in a few words, for a sentence: `num_parallel_calls=tf.data.AUTOTUNE`,
    `without .cache()`."""
    call = KNOBS[knob].call
    if value in (OFF, DEFAULT):
        return (
            f"without {call.partition('=')[0].replace('({})', '()') or f'the {KNOBS[knob].label}'}"
        )
    return call.format(_number(value)) if call else f"{knob} {value}"


def pasted_lines(
    knobs: Mapping[str, str],
    started: Mapping[str, str],
    table: StageTable | None = None,
    better: Mapping[tuple[str, str], str] = _NOT_MEASURED,
    code: Sequence[CodeEdit] = (),
) -> str:
    """Return the lines for all knobs that changed since the start, in the order of a pipeline;
    empty without a change.

    They are for a pipeline without any of them. better: the faster value of each setting that
    measured slower: it is suggested in its place. code: as in `switch_line`; a knob without a line
    of the script's has a line of its own.
    """
    knobs = {knob: best_measured(knob, value, better) for knob, value in knobs.items()}
    changed = [
        knob for knob in _ORDER if knobs.get(knob, "off") not in ("off", started.get(knob, "off"))
    ]
    if MULTIPROCESSING in knobs:  # its batches come from no map, and are prefetched by Keras
        return _py_dataset_line(knobs, started)
    in_script = {edit.knob for edit in code}
    own = edited_lines(code, {knob: knobs[knob] for knob in changed})
    lines = (switch_line(knob, knobs[knob], table) for knob in changed if knob not in in_script)
    return "\n".join(filter(None, (own, *lines)))


def best_measured(knob: str, value: str, better: Mapping[tuple[str, str], str]) -> str:
    """Return the value, or the fastest one that the run has measured in its place."""
    seen = {value}
    while (value := better.get((knob, value), value)) not in seen:
        seen.add(value)
    return value


def costliest_map(table: StageTable | None) -> str:
    """Return the name of the function of the slowest map; `decode` where unknown."""
    maps = (
        (stage.busy_ms, _NAMED_MAP.fullmatch(stage.name))
        for stage in (table.stages if table else ())
    )
    known = [(cost, match["name"]) for cost, match in maps if match and not math.isnan(cost)]
    named = [one for one in known if one[1].isidentifier()]
    return max(named)[1] if named else _FUNCTION


def _number(value: str) -> str:
    return "tf.data.AUTOTUNE" if value == "auto" else value


_OF_PY_DATASET = (
    "dataset.workers, dataset.use_multiprocessing, dataset.max_queue_size = {workers}, {processes},"
    " {queue}  # before fit"
)


def _py_dataset_line(knobs: Mapping[str, str], started: Mapping[str, str]) -> str:
    """Return the line that gives a `PyDataset` its workers; empty where they are those of the
    script."""
    if all(knobs.get(knob) == started.get(knob, "off") for knob in PY_DATASET_KNOBS[:2]):
        return ""
    setting = knobs.get(WORKERS, "off")
    workers = {"off": "1", "auto": "os.cpu_count()"}.get(setting, setting)
    queue = knobs.get(QUEUE_SIZE, "default")
    processes = knobs[MULTIPROCESSING] == "on"
    return _OF_PY_DATASET.format(
        workers=workers, processes=processes, queue="10" if queue == "default" else queue
    )


_ORDER = (WORKERS, CACHE, PREFETCH, DEVICE_PREFETCH)
