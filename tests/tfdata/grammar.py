"""Pipelines drawn at random as texts of code, and their elements with and without live switches.

`draw(seed)` gives a `Trial`: the text of a pipeline, and switches of its knobs at random steps.
`difference(trial)` takes the elements of its epochs as Keras does, bare and through `Fetch`, and
compares them bit for bit.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.keras_fixtures import as_on_a_gpu
from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched, SwitchFailed
from tfwatch.core.knobs import AS_WRITTEN, KNOBS, NotTimed
from tfwatch.runs.control import Control
from tfwatch.runs.create import make_writer
from tfwatch.runs.requests import SwitchRequest
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fetch import Fetch
from tfwatch.watch.fit.stepping.batch_step import Placement

EPOCHS, MOST_STAGES = 3, 7
#: The batches of an epoch without end; the most of any other.
STEPS, MOST_STEPS = 9, 30
#: Bare runs that a pipeline may have to show that its script asks for no order; before a
#: difference is reported.
BARE_RUNS, MANY_RUNS = 5, 40

#: In a text, `{n}` is a small number, `{pipeline}` another pipeline, and each name of `CHOICES` one
#: of its texts. Half of the trials have only what most scripts have.
COMMON_SOURCES = (
    "Dataset.range({n} * 7)",
    "Dataset.range({n}, 40, {n})",
    "Dataset.from_tensor_slices(numbers[:{n} * 8])",
    "Dataset.from_tensor_slices({'a': numbers[:24], 'b': numbers[24:48]})",
    "Dataset.from_tensor_slices((numbers[:25], numbers[25:50]))",
    "Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.int64))",
    "Dataset.list_files(folder + '/*.txt', shuffle={flag}, seed={seed}).map(length).repeat(3)",
    "tf.data.TFRecordDataset(records{reads}).map(number)",
    "tf.data.TextLineDataset(texts{reads}).map(number)",
    "Dataset.zip(({pipeline}, {pipeline}))",
)
SOURCES = (
    *COMMON_SOURCES,
    "Dataset.from_tensor_slices(tf.ragged.constant([[1], [], [2, 3, 4], [5]] * {n}, tf.int64))",
    "Dataset.from_tensor_slices(tf.sparse.from_dense(numbers[:24].reshape(6, 4)))",
    "Dataset.from_tensors(numbers[:6]).repeat({n})",
    "Dataset.from_generator(rows_of_call, output_signature=tf.TensorSpec([], tf.int64))",
    "Dataset.from_generator(growing_rows, output_signature=tf.TensorSpec([None], tf.int64))",
    "Dataset.random(seed={seed}{rerandomize}).take({n} * 4).map(small)",
    "Dataset.random(seed={seed}{rerandomize}).map(small)",
    "Dataset.counter({n})",
    "tf.data.FixedLengthRecordDataset(texts, 3).map(length_of_text)",
    "tf.data.experimental.CsvDataset(texts, [0]).map(wide)",
    "tf.data.TFRecordDataset(Dataset.from_tensor_slices(records).shuffle({n}{seeded})).map(number)",
    "tf.data.experimental.from_list([*range({n} * 3)]).map(wide)",
    "Dataset.sample_from_datasets([{pipeline}, {pipeline}], seed={seed}{stops}{rerandomize})",
    "Dataset.choose_from_datasets([{pipeline}, {pipeline}], Dataset.range(2).repeat({n})){stopped}",
    "Dataset.zip({'a': {pipeline}, 'b': {pipeline}})",
)
COMMON_STAGES = (
    *(".map({function}{parallel})",) * 6,
    *(".map({shape}{parallel})", ".map({random}{serial})", ".filter({predicate})"),
    *(".batch({n}{drop}{calls})",) * 3,
    ".padded_batch({n}{drop})",
    ".shuffle({n}{seeded}{reshuffle})",
    ".shuffle({n} * 9{seeded}{reshuffle})",
    *(".repeat(2)", ".take({n} * 3)", ".skip({n})", ".enumerate()", ".cache()"),
    *(".prefetch({n})", ".prefetch(AUTOTUNE)", ".interleave({many}{cycle}{parallel})"),
)
STAGES = (
    *COMMON_STAGES,
    ".map({stateful}{serial})",
    ".map({shape}{parallel})",
    ".take_while({predicate})",
    ".ragged_batch({n}{drop})",
    ".sparse_batch({n}, [12])",
    ".apply(tf.data.experimental.dense_to_ragged_batch({n}{drop}))",
    ".bucket_by_sequence_length(tf.size, [2, 4], [2, 3, {n}]{drop})",
    *(".unbatch()", ".rebatch({n}{drop})", ".window({n}, {n}{drop}).flat_map(windowed)"),
    ".group_by_window(group, lambda key, part: part.batch({n}), {n})",
    *(".repeat({n})", ".repeat()", ".shard(2, 1)", ".unique()"),
    ".scan(np.int64(0), running)",
    ".rejection_resample(is_odd, [0.5, 0.5], seed={seed})",
    *(".cache(new + '/{n}{n}{n}{n}')", ".snapshot(new + '/{n}{n}{n}{n}')"),
    *(".flat_map({many})", ".concatenate({pipeline})"),
    ".apply(lambda data: data.map({function}).batch({n}))",
    ".apply(asserted)",
    ".apply(tf.data.experimental.shuffle_and_repeat({n}, 2, seed={seed}))",
    ".apply(tf.data.experimental.map_and_batch({function}, {n}))",
    ".apply(tf.data.experimental.parallel_interleave({many}, 2, sloppy={flag}))",
    ".map(failing).ignore_errors()",
    ".apply(tf.data.experimental.prefetch_to_device('/CPU:0', {n}))",
    ".with_options(options({options}))",
    ".with_options(options({options}))",
)
CHOICES: dict[str, Sequence[str]] = {
    "function": ("triple", "more", "nested", "looped", "looked_up", "scaled", "stateless"),
    "random": ("draw", "draw_seeded", "layer"),
    "stateful": ("count", "in_python", "called", "numpy_called", "failing", "printed"),
    "shape": ("pair", "as_dict", "growing", "boxed", "unboxed", "unknown", "ragged", "sparse"),
    "predicate": ("is_few", "is_odd_sum", "draw_few", "called_few"),
    "many": ("pairs", "ranges", "shuffled_range", "lines", "generated", "drawn"),
    "parallel": ("", "", "", ", num_parallel_calls=2", ", num_parallel_calls=AUTOTUNE",
                 ", num_parallel_calls=3, deterministic={flag}"),
    "serial": ("", "", "", "", ", num_parallel_calls=1", ", num_parallel_calls=2"),
    "calls": ("", "", "", ", num_parallel_calls=2"),
    "reads": ("", "", ", num_parallel_reads=2"),
    "drop": ("", "", ", drop_remainder=True"),
    "cycle": ("", ", cycle_length=2", ", cycle_length=3, block_length=2"),
    "seed": ("None", "1", "2"),
    "seeded": ("", ", seed=1", ", seed=2"),
    "reshuffle": ("", "", ", reshuffle_each_iteration=False"),
    "rerandomize": ("", ", rerandomize_each_iteration=True", ", rerandomize_each_iteration=False"),
    "stops": ("", ", stop_on_empty_dataset=True"),
    "stopped": ("", ".take({n})"),
    "flag": ("True", "False"),
    "options": ("deterministic=False", "threading__private_threadpool_size=2",
                "threading__max_intra_op_parallelism=1", "experimental_warm_start=True",
                "experimental_slack=True", "autotune__enabled=False",
                "experimental_symbolic_checkpoint=True",
                *(f"experimental_optimization__{name}={flag}" for flag in (True, False)
                  for name in ("apply_default_optimizations", "filter_fusion", "inject_prefetch",
                               "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion",
                               "map_parallelization", "noop_elimination", "parallel_batch",
                               "shuffle_and_repeat_fusion", "filter_parallelization"))),
}  # fmt: skip
#: Texts with which a script asks for no order.
_NO_ORDER = re.compile(r"deterministic=False|sloppy=True")
#: Its length is said to be that of its input: it asks data without end for ever for a class that is
#: not there.
_RESAMPLED = re.compile(r"\.rejection_resample\([^()]*\)$")
#: Each part may be empty: over data without end it asks for ever where all of them are.
_MAY_BE_EMPTY = re.compile(r"\.(?:interleave|flat_map)\((?:ranges|drawn|shuffled_range)\b[^()]*\)$")
#: `assert_cardinality` raises the same error for each request, and all of them are ignored.
_ERROR_IGNORED = re.compile(r"\.apply\(asserted\).*\.ignore_errors\(\)$")
SETTINGS = {
    "prefetch": ("off", "default", "auto", "1", "4"),
    "workers": ("off", "default", "auto", "1", "3"),
    "cache": ("on", "on", "off"),
    "pinned": ("on", "off"),
    "device_prefetch": ("1", "off"),
    "multiprocessing": ("on", "off"),
}


@dataclass(frozen=True)
class Trial:
    """A pipeline, and the switches of its knobs.

    steps: `steps_per_epoch`; 0 without. fused: `steps_per_execution`. remade: a callback makes the
    train function again in each epoch. seeded: the script sets the global seed. switches: the
    requests before each step.
    """

    seed: int
    text: str
    steps: int
    fused: int
    remade: bool
    seeded: bool
    switches: dict[int, list[tuple[str, str]]]

    def __str__(self) -> str:
        """Return the trial as text."""
        how = f"{self.steps=} {self.fused=} {self.remade=} {self.seeded=}".replace("self.", "")
        return f"seed {self.seed}: {self.text}\n    {how} {self.switches}"


@dataclass
class Outcome:
    """What a training gets: each epoch's batches, and the type of the error that ended it.

    switched: the knobs that took effect. refused: the reasons of the others.
    """

    epochs: list[list[Any]] = field(default_factory=list)
    error: str = ""
    after: Any = None
    switched: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def note(self, events: Iterable[Any]) -> None:
        """Note which switches the events of a run are about."""
        for event in events:
            if isinstance(event, PipelineSwitched):
                self.switched.append(event.knob)
            elif isinstance(event, SwitchFailed):
                self.refused.append(event.reason)


# -- drawing --------------------------------------------------------------------------------------


def draw(seed: int) -> Trial:
    """Return the trial of a seed."""
    chooser = random.Random(seed)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        is_common = chooser.random() < 0.5
        text, data = _draw_pipeline(chooser, names(folder), is_common=is_common, depth=0)
        count = int(data.cardinality())
        endless = count == tf.data.INFINITE_CARDINALITY or count > MOST_STEPS
        endless = endless or (count < 0 and _is_long(data))
    steps = STEPS if endless else chooser.choice((0, 0, 0, 4))
    at = [step for step in range(MOST_STEPS * EPOCHS) if chooser.random() < 1 / (2 + step / 3)]
    switches = {step: _draw_switches(chooser) for step in at}
    fused, remade = chooser.choice((1, 1, 1, 3)), chooser.random() < 0.1
    return Trial(seed, text, steps, fused, remade, chooser.random() < 0.85, switches)


def _is_long(data: Any) -> bool:
    with contextlib.suppress(tf.errors.OpError):
        return sum(1 for _ in data.take(MOST_STEPS + 1)) > MOST_STEPS
    return False


def _draw_switches(chooser: random.Random) -> list[tuple[str, str]]:
    knobs = chooser.choices([*SETTINGS], [6, 6, 4, 2, 1, 1], k=chooser.choice((1, 1, 2)))
    return [(knob, chooser.choice(SETTINGS[knob])) for knob in knobs]


def _draw_pipeline(
    chooser: random.Random, known: dict[str, Any], *, is_common: bool, depth: int
) -> tuple[str, Any]:
    """Return the text of a pipeline, and its data set. Stages that its elements do not suit are
    drawn again."""
    stages = COMMON_STAGES if is_common else STAGES
    sources = [
        text
        for text in (COMMON_SOURCES if is_common else SOURCES)
        if not depth or "{pipeline}" not in text
    ]
    text, data = _extend(chooser, known, "", sources, depth)
    for _ in range(chooser.randrange(3) if depth else chooser.randrange(1, MOST_STAGES)):
        text, data = _extend(chooser, {**known, "data": data}, text, stages, depth)
    return text, data


def _extend(
    chooser: random.Random, known: dict[str, Any], before: str, texts: Sequence[str], depth: int
) -> tuple[str, Any]:
    for _ in range(99):
        part = _fill(chooser, chooser.choice(texts), known, depth)
        with contextlib.suppress(Exception):
            data = built(f"data{part}" if before else part, known)
            if _suits(known.get("data"), data, before + part):
                return before + part, data
    raise ValueError(f"nothing suits {before}")


def _suits(below: Any, data: Any, text: str) -> bool:
    """Return whether a stage over other data gives plain elements, and some. One over data without
    end may have to give none for ever, where it leaves some out."""
    is_endless = below is not None and below.cardinality() == tf.data.INFINITE_CARDINALITY
    is_unknown = data.cardinality() == tf.data.UNKNOWN_CARDINALITY
    if is_endless and (is_unknown or _RESAMPLED.search(text) or _MAY_BE_EMPTY.search(text)):
        return False
    if _ERROR_IGNORED.search(text):
        return False
    plain = (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)
    return all(isinstance(spec, plain) for spec in tf.nest.flatten(data.element_spec))


def _fill(chooser: random.Random, text: str, known: dict[str, Any], depth: int) -> str:
    def fill(hole: re.Match[str]) -> str:
        name = hole[1]
        if name == "n":
            return str(chooser.randrange(1, 7))
        if name == "pipeline":
            return _draw_pipeline(chooser, known, is_common=True, depth=depth + 1)[0]
        return _fill(chooser, chooser.choice(CHOICES[name]), known, depth)

    return re.sub(r"\{(\w+)\}", fill, text)


def built(text: str, known: dict[str, Any]) -> Any:
    """Return the data set of a text over these names."""
    return eval(text, dict(known))


# -- the names of a text --------------------------------------------------------------------------


@functools.cache
def _files() -> tempfile.TemporaryDirectory[str]:
    """Return a folder with four text files and four files of records, of five lines each."""
    made = tempfile.TemporaryDirectory()
    folder = Path(made.name)
    for n in range(4):
        lines = [str(10 * (n + 1) + k) for k in range(5)]
        (folder / f"{n}.txt").write_text("\n".join([*lines, ""]))
        with tf.io.TFRecordWriter(str(folder / f"{n}.rec")) as writer:
            for line in lines:
                writer.write(line.encode())
    return made


_as_is: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert


def _each(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a map of whole elements that applies a function to their values."""

    @functools.wraps(function)
    def over(*parts: Any) -> Any:
        made = tf.nest.map_structure(functools.partial(_on_values, function), parts)
        return made if len(parts) > 1 else made[0]

    made: Callable[..., Any] = _as_is(over)
    return made


def _on_values(function: Callable[[Any], Any], part: Any) -> Any:
    if isinstance(part, tf.SparseTensor):
        return part.with_values(function(part.values))
    return tf.ragged.map_flat_values(function, part)


def _sum(*parts: Any) -> Any:
    return sum(
        tf.reduce_sum(tf.cast(part, tf.int64))
        for part in tf.nest.flatten(parts, expand_composites=True)
    )


def _options(**settings: Any) -> Any:
    options = tf.data.Options()
    for path, value in settings.items():
        *groups, name = path.split("__")
        setattr(functools.reduce(getattr, groups, options), name, value)
    return options


def _asserted(data: Any) -> Any:
    count = int(data.cardinality())
    count = sum(1 for _ in data.take(MOST_STEPS)) if count == tf.data.UNKNOWN_CARDINALITY else count
    return data.apply(tf.data.experimental.assert_cardinality(count))


def _windowed(*parts: Any) -> Any:
    batches = [part.batch(9) for part in tf.nest.flatten(parts)]
    return tf.data.Dataset.zip(tuple(batches)) if len(batches) > 1 else batches[0]


def names(folder: str) -> dict[str, Any]:
    """Return what the texts name, with state of their own: variables, and calls of Python.

    folder: for the files that a pipeline writes.
    """
    data, files, calls = tf.data.Dataset, _files().name, itertools.count(1)
    with tf.device("/CPU:0"):
        counter = tf.Variable(0, dtype=tf.int64)
        scale = tf.Variable(2, dtype=tf.int64)
    keys = tf.range(500, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, keys * 7), tf.constant(5, tf.int64)
    )

    def rows() -> Iterator[int]:
        yield from range(14)

    def rows_of_call() -> Iterator[int]:
        first = 100 * next(calls)
        yield from range(first, first + 14)

    def growing_rows() -> Iterator[Any]:
        yield from (np.arange(n % 4 + 1) for n in range(14))

    def looped(x: Any) -> Any:
        for _ in tf.range(2):
            x = x + 1
        return x

    def printed(x: Any) -> Any:
        tf.print(x, output_stream="file://" + os.devnull)
        return x

    def failing(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_none_equal(x, tf.cast(7, x.dtype))]):
            return tf.identity(x)

    def called_number(x: Any) -> Any:
        return x + next(calls)

    def in_numpy(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: tf.ensure_shape(tf.numpy_function(function, [x], x.dtype), x.shape)

    def uniform(x: Any, seed: int | None = None) -> Any:
        return x + tf.random.uniform(
            tf.shape(x), maxval=99, dtype=tf.int32 if x.dtype != tf.int64 else tf.int64, seed=seed
        )

    def stateless(x: Any) -> Any:
        seed = tf.cast(tf.stack([tf.size(x), 3]), tf.int32)
        return x + tf.random.stateless_uniform(tf.shape(x), seed, maxval=99, dtype=x.dtype)

    def numbers_of(x: Any) -> Any:
        return data.range(_sum(x) % 4).map(lambda y: y * 10 + _sum(x) % 7)

    each: dict[str, Callable[..., Any]] = {
        "triple": lambda x: x * 3,
        "more": lambda x: x + 1,
        "wide": lambda x: tf.cast(x, tf.int64),
        "small": lambda x: x % 97,
        "nested": lambda x: tf.cond(tf.size(x) > 1, lambda: tf.function(abs)(x), lambda: x + 2),
        "looped": tf.function(looped),
        "looked_up": lambda x: x + table.lookup(x),
        "scaled": lambda x: x * scale,
        "stateless": stateless,
        "draw": uniform,
        "draw_seeded": lambda x: uniform(x, 3),
        "layer": lambda x: x + tf.cast(tf.random.Generator.from_seed(1).uniform([]) > 0.5, x.dtype),
        "count": lambda x: x + counter.assign_add(1),
        "in_python": lambda x: tf.ensure_shape(tf.py_function(abs, [x], x.dtype), x.shape),
        "called": lambda x: tf.ensure_shape(tf.py_function(called_number, [x], x.dtype), x.shape),
        "numpy_called": in_numpy(called_number),
        "printed": printed,
        "failing": failing,
        "boxed": lambda x: x[None],
        "unboxed": lambda x: x[0],
        "growing": lambda x: tf.range(x % 4 + 1),
        "unknown": lambda x: tf.boolean_mask(x, x > -1) if x.shape.rank else x,
        "number": lambda text: tf.strings.to_number(text, tf.int64),
        "length": lambda file: tf.cast(tf.strings.length(tf.io.read_file(file)), tf.int64),
        "length_of_text": lambda text: tf.cast(tf.strings.length(text), tf.int64),
    }  # fmt: skip
    whole: dict[str, Callable[..., Any]] = {
        "pair": lambda *x: (x[0], _sum(x)),
        "as_dict": lambda *x: {"a": x[-1], "text": tf.strings.as_string(_sum(x))},
        "ragged": lambda *x: tf.RaggedTensor.from_row_lengths(tf.range(_sum(x) % 4), [_sum(x) % 4]),
        "sparse": lambda *x: tf.sparse.from_dense(tf.one_hot(_sum(x) % 12, 12, dtype=tf.int64)),
        "is_few": lambda *x: _sum(x) % 5 < 3,
        "is_odd": lambda *x: tf.cast(_sum(x) % 2, tf.int32),
        "is_odd_sum": lambda *x: _sum(x) % 2 == 1,
        "draw_few": lambda *x: tf.random.uniform([]) < 0.7,
        "called_few": lambda *x: tf.py_function(lambda: next(calls) % 5 < 3, [], tf.bool),
        "group": lambda *x: _sum(x) % 2,
        "running": lambda total, *x: (total + 1, total + _sum(x)),
        "pairs": lambda *x: data.from_tensors(x if len(x) > 1 else x[0]).repeat(2),
        "ranges": lambda *x: numbers_of(x),
        "drawn": lambda *x: numbers_of(x).map(uniform),
        "shuffled_range": lambda *x: data.range(_sum(x) % 5).shuffle(5),
        "lines": lambda *x: tf.data.TextLineDataset(files + "/1.txt").map(each["number"]),
        "generated": lambda *x: data.from_generator(
            rows_of_call, output_signature=tf.TensorSpec([], tf.int64)
        ).take(3),
        "windowed": _windowed,
    }
    return {
        **{name: _each(function) for name, function in each.items()},
        **{name: _as_is(function) for name, function in whole.items()},
        **{"tf": tf, "np": np, "Dataset": data, "AUTOTUNE": tf.data.AUTOTUNE},
        **{"numbers": np.arange(50), "folder": files, "new": folder},
        **{"rows": rows, "rows_of_call": rows_of_call, "growing_rows": growing_rows},
        "texts": [f"{files}/{n}.txt" for n in range(4)],
        "records": [f"{files}/{n}.rec" for n in range(4)],
        "options": _options,
        "asserted": _asserted,
    }


# -- elements -------------------------------------------------------------------------------------


def build(trial: Trial, folder: str) -> Any:
    """Return the data set of a trial, as its script makes it at its start."""
    random.seed(trial.seed)
    np.random.seed(trial.seed)
    tf.random.set_seed(trial.seed)
    known = names(folder)
    if not trial.seeded:
        tf.random.set_seed(random.SystemRandom().randrange(2**31))
    return built(trial.text, known)


def trained(trial: Trial, *, switched: bool) -> Outcome:
    """Return what a training of the trial gets."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, as_on_a_gpu():
        outcome, source = Outcome(), Source(trial, switched=switched)
        try:
            _train(trial, build(trial, folder), source, outcome)
        except Exception as error:  # noqa: BLE001  of the pipeline: compared
            outcome.error = type(error).__name__
        finally:
            source.close(outcome)
        # What the script draws next is not touched by what tfwatch does.
        outcome.after = random.random(), np.random.rand()
        if trial.seeded:
            outcome.after += (float(tf.random.uniform([])),)
    return outcome


def _train(trial: Trial, data: Any, source: Source, outcome: Outcome) -> None:
    """Fetch as Keras' `fit` does: one iterator for an epoch, or for all with `steps_per_epoch`."""
    iterator, count = None, int(data.cardinality())
    for _ in range(EPOCHS):
        if is_new := iterator is None or not trial.steps:
            iterator = iter(data)
        outcome.epochs.append([])
        limit = trial.steps or (count if count >= 0 else MOST_STEPS * 2)
        if is_new or trial.remade:
            source.begin(iterator)
        for _ in range(0, limit, trial.fused):
            if not source.call(outcome.epochs[-1]):
                break


class Source:
    """The batches of a trial's training, from the iterators themselves or through `Fetch`."""

    def __init__(self, trial: Trial, *, switched: bool) -> None:
        self._trial, self._steps = trial, 0
        self._iterator: Any = None
        self._fetch: Fetch | None = None
        self._events: list[Any] = []
        if switched:
            self._writer: Any = make_writer("grammar", knobs={}, switchable=[*KNOBS])
            own = {"event": self._events.append, "note": lambda *_, **__: None}
            for name, function in own.items():
                setattr(self._writer, name, function)
            self._control = Control(AS_WRITTEN)
            stages = SimpleNamespace(use=lambda _: None)
            session: Any = SimpleNamespace(
                writer=self._writer, control=self._control, stages=stages, py_dataset=None
            )
            self._fetch = Fetch(session)
            why = NotTimed.IN_GRAPH if trial.fused > 1 else None
            self._fetch.switches.placement = Placement(why_in_call=why)

    def begin(self, iterator: Any) -> None:
        """Begin an epoch."""
        self._iterator = iterator
        if self._fetch:
            self._spec = self._fetch.use_iterator(iterator)

    def call(self, got: list[Any]) -> bool:
        """Add the batches of a call of the train function; return whether there were any."""
        if not self._fetch:
            return self._take(self._iterator, self._trial.fused, got) > 0
        for knob, value in self._trial.switches.get(self._steps, ()):
            self._control.ask(SwitchRequest(knob, value, by="key"))
        if self._trial.fused > 1:
            return self._call_fused(self._fetch, got)
        try:
            batch = self._fetch.next(self._steps)
        except StopIteration:
            return False
        self._steps += 1
        got.append(as_bytes(self._spec.pack(batch)))
        return True

    def _call_fused(self, fetch: Fetch, got: list[Any]) -> bool:
        """Fetch as `InGraphRunner` does."""
        taken, source = 0, fetch.source(self._steps)
        while source is not None:
            taken += self._take(source, self._trial.fused - taken, got)
            fetch.mark_first_batch(self._steps + 1)
            source = None
            if taken < self._trial.fused:
                source = fetch.successor(self._steps + taken)
        self._steps += taken
        return taken > 0

    @staticmethod
    def _take(iterator: Any, most: int, got: list[Any]) -> int:
        before = len(got)
        got += map(as_bytes, itertools.islice(iterator, most))
        return len(got) - before

    def close(self, outcome: Outcome) -> None:
        """End the training."""
        if self._fetch:
            self._fetch.close()
            outcome.note(self._events)


def as_bytes(batch: Any) -> Any:
    """Return the tensors of a batch, bit for bit."""
    parts = [np.asarray(part) for part in tf.nest.flatten(batch, expand_composites=True)]
    return tuple((part.dtype.str, part.shape, _content(part)) for part in parts)


def _content(part: Any) -> Any:
    return tuple(part.ravel().tolist()) if part.dtype == object else part.tobytes()


def fitted(trial: Trial, *, switched: bool) -> Outcome:
    """Return what a model gets of Keras' own `fit`, with `Watch` where it is switched."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, as_on_a_gpu():
        data, watch = build(trial, folder), Watch(Path(folder))
        model = SeenModel(outcome)
        model.compile("sgd", steps_per_execution=trial.fused)
        follower = Follower(trial, outcome, watch.set if switched else None)
        callbacks = [*([watch] if switched else []), follower]
        options: dict[str, Any] = {"epochs": EPOCHS, "steps_per_epoch": trial.steps or None}
        try:
            model.fit(data, verbose=0, callbacks=callbacks, **options)
        except Exception as error:  # noqa: BLE001  of the pipeline: compared
            outcome.error = type(error).__name__
        if watch.run_path:
            outcome.note(open_run(watch.run_path).events)
    keras.backend.clear_session(free_memory=False)
    return outcome


class SeenModel(keras.Model):
    """A model whose step notes what it gets."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self._outcome, self.built = outcome, True

    def train_step(self, data: Any) -> Any:
        """Note the parts of a batch."""
        parts = tf.nest.flatten(data, expand_composites=True)
        with tf.control_dependencies([tf.numpy_function(self._see, parts, [])]):
            return {"loss": tf.constant(0.0)}

    def _see(self, *parts: Any) -> None:
        self._outcome.epochs[-1].append(as_bytes(parts))


class Follower(keras.callbacks.Callback):
    """Asks for the switches of a trial, and makes the train function again."""

    def __init__(
        self, trial: Trial, outcome: Outcome, switch: Callable[..., None] | None = None
    ) -> None:
        super().__init__()
        self._trial, self._outcome, self._switch, self._steps = trial, outcome, switch, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch."""
        self._outcome.epochs.append([])
        if epoch and self._trial.remade:
            self.model.make_train_function(force=True)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Ask for the switches of a step."""
        if self._switch:
            for knob, value in self._trial.switches.get(self._steps, ()):
                self._switch(**{knob: value})
        self._steps += self._trial.fused


# -- comparison -----------------------------------------------------------------------------------


def difference(trial: Trial, train: Callable[..., Outcome] = trained) -> tuple[str, Outcome]:
    """Return what a training with switches gets in another way than the bare one, empty if nothing;
    and its outcome.

    Where bare ones differ among themselves, only what they have in common is compared.
    """
    bare, switched = [train(trial, switched=False)], train(trial, switched=True)
    if _is_same(bare[0], switched) or not (unlike := _unlike(bare[0], switched)):
        return "", switched
    views = {"order": _order, "elements": _elements, "batches": _batches}
    is_unordered = bool(_NO_ORDER.search(trial.text))
    if not trial.seeded or is_unordered:
        del views["order"]
        if _elements(bare[0]) == _elements(switched):
            return "", switched
    if is_unordered and trial.steps:
        del views["elements"]  # an epoch that is cut off has those that came first
    for name, view in views.items():
        seen = view(bare[0])
        is_fixed = all(view(one) == seen for one in _more(bare, trial, train, BARE_RUNS))
        if is_fixed and view(switched) == seen:
            return "", switched
        if is_fixed and all(view(one) == seen for one in _more(bare, trial, train, MANY_RUNS)):
            return f"other {name}: {unlike}", switched
    return "", switched


def _more(
    bare: list[Outcome], trial: Trial, train: Callable[..., Outcome], count: int
) -> Iterator[Outcome]:
    """Yield so many bare runs; those that there are not yet are trained."""
    for number in range(count):
        if number == len(bare):
            bare.append(train(trial, switched=False))
        yield bare[number]


def _is_same(one: Outcome, other: Outcome) -> bool:
    return bool(_order(one) == _order(other))


def _order(outcome: Outcome) -> Any:
    return outcome.epochs, outcome.error, outcome.after


def _elements(outcome: Outcome) -> Any:
    """Return the values of each epoch, in any order."""
    return [
        Counter(value for batch in epoch for part in batch for value in _values(*part))
        for epoch in outcome.epochs
    ], bool(outcome.error)


def _values(kind: str, _: Any, content: Any) -> Any:
    return content if isinstance(content, tuple) else np.frombuffer(content, kind).tolist()


def _batches(outcome: Outcome) -> Any:
    return [len(epoch) for epoch in outcome.epochs], bool(outcome.error)


def _unlike(one: Outcome, other: Outcome) -> str:
    if (one.error, one.after) != (other.error, other.after):
        return f"{(one.error, one.after)} {(other.error, other.after)}"
    for number, (a, b) in enumerate(itertools.zip_longest(one.epochs, other.epochs)):
        for step, (x, y) in enumerate(itertools.zip_longest(a or [], b or [])):
            if x != y:
                return f"epoch {number} of {len(a or [])} and {len(b or [])} steps, step {step}"
    return ""
