"""The Keras callback: `model.fit(..., callbacks=[Watch()])`."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import keras

from tfwatch.core.errors import fails_open, find_interrupt, reason, warn_once, warn_user
from tfwatch.core.knobs import (
    AS_WRITTEN,
    CACHE,
    DEVICE_PREFETCH,
    MULTIPROCESSING,
    OFF,
    ON,
    PINNED,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    check_value,
)
from tfwatch.runs.control import Control
from tfwatch.runs.requests import SwitchRequest
from tfwatch.runs.script_process import launched, take_switches
from tfwatch.tfdata.code_edits import find_fit_call
from tfwatch.watch.fit.fit_runs import FitRun, run_of_next_fit
from tfwatch.watch.fit.model_facts import read_model
from tfwatch.watch.fit.py_dataset import PyDatasetSettings
from tfwatch.watch.fit.recorder import Recorder
from tfwatch.watch.fit.stepping.step_runners import restore
from tfwatch.watch.session import ErrorText, Session
from tfwatch.watch.tensorflow_info import NO_LEGACY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: Frames between a callback and the `fit` that calls it; Keras and tfwatch have a few each.
_MOST_FRAMES = 20
#: The kinds of data by the module of Keras' adapter.
_KINDS = {
    "array_data_adapter": "arrays",
    "generator_data_adapter": "generator",
    "py_dataset_adapter": "PyDataset",
    "tf_dataset_adapter": "tf.data",
}


class Watch(keras.callbacks.Callback):
    """Splits every step of `fit` into data wait, compute and host, and writes a run folder.

    The training's result is that of `fit` without it, bit for bit. Each `fit` writes a folder of
    its own.

    Args:
        runs_dir: where run folders are created; None is the default folder (see `tfwatch replay`).

    Attributes:
        run_path: the folder of the last `fit`; None before the first, and if it could not be
        created.
    """

    #: The Watch that began last with a model.
    _newest: ClassVar[weakref.WeakKeyDictionary[Any, weakref.ref[Watch]]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self, runs_dir: str | Path | None = None) -> None:
        super().__init__()
        self._runs_dir = Path(os.path.expanduser(runs_dir)) if runs_dir else None
        self._run: FitRun | None = None
        self._newest_run: FitRun | None = None
        self._control = Control(AS_WRITTEN)
        self._py_dataset: PyDatasetSettings | None = None
        self._recorder: Recorder | None = None

    @property
    def run_path(self) -> Path | None:
        """The folder of the last `fit`; None before the first, and if it could not be created, or
        not yet."""
        return self._newest_run.script.path if self._newest_run else None

    def set(
        self,
        *,
        prefetch: str | int | None = None,
        workers: str | int | None = None,
        pinned: bool | None = None,
        device_prefetch: str | int | None = None,
        cache: bool | None = None,
        multiprocessing: bool | None = None,
        random_draws: bool = False,
    ) -> None:
        """Switch the pipeline while `fit` runs, from any thread. The switch takes effect after the
        buffered batches.

        A cache and the settings of a `PyDataset` take effect with the next epoch.

        Args:
            prefetch: `default` (the script's pipeline as it is), `off`, `auto`, or a `buffer_size`.
            workers: the parallel calls of each map: `default` (as in the script), `off`, `auto`, or
                a number. Refused for a pipeline that has no map of which parallel calls give the
                same elements. The workers of a `PyDataset`, `off` for one.
            pinned: batches are copied into memory that the GPU reads directly.
            device_prefetch: `off`, or the `buffer_size` of a prefetch to the GPU's memory.
            cache: keep the results of the last map that gives the same in each epoch. Refused where
                there is none, and where they take more than half of the free memory.
            multiprocessing: the workers of a `PyDataset` are processes.
            random_draws: parallel calls of a map may draw other random numbers than serial ones.

        Raises:
            ValueError: it is none of these.
        """
        values = {
            PREFETCH: prefetch,
            WORKERS: workers,
            PINNED: pinned,
            DEVICE_PREFETCH: device_prefetch,
            CACHE: cache,
            MULTIPROCESSING: multiprocessing,
        }
        for knob, value in values.items():
            if value is not None:
                given = (ON if value else OFF) if isinstance(value, bool) else str(value)
                text = check_value(knob, given)
                request = SwitchRequest(knob, text, "code", random_draws=random_draws)
                self._control.ask_by_code(request)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy as a new Watch without a `fit`: tuners copy callbacks."""
        return type(self), (self._runs_dir,)

    # -- Keras calls these ----------------------------------------------------------------------

    #: The legacy tf_keras asks a callback for these; `Watch` does nothing in its `fit`.
    _supports_tf_logs, _chief_worker_only = True, None

    def _implements_train_batch_hooks(self) -> bool:
        return False

    _implements_test_batch_hooks = _implements_train_batch_hooks
    _implements_predict_batch_hooks = _implements_train_batch_hooks

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin a run."""
        with self._boundary():
            self._end(lambda run: run.stop("another fit began before this one ended"))
            self._begin_script()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Record the start of an epoch."""
        with self._boundary():
            if self._recorder:
                self._recorder.begin_epoch(
                    epoch, int(self.params.get("epochs") or 0), self.params.get("steps")
                )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Record the end of an epoch."""
        with self._boundary():
            if self._recorder:
                self._recorder.end_epoch(logs)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Record the start of a validation."""
        with self._boundary():
            if self._recorder:
                self._recorder.step_log.begin_validation()

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """End the validation if the training is to stop."""
        with self._boundary():
            if self._recorder:
                self._recorder.during_validation()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Record the end of a validation."""
        with self._boundary():
            if self._recorder:
                self._recorder.step_log.end_validation()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """End the run: restore the model's train function and complete the folder."""
        with self._boundary():
            self._end(lambda run: run.finish(self._script_knobs()))

    def note_raised(self, error: BaseException) -> None:
        """End the run with the error that ended `fit`, where it has not ended yet."""
        raised = ErrorText.of(error)
        self._end(lambda run: run.fail(raised))

    @contextlib.contextmanager
    def _boundary(self) -> Iterator[None]:
        """Begin a block that Keras calls: an error of tfwatch's own ends there, and any other
        exception is reported and goes on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the training's boundary
            interrupt = find_interrupt(error)
            if interrupt is not None:
                self.note_raised(interrupt)
                raise interrupt from None
            if self._recorder:
                self._recorder.report_failure(reason(error))
            else:
                warn_user(f"this fit is not recorded: {reason(error)}")
        except BaseException as error:  # an interrupt, after which Keras calls no callback
            self.note_raised(error)
            raise

    def _end(self, end_run: Callable[[FitRun], None]) -> None:
        recorder, self._recorder = self._recorder, None
        run, self._run = self._run, None

        def end() -> None:
            if run and not run.script.is_over:
                end_run(run)

        for part in (*([recorder.end] if recorder else []), lambda: restore(self.model), end):
            with fails_open(lambda why: warn_user(f"the run did not end properly: {why}")):
                part()

    def _begin_script(self) -> None:
        self._newest_run = None
        with fails_open(lambda why: warn_user(f"this fit is not recorded: {why}")):
            if not isinstance(self.model, keras.Model):
                warn_once(NO_LEGACY)
                return
            if self._is_watched_already():
                warn_user("this Watch does nothing: another Watch records this fit already")
                return
            epochs = _find_epochs(sys._getframe(1))
            self._begin_knobs(epochs)
            run = run_of_next_fit(self._runs_dir, self._script_knobs())
            self._run = self._newest_run = run
            made = self._py_dataset
            run.script.writer.describe(
                data=_kind_of_data(epochs),
                batch_class=made.class_name if made else "",
                batch_place=made.place if made else "",
                steps_limit=launched().steps,
            )
            self._note_model(run)
            run.serve(self._control)
            self._control.stop_at = launched().steps
            for switch in take_switches():
                self._control.ask(switch)
            session = Session(
                run.script.writer,
                run.step_log,
                run.stages,
                self._control,
                self._py_dataset,
                on_error=lambda error: run.fail(ErrorText.of(error)),
                on_abandoned=lambda: run.stop("fit was left by an exception"),
            )
            self._recorder = Recorder(session, self.model)

    def _begin_knobs(self, epochs: Any | None) -> None:
        """Begin with the settings of a `PyDataset` as the script has them."""
        had, self._py_dataset = self._py_dataset, None
        with fails_open(
            lambda why: warn_user(f"the workers of this PyDataset cannot be switched: {why}")
        ):
            if _kind_of_data(epochs) == "PyDataset":
                self._py_dataset = PyDatasetSettings(epochs)
        if not (had or self._py_dataset):
            return
        source = self._py_dataset.written if self._py_dataset else AS_WRITTEN
        begun = {knob: getattr(source, knob) for knob in PY_DATASET_KNOBS}
        self._control.knobs = replace(self._control.knobs, **begun)
        self._control.written = replace(self._control.written, **begun)

    def _script_knobs(self) -> dict[str, str]:
        """Return the knobs that the data has, and their values."""
        values = self._control.knobs.values()
        if self._py_dataset is None:
            del values[MULTIPROCESSING]
        return values

    def _note_model(self, run: FitRun) -> None:
        """Number the model that trains; run.json has the facts of the first one."""
        run.step_log.use_model(self.model)
        run.script.fit_calls.append(find_fit_call(sys._getframe()))
        writer = run.script.writer
        with fails_open(lambda why: writer.note(f"facts of the model are unknown: {why}")):
            if run.is_first_fit:
                writer.describe(model=read_model(self.model))

    def _is_watched_already(self) -> bool:
        """Return whether another Watch records this `fit`, whose callbacks share their `params`."""
        newest = self._newest.get(self.model)
        other = newest() if newest else None
        if other and other is not self and other._recorder and other.params is self.params:
            return True
        self._newest[self.model] = weakref.ref(self)
        return False


# -- the data of a fit that begins -----------------------------------------------------------------


def _kind_of_data(epochs: Any | None) -> str:
    """Return the kind of the data, as `SourceKind` has it; empty where it is not known."""
    module = type(getattr(epochs, "data_adapter", None)).__module__
    return _KINDS.get(module.rpartition(".")[2], "")


def _find_epochs(frame: FrameType | None) -> Any | None:
    """Return Keras' epochs of the `fit` that calls; None where it is another's."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_name == "fit" and "epoch_iterator" in frame.f_code.co_varnames:
            return frame.f_locals.get("epoch_iterator")
        frame = frame.f_back
    return None
