"""The trainings of `faults`: small and seeded, bare and recorded; a model is used again where that
will do."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.watch.fit.recorder import Split

    Context = Callable[[], contextlib.AbstractContextManager[Any]]

FOLDER = tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True)
EXAMPLES, BATCH, EPOCHS = 68, 8, 3
_rng = np.random.default_rng(0)
X, Y = (
    _rng.normal(size=(EXAMPLES, 3)).astype("float32"),
    _rng.normal(size=(EXAMPLES, 1)).astype("float32"),
)


def arrays() -> dict[str, Any]:
    return {"x": X, "y": Y, "batch_size": BATCH}


def known() -> dict[str, Any]:
    """A pipeline that can be rebuilt."""
    import tensorflow as tf

    examples = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(30, seed=5)
    return {"x": examples.map(lambda x, y: (x * 2, y)).batch(BATCH).prefetch(2)}


def unknown() -> dict[str, Any]:
    import tensorflow as tf

    return {"x": tf.data.Dataset.from_tensor_slices((X, Y)).filter(lambda x, y: True).batch(BATCH)}


def py_dataset() -> dict[str, Any]:
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return -(-EXAMPLES // BATCH)

        def __getitem__(self, n: int) -> Any:
            return X[n * BATCH : (n + 1) * BATCH], Y[n * BATCH : (n + 1) * BATCH]

    return {"x": Batches(workers=2), "shuffle": False}


def _digest(model: Any) -> str:
    """Return a digest of the weights, and of what the optimizer keeps of each: equal only bit for
    bit."""
    variables = model.variables + model.optimizer.variables
    return hashlib.sha256(
        b"".join(variable.numpy().tobytes() for variable in variables)
    ).hexdigest()


class Fit:
    """A `fit` with a switch of the pipeline in mid-epoch. is_fresh: each time another model, whose
    step is traced."""

    def __init__(
        self,
        data: Callable[[], dict[str, Any]],
        steps: int = 1,
        *,
        fresh: bool = False,
        eager: bool = False,
        split: Split = "fused",
        switches: tuple[tuple[int, str, Any], ...] = ((3, "prefetch", 2),),
        hooked: bool = False,
    ) -> None:
        self.is_fresh = fresh
        self._data, self._split, self._switches, self._hooked = data, split, switches, hooked
        self._settings = {"steps_per_execution": steps, "run_eagerly": eager}
        self._model = self._make()
        self._begin = [
            weight.numpy() for weight in self._model.variables + self._model.optimizer.variables
        ]

    def _make(self) -> Any:
        import keras

        keras.utils.set_random_seed(3)
        x = keras.Input((3,))
        model = keras.Model(x, keras.layers.Dense(1)(keras.layers.Dropout(0.2, seed=7)(x)))
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse", **self._settings)
        model.optimizer.build(model.trainable_variables)
        return model

    def _reset(self) -> None:
        import keras

        if self.is_fresh:
            keras.backend.clear_session(free_memory=False)
            self._model = self._make()
        for variable, value in zip(
            self._model.variables + self._model.optimizer.variables, self._begin, strict=True
        ):
            variable.assign(value)
        keras.utils.set_random_seed(4)

    def _fit(self, callbacks: list[Any], context: Context) -> Any:
        import keras

        seen: list[Any] = []
        noted = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: seen.append((batch, dict(logs)))
        )
        data = self._data()
        with context():
            history = self._model.fit(
                **data, epochs=EPOCHS, verbose=0, callbacks=[*callbacks, noted]
            )
        batches = hashlib.sha256(repr(seen).encode()).hexdigest()
        return (
            history.history,
            _digest(self._model),
            int(self._model.optimizer.iterations),
            len(seen),
            batches,
        )

    def stock(self, context: Context) -> Any:
        """Train without Watch."""
        self._reset()
        return self._fit([], context)

    def after(self, context: Context) -> Any:
        """Train without Watch again, on what the last training left."""
        from tfwatch.watch.fit.stepping.step_runners import TrainFunction

        for variable, value in zip(
            self._model.variables + self._model.optimizer.variables, self._begin, strict=True
        ):
            variable.assign(value)
        return self._fit([], context), isinstance(self._model.train_function, TrainFunction)

    def watched(self, context: Context) -> Any:
        """Train with Watch."""
        import keras

        from tests.runs import requested
        from tfwatch import Watch
        from tfwatch.watch.fit.fit_runs import _resting

        self._reset()
        folder = tempfile.mkdtemp(dir=FOLDER.name)
        watch = Watch(folder, split=self._split)

        def switch(batch: int, logs: Any) -> None:
            waiting = [one for one in self._switches if one[0] == batch]
            for _, knob, value in waiting:
                if watch._control.knobs is not None:
                    watch._control.ask(requested.switch(knob, value))

        switching = keras.callbacks.LambdaCallback(on_train_batch_end=switch)
        hooks = _hooked(folder) if self._hooked else contextlib.nullcontext()
        try:
            with hooks:
                return self._fit([watch, switching] if not self._hooked else [switching], context)
        finally:
            while _resting:
                _resting.pop().script.end_rest()


@contextlib.contextmanager
def _hooked(folder: str) -> Iterator[None]:
    from tfwatch.watch.script.import_hook import ImportHook

    hook = ImportHook(folder)
    hook.install()
    try:
        yield
    finally:
        hook.uninstall()


class Loop:
    """A loop of the user's own: by `track`, found by the hooks, or over `train_on_batch`."""

    is_fresh = False

    def __init__(self, kind: str) -> None:
        import keras
        import tensorflow as tf

        self._kind = kind
        keras.utils.set_random_seed(3)
        x = keras.Input((3,))
        self._model = keras.Model(x, keras.layers.Dense(1)(x))
        self._model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
        self._model.optimizer.build(self._model.trainable_variables)
        self._begin = [
            weight.numpy() for weight in self._model.variables + self._model.optimizer.variables
        ]
        self._step = tf.function(self._take)

    def _take(self, x: Any, y: Any) -> Any:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self._model(x) - y) ** 2)
        variables = self._model.trainable_variables
        self._model.optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def _loop(self, wrap: Callable[[Any], Any], context: Context) -> Any:
        import tensorflow as tf

        for variable, value in zip(
            self._model.variables + self._model.optimizer.variables, self._begin, strict=True
        ):
            variable.assign(value)
        losses: list[float] = []
        data = known()["x"]
        if self._kind == "found":  # a trace is the sign that its loop trains
            self._step = tf.function(self._take)
        with context():
            if self._kind == "train_on_batch":
                for _ in range(3):
                    for n in range(0, EXAMPLES, BATCH):
                        loss = self._model.train_on_batch(X[n : n + BATCH], Y[n : n + BATCH])
                        losses.append(float(loss))
            else:
                batches = wrap(data)
                for _ in range(3):
                    for x, y in batches:
                        losses.append(float(self._step(x, y)))
                if self._kind == "track":
                    getattr(batches, "close", lambda: None)()
        return losses, _digest(self._model), int(self._model.optimizer.iterations)

    def stock(self, context: Context) -> Any:
        """Loop without tfwatch."""
        return self._loop(lambda data: data, context)

    after = stock

    def watched(self, context: Context) -> Any:
        """Loop with tfwatch."""
        from tfwatch import track
        from tfwatch.watch.loops.continued_runs import all_runs

        folder = tempfile.mkdtemp(dir=FOLDER.name)
        hooks = contextlib.nullcontext() if self._kind == "track" else _hooked(folder)
        wrap = partial(track, runs_dir=folder) if self._kind == "track" else lambda data: data
        try:
            with hooks:
                return self._loop(wrap, context)
        finally:
            for run in list(all_runs):
                run.end()


_WORKERS = ((3, "prefetch", 2), (6, "workers", 2))
TRAININGS: dict[str, Callable[[], Any]] = {
    "fit of arrays": partial(Fit, arrays),
    "fit of a data set": partial(Fit, known, switches=_WORKERS),
    "fit of unknown length": partial(Fit, unknown),
    "fit of arrays, 3 steps a call": partial(Fit, arrays, 3, switches=((2, "prefetch", 2),)),
    "fit of a data set, 3 steps a call": partial(
        Fit, known, 3, switches=((2, "prefetch", 2), (5, "workers", 2))
    ),
    "fit of a data set, 3 exact steps a call": partial(
        Fit, known, 3, split="exact", switches=((2, "prefetch", 2),)
    ),
    "fit of a PyDataset": partial(
        Fit, py_dataset, switches=((3, "workers", 3), (3, "prefetch", 2))
    ),
    "fit op by op": partial(Fit, arrays, eager=True),
    "first fit of arrays": partial(Fit, arrays, fresh=True),
    "first fit of a data set, 3 steps a call": partial(Fit, known, 3, fresh=True),
    "hooked fit": partial(Fit, known, hooked=True),
    "track": partial(Loop, "track"),
    "found loop": partial(Loop, "found"),
    "train_on_batch": partial(Loop, "train_on_batch"),
}
NAMES = list(TRAININGS)
