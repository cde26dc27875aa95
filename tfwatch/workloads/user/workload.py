"""A workload in the user's own file: `tfwatch train my_file.py`.

The file has `model()` and either `dataset(knobs)` or `source()` and `pipeline(source, knobs)`:

* `model()` returns a compiled Keras model.
* `dataset(knobs)` returns a `tf.data.Dataset` of the batches for `fit`. It is built once; only prefetch can be switched
  while it trains.
* `source()` returns a data set of batches of small values in training order: file names, numbers.
  `pipeline(source, knobs)` makes one batch for `fit` of each of its batches. It is rebuilt for each switch, so that
  workers and the fast pipeline can be switched too. Random state in it starts over at a switch: shuffle in `source`,
  and draw with `tf.random.stateless_*`.

It may have `validation()`, which returns the `tf.data.Dataset` for `validation_data`, and `NAME = "..."`, the name of
its runs.

`knobs` are the `PipelineKnobs` set by `--prefetch`, `--workers` and `--fast-pipeline` or by keys. A map takes
`num_parallel_calls=knobs.num_parallel_calls`. The file does not prefetch: tfwatch adds prefetch at the end.

The training thread imports the file, with its folder first in `sys.path`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead
from tfwatch.tfdata.stage_names import inputs_of
from tfwatch.workloads.data import numbered_examples
from tfwatch.workloads.user.errors import ErrorLocator, fits, name_error, sentence, unknown_name
from tfwatch.workloads.workload import BadInputError, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import keras
    import tensorflow as tf

    from tfwatch.core.knobs import Setting
    from tfwatch.workloads.user.file import UserFile
    from tfwatch.workloads.workload import RaisedError, Settings

    Build: TypeAlias = Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]

_MODULE = "tfwatch_own"
_INFINITE, _UNKNOWN = -1, -2


@dataclass(frozen=True, slots=True)
class PipelineKnobs:
    """The knobs that the user's functions get; `num_parallel_calls` is that of `Dataset.map`."""

    prefetch: Setting
    workers: Setting
    fast_pipeline: bool
    num_parallel_calls: int | None

    @staticmethod
    def of(knobs: Knobs) -> PipelineKnobs:
        """Return the knobs for the user's file."""
        return PipelineKnobs(
            knobs.prefetch, knobs.workers, knobs.fast_pipeline, work_ahead.num_parallel_calls(knobs.workers)
        )


class FileWorkload:
    """A `Workload` in a file. knobs: those at the start."""

    def __init__(self, file: UserFile, knobs: Knobs | None = None) -> None:
        self._file = file
        self._knobs = knobs or Knobs()
        self._error_locator = ErrorLocator(file)
        self._module: Any = None
        self._takes: Any = None

    def check(self, settings: Settings) -> None:
        """Accept all settings: reading the file has checked them."""

    def prepare(self, settings: Settings, report: Callable[[str], None]) -> Prepared:
        """Import the file and make its data sets.

        Raises:
            BadInputError: the file cannot be imported, or a function raises or returns an unsuitable value.
        """
        report(f"importing {self._file.shown}")
        self._import()
        report(f"making the data set of {self._file.shown}")
        source, build = self._make_rebuilt() if self._file.has_pipeline else self._make_once()
        spec = self._spec(build(source, self._knobs))
        return Prepared(
            source=source,
            pipeline=functools.partial(self._build_same, spec, build),
            validation=self._validation(),
            model=functools.partial(self._model, spec, settings),
            steps_per_epoch=self._steps(source, build, settings.steps),
            images=None,
            metric="",
            note=self._note(build(source, Knobs())),
            explain=self._explain,
        )

    # -- the file -----------------------------------------------------------------------------------

    def _import(self) -> None:
        folder = str(self._file.path.parent)
        if sys.path[:1] != [folder]:
            sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location(_MODULE, self._file.path)
        if spec is None or spec.loader is None:
            raise BadInputError(f"{self._file.shown} cannot be imported: its name does not end in .py")
        self._module = sys.modules[_MODULE] = importlib.util.module_from_spec(spec)
        with self._as_bad_input(""):
            spec.loader.exec_module(self._module)

    def _call(self, function: str, *args: Any) -> Any:
        found = getattr(self._module, function, None)
        if not callable(found):
            raise BadInputError(f"{self._file.shown} has no function {function}()")
        with self._as_bad_input(function):
            return found(*args)

    @contextlib.contextmanager
    def _as_bad_input(self, function: str) -> Iterator[None]:
        """Turn an exception of the user's code into bad input; its traceback goes to the log."""
        try:
            yield
        except BadInputError:
            raise
        except (Exception, SystemExit) as error:  # the user's code
            traceback.print_exc()
            at = self._error_locator.locate(error) or self._file.at(function)
            raise BadInputError(f"{at}: {name_error(error)}") from error

    # -- its data -----------------------------------------------------------------------------------

    def _make_once(self) -> tuple[tf.data.Dataset, Build]:
        """Return the user's data set as the source, and a pipeline that adds prefetch."""
        # Prefetch in the source would be below the gate, where it cannot be switched.
        options = work_ahead.options(replace(self._knobs, prefetch="off"))
        source = self._dataset("dataset", PipelineKnobs.of(self._knobs)).with_options(options)
        return source, lambda batches, knobs: numbered_examples.finished(batches, Knobs(prefetch=knobs.prefetch))

    def _make_rebuilt(self) -> tuple[tf.data.Dataset, Build]:
        source = (
            self._dataset("source")
            .with_options(work_ahead.options(Knobs()))
            .with_options(work_ahead.without_autotune())
        )

        def build(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
            return numbered_examples.finished(self._dataset("pipeline", batches, PipelineKnobs.of(knobs)), knobs)

        return source, build

    def _dataset(self, function: str, *args: Any) -> tf.data.Dataset:
        import tensorflow as tf

        dataset = self._call(function, *args)
        if not isinstance(dataset, tf.data.Dataset):
            raise self._bad_input(function, f"returns {_describe(dataset)}, not a tf.data.Dataset")
        return dataset

    def _note(self, off: tf.data.Dataset) -> str:
        """Return a note on parallel stages and prefetch that the file's own code sets."""
        stages = " ".join(_stages(off))
        is_requested = not self._file.has_pipeline and work_ahead.num_parallel_calls(self._knobs.workers) is not None
        parallel = ["num_parallel_calls"] if "Parallel" in stages and not is_requested else []
        ahead = " and ".join([*parallel, *(["prefetch"] if "Prefetch" in stages else [])])
        return f"{self._file.shown} sets {ahead} itself: the knobs do not turn it off" if ahead else ""

    def _validation(self) -> tf.data.Dataset | None:
        if not hasattr(self._module, "validation"):
            return None
        dataset = self._dataset("validation")
        if int(dataset.cardinality()) == _INFINITE:
            raise self._bad_input("validation", "returns an infinite data set: add .take(n)")
        return dataset

    def _build_same(self, spec: Any, build: Build, batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        """Build the pipeline; its batches have the same shapes and types under all knobs, as the traced step needs."""
        built = build(batches, knobs)
        if built.element_spec != spec:
            raise self._bad_input(self._batch_function, "returns batches of another shape or type under these knobs")
        if int(batches.cardinality()) == _UNKNOWN and int(built.cardinality()) != _UNKNOWN:
            # It is built over the rest of an epoch.
            raise self._bad_input(self._batch_function, "asserts its number of batches: do that in source()")
        return built

    def _spec(self, batches: tf.data.Dataset) -> Any:
        """Return the shapes and types of the batches."""
        import tensorflow as tf

        if any("CopyToDevice" in stage for stage in _stages(batches)):
            # tf.data works in host memory: with a gate over batches in GPU memory, training hangs or crashes.
            raise self._bad_input(self._batch_function, "returns batches on a device: remove prefetch_to_device")
        for leaf in tf.nest.flatten(batches.element_spec):
            if type(leaf) is not tf.TensorSpec:
                kind = type(leaf).__name__.removesuffix("Spec")
                raise self._bad_input(self._batch_function, f"returns a {kind}: only plain tensors are supported")
            if leaf.shape.rank is None:
                raise self._bad_input(
                    self._batch_function, "returns tensors of unknown rank: set their shape (tf.ensure_shape)"
                )
            if leaf.shape.rank == 0:
                raise self._bad_input(self._batch_function, "returns single numbers, not batches: add .batch(n)")
        return batches.element_spec

    def _steps(self, source: tf.data.Dataset, build: Build, requested: int | None) -> int | None:
        """Return the batches of an epoch; None where unknown."""
        count, given = int(source.cardinality()), int(build(source, self._knobs).cardinality())
        first = "source" if self._file.has_pipeline else "dataset"
        if count == 0 or given == 0:
            raise self._bad_input(
                first if count == 0 else self._batch_function, "returns no batch: the data set is empty"
            )
        if count == _INFINITE and requested is None:
            raise self._bad_input(first, "returns an infinite data set: set the length of the training with --steps")
        if given >= 0 and count >= 0 and given != count:
            raise self._bad_input(
                self._batch_function, f"returns {given} batches for the {count} of source(): batch in source()"
            )
        return requested if count == _INFINITE else None if count == _UNKNOWN else count

    # -- its model ----------------------------------------------------------------------------------

    def _model(self, spec: Any, settings: Settings) -> keras.Model:
        import keras
        import tensorflow as tf

        model = self._call("model")
        if not isinstance(model, keras.Model):
            raise self._bad_input("model", f"returns {_describe(model)}, not a compiled Keras model")
        if not model.compiled:
            raise self._bad_input("model", "returns a model that is not compiled: call its compile()")
        replicas = model.distribute_strategy.num_replicas_in_sync
        if replicas > 1:  # each would get the same batch
            raise self._bad_input("model", f"returns a model on {replicas} devices: train it in a script with Watch()")
        self._apply_settings(model, settings)
        self._trace(model, spec)
        self._takes = getattr(model, "input_shape", None)
        if any(None in leaf.shape[1:] for leaf in tf.nest.flatten(spec)):
            # Keras would build it on a batch in which unknown sides are 1, too small for a convolution.
            with contextlib.suppress(Exception):  # the user's layers may raise; then Keras builds the model itself
                model._symbolic_build(data_batch=spec)
        return model

    def _apply_settings(self, model: keras.Model, settings: Settings) -> None:
        """Apply mode and steps per execution where requested; the file's own compile() decides the rest."""
        if settings.mode == "eager":
            model.run_eagerly = True
        elif settings.mode == "jit":
            if model.run_eagerly:
                raise self._bad_input("model", "compiles with run_eagerly=True: XLA cannot compile an eager step")
            model.jit_compile = True
            if not model.jit_compile:
                raise BadInputError(f"Keras does not compile the model of {self._file.shown} with XLA: leave out --jit")
        if settings.steps_per_execution > 1:
            model.steps_per_execution = settings.steps_per_execution

    def _explain(self, raised: RaisedError) -> str:
        """Return an error of the training as a sentence with a line of the file."""
        shape = raised.shape
        if not fits(shape, self._takes):
            at = self._file.at(self._batch_function)
            return f"{at}: {self._batch_function}() returns a batch of shape {shape}, but model() takes {self._takes}"
        return self._error_locator.explain(raised)

    def _trace(self, model: keras.Model, spec: Any) -> None:
        """Trace the model and its loss on batches of this shape, without running them."""
        import keras
        import tensorflow as tf

        if type(model).train_step is not keras.Model.train_step:
            return
        if unknown := unknown_name(model):
            raise self._bad_input("model", f"compiles with the {unknown}")
        if model.run_eagerly:
            return

        def loss(*leaves: tf.Tensor) -> tf.Tensor:
            x, y, weights = keras.utils.unpack_x_y_sample_weight(tf.nest.pack_sequence_as(spec, leaves))
            return model.compute_loss(x, y, model(x, training=True), weights)

        try:
            tf.function(loss, autograph=False).get_concrete_function(*tf.nest.flatten(spec))
        except Exception as error:  # the user's model and loss
            traceback.print_exc()
            at = self._error_locator.locate(error) or self._file.at(self._batch_function)
            raise BadInputError(
                f"{at}: the batches of {self._batch_function}() do not fit model(): {sentence(error)}"
            ) from error

    @property
    def _batch_function(self) -> str:
        """The function that returns the batches for training."""
        return "pipeline" if self._file.has_pipeline else "dataset"

    def _bad_input(self, function: str, problem: str) -> BadInputError:
        return BadInputError(f"{self._file.at(function)}: {function}() {problem}")


def _describe(value: object) -> str:
    """Return the type of a value with its article: `a list`, `an int`."""
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _stages(dataset: Any) -> Iterator[str]:
    """Yield the class names of a data set and of its inputs, as far as TensorFlow exposes them."""
    yield type(dataset).__name__
    for source in inputs_of(dataset):
        yield from _stages(source)
