"""Scripts' own pipelines, rebuilt: their time, and whether each element stays equal.

`python -m tests.bench.rebuilt equal [SHAPES]` runs that many shapes of pipelines (all by default) with 50 switches of
prefetch, workers and cache each, and compares every element with those of the pipeline as written, in order. It exits
with 1 where one differs.

`python -m tests.bench.rebuilt vectorised [SECONDS]` does so with vectorised maps, of the shapes whose maps stand before
a batch, for about that long (60 by default). It prints what each proof covers, and the reason of each refusal; it exits
with 1 where an element differs, or a pipeline is refused or accepted that should not be.

`python -m tests.bench.rebuilt gain [ROUNDS]` trains on small examples under two cheap maps, vectorised and as written
in turn within one `fit`, that many times each (10 by default). It prints the median step of each, and of the ratios of
neighbours, for serial and for parallel maps; it exits with 1 where the weights differ from those without a switch.

A script's own serial pipeline before and after a switch of workers, against the same pipeline written in parallel:
`python -m tests.bench.rebuilt [ROUNDS]` prints wall and CPU time of a batch in each form, also as a ratio of the
hand-written one; the rounds interleave the forms, and each figure is a median. It exits with 1 where the untouched
pipeline is not the script's own object.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tests.tfdata.batches import next_batch
from tests.tfdata.rebuilding import pipelines, vectorisable
from tests.tfdata.rebuilding.rebuilt_epochs import in_python, rebuilt_epoch
from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import step_ms
from tfwatch.runs.reading.opened import open_run
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLES, _BATCH, _CALLS, _BATCHES = 1024, 16, 2, 40
#: Steps between two switches, and those that are left out after one.
_BLOCK, _SETTLES = 150, 40
#: The switches of a shape, and whether each of its first epochs has the cache: it fills, serves, and is dropped.
_SWITCHES, _CACHE = 50, (False, True, True, True, False)


def _images() -> list[bytes]:
    noise = np.random.default_rng(0).integers(0, 255, (32, 160, 160, 3), dtype=np.uint8)
    return [tf.io.encode_jpeg(image).numpy() for image in noise]


def _decode(image: tf.Tensor) -> tf.Tensor:
    return tf.image.resize(tf.io.decode_jpeg(image, channels=3), [96, 96])


def _script(calls: int | None) -> tf.data.Dataset:
    """Return a pipeline; a table makes its map stateful, so that TensorFlow does not make it parallel by itself."""
    numbers = tf.range(32, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(numbers, tf.constant(_images())), ""
    )
    data = tf.data.Dataset.range(_EXAMPLES).shuffle(_EXAMPLES, seed=1)
    decoded = data.map(lambda n: _decode(table.lookup(n % 32)), num_parallel_calls=calls)
    return decoded.batch(_BATCH).prefetch(2)


def _bare(data: tf.data.Dataset) -> Callable[[], Any]:
    iterator = iter(data)
    return lambda: next(iterator)


def _rebuilt(data: tf.data.Dataset, knobs: Knobs) -> Callable[[], Any]:
    script, iterator = ScriptPipeline(), iter(data)
    script.read(iterator)
    pipeline = SwitchablePipeline(script.build)
    pipeline.start(script.source(iterator, 0, knobs), knobs)
    return lambda: next_batch(pipeline)


def _batch_ms(take: Callable[[], Any]) -> tuple[float, float]:
    """Return the milliseconds of a batch, wall and CPU."""
    for _ in range(5):
        take()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(_BATCHES):
        take()
    wall_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    return wall_s * 1e3 / _BATCHES, cpu_s * 1e3 / _BATCHES


def main(rounds: int) -> int:
    """Print the table; return the exit code."""
    serial, parallel = _script(None), _script(_CALLS)
    forms: dict[str, Callable[[], Any]] = {
        "written in parallel": lambda: _bare(parallel),
        "serial, untouched": lambda: _bare(serial),
        "serial, workers 2": lambda: _rebuilt(serial, Knobs("default", _CALLS)),
        "serial, rebuilt as written": lambda: _rebuilt(serial, Knobs("default", "default")),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, make in forms.items():
            took[name].append(_batch_ms(make()))
    for name, each in took.items():
        pairs = list(zip(each, took["written in parallel"], strict=True))
        wall, cpu = (statistics.median(one[n] for one in each) for n in (0, 1))
        wall_ratio, cpu_ratio = (
            statistics.median(one[n] / other[n] for one, other in pairs) for n in (0, 1)
        )
        print(
            f"{name:28} wall {wall:6.2f} ms {wall_ratio:5.2f}   CPU {cpu:6.2f} ms {cpu_ratio:5.2f}"
        )
    iterator = iter(serial)
    ScriptPipeline().read(iterator)
    return 0 if iterator._dataset is serial else 1


def equal(shapes: int) -> int:
    """Compare the elements of so many shapes; return the exit code."""
    made = {**pipelines.AT_ONCE, **pipelines.WITH_EPOCH}
    found = [_is_equal(name, made[name]) for name in [*made][:shapes]]
    print(f"{sum(found)} of {len(found)} shapes equal")
    return 0 if all(found) else 1


def vectorised(seconds: float) -> int:
    """Compare the elements of vectorised maps for so long, each shape at least once; return the exit code."""
    until_s, rounds, found = time.monotonic() + seconds, 0, list[bool]()
    numbers = {**pipelines.AT_ONCE, **pipelines.WITH_EPOCH}
    while not rounds or time.monotonic() < until_s:
        found += [
            _is_equal_vectorised(name, make, rounds, True)
            for name, make in vectorisable.EQUAL.items()
        ]
        found += [_is_equal_vectorised(name, make, rounds, False) for name, make in numbers.items()]
        rounds += 1
    wrong = [name for name, (make, why) in _refusals().items() if not _refuses(name, make, why)]
    print(
        f"{sum(found)} of {len(found)} equal, or refused where they may be; {len(wrong)} refusals are wrong"
    )
    return int(not all(found) or bool(wrong))


def gain(rounds: int) -> int:
    """Print the steps of trainings with vectorised maps over those without; return the exit code."""
    return max(
        _gain(name, calls, rounds) for name, calls in (("serial maps", None), ("parallel maps", -1))
    )


def _gain(name: str, calls: int | None, rounds: int) -> int:
    steps = (2 * rounds + 1) * _BLOCK
    bare = _train(steps, calls, [])
    with tempfile.TemporaryDirectory() as folder:
        watch, switches = Watch(folder), _InTurn()
        switches.watch = watch
        same = bare == _train(steps, calls, [watch, switches])
        assert watch.run_path
        run = open_run(watch.run_path)
    took = step_ms(run.steps)
    firsts = [event.step for event in run.events if isinstance(event, PipelineSwitched)]
    ends = [*firsts[1:], len(took)]
    blocks = [
        float(np.median(took[a + _SETTLES - 1 : b - 1])) for a, b in zip(firsts, ends, strict=True)
    ]
    fast, plain = blocks[::2], blocks[1::2]
    ratios = [one / other for one, other in zip(fast, plain, strict=False)]
    print(
        f"{name:14} as written {statistics.median(plain):5.2f} ms, vectorised {statistics.median(fast):5.2f} ms, "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) of {len(ratios)}; "
        f"weights {'equal' if same else 'DIFFER'}",
        flush=True,
    )
    return int(not same)


class _InTurn(keras.callbacks.Callback):
    """Switches vectorised maps on and off in turn."""

    watch: Watch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Switch after each block of steps."""
        if batch % _BLOCK == _BLOCK - 1:
            self.watch.set(fast_pipeline=batch // _BLOCK % 2 == 0)


def _normalise(image: tf.Tensor, label: tf.Tensor) -> Any:
    return tf.cast(image, tf.float32) / 255.0 - 0.5, tf.one_hot(label, 10)


def _flat(image: tf.Tensor, label: tf.Tensor) -> Any:
    return tf.reshape(image, [28 * 28]), label


def _train(steps: int, calls: int | None, callbacks: list[Any]) -> list[Any]:
    """Train a small model; return its weights."""
    keras.utils.set_random_seed(1)
    images = np.random.default_rng(0).integers(0, 256, (6400, 28, 28), dtype=np.uint8)
    data = tf.data.Dataset.from_tensor_slices((images, np.arange(6400) % 10)).repeat()
    data = data.map(_normalise, calls).map(_flat, calls).batch(64).prefetch(2)
    model = keras.Sequential([keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True))
    model.fit(data, steps_per_epoch=steps, verbose=0, callbacks=callbacks)
    return [weight.tolist() for weight in model.get_weights()]


def _refusals() -> dict[str, tuple[Callable[[], Any], str]]:
    return {**vectorisable.REFUSED, **vectorisable.NOT_EQUAL}


def _refuses(name: str, make: Callable[[], Any], why: str) -> bool:
    script = _proved(make())
    print(f"{name:26} {script.why_no_fast}", flush=True)
    return script.why_no_fast.startswith(why)


def _proved(data: Any) -> ScriptPipeline:
    script = ScriptPipeline()
    script.read(iter(data))
    if script.maps is not None:
        script.maps.prove(lambda: False)
    return script


def _is_equal_vectorised(name: str, make: Callable[[], Any], number: int, must: bool) -> bool:
    """Return whether two epochs stay equal; print the row. must: a refusal is an error."""
    bare, data, chooser = make(), make(), random.Random(f"{name} {number}")
    script, _ = _proved(data), iter(bare)
    if script.why_no_fast:
        print(f"{name:26} {script.why_no_fast}", flush=True)
        return not must
    total = differ = 0
    for _ in range(2):
        iterator = iter(data)
        script.read(iterator)
        got, switches = rebuilt_epoch(iterator, script, chooser, fast=True)
        differ += got != [in_python(batch) for batch in bare]
        total += switches
    assert script.maps
    assert script.maps.proof
    print(f"{name:26} {total:4} switches {differ} differ  {script.maps.proof.words}", flush=True)
    return not differ


def _is_equal(name: str, make: Callable[[], Any]) -> bool:
    """Return whether the epochs of a pipeline stay equal; print its row."""
    bare, data, script, chooser = make(), make(), ScriptPipeline(), random.Random(name)
    total, epochs, differ = 0, 0, 0
    while epochs < len(_CACHE) or total < _SWITCHES:
        iterator = iter(data)
        script.read(iterator)
        cache = not script.why_no_cache and (epochs >= len(_CACHE) or _CACHE[epochs])
        got, switches = rebuilt_epoch(iterator, script, chooser, cache=cache)
        differ += got != [in_python(batch) for batch in bare]
        total, epochs = total + switches, epochs + 1
    script.close_cache()
    kept = script.why_no_cache or "cached"
    print(f"{name:26} {epochs} epochs {total:4} switches {differ} differ  {kept}", flush=True)
    return not differ


if __name__ == "__main__":
    if sys.argv[1:2] == ["equal"]:
        sys.exit(equal(int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize))
    if sys.argv[1:2] == ["vectorised"]:
        sys.exit(vectorised(float(sys.argv[2]) if len(sys.argv) > 2 else 60.0))
    if sys.argv[1:2] == ["gain"]:
        sys.exit(gain(int(sys.argv[2]) if len(sys.argv) > 2 else 10))
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
