"""Compare the errors of data that raises, under stock `fit` and under Watch: in all ways of stepping and of switching.

    python -m tests.bench.data_errors [--only PART ...]

PART: of a row, e.g. `generator, 3 steps`. Compared are the error's class and text, weights, updates, and the number of
times that the data's Python ran. Prints the rows that differ, and in what; exits with 1 where more than the text does.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from tests.watch.fit.test_data_errors import NOISE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.watch.fit.recorder import Split

BATCH, BATCHES = 4, 10
X, Y = np.ones((BATCH * BATCHES, 3), "float32"), np.arange(BATCH * BATCHES) // BATCH
PARTS = ("class", "text", "weights", "updates", "calls")


def mapped(at: int, _: list[int]) -> Any:
    import tensorflow as tf

    def checked(x: Any, y: Any) -> Any:
        with tf.control_dependencies(
            [tf.debugging.assert_none_equal(y, tf.constant(at, tf.int64), message="bad")]
        ):
            return tf.identity(x), y

    return tf.data.Dataset.from_tensor_slices((X, Y)).map(checked).batch(BATCH)


def unknown(at: int, calls: list[int]) -> Any:
    return mapped(at, calls).filter(lambda x, y: True)


def from_generator(at: int, calls: list[int]) -> Any:
    import tensorflow as tf

    signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(lambda: generator(at, calls), output_signature=signature)


def generator(at: int, calls: list[int]) -> Iterator[Any]:
    for n in range(BATCHES):
        calls.append(n)
        if n == at:
            raise KeyError("in the generator")
        yield X[:BATCH], Y[:BATCH]


def py_function(at: int, calls: list[int]) -> Any:
    import tensorflow as tf

    def check(n: Any) -> Any:
        calls.append(int(n))
        if n == at:
            raise ValueError("in the map")
        return np.float32(1)

    def load(x: Any, y: Any) -> Any:
        return x * tf.ensure_shape(tf.numpy_function(check, [y[0]], tf.float32), ()), y

    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).map(load)


def py_dataset(at: int, calls: list[int]) -> Any:
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return BATCHES

        def __getitem__(self, n: int) -> Any:
            calls.append(n)
            if n == at:
                raise KeyError("in the data set")
            return X[:BATCH], Y[:BATCH]

    return Batches()


DATA: dict[str, Callable[[int, list[int]], Any]] = {
    "map": mapped,
    "map, unknown length": unknown,
    "data set from a generator": from_generator,
    "generator": generator,
    "Python in a map": py_function,
    "PyDataset": py_dataset,
}


@dataclass
class Model:
    """A model that is used again."""

    steps: int
    eager: bool

    def __post_init__(self) -> None:
        import keras

        keras.utils.set_random_seed(3)
        self._model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        self._model.compile("sgd", "mse", steps_per_execution=self.steps, run_eagerly=self.eager)
        self._model.optimizer.build(self._model.trainable_variables)
        self._begin = self._model.get_weights()

    def outcome(
        self, data: Callable[[int, list[int]], Any], at: int, callbacks: list[Any]
    ) -> tuple[Any, ...]:
        """Return what `PARTS` names."""
        self._model.set_weights(self._begin)
        self._model.optimizer.iterations.assign(0)
        calls: list[int] = []
        raised: Any = None
        try:
            self._model.fit(data(at, calls), verbose=0, shuffle=False, callbacks=callbacks)
        except BaseException as error:  # noqa: BLE001  the very thing that is compared
            raised = error
        weights = [weight.tobytes() for weight in self._model.get_weights()]
        text = NOISE.sub("", str(raised))
        # TensorFlow's own prefetch reads ahead of what raises, by another number of calls each time.
        return (
            type(raised),
            text,
            weights,
            int(self._model.optimizer.iterations),
            sum(n <= at for n in calls),
        )


def switched(watch: Any, after: int | None) -> list[Any]:
    """Return callbacks that switch prefetch after a call; -1: from the beginning."""
    import keras

    if after is None:
        return [watch]
    if after < 0:
        watch.set(prefetch=2)
        return [watch]

    def switch(batch: int, logs: Any) -> None:
        if batch >= after:
            watch.set(prefetch=2)

    return [watch, keras.callbacks.LambdaCallback(on_train_batch_end=switch)]


def main() -> int:
    """Run the benchmark."""
    from tfwatch import Watch

    parser = argparse.ArgumentParser(description="compare the errors of data that raises")
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--texts", action="store_true", help="print how the texts differ")
    options = parser.parse_args()
    rows, worse = 0, 0
    for steps, eager in ((1, False), (3, False), (7, False), (1, True)):
        model = Model(steps, eager)
        for name, at in itertools.product(DATA, (0, 1, 4, 6)):
            wanted = None
            splits: tuple[Split, ...] = ("fused", "exact") if steps > 1 else ("fused",)
            for split, after in itertools.product(splits, (None, -1, 0)):
                switch = {None: "", -1: ", prefetch", 0: ", prefetch switched"}[after]
                row = f"{name}, {steps} steps, {split}{', op by op' * eager}{switch}, batch {at}"
                if not any(part in row for part in options.only):
                    continue
                wanted = wanted or model.outcome(DATA[name], at, [])
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    got = model.outcome(DATA[name], at, switched(Watch(folder, split=split), after))
                unequal = [
                    part
                    for part, one, other in zip(PARTS, wanted, got, strict=True)
                    if one != other
                ]
                rows += 1
                worse += bool(set(unequal) - {"text"})
                if unequal:
                    print(
                        f"{row}: {', '.join(unequal)} {'' if unequal == ['text'] else (wanted, got)}",
                        flush=True,
                    )
                if options.texts and "text" in unequal:
                    print(
                        "\n".join(
                            difflib.unified_diff(
                                wanted[1].split("\n"), got[1].split("\n"), lineterm="", n=0
                            )
                        )
                    )
    print(f"{rows} rows, {worse} with more than another text")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
