"""The runs of one training over its restarts: those before and after a run, and what they brought forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.steps.goodput import TrainedRun, make_goodput
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import EpochStarted
from tfwatch.live.judged_run import JudgedRun
from tfwatch.live.past_run import state_of
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.group_file import is_group, rank_folders
from tfwatch.runs.library.finding import list_folders, run_name
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.reading.streams import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.analysis.steps.goodput import Goodput
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.reading.opened import Run

#: A run that begins so long after the end of one that broke off is a restart of it; a later one is another training.
LONGEST_DOWN_S = 86_400.0
#: Clocks of two machines differ by less.
_CLOCKS_S = 5.0
#: Settings that may differ between the runs of one training.
_FREE = frozenset({"seed", "epochs", "steps", "keep_awake", "begin_with", "memory_limit_bytes"})


def goodput_of(runs: Sequence[Run]) -> Goodput:
    """Return the time of a training over its runs, which are in the order of their begin."""
    earlier = [None, *runs]
    return make_goodput([_trained(run, before) for run, before in zip(runs, earlier, strict=False)])


def find_training(folder: Path, clock: Clock = SYSTEM) -> list[Run]:
    """Return the runs of a training, the first one first: a run, and those that it follows or that follow it.

    folder: of a run, of a rank, or of a group, whose first rank stands for all.

    Raises:
        NotARunError: it is not a run that this tfwatch reads.
        OSError: its folder cannot be read.
    """
    chosen = open_run(first_rank(folder), clock)
    candidates = list(_candidates(chosen))
    later = [one for one in candidates if _begin_ns(one[1]) > chosen.manifest.origin_wall_ns]
    before = [one for one in candidates if _begin_ns(one[1]) <= chosen.manifest.origin_wall_ns]
    runs = [chosen]
    for path, _ in reversed(before):
        if (run := _opened(path, clock)) is None:
            continue
        if not is_restart(run, runs[0]):
            break
        runs.insert(0, run)
    for path, _ in later:
        if (run := _opened(path, clock)) is None:
            continue
        if not is_restart(runs[-1], run):
            break
        runs.append(run)
    return runs


def first_rank(folder: Path) -> Path:
    """Return the newest run of a group's first rank; any other folder as it is.

    Raises:
        NotARunError: no rank of the group has a run.
        OSError: the folder cannot be read.
    """
    if not is_group(folder):
        return folder
    runs = _runs_of_rank(folder, None)
    if not runs:
        raise NotARunError(f"{folder}: no rank of the group has a run")
    return runs[-1]


def is_restart(before: Run, after: Run) -> bool:
    """Return whether a run goes on with the training of the one before it.

    It does where it says so, where both are of one process, where its first epoch is not epoch 0, or where the one
    before broke off less than a day ago. Runs that train at the same time are two trainings.
    """
    down_s = _down_s(before, after)
    if down_s < -_CLOCKS_S:
        return False
    if _names(after.manifest, before) or is_same_process(before.manifest, after.manifest):
        return True
    broke_off = before.life.is_over and state_of(before) != "finished"
    return bool(_first_epoch(after)) or (broke_off and down_s <= LONGEST_DOWN_S)


def is_same_process(one: Manifest, other: Manifest) -> bool:
    """Return whether one process trained both runs."""
    return (one.pid, one.process_started_s, one.boot_id) == (
        other.pid,
        other.process_started_s,
        other.boot_id,
    )


def _candidates(chosen: Run) -> Iterator[tuple[Path, Manifest]]:
    """Yield the other runs that train the same, in the order of their begin."""
    if chosen.path is None:
        return
    own = chosen.path.absolute()
    rank = chosen.manifest.rank if is_group(own.parent) else None
    runs_dir = own.parent.parent if is_group(own.parent) else own.parent
    folders = []
    for entry in list_folders(runs_dir):
        for path in _runs_of_rank(entry, rank) if is_group(entry) else [entry]:
            try:
                manifest = FolderSource(path).manifest()
            except (NotARunError, OSError):
                continue
            if path.absolute() != own and is_same_training(manifest, chosen.manifest):
                folders.append((path, manifest))
    yield from sorted(folders, key=lambda one: _begin_ns(one[1]))


def _runs_of_rank(group: Path, rank: int | None) -> list[Path]:
    """Return the runs of a rank, the first one first; of the first rank that has one where none is named."""
    folders = rank_folders(group)
    wanted = min((one.rank for one in folders), default=None) if rank is None else rank
    return [one.folder for one in folders if one.rank == wanted]


def is_same_training(one: Manifest, other: Manifest) -> bool:
    """Return whether two runs train the same with the same settings; live knobs may differ."""
    sizes = {size for size in (one.batch_size, other.batch_size) if size is not None}
    own, others = (
        {
            name: value
            for name, value in each.settings.items()
            if name not in _FREE and value is not None
        }
        for each in (one, other)
    )
    facts = [(each.workload, bool(each.group), each.group_size) for each in (one, other)]
    return facts[0] == facts[1] and own == others and len(sizes) < 2


def _trained(run: Run, before: Run | None) -> TrainedRun:
    judged, manifest = JudgedRun(run), run.manifest
    spent = judged.time_breakdown
    begins_with = manifest.settings.get("begin_with")
    same = before is not None and is_same_process(before.manifest, manifest)
    return TrainedRun(
        name=run_name(run.path) if run.path else manifest.run,
        state=state_of(run),
        began_s=manifest.origin_wall_ns / 1e9,
        length_s=max(run.length_s, spent.total.wall_s),
        steps=len(run.steps),
        spent=spent,
        first_epoch=_first_epoch(run),
        is_continuation=same or bool(begins_with),
        has_new_weights="begin_with" in manifest.settings and not begins_with and not same,
    )


def _opened(path: Path, clock: Clock) -> Run | None:
    try:
        return open_run(path, clock)
    except (NotARunError, OSError):
        return None


def _first_epoch(run: Run) -> int | None:
    return next((event.epoch for event in run.events if isinstance(event, EpochStarted)), None)


def _names(manifest: Manifest, before: Run) -> bool:
    """Return whether a manifest names a run as the one that was restarted as it."""
    named = manifest.after.rstrip("/").rpartition("/")[2]
    return bool(named) and before.path is not None and named == before.path.name


def _down_s(before: Run, after: Run) -> float:
    ended_s = before.manifest.origin_wall_ns / 1e9 + before.length_s
    return after.manifest.origin_wall_ns / 1e9 - ended_s


def _begin_ns(manifest: Manifest) -> int:
    return manifest.origin_wall_ns
