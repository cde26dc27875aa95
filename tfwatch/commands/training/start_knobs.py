"""The start knobs of a workload for the launcher and a restart: values, and the reason of those that cannot apply."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.core.start_knobs import Constraint, StartKnob, Value
from tfwatch.terminal.guard import short_path
from tfwatch.workloads import registry
from tfwatch.workloads.workload import OPTIMIZERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tfwatch.doctor.quick_facts import GpuPresence
    from tfwatch.workloads.workload import Entry, Settings

#: Values of settings that only some workloads take.
_OWN: dict[str, tuple[Sequence[Any], str]] = {
    "image_size": ((32, 64, 96, 128, 224), "pixels a side"),
    "size": ((256, 512, 1024, 2048, 4096, 8192), "rows and columns"),
    "weights": (("imagenet", "none"), "the base starts with"),
}
_RATES = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
_LARGEST_BATCH, _LARGEST_SEED = 65536, 2**32 - 1
_METAL = "no XLA on Apple's GPUs"
_SLOW = "slower on a CPU"


def start_knobs(name: str, settings: Settings, here: GpuPresence) -> tuple[StartKnob, ...]:
    """Return the knobs of a workload at `settings`. A value that cannot apply on the machine `here` has its reason.

    Raises:
        BadInputError: there is not a workload of this name.
    """
    return tuple(_knobs(name, settings, here))


def _knobs(name: str, settings: Settings, here: GpuPresence) -> Iterator[StartKnob]:
    entry = registry.find(name)
    own = registry.settle(name, {})
    for setting, (values, note) in _OWN.items():
        if setting in entry.takes:
            option = setting.replace("_", "-")
            shown = option.replace("-", " ")
            yield knob(
                shown,
                f"--{option}",
                values,
                getattr(settings, setting),
                getattr(own, setting),
                note,
            )
    if "data" in entry.takes:
        yield _data(settings)
    yield _batch(settings, own)
    yield _optimizer(settings)
    yield _learning_rate(settings)
    yield _seed(settings)
    yield _length(settings, own)
    yield _device(settings, here)
    yield _mode(settings, here)
    yield _precision(settings, here)
    yield _calls(entry, settings)


def _batch(settings: Settings, own: Settings) -> StartKnob:
    batches = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
    batch = knob(
        "batch size",
        "--batch-size",
        batches,
        settings.batch_size,
        own.batch_size,
        "examples a step",
    )
    return replace(
        batch,
        read=_reader("--batch-size", lambda text: str(units.parse_whole(text, 1, _LARGEST_BATCH))),
    )


def _optimizer(settings: Settings) -> StartKnob:
    now = settings.optimizer or "adam"
    return knob("optimizer", "--optimizer", OPTIMIZERS, now, "adam", "as Keras names them")


def _learning_rate(settings: Settings) -> StartKnob:
    option, note = "--learning-rate", "of the optimizer"
    rates = _unset("learning rate", option, _RATES, settings.learning_rate, "its own", note)
    return replace(rates, read=_reader(option, lambda text: f"{units.parse_learning_rate(text):g}"))


def _seed(settings: Settings) -> StartKnob:
    seeds = _unset("seed", "--seed", (1, 2, 3), settings.seed, "none", "same seed, same weights")
    return replace(
        seeds, read=_reader("--seed", lambda text: str(units.parse_whole(text, 0, _LARGEST_SEED)))
    )


def knob(
    name: str, option: str, values: Sequence[Any], now: Any, default: Any, note: str
) -> StartKnob:
    """Return a knob over some values, numbers in order, at its current value."""
    known = dict.fromkeys((*values, now))
    ordered = sorted(known) if all(isinstance(value, int) for value in known) else list(known)
    choices = tuple(
        Value(str(value), () if value == default else (option, str(value))) for value in ordered
    )
    return StartKnob(name, choices, ordered.index(now), note)


def _unset(
    name: str, option: str, values: Sequence[Any], now: Any, unset: str, note: str
) -> StartKnob:
    """Return a knob that may stay unset."""
    numbers = sorted({*values, *(() if now is None else (now,))})
    choices = tuple(Value(_shown(value), (option, _shown(value))) for value in numbers)
    return StartKnob(
        name, (Value(unset), *choices), 0 if now is None else 1 + numbers.index(now), note
    )


def _shown(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _data(settings: Settings) -> StartKnob:
    """Return the knob of the data folder, which is typed."""
    folder = (_folder(str(settings.data)),) if settings.data else ()
    return StartKnob(
        "data",
        (Value("synthetic images"), *folder),
        len(folder),
        "a folder of JPEG classes",
        read=_folder,
    )


def _length(settings: Settings, own: Settings) -> StartKnob:
    """Return the knob of the length: steps, then epochs."""
    counts = sorted({100, 1000, 10_000, *((settings.steps,) if settings.steps else ())})
    steps = [Value(units.counted(count, "step"), ("--steps", str(count))) for count in counts]
    epochs = sorted({1, 2, 5, 10, 20, 50, own.epochs, settings.epochs})
    values = [
        Value(
            f"{count} epoch{'s' if count > 1 else ''}",
            () if count == own.epochs else ("--epochs", str(count)),
        )
        for count in epochs
    ]
    at = (
        counts.index(settings.steps)
        if settings.steps
        else len(steps) + epochs.index(settings.epochs)
    )
    return StartKnob("length", (*steps, *values), at, "steps, or epochs")


def _device(settings: Settings, here: GpuPresence) -> StartKnob:
    gpu = (Constraint(here.missing),) if here.missing else ()
    values = (
        Value("auto"),
        Value("cpu", ("--device", "cpu")),
        Value("gpu", ("--device", "gpu"), gpu),
    )
    return StartKnob(
        "device", values, ("auto", "cpu", "gpu").index(settings.device), "what computes"
    )


def _mode(settings: Settings, here: GpuPresence) -> StartKnob:
    metal = (
        (Constraint(_METAL, where=("device", ("auto", "gpu"))),)
        if here.is_metal and not here.missing
        else ()
    )
    values = (Value("eager", ("--eager",)), Value("graph"), Value("jit", ("--jit",), metal))
    return StartKnob(
        "mode", values, ("eager", "graph", "jit").index(settings.mode), "of a step; jit is XLA"
    )


def _precision(settings: Settings, here: GpuPresence) -> StartKnob:
    where = None if here.missing else ("device", ("cpu",))
    cpu = Constraint(_SLOW, is_blocking=False, where=where)
    values = (Value("float32"), Value("mixed", ("--mixed-precision",), (cpu,)))
    return StartKnob("precision", values, int(settings.mixed_precision), "mixed: float16 compute")


def _calls(entry: Entry, settings: Settings) -> StartKnob:
    """Return the knob of the steps per execution, refused where the workload takes one only."""
    option = "--steps-per-execution"
    calls = knob(
        "steps per execution",
        option,
        (1, 2, 4, 8, 16, 32),
        settings.steps_per_execution,
        1,
        "steps in one call",
    )
    return replace(calls, refused=entry.why_not.get("steps_per_execution", ""))


# -- what is typed ------------------------------------------------------------------------------------


def _reader(option: str, read: Callable[[str], str]) -> Callable[[str], Value]:
    def value(text: str) -> Value:
        shown = read(text.strip())
        return Value(shown, (option, shown))

    return value


def _folder(text: str) -> Value:
    if not text.strip():
        raise ValueError("give a folder")
    path = Path(os.path.expanduser(text.strip())).absolute()
    if not os.path.isdir(path):
        raise ValueError(f"there is no folder {text.strip()}")
    return Value(short_path(path), ("--data", str(path)))
