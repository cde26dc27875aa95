"""`tfwatch` alone: a screen of what can be trained and of the runs that can be seen again."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from tfwatch.analysis.breakdown import breakdown, steady
from tfwatch.commands.look import look_at
from tfwatch.commands.parts import Parts
from tfwatch.commands.stage import play
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.rows import plausible
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import list_runs
from tfwatch.runs.opened import open_run
from tfwatch.screens.launcher import Offer, command_line
from tfwatch.widgets.launching import PastRun, StartKnob, Trainable, Value
from tfwatch.workloads import WORKLOADS, Entry, Settings, settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tfwatch.commands.parts import Launching, Screen
    from tfwatch.runs.opened import Run

#: So many runs are listed.
_LISTED = 50
#: The starving share of a run with more steps is left out: reading them all would keep the list waiting.
_SHARE_STEPS = 200_000
#: Values of settings that only some workloads take.
_OWN: dict[str, tuple[Sequence[Any], str]] = {
    "image_size": ((32, 64, 96, 128, 224), "pixels a side"),
    "size": ((256, 512, 1024, 2048, 4096, 8192), "rows and columns"),
    "weights": (("imagenet", "none"), "the base begins with"),
}


def launch(runs_dir: Path, parts: Parts | None = None, clock: Clock = SYSTEM) -> int:
    """Show the launcher until the user leaves, or chooses a command: it is printed, and this process becomes it.

    A new program and not a call: the launcher has threads, and a run's first steps have to be without any.
    """
    parts = parts or Parts()
    offer = Offer(trainables(), _machine, lambda: past_runs(runs_dir, clock), look_at(runs_dir))
    apps: list[Launching] = []

    def make_app(**options: Any) -> Screen:
        apps.append(parts.launcher(offer, **options))
        return apps[0]

    code = play(make_app)
    words = apps[0].words if apps and not code else ()
    if words:
        sys.stderr.write(f"tfwatch {command_line(words)}\n")
        sys.stderr.flush()
        parts.become(words)
    return code


def _machine() -> str:
    from tfwatch.doctor.glance import glance

    return glance()


# -- what can be trained ------------------------------------------------------------------------------


def trainables() -> tuple[Trainable, ...]:
    """Every workload with the knobs that it takes."""
    return tuple(Trainable(name, entry.line, tuple(_knobs(name, entry))) for name, entry in WORKLOADS.items())


def _knobs(name: str, entry: Entry) -> Iterator[StartKnob]:
    settings = settle(name, {})
    yield _knob("prefetch", "--prefetch", ("off", 1, 2, 4, 8, 16, "auto", "default"), "off", "batches made ahead")
    yield _knob("workers", "--workers", ("off", 2, 4, 8, "auto", "default"), "off", "maps on several cores")
    if entry.fast:
        yield StartKnob("form", (Value("slow"), Value(entry.fast, ("--fast-form",))), 0, "of the pipeline")
    if entry.reads_files:
        yield _knob("latency", "--storage-latency", (0, 5, 10, 20, 50, 100), 0, "simulated, ms a batch")
    for own in sorted(entry.takes & _OWN.keys()):
        values, note = _OWN[own]
        option = own.replace("_", "-")
        yield _knob(option.replace("-", " "), f"--{option}", values, getattr(settings, own), note)
    batches = sorted({1, 8, 16, 32, 64, 128, 256, 512, 1024, settings.batch_size})
    yield _knob("batch size", "--batch-size", batches, settings.batch_size, "examples a step")
    yield _length(settings)
    yield _knob("device", "--device", ("auto", "cpu", "gpu"), settings.device, "what computes")
    modes = (Value("eager", ("--eager",)), Value("graph"), Value("jit", ("--jit",)))
    yield StartKnob("mode", modes, 1, "of a step; jit is XLA")
    precisions = (Value("float32"), Value("mixed", ("--mixed-precision",)))
    yield StartKnob("precision", precisions, 0, "mixed: float16 compute")


def _knob(name: str, option: str, values: Sequence[Any], default: Any, note: str) -> StartKnob:
    told = tuple(Value(str(value), () if value == default else (option, str(value))) for value in values)
    return StartKnob(name, told, values.index(default), note)


def _length(settings: Settings) -> StartKnob:
    """Steps, then epochs."""
    steps = [Value(f"{units.count(count)} steps", ("--steps", str(count))) for count in (100, 1000, 10_000)]
    epochs = sorted({1, 2, 5, 10, 20, 50, settings.epochs})
    values = [
        Value(f"{count} epoch{'s' if count > 1 else ''}", () if count == settings.epochs else ("--epochs", str(count)))
        for count in epochs
    ]
    return StartKnob("length", (*steps, *values), len(steps) + epochs.index(settings.epochs), "")


# -- the runs -----------------------------------------------------------------------------------------


def past_runs(runs_dir: Path, clock: Clock = SYSTEM) -> Iterable[PastRun]:
    """The runs of a folder, the newest first; those that cannot be read are left out.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = list_runs(runs_dir)
    names = [folder.name for folder in folders]
    for folder in islice(folders, _LISTED):
        is_named = sum(folder.name in name for name in names) == 1
        try:
            run = open_run(folder, clock)
        except (NotARunError, OSError):
            continue
        yield _past(run, folder.name if is_named else str(folder), clock)


def _past(run: Run, words: str, clock: Clock) -> PastRun:
    count = len(run.steps)
    split = breakdown(steady(run.steps[plausible(run.steps)])) if count <= _SHARE_STEPS else None
    return PastRun(
        words=words,
        workload=run.manifest.workload,
        age_s=max(0.0, (clock.wall_ns() - run.manifest.origin_wall_ns) / 1e9),
        state=run.ended.cause if run.ended else run.life.value,
        length=f"{units.count(count)} step{'' if count == 1 else 's'}, {units.seconds(run.length_s)}",
        wait_share=split.wait_share if split else None,
    )
