"""The trial of a script, in its own process: its first `fit` runs a few steps, and the process ends
there. What the script draws without a seed of its own has one here: runs have equal losses."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch.core.errors import reason
from tfwatch.watch.script.patches import replace_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from tfwatch.runs.script_process import ScriptTrial

#: Keras' callbacks that write files: a trial leaves no checkpoint of a few steps.
_WRITE = ("ModelCheckpoint", "BackupAndRestore", "CSVLogger", "TensorBoard", "RemoteMonitor")
#: A `validation_freq` of no epoch.
_NEVER = 10**9
#: The script's own seed comes later, and counts.
_SEED = 1


def end_trial(why: str) -> NoReturn:
    """End the process of a trial that cannot be made: it must not train to its end.

    Raises:
        SystemExit: with the reason.
    """
    raise SystemExit(f"tfwatch: no trial: {why}")


def patch_trial(keras: Any, trial: ScriptTrial) -> ExitStack:
    """Have `fit` end the process; return what puts it back.

    Raises:
        SystemExit: this Keras is another one than those tried.
    """
    try:
        keras.utils.set_random_seed(_SEED)
        writers = tuple(getattr(keras.callbacks, name) for name in _WRITE)
        return replace_all(((keras.Model, "fit", lambda its: _ended(its, keras, trial, writers)),))
    except (AttributeError, TypeError) as error:
        end_trial(reason(error))


def _ended(
    original: Callable[..., Any], keras: Any, trial: ScriptTrial, writers: tuple[type, ...]
) -> Callable[..., NoReturn]:
    """Return a `fit` that writes no checkpoints and does not return."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> NoReturn:
        call = signature.bind(*args, **kwargs)
        given = call.arguments.get("callbacks")
        callbacks = keras.tree.flatten(given) if given else []
        kept = [one for one in callbacks if not isinstance(one, writers)]
        last = keras.callbacks.LambdaCallback(on_train_batch_end=_end_after(trial.steps))
        call.arguments["callbacks"] = [*kept, last]
        if not trial.validates:
            call.arguments["validation_freq"] = _NEVER
        original(*call.args, **call.kwargs)
        raise SystemExit(0)

    return fit


def _end_after(steps: int) -> Callable[[int, Any], None]:
    """Return what ends the process after the last step: no code after `fit` runs, and no callback
    at the end of an epoch."""
    done, before = 0, -1

    def count(batch: int, logs: Any) -> None:
        nonlocal done, before
        # A call may have several steps, and an epoch begins with 0.
        done, before = done + (batch - before if batch > before else batch + 1), batch
        if done >= steps:
            raise SystemExit(0)

    return count
