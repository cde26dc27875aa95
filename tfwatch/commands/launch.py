"""`tfwatch` without a command: a screen of the workloads and of the recorded runs."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from tfwatch.commands.factories import Factories, make_checkup
from tfwatch.commands.screen_host import show_app
from tfwatch.commands.script.run import check_script
from tfwatch.commands.training.restart import announce, exec_command
from tfwatch.commands.training.start_knobs import knob, start_knobs
from tfwatch.config import read_config
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import show
from tfwatch.core.refusals import NotTimed, Refusal
from tfwatch.core.start_knobs import Constraint, StartKnob, Value
from tfwatch.doctor.quick_facts import describe_machine, find_gpu
from tfwatch.live.past_run import PastRun, past_entry
from tfwatch.runs.library.finding import list_runs
from tfwatch.screens.launcher import LauncherContent
from tfwatch.screens.launcher_lists import Trainable
from tfwatch.workloads.registry import WORKLOADS, default_knobs, settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tfwatch.commands.factories import Launching, Screen
    from tfwatch.core.knobs import Knobs
    from tfwatch.doctor.quick_facts import GpuPresence
    from tfwatch.workloads.workload import Entry

#: The number of runs listed.
_LISTED = 50


def launch(runs_dir: Path, factories: Factories | None = None, clock: Clock = SYSTEM) -> int:
    """Show the launcher until the user leaves or chooses a training, which then replaces this process.

    A new program is started instead of a call: the launcher has threads, and a run must start without any. After a
    replay the launcher shows again.
    """
    factories = factories or Factories()
    here = find_gpu()
    offer = LauncherContent(
        workloads=trainables(here),
        run_script=run_script,
        machine=describe_machine,
        runs=lambda: past_runs(runs_dir, clock),
        run_checkup=make_checkup(runs_dir),
    )
    apps: list[Launching] = []

    def make_app(**options: Any) -> Screen:
        apps.append(factories.launcher(offer, theme=read_config().values.get("theme"), **options))
        return apps[0]

    code = show_app(make_app)
    words = apps[0].words if apps and not code else ()
    if not words:
        return code
    if words[0] != "replay":
        return exec_command(words, factories)
    announce(words)
    return factories.run_command((*words, "--goes-back")) or exec_command((), factories)


# -- what can be trained ------------------------------------------------------------------------------


def trainables(here: GpuPresence) -> tuple[Trainable, ...]:
    """Return every workload with its knobs on the machine `here`."""
    return tuple(_trainable(name, entry, here) for name, entry in WORKLOADS.items())


def _trainable(name: str, entry: Entry, here: GpuPresence) -> Trainable:
    knobs = (
        *_pipeline(entry, default_knobs(name), here),
        *start_knobs(name, settle(name, {}), here),
    )
    return Trainable(name, entry.line, knobs)


def _pipeline(entry: Entry, start: Knobs, here: GpuPresence) -> Iterator[StartKnob]:
    """Return the knobs that can also be switched while it trains. start: their values without an option."""
    prefetches, workers = (
        ("off", 1, 2, 4, 8, 16, "auto", "default"),
        ("off", 2, 4, 8, "auto", "default"),
    )
    yield knob(
        "prefetch",
        "--prefetch",
        prefetches,
        start.prefetch,
        start.prefetch,
        "batches prepared ahead",
    )
    yield knob(
        "workers", "--workers", workers, start.workers, start.workers, "maps on several cores"
    )
    if not here.missing and not here.is_metal:
        yield _device_prefetch(start)
    if entry.cached:
        cache = show(start.cache)
        yield knob("cache", "--cache", ("off", "on"), cache, cache, entry.cached)
    if entry.fast:
        off, fast = (
            ((), ("--fast-pipeline",)) if not start.fast_pipeline else (("--no-fast-pipeline",), ())
        )
        values = (Value("off", off), Value(entry.fast, fast))
        yield StartKnob(
            "fast pipeline", values, int(start.fast_pipeline), "a faster form of the same data"
        )
    if entry.reads_files:
        yield knob(
            "latency", "--storage-latency", (0, 5, 10, 20, 50, 100), 0, 0, "simulated, ms/batch"
        )


def _device_prefetch(start: Knobs) -> StartKnob:
    """Return the knob of the prefetch to the GPU's memory, which a training on the CPU, or of fused steps, refuses."""
    on_cpu = Constraint(Refusal.NO_DEVICE_MEMORY.words, where=("device", ("cpu",)))
    fused = Constraint(
        NotTimed.IN_GRAPH.value, where=("steps per execution", ("2", "4", "8", "16", "32"))
    )
    values, now = ("off", 1, 2, 4), start.device_prefetch
    found = knob(
        "device prefetch", "--device-prefetch", values, now, now, "batches copied to the GPU ahead"
    )
    chosen = (
        replace(one, constraints=(on_cpu, fused)) if one.words else one for one in found.values[1:]
    )
    return replace(found, values=(found.values[0], *chosen))


# -- a script -----------------------------------------------------------------------------------------


def run_script(line: str) -> tuple[str, ...]:
    """Return the command that runs a script. line: a path alone, or a path and arguments as in a shell.

    Raises:
        ValueError: there is no such script; the message is for the user.
    """
    path = line.strip()
    words = [path] if os.path.isfile(os.path.expanduser(path)) else shlex.split(line)
    if not words:
        raise BadInputError("give the path of a script")
    script, *arguments = words
    script = os.path.expanduser(script)
    check_script(script)
    return ("run", script, *arguments)


# -- the runs -----------------------------------------------------------------------------------------


def past_runs(runs_dir: Path, clock: Clock = SYSTEM) -> Iterable[PastRun]:
    """Yield the runs of a folder, newest first, without those that cannot be read.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = list_runs(runs_dir)
    names = [folder.name for folder in folders]
    for folder in islice(folders, _LISTED):
        is_named = sum(folder.name in name for name in names) == 1
        if run := past_entry(folder, folder.name if is_named else str(folder), clock):
            yield run
