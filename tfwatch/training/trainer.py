"""Train a workload in a thread of its own."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import math
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, reason
from tfwatch.core.events import DatasetReady, ImportEnded, TrainingFailed
from tfwatch.core.knobs import show
from tfwatch.core.rows import Phase
from tfwatch.runs.library.finding import import_took_ms, list_runs
from tfwatch.workloads import registry

if TYPE_CHECKING:
    from pathlib import Path

    import tensorflow as tf

    from tfwatch.runs.control.requests import Control
    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.cache import ExampleStore
    from tfwatch.training.request import Plan
    from tfwatch.workloads.workload import Prepared

Cause = Literal["finished", "stopped", "failed", "bad-input"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a training. message: one sentence for the user if it failed or the input is bad."""

    cause: Cause
    message: str = ""
    traceback: str = ""


class _StoppedError(Exception):
    """The user stopped the training before its first step."""


class Trainer:
    """One training run, from importing TensorFlow to its end.

    Attributes:
        done: set when the run is over. outcome: its end; None before. model: None before it is built.
    """

    def __init__(
        self, plan: Plan, writer: RunWriter, control: Control, clock: Clock = SYSTEM
    ) -> None:
        self.done = threading.Event()
        self.outcome: Outcome | None = None
        self.model: Any = None
        self._plan = plan
        self._writer = writer
        self._control = control
        self._clock = clock
        self._final_loss: float | None = None
        self._weights_sha256 = ""
        self._thread = threading.Thread(target=self._run, name="tfwatch-training", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def save_weights(self, path: Path) -> str:
        """Save the model's weights to a file. Return the reason if they could not be saved, else an empty string.

        Weights are saved while the training thread waits for a batch, when they do not change, and not during a step.
        """
        from tfwatch.training import weights

        before = self._writer.status
        if self.model is None:
            return "the model is not built yet"
        if not self.done.is_set() and before[0] is not Phase.WAIT:
            return "a step is running"
        try:
            weights.save(self.model, path)
        except Exception as error:  # noqa: BLE001  layers save themselves, and the disk may be full; the caller reports it
            return reason(error)
        if not self.done.is_set() and self._writer.status is not before:
            path.unlink(missing_ok=True)
            return "a step began while they were saved"
        return ""

    def _run(self) -> None:
        try:
            self._train()
            outcome = Outcome("stopped" if self._control.was_stopped else "finished")
        except _StoppedError:
            outcome = Outcome("stopped")
        except BadInputError as error:
            outcome = Outcome("bad-input", str(error))
        except BaseException as error:  # noqa: BLE001  the training's thread begins here; the run's end reports it
            outcome = Outcome("failed", reason(error), traceback.format_exc())
        self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        now, step = self._writer.now_ns(), self._writer.status[2]
        if outcome.cause == "failed":
            self._writer.event(TrainingFailed(now, step, outcome.message, outcome.traceback))
        cause = "failed" if outcome.cause == "bad-input" else outcome.cause
        results = {"final_loss": self._final_loss, "weights_sha256": self._weights_sha256}
        self._writer.end(cause, outcome.message, now, **results)
        self.outcome = outcome
        self.done.set()

    # -- the stages of a run ----------------------------------------------------------------------

    def _train(self) -> None:
        self._import()
        import keras

        from tfwatch.training.setup import placed_on_device

        settings = self._plan.settings
        if settings.seed is not None:
            keras.utils.set_random_seed(settings.seed)
        with placed_on_device(settings):
            self._prepare_and_fit()

    def _prepare_and_fit(self) -> None:
        prepared = self._prepare()
        self._check_stop()
        self._writer.phase(Phase.COMPILE, "building the model")
        model = self._built(prepared)
        self._check_stop()
        # A full collection would visit all imported objects: 0.17 s with the GIL held, in the middle of the training.
        gc.freeze()
        loss = self._fit(model, prepared)
        self._final_loss = loss if math.isfinite(loss) else None
        self._weights_sha256 = _sha256(model)

    def _built(self, prepared: Prepared) -> Any:
        model = prepared.model()
        if self._plan.start_weights:
            from tfwatch.training import weights

            self._writer.note(weights.restore(model, self._plan.start_weights))
        self.model = model
        return model

    def _import(self) -> None:
        start_ns = self._clock.now_ns()
        self._writer.phase(Phase.IMPORT, self._import_words())
        import tensorflow as tf

        from tfwatch.training.setup import choose_device, settle_device_prefetch

        device = choose_device(self._plan.settings)
        self._plan = settle_device_prefetch(self._plan, device)
        self._writer.describe(device=device.name, accelerated=device.accelerated)
        if device.has_own_memory:
            self._offer_device_prefetch()
        took_ms = (self._clock.now_ns() - start_ns) / 1e6
        self._writer.event(ImportEnded(self._writer.now_ns(), took_ms, tf.__version__))

    def _offer_device_prefetch(self) -> None:
        manifest = self._writer.manifest()
        knobs = {**manifest.knobs, "device_prefetch": show(self._plan.knobs.device_prefetch)}
        switchable = [*manifest.switchable, "device_prefetch"]
        self._writer.describe(knobs=knobs, switchable=switchable)

    def _import_words(self) -> str:
        words = f"TensorFlow {self._writer.manifest().versions.get('tensorflow', '')}"
        folder, earlier = self._writer.folder, []
        with contextlib.suppress(OSError):
            earlier = [run for run in list_runs(folder.parent) if run != folder] if folder else []
        took_ms = import_took_ms(earlier[0]) if earlier else None
        return words if took_ms is None else f"{words} ({took_ms / 1e3:.0f} s last time)"

    def _prepare(self) -> Prepared:
        start_ns = self._clock.now_ns()
        self._report_stage("preparing the data set")
        workload = registry.load(self._plan.workload)
        prepared: Prepared = workload.prepare(self._plan.settings, self._report_stage)
        took_ms = (self._clock.now_ns() - start_ns) / 1e6
        self._writer.event(
            DatasetReady(
                self._writer.now_ns(),
                prepared.images,
                prepared.skipped,
                took_ms,
                list(prepared.examples),
            )
        )
        if prepared.note:
            self._writer.note(prepared.note)
        if prepared.store:
            self._begin_cache(prepared.store)
        return prepared

    def _begin_cache(self, store: ExampleStore) -> None:
        from tfwatch.tfdata.cache import NoRoomError

        store.notify = self._writer.note
        self._writer.describe(cache_bytes=store.bytes_needed)
        try:
            if self._plan.knobs.cache:
                store.open()
        except NoRoomError as error:
            raise BadInputError(str(error)) from error

    def _fit(self, model: Any, prepared: Prepared) -> float:
        """Train; return the last epoch's loss, NaN if there is none."""
        from tfwatch.training.custom_loop import CustomLoop
        from tfwatch.watch.fit.callback import Watch
        from tfwatch.watch.session import Session

        settings = self._plan.settings
        per_epoch = prepared.steps_per_epoch
        epochs = math.ceil(settings.steps / per_epoch) if settings.steps else settings.epochs
        self._writer.describe(metric=prepared.metric)
        session = Session(
            self._writer,
            self._control,
            build=prepared.pipeline,
            source=prepared.source,
            shuffle=prepared.shuffle,
            store=prepared.store,
            metric=prepared.metric,
            stop_after=settings.steps,
            switches=self._plan.switches,
        )
        if prepared.loop:
            by_hand = CustomLoop(
                session, prepared.loop(model), prepared.validation, eager=model.run_eagerly
            )
            return by_hand.fit(epochs, per_epoch).get("loss", math.nan)
        history = model.fit(
            self._placeholder(prepared),
            epochs=epochs,
            validation_data=prepared.validation,
            callbacks=[Watch(session=session)],
            shuffle=False,  # the source is shuffled, and Keras would warn that it cannot shuffle
            verbose=0,
        )
        return float((history.history.get("loss") or [math.nan])[-1])

    def _placeholder(self, prepared: Prepared) -> tf.data.Dataset:
        """Return a data set for Keras with the right structure and number of batches; no batch of it is trained on."""
        import tensorflow as tf

        from tfwatch.tfdata.work_ahead import without_autotune

        spec = prepared.pipeline(prepared.source, self._control.knobs).element_spec
        one = tf.nest.map_structure(lambda s: tf.zeros([n or 1 for n in s.shape], s.dtype), spec)
        return (
            tf.data.Dataset.from_tensors(one)
            .repeat(prepared.steps_per_epoch)
            .with_options(without_autotune())
        )

    def _report_stage(self, text: str) -> None:
        self._check_stop()
        self._writer.phase(Phase.DATA_SET, text)

    def _check_stop(self) -> None:
        if self._control.stop.is_set():
            raise _StoppedError


def _sha256(model: Any) -> str:
    digest = hashlib.sha256()
    for weight in model.get_weights():
        digest.update(weight.tobytes())
    return digest.hexdigest()
