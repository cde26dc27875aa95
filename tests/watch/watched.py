"""The data and the Watch of a script under test."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.keras_fixtures import BATCH, compile_built, small_model, training_arrays

#: Makes a model, the same each time.
Make: TypeAlias = Callable[[], Any]
EPOCHS = 2


def known(arrays: Any = None) -> Any:
    """Return a data set of the arrays, which are those of most trainings."""
    import tensorflow as tf

    examples = tf.data.Dataset.from_tensor_slices(arrays or training_arrays())
    return examples.shuffle(50, seed=1).batch(BATCH)


def watch_in(folder: Path) -> Any:
    from tfwatch import Watch

    return Watch(folder)


def fit_result(
    make_data: Callable[[Any], Any],
    *callbacks: Any,
    epochs: int = EPOCHS,
    steps_per_execution: int = 1,
) -> tuple[list[Any], list[float]]:
    """Return the weights and losses of a `fit` of the small model."""
    import keras

    model = small_model()
    compile_built(model, steps_per_execution=steps_per_execution)
    data = make_data(training_arrays())
    history = model.fit(data, epochs=epochs, verbose=0, callbacks=list(callbacks))
    weights = [weight.tolist() for weight in model.get_weights()]
    keras.backend.clear_session(free_memory=False)
    return weights, history.history["loss"]


#: That of a `fit` without tfwatch, once for all tests.
stock_result = functools.cache(fit_result)


def homeless(*_: object, **__: object) -> str:
    """Raise, as platformdirs does for a user without a home."""
    raise RuntimeError("no home")


def is_restored(model: Any) -> bool:
    """Return whether the model has its own train function again, and makes it itself."""
    from tfwatch.watch.fit.stepping.step_runners import TrainFunction

    is_own = not isinstance(model.train_function, TrainFunction)
    return is_own and "make_train_function" not in vars(model)
