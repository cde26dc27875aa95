"""`tfwatch` alone: a screen of what can be trained and of the runs that can be seen again."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.analysis.steps.breakdown import breakdown, steady
from tfwatch.commands.factories import Parts, look_at
from tfwatch.commands.restart import become
from tfwatch.commands.screen_host import play
from tfwatch.commands.start_knobs import knob, start_knobs
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.rows import plausible
from tfwatch.core.start_knobs import StartKnob, Value
from tfwatch.doctor.quick_facts import glance, gpu_here
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import list_runs
from tfwatch.runs.opened import open_run
from tfwatch.screens.launcher import Offer
from tfwatch.widgets.launcher_lists import PastRun, Trainable
from tfwatch.workloads.registry import WORKLOADS, find, settle
from tfwatch.workloads.workload import BadInputError, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tfwatch.commands.factories import Launching, Screen
    from tfwatch.doctor.quick_facts import GpuHere
    from tfwatch.runs.opened import Run

#: So many runs are listed.
_LISTED = 50
#: The starving share of a run with more steps is left out: reading them all would keep the list waiting.
_SHARE_STEPS = 200_000


def launch(runs_dir: Path, parts: Parts | None = None, clock: Clock = SYSTEM) -> int:
    """Show the launcher until the user leaves, or chooses a command: it is printed, and this process becomes it.

    A new program and not a call: the launcher has threads, and a run's first steps have to be without any.
    """
    parts = parts or Parts()
    here = gpu_here()
    offer = Offer(
        workloads=trainables(here),
        own=lambda path: own(path, here),
        machine=glance,
        runs=lambda: past_runs(runs_dir, clock),
        look=look_at(runs_dir),
    )
    apps: list[Launching] = []

    def make_app(**options: Any) -> Screen:
        apps.append(parts.launcher(offer, **options))
        return apps[0]

    code = play(make_app)
    words = apps[0].words if apps and not code else ()
    if words:
        return become(words, parts)
    return code


# -- what can be trained ------------------------------------------------------------------------------


def trainables(here: GpuHere) -> tuple[Trainable, ...]:
    """Every workload with the knobs that it takes, on the machine `here`."""
    return tuple(_trainable(name, name, here) for name in WORKLOADS)


def own(path: str, here: GpuHere) -> Trainable:
    """A file of the user's own as a workload.

    Raises:
        BadInputError: it is none.
    """
    path = os.path.expanduser(path.strip())
    if not path or path in WORKLOADS:
        raise BadInputError("give the path of a Python file")
    return _trainable(path, Path(path).name, here)


def _trainable(argument: str, name: str, here: GpuHere) -> Trainable:
    entry, settings = find(argument), settle(argument, {})
    knobs = (*_pipeline(entry), *start_knobs(argument, settings, here))
    return Trainable(name, entry.line, knobs, argument)


def _pipeline(entry: Entry) -> Iterator[StartKnob]:
    """The knobs that can be turned while it trains too."""
    yield _off("prefetch", "--prefetch", ("off", 1, 2, 4, 8, 16, "auto", "default"), "batches made ahead")
    yield _off("workers", "--workers", ("off", 2, 4, 8, "auto", "default"), "maps on several cores")
    if entry.cached:
        yield _off("cache", "--cache", ("off", "on"), entry.cached)
    if entry.fast:
        yield StartKnob("form", (Value("slow"), Value(entry.fast, ("--fast-form",))), 0, "of the pipeline")
    if entry.reads_files:
        yield knob("latency", "--storage-latency", (0, 5, 10, 20, 50, 100), 0, 0, "simulated, ms a batch")


def _off(name: str, option: str, values: Sequence[Any], note: str) -> StartKnob:
    return knob(name, option, values, "off", "off", note)


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
