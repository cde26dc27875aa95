"""A workload of the user's own: `tfwatch train my_file.py`.

The file has `model()` and either `dataset(knobs)` or `source()` and `pipeline(source, knobs)`:

* `model()` gives a compiled Keras model.
* `dataset(knobs)` gives a `tf.data.Dataset` of the batches that `fit` would take. It is built once; while it trains,
  only prefetch can be switched.
* `source()` gives a data set of batches of small things in the order of training: file names, numbers.
  `pipeline(source, knobs)` makes of each of its batches one batch for `fit`. It is built anew for each switch, so
  that workers and the form of the pipeline can be switched too. What is random in it begins anew then: shuffle in
  `source`, and draw with `tf.random.stateless_*`.

It may have `validation()`, the `tf.data.Dataset` for `validation_data`, and `NAME = "..."`, what the run is called.

`knobs` are `Pipeline` knobs, as `--prefetch`, `--workers` and `--fast-form` or the keys have them. A map takes
`num_parallel_calls=knobs.num_parallel_calls`. Prefetch is not the file's affair: tfwatch adds it at the end.

The file is run as `import my_file` would, in the thread that trains, with its folder first in `sys.path`.
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
from tfwatch.workloads.user.errors import ErrorLocator, fits, named, sentence, unknown_name
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
class Pipeline:
    """How the user's functions are to build: `core.knobs.Knobs`, and `num_parallel_calls` as `Dataset.map` takes it."""

    prefetch: Setting
    workers: Setting
    fast_form: bool
    num_parallel_calls: int | None

    @staticmethod
    def of(knobs: Knobs) -> Pipeline:
        """What the user's file sees of the knobs."""
        return Pipeline(knobs.prefetch, knobs.workers, knobs.fast_form, work_ahead.num_parallel_calls(knobs.workers))


class FileWorkload:
    """A `Workload` made of a file. `knobs` are those at the start."""

    def __init__(self, file: UserFile, knobs: Knobs | None = None) -> None:
        self._file = file
        self._knobs = knobs or Knobs()
        self._places = ErrorLocator(file)
        self._module: Any = None
        self._takes: Any = None

    def check(self, settings: Settings) -> None:
        """All that can be checked without running the file was, when it was read."""

    def prepare(self, settings: Settings, report: Callable[[str], None]) -> Prepared:
        """Run the file and have it make its data.

        Raises:
            BadInputError: it cannot be imported, or a function raises or gives something else than it has to.
        """
        report(f"importing {self._file.shown}")
        self._import()
        report(f"making the data set of {self._file.shown}")
        source, build = self._live() if self._file.live else self._once()
        spec = self._spec(build(source, self._knobs))
        return Prepared(
            source=source,
            pipeline=functools.partial(self._same, spec, build),
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
        with self._blamed(""):
            spec.loader.exec_module(self._module)

    def _call(self, function: str, *args: Any) -> Any:
        found = getattr(self._module, function, None)
        if not callable(found):
            raise BadInputError(f"{self._file.shown} has no function {function}()")
        with self._blamed(function):
            return found(*args)

    @contextlib.contextmanager
    def _blamed(self, function: str) -> Iterator[None]:
        """What the user's code raises is bad input; its traceback goes to the log."""
        try:
            yield
        except BadInputError:
            raise
        except (Exception, SystemExit) as error:  # the user's code
            traceback.print_exc()
            at = self._places.frame(error) or self._file.at(function)
            raise BadInputError(f"{at}: {named(error)}") from error

    # -- its data -----------------------------------------------------------------------------------

    def _once(self) -> tuple[tf.data.Dataset, Build]:
        """The user's data set as it is, and prefetch behind it."""
        # What works ahead at its end would do so below the gate, where nothing can be switched.
        options = work_ahead.options(replace(self._knobs, prefetch="off"))
        source = self._dataset("dataset", Pipeline.of(self._knobs)).with_options(options)
        return source, lambda batches, knobs: numbered_examples.finished(batches, Knobs(prefetch=knobs.prefetch))

    def _live(self) -> tuple[tf.data.Dataset, Build]:
        source = (
            self._dataset("source")
            .with_options(work_ahead.options(Knobs()))
            .with_options(work_ahead.without_autotune())
        )

        def build(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
            return numbered_examples.finished(self._dataset("pipeline", batches, Pipeline.of(knobs)), knobs)

        return source, build

    def _dataset(self, function: str, *args: Any) -> tf.data.Dataset:
        import tensorflow as tf

        made = self._call(function, *args)
        if not isinstance(made, tf.data.Dataset):
            raise self._wrong(function, f"gives {_a(made)}, not a tf.data.Dataset")
        return made

    def _note(self, off: tf.data.Dataset) -> str:
        """What the file's own code does although everything is off."""
        stages = " ".join(_stages(off))
        asked = not self._file.live and work_ahead.num_parallel_calls(self._knobs.workers) is not None
        parallel = ["num_parallel_calls"] if "Parallel" in stages and not asked else []
        ahead = " and ".join([*parallel, *(["prefetch"] if "Prefetch" in stages else [])])
        return f"{self._file.shown} sets {ahead} by itself: off does not turn that off" if ahead else ""

    def _validation(self) -> tf.data.Dataset | None:
        if not hasattr(self._module, "validation"):
            return None
        made = self._dataset("validation")
        if int(made.cardinality()) == _INFINITE:
            raise self._wrong("validation", "gives a data set that never ends: add .take(n)")
        return made

    def _same(self, spec: Any, build: Build, batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        """The pipeline, whose batches look the same under all knobs: the training step is traced for them."""
        made = build(batches, knobs)
        if made.element_spec != spec:
            raise self._wrong(self._gives, "gives batches of another shape or type under these knobs")
        if int(batches.cardinality()) == _UNKNOWN and int(made.cardinality()) != _UNKNOWN:
            # It is built over what is left of an epoch.
            raise self._wrong(self._gives, "asserts how many batches it gives: do so in source()")
        return made

    def _spec(self, batches: tf.data.Dataset) -> Any:
        """What the batches look like."""
        import tensorflow as tf

        if any("CopyToDevice" in stage for stage in _stages(batches)):
            # tf.data works in host memory: a gate over batches in a GPU's made training hang or crash.
            raise self._wrong(self._gives, "hands its batches out on a device: leave prefetch_to_device out")
        for leaf in tf.nest.flatten(batches.element_spec):
            if type(leaf) is not tf.TensorSpec:
                kind = type(leaf).__name__.removesuffix("Spec")
                raise self._wrong(self._gives, f"gives a {kind}: only plain tensors can be fed here")
            if leaf.shape.rank is None:
                raise self._wrong(self._gives, "gives tensors of unknown rank: set their shape (tf.ensure_shape)")
            if leaf.shape.rank == 0:
                raise self._wrong(self._gives, "gives single numbers, not batches: add .batch(n)")
        return batches.element_spec

    def _steps(self, source: tf.data.Dataset, build: Build, asked: int | None) -> int | None:
        """Batches of an epoch; None where nobody knows."""
        count, given = int(source.cardinality()), int(build(source, self._knobs).cardinality())
        first = "source" if self._file.live else "dataset"
        if count == 0 or given == 0:
            raise self._wrong(first if count == 0 else self._gives, "gives no batch: the data set is empty")
        if count == _INFINITE and asked is None:
            raise self._wrong(first, "gives a data set that never ends: say with --steps how long to train")
        if given >= 0 and count >= 0 and given != count:
            raise self._wrong(self._gives, f"gives {given} batches for the {count} of source(): batch in source()")
        return asked if count == _INFINITE else None if count == _UNKNOWN else count

    # -- its model ----------------------------------------------------------------------------------

    def _model(self, spec: Any, settings: Settings) -> keras.Model:
        import keras
        import tensorflow as tf

        model = self._call("model")
        if not isinstance(model, keras.Model):
            raise self._wrong("model", f"gives {_a(model)}, not a compiled Keras model")
        if not model.compiled:
            raise self._wrong("model", "gives a model that is not compiled: call its compile()")
        replicas = model.distribute_strategy.num_replicas_in_sync
        if replicas > 1:  # each would be given the same batch
            raise self._wrong("model", f"gives a model that is spread over {replicas} devices: watch it with Watch()")
        self._compute(model, settings)
        self._try(model, spec)
        self._takes = getattr(model, "input_shape", None)
        if any(None in leaf.shape[1:] for leaf in tf.nest.flatten(spec)):
            # Keras would build it on a batch in which such sides are 1, too little for a convolution.
            with contextlib.suppress(Exception):  # the user's layers: where they raise, Keras builds it itself
                model._symbolic_build(data_batch=spec)
        return model

    def _compute(self, model: keras.Model, settings: Settings) -> None:
        """Have a step computed as was asked, where it was: the file's own compile() decides all else."""
        if settings.mode == "eager":
            model.run_eagerly = True
        elif settings.mode == "jit":
            if model.run_eagerly:
                raise self._wrong("model", "compiles with run_eagerly=True: XLA compiles no eager step")
            model.jit_compile = True
            if not model.jit_compile:
                raise BadInputError(f"Keras does not compile the model of {self._file.shown} with XLA: leave out --jit")
        if settings.steps_per_execution > 1:
            model.steps_per_execution = settings.steps_per_execution

    def _explain(self, raised: RaisedError) -> str:
        """What was raised while it trained, in a sentence with a line of the file."""
        shape = raised.shape
        if not fits(shape, self._takes):
            at = self._file.at(self._gives)
            return f"{at}: {self._gives}() gives a batch of another shape: {shape}, and model() takes {self._takes}"
        return self._places.explain(raised)

    def _try(self, model: keras.Model, spec: Any) -> None:
        """Trace the model and its loss on batches of this shape; nothing of it runs."""
        import keras
        import tensorflow as tf

        if type(model).train_step is not keras.Model.train_step:
            return
        if unknown := unknown_name(model):
            raise self._wrong("model", f"compiles with the {unknown}")
        if model.run_eagerly:
            return

        def loss(*leaves: tf.Tensor) -> tf.Tensor:
            x, y, weights = keras.utils.unpack_x_y_sample_weight(tf.nest.pack_sequence_as(spec, leaves))
            return model.compute_loss(x, y, model(x, training=True), weights)

        try:
            tf.function(loss, autograph=False).get_concrete_function(*tf.nest.flatten(spec))
        except Exception as error:  # the user's model and loss
            traceback.print_exc()
            at = self._places.frame(error) or self._file.at(self._gives)
            raise BadInputError(
                f"{at}: the batches of {self._gives}() do not fit model(): {sentence(error)}"
            ) from error

    @property
    def _gives(self) -> str:
        """The function whose batches are trained on."""
        return "pipeline" if self._file.live else "dataset"

    def _wrong(self, function: str, what: str) -> BadInputError:
        return BadInputError(f"{self._file.at(function)}: {function}() {what}")


def _a(thing: object) -> str:
    """What something is: `a list`, `an int`."""
    kind = type(thing).__name__
    return "None" if thing is None else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _stages(dataset: Any) -> Iterator[str]:
    """The class names of a data set and of all that it is made of, as far as TensorFlow tells."""
    yield type(dataset).__name__
    for source in inputs_of(dataset):
        yield from _stages(source)
