"""Labelled pipelines for `stages`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import tensorflow as tf

    from tests.bench.stage_work import Maker


@dataclass(frozen=True)
class Case:
    """A labelled pipeline, which `build` makes with a `Maker`.

    slowest: the label of its bottleneck. reason: the bottleneck's reason. gated: it is below tfwatch's gate, with
    prefetch above it. stock: with TensorFlow's own optimisations.
    """

    name: str
    build: Callable[[Maker], tf.data.Dataset]
    slowest: str
    reason: str
    gated: bool = False
    stock: bool = False


def _one(kind: str, ms: float) -> Callable[[Maker], tf.data.Dataset]:
    return lambda make: make.start().batch(4).map(getattr(make, kind)("decode", ms))


def _chain(*stages: tuple[str, str, float, int | None]) -> Callable[[Maker], tf.data.Dataset]:
    """Return stages of whole batches: kind, name, milliseconds, workers; the kind `prefetch` is a prefetch."""

    def build(make: Maker) -> tf.data.Dataset:
        made = make.start().batch(4)
        for kind, name, ms, workers in stages:
            if kind == "prefetch":
                made = made.prefetch(2)
            else:
                made = made.map(getattr(make, kind)(name, ms), num_parallel_calls=workers)
        return made

    return build


def _elements(make: Maker) -> tf.data.Dataset:
    return make.start().map(make.sleep("decode", 5)).batch(4).map(make.sleep("augment", 5))


def _unbatched(make: Maker) -> tf.data.Dataset:
    read = make.start().batch(4).map(make.sleep("read", 20))
    return read.unbatch().map(make.sleep("decode", 1.5)).shuffle(16).batch(4)


def _half_left_out(make: Maker) -> tf.data.Dataset:
    decoded = make.start().map(make.sleep("decode", 5))
    kept = (
        decoded.enumerate().filter(lambda n, _: n % 2 == 0).map(lambda _, x: 2 * x)
    )  # with what the other one cost
    return kept.batch(4).map(make.sleep("augment", 20))


def _generated(make: Maker) -> tf.data.Dataset:
    return make.generator("rows", 5).batch(4).map(make.sleep("augment", 5))


def _generated_fast(make: Maker) -> tf.data.Dataset:
    return make.generator("rows", 5).batch(2).prefetch(2).map(make.sleep("augment", 50))


def _interleaved(make: Maker) -> tf.data.Dataset:
    return make.interleaved("opened", 5, None).batch(4).map(make.sleep("augment", 5))


def _interleaved_parallel(make: Maker) -> tf.data.Dataset:
    return make.interleaved("opened", 20, 4).batch(4).map(make.sleep("augment", 50))


def _fused(make: Maker) -> tf.data.Dataset:
    return make.start().map(make.sleep("decode", 20), num_parallel_calls=2).batch(4)


_PREFETCH = ("prefetch", "", 0.0, None)
CASES = (
    *(
        Case(f"one sleep of {ms} ms", _one("sleep", ms), "map(decode)", "storage")
        for ms in (5, 20, 50)
    ),
    *(Case(f"one of {ms} ms CPU", _one("burn", ms), "map(decode)", "serial") for ms in (5, 20, 50)),
    *(
        Case(f"one of {ms} ms Python", _one("python", ms), "map(decode)", "python")
        for ms in (5, 20, 50)
    ),
    Case(
        "three serial, the middle one",
        _chain(
            ("sleep", "read", 5, None), ("burn", "decode", 20, None), ("sleep", "augment", 5, None)
        ),
        "map(decode)",
        "serial",
    ),
    Case(
        "three serial, the first",
        _chain(
            ("sleep", "read", 50, None), ("burn", "decode", 20, None), ("burn", "augment", 5, None)
        ),
        "map(read)",
        "storage",
    ),
    Case(
        "three serial, the last",
        _chain(
            ("sleep", "read", 5, None), ("burn", "decode", 5, None), ("burn", "augment", 20, None)
        ),
        "map(augment)",
        "serial",
    ),
    Case(
        "two sum up before a prefetch",
        _chain(
            ("sleep", "read", 20, None),
            ("sleep", "decode", 15, None),
            _PREFETCH,
            ("sleep", "augment", 25, None),
        ),
        "map(read)",
        "storage",
    ),
    Case(
        "the stage behind a prefetch",
        _chain(("sleep", "read", 20, None), _PREFETCH, ("burn", "augment", 50, None), _PREFETCH),
        "map(augment)",
        "serial",
    ),
    Case(
        "parallel and fast enough",
        _chain(("sleep", "read", 50, 8), ("sleep", "augment", 20, None)),
        "map(augment)",
        "storage",
    ),
    Case(
        "parallel and still the slowest",
        _chain(("sleep", "read", 50, 2), ("sleep", "augment", 5, None)),
        "map(read)",
        "storage",
    ),
    Case(
        "two parallel",
        _chain(("sleep", "read", 50, 2), ("sleep", "decode", 20, 2)),
        "map(read)",
        "storage",
    ),
    Case("parallel CPU", _chain(("burn", "decode", 50, 2)), "map(decode)", "cpu"),
    Case("single examples", _elements, "map(decode)", "storage"),
    Case("unbatched and shuffled", _unbatched, "map(read)", "storage"),
    Case("half of the examples left out", _half_left_out, "map(decode)", "storage"),
    Case("a generator", _generated, "from_generator(rows)", "python"),
    Case("a generator before a slower stage", _generated_fast, "map(augment)", "storage"),
    Case("files, sequential", _interleaved, "interleave(opened)", "storage"),
    Case("files, four parallel", _interleaved_parallel, "map(augment)", "storage"),
    Case("map and batch fused", _fused, "map(decode), batch(4)", "storage", stock=True),
    Case(
        "below the gate",
        _chain(("sleep", "read", 5, None), ("burn", "decode", 20, None)),
        "map(decode)",
        "serial",
        gated=True,
    ),
    Case(
        "parallel below the gate",
        _chain(("sleep", "read", 50, 4), ("sleep", "augment", 5, None)),
        "map(read)",
        "storage",
        gated=True,
    ),
)
