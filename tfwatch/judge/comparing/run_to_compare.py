"""A run as one of a side of a comparison: its facts, why it cannot be compared, and in which facts
sides differ."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import EpochEnded, StagesFound
from tfwatch.core.knobs import ON
from tfwatch.core.rows import plausible_rows
from tfwatch.judge.comparing.intervals import LEAST_STEPS
from tfwatch.judge.steps.steady_steps import steady

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.judged_run import JudgedRun

#: Steps that are read of a longer run.
_MOST_STEPS = 500_000
#: Arguments of a workload in which runs of one side may differ.
_FREE = frozenset({"seed", "epochs"})
#: Machines of one kind may differ in memory by this share.
_SAME_MEMORY = 0.05


class NotComparableError(ValueError):
    """The runs cannot be compared; the message is a sentence for the user."""


class RunToCompare:
    """A run that was read once, with what a comparison needs of it."""

    def __init__(self, judged: JudgedRun, name: str) -> None:
        self.judged = judged
        self.run = judged.run
        self.name = name

    @property
    def path(self) -> str:
        """The path of its folder."""
        return str(self.run.folder.resolve()) if self.run.folder else self.name

    @property
    def start_s(self) -> float:
        """Its start, seconds since 1970."""
        return self.run.manifest.origin_wall_ns / 1e9

    @cached_property
    def rows(self) -> Rows:
        """The steady steps of its last setting, at most 500 000."""
        rows = plausible_rows(self.run.steps)
        parts = []
        for first, last in self.judged.setting.stretches:
            begin, end = (bisect_left(rows["step"], step) for step in (first, last + 1))
            parts.append(rows[begin : min(end, begin + _MOST_STEPS)])
        return steady(np.concatenate(parts) if parts else rows[:0])

    @cached_property
    def settings(self) -> dict[str, str]:
        """The arguments of a workload and the last values of the knobs, by name."""
        arguments = arguments_by_name(str(self.run.manifest.settings.get("arguments") or ""))
        return {**arguments, **self.judged.situation.knobs}

    @cached_property
    def stages(self) -> dict[str, str]:
        """The stages of the script's own pipeline by name: `parallel`, or `in it`."""
        found = next(iter(self.run.events.of(StagesFound)), None)
        seen, stages = Counter[str](), {}
        for name, kind in zip(found.names, found.kinds, strict=False) if found else ():
            seen[name] += 1
            numbered = f"{name} {seen[name]}" if seen[name] > 1 else name
            stages[numbered] = "parallel" if kind.startswith("Parallel") else "in it"
        return stages

    @property
    def has_failed(self) -> bool:
        """True where its training failed, was killed, or has not ended."""
        return self.run.ended is None or self.run.ended.cause not in ("finished", "stopped")

    @property
    def host(self) -> str:
        """The name of its machine; empty where unknown."""
        return str(self.run.manifest.machine.get("host") or "")

    @property
    def hardware(self) -> tuple[float | None, float | None, float | None]:
        """Cores, allowed cores and memory in bytes of its machine; None where unknown."""
        machine = self.run.manifest.machine
        return machine.get("cores"), machine.get("cores_allowed"), machine.get("memory_bytes")

    @property
    def peak_bytes(self) -> float | None:
        """The largest memory of a process; None where it was not sampled."""
        memory = self.judged.machine.process_memory
        return memory.peak_bytes if memory else None

    @property
    def others_share(self) -> float | None:
        """The share of the machine's cores that other programs used while it trained; None where
        unknown."""
        medians, cores = self.judged.machine.figures, self.run.manifest.machine.get("cores")
        used, own = medians.get("cpu_cores"), medians.get("process_cores")
        if used is None or own is None or not cores:
            return None
        return min(max((used - own) / float(cores), 0.0), 1.0)

    @property
    def epochs(self) -> dict[int, EpochEnded]:
        """The epochs that ended, by number."""
        return {event.epoch: event for event in self.run.events if isinstance(event, EpochEnded)}

    def named(self, fact: str) -> str:
        """Return its name, and a fact in brackets."""
        return f"{self.name} ({fact})"


def arguments_by_name(text: str) -> dict[str, str]:
    """Return the values of a workload's arguments by name: of `--seed 1 --eager` `seed` and
    `eager`, which is `on`."""
    words = [*text.replace("=", " ").split(), ""]
    return {
        word.removeprefix("--").replace("-", "_"): ON
        if not value or value.startswith("--")
        else value
        for word, value in pairwise(words)
        if word.startswith("--")
    }


# -- why runs cannot be compared -------------------------------------------------------------------


def check_sides(sides: Sequence[Sequence[RunToCompare]], by_example: bool) -> None:
    """Check that the runs can be compared.

    Raises:
        NotComparableError: they cannot.
    """
    runs = [run for side in sides for run in side]
    reasons = (
        _twice(runs),
        _other_batch_size(runs, by_example),
        _other_machine(runs),
        _too_short(runs),
        *(_mixed_side(side) for side in sides),
    )
    if reason := next(filter(None, reasons), ""):
        raise NotComparableError(reason)


def _twice(runs: Sequence[RunToCompare]) -> str:
    seen = Counter(run.path for run in runs)
    again = next((run for run in runs if seen[run.path] > 1), None)
    return f"{again.name} is given twice: give two runs" if again else ""


def _other_batch_size(runs: Sequence[RunToCompare], by_example: bool) -> str:
    if by_example:
        unknown = next((run for run in runs if not run.run.manifest.batch_size), None)
        return (
            f"the batch size of {unknown.name} is unknown: no time per example" if unknown else ""
        )
    other = _first_other(runs, lambda run: run.run.manifest.batch_size)
    if other is None:
        return ""
    words = " and ".join(
        run.named(f"batch size {run.run.manifest.batch_size}") for run in (runs[0], other)
    )
    return (
        f"{words}: their steps are not the same work; compare the time of an example with"
        " --by-example"
    )


def _other_machine(runs: Sequence[RunToCompare]) -> str:
    other = next((run for run in runs if not _is_same_kind(runs[0], run)), None)
    if other is None:
        return ""
    pair = " and ".join(run.named(_machine_words(run)) for run in (runs[0], other))
    return f"{pair} are different machines: their step times cannot be compared"


def _too_short(runs: Sequence[RunToCompare]) -> str:
    short = next((run for run in runs if len(run.rows) < LEAST_STEPS), None)
    if short is None:
        return ""
    steps = units.counted(len(short.rows), "steady step")
    return f"{short.name} has {steps} with its last setting: a comparison needs {LEAST_STEPS}"


def _mixed_side(side: Sequence[RunToCompare]) -> str:
    for other in side[1:]:
        for change in differences(side[:1], [other]):
            if change.kind == "setting" and change.name not in _FREE:
                values = f"{change.before or 'not set'} and {change.after or 'not set'}"
                return (
                    f"{side[0].name} and {other.name} are on one side, but {change.name} is"
                    f" {values}"
                )
    return ""


def _is_same_kind(one: RunToCompare, other: RunToCompare) -> bool:
    """Return whether two runs were made on one machine, or on machines with the same hardware."""
    if one.host == other.host:
        return True
    if one.run.manifest.device != other.run.manifest.device:
        return False
    if one.hardware[:2] != other.hardware[:2] or one.hardware[0] is None:
        return False
    memory = [run.hardware[2] or 0.0 for run in (one, other)]
    return abs(memory[0] - memory[1]) <= _SAME_MEMORY * max(memory)


def _machine_words(run: RunToCompare) -> str:
    cores, memory = run.hardware[0], run.hardware[2]
    parts = (
        run.host or "unknown host",
        f"{cores:g} cores" if cores else "",
        f"{memory / 2**30:.0f} GB" if memory else "",
        run.run.manifest.device,
    )
    return ", ".join(filter(None, parts))


def _first_other(
    runs: Sequence[RunToCompare], fact: Callable[[RunToCompare], object]
) -> RunToCompare | None:
    return next((run for run in runs if fact(run) != fact(runs[0])), None)


# -- what differs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SideDifference:
    """A fact in which the sides differ. kind: `workload`, `setting`, `stage`, `version` or
    `machine`."""

    kind: str
    name: str
    before: str
    after: str


def differences(
    before: Sequence[RunToCompare], after: Sequence[RunToCompare]
) -> list[SideDifference]:
    """Return the facts in which two sides differ, by the first run of each."""
    first, second = _facts(before[0]), _facts(after[0])
    if not first["stage"] or not second["stage"]:
        del first["stage"]  # not read, which is no difference
    return [one for kind in first for one in _changed(kind, first[kind], second[kind])]


def _facts(one: RunToCompare) -> dict[str, Mapping[str, str]]:
    manifest = one.run.manifest
    return {
        "workload": {"workload": manifest.workload},
        "setting": {"batch_size": str(manifest.batch_size or ""), **one.settings},
        "stage": one.stages,
        "version": manifest.versions,
        "machine": {"host": one.host, "device": manifest.device},
    }


def _changed(
    kind: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[SideDifference]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            yield SideDifference(kind, name, old, new)
