"""The Keras callback: `model.fit(..., callbacks=[Watch()])`."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, ClassVar, get_args

import keras

from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import Knobs, Setting, describe, parse_setting
from tfwatch.runs.control import Control, Request
from tfwatch.watch.recorder import Recorder, Split
from tfwatch.watch.session import ScriptRun, Session, tell_user
from tfwatch.watch.tensorflow_info import find_device

#: What tells of a script's own pipeline.
_OF_SCRIPTS = ("prefetch", "workers")


class Watch(keras.callbacks.Callback):
    """Splits every step of `fit` into data wait, compute and host, and writes a run folder.

    The training's result is that of `fit` without it, bit for bit. Each `fit` writes a folder of its own.

    Args:
        runs_dir: where the run folders are made; None is the user's own (see `tfwatch replay`).
        split: how steps are told apart where `steps_per_execution` runs several in one call. `fused` leaves them
            fused and reads the clock inside the graph; `exact` runs them one by one, timed as without
            `steps_per_execution`, which gives up what that saves. The training's result is the same.
        session: the run that `tfwatch train` has already begun; None, in a script, begins one with each `fit`.

    Attributes:
        run_path: the folder of the last `fit`; None before the first, and where none could be made.

    Raises:
        ValueError: `split` is neither.
    """

    #: The Watch that began last with a model.
    _newest: ClassVar[weakref.WeakKeyDictionary[Any, weakref.ref[Watch]]] = weakref.WeakKeyDictionary()

    def __init__(
        self, runs_dir: str | Path | None = None, split: Split = "fused", *, session: Session | None = None
    ) -> None:
        super().__init__()
        if split not in get_args(Split):
            raise ValueError(f"split must be {' or '.join(get_args(Split))}, not {split!r}")
        self._split = split
        self.run_path: Path | None = session.writer.folder if session else None
        self._runs_dir = Path(os.path.expanduser(runs_dir)) if runs_dir else None
        self._session = session
        self._script: ScriptRun | None = None
        # A script's own pipeline is TensorFlow's defaults and whatever its author wrote.
        self._control = session.control if session else Control(Knobs(prefetch="default", workers="default"))
        self._recorder: Recorder | None = None

    def set(self, *, prefetch: Setting) -> None:
        """Switch prefetch while `fit` runs, from any thread: `off` or `default` (as the script's pipeline is
        by itself), `auto`, or a `buffer_size`. It takes effect at the next batch after the buffered ones.

        Raises:
            ValueError: it is none of these.
        """
        self._control.ask(Request("prefetch", parse_setting(str(prefetch)), "code"))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, as tuners make of callbacks, is a Watch of its own that has seen no `fit` yet."""
        return type(self), (self._runs_dir, self._split)

    # -- Keras calls these ----------------------------------------------------------------------

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin a run."""
        self._end("stopped", "another fit began before this one's end")
        if self._session:
            self._recorder = Recorder(self._session, self.model, self._split)
        else:
            self._begin_script()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note the epoch."""
        if self._recorder:
            self._recorder.begin_epoch(epoch, int(self.params.get("epochs") or 0), self.params.get("steps"))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note the epoch's end."""
        if self._recorder:
            self._recorder.end_epoch(logs)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Note that a validation begins."""
        if self._recorder:
            self._recorder.begin_validation()

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Let a stop end the validation too."""
        if self._recorder:
            self._recorder.during_validation()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Note that the validation is over."""
        if self._recorder:
            self._recorder.end_validation()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """End the run: the model's own train function is put back and the folder is whole."""
        self._end("finished")

    def _end(self, cause: str, detail: str = "") -> None:
        recorder, self._recorder = self._recorder, None
        script, self._script = self._script, None
        with fails_open(lambda why: tell_user(f"the run was not ended properly: {why}")):
            try:
                if recorder:
                    recorder.end()
            finally:
                if script:
                    script.end(cause, detail)
                    self.run_path = script.path

    def _begin_script(self) -> None:
        self.run_path = None
        with fails_open(lambda why: tell_user(f"this fit is not watched: {why}")):
            if self._is_watched():
                tell_user("another Watch watches this fit already: this one keeps out of it")
                return
            knobs = {name: value for name, value in describe(self._control.knobs).items() if name in _OF_SCRIPTS}
            self._script = script = ScriptRun(self._runs_dir, find_device(), knobs, switchable=["prefetch"])
            self.run_path = script.path
            session = Session(script.writer, self._control, on_error=script.fail, on_abandoned=script.abandon)
            self._recorder = Recorder(session, self.model, self._split)

    def _is_watched(self) -> bool:
        """Whether another Watch watches this very `fit`, whose callbacks share their `params`."""
        newest = self._newest.get(self.model)
        other = newest() if newest else None
        if other and other is not self and other._recorder and other.params is self.params:
            return True
        self._newest[self.model] = weakref.ref(self)
        return False
