"""The trial of one change to what a script compiles, in the script's own process: its first `fit`
runs a few steps with that change, and the process ends there."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch.core.errors import reason
from tfwatch.runs.script_process import ScriptChange
from tfwatch.watch.script.patches import replace_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from tfwatch.runs.script_process import ScriptTrial

#: Keras' callbacks that write files: a trial leaves no checkpoint of a few steps.
_WRITE = ("ModelCheckpoint", "BackupAndRestore", "CSVLogger", "TensorBoard", "RemoteMonitor")
_METRICS = ("metrics", "weighted_metrics")
_BFLOAT16 = "mixed_bfloat16"


def end_trial(why: str) -> NoReturn:
    """End the process of a trial that cannot be made: it must not train to its end.

    Raises:
        SystemExit: with the reason.
    """
    raise SystemExit(f"tfwatch: no trial: {why}")


def patch_trial(keras: Any, trial: ScriptTrial) -> ExitStack:
    """Have `compile` make the change, and `fit` end the process; return what puts them back.

    Raises:
        SystemExit: this Keras is another one than those tried.
    """
    one = _PatchedTrial(keras, trial)
    try:
        if trial.change == ScriptChange.MIXED_BFLOAT16:
            keras.config.set_dtype_policy(_BFLOAT16)
        return replace_all(((keras.Model, "compile", one.changed), (keras.Model, "fit", one.ended)))
    except (AttributeError, TypeError) as error:
        end_trial(reason(error))


class _PatchedTrial:
    def __init__(self, keras: Any, trial: ScriptTrial) -> None:
        self._keras, self._trial = keras, trial
        self._writers = tuple(getattr(keras.callbacks, name) for name in _WRITE)

    def changed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `compile` with the change."""
        signature = inspect.signature(original)

        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            if self._trial.change == ScriptChange.JIT_COMPILE:
                call.arguments["jit_compile"] = True
            elif self._trial.change == ScriptChange.WITHOUT_METRIC:
                self._drop_metric(call.arguments)
            return original(*call.args, **call.kwargs)

        return compile

    def _drop_metric(self, arguments: dict[str, Any]) -> None:
        given = [arguments.get(name) for name in _METRICS]
        names = [_name(one) for one in self._keras.tree.flatten(given) if one is not None]
        if self._trial.metric not in names:
            known = f"compile has {', '.join(names)}" if names else "compile has none"
            end_trial(f"there is no metric {self._trial.metric!r}: {known}")
        for name, metrics in zip(_METRICS, given, strict=True):
            arguments[name] = _without(metrics, self._trial.metric)

    def ended(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `fit` that writes no checkpoints, validates nothing and does not return."""
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(*args: Any, **kwargs: Any) -> NoReturn:
            call = signature.bind(*args, **kwargs)
            self._check_policy(call.arguments["self"])
            given = call.arguments.get("callbacks")
            callbacks = self._keras.tree.flatten(given) if given else []
            kept = [one for one in callbacks if not isinstance(one, self._writers)]
            call.arguments["callbacks"] = [*kept, self._last_step()]
            call.arguments.pop("validation_data", None)
            original(*call.args, **call.kwargs)
            raise SystemExit(0)

        return fit

    def _check_policy(self, model: Any) -> None:
        is_mixed = self._trial.change == ScriptChange.MIXED_BFLOAT16
        if is_mixed and model.dtype_policy.name != _BFLOAT16:
            end_trial(f"the script sets its own policy, {model.dtype_policy.name}")

    def _last_step(self) -> Any:
        """Return a callback that ends the process after the last step: no code after `fit` runs,
        and no callback at the end of an epoch."""
        done, before = 0, -1

        def count(batch: int, logs: Any) -> None:
            nonlocal done, before
            # A call may have several steps, and an epoch begins with 0.
            done, before = done + (batch - before if batch > before else batch + 1), batch
            if done >= self._trial.steps:
                raise SystemExit(0)

        return self._keras.callbacks.LambdaCallback(on_train_batch_end=count)


def _name(metric: Any) -> str:
    """Return the name of a metric as `compile` takes it: a text, a function or a `Metric`."""
    name = metric if isinstance(metric, str) else getattr(metric, "name", None)
    return str(name or getattr(metric, "__name__", type(metric).__name__))


def _without(metrics: Any, name: str) -> Any:
    if isinstance(metrics, dict):
        return {key: _without(value, name) for key, value in metrics.items()}
    if isinstance(metrics, list | tuple):
        kept = [_without(one, name) for one in metrics]
        return [
            new for new, old in zip(kept, metrics, strict=True) if new is not None or old is None
        ]
    return None if metrics is None or _name(metrics) == name else metrics
