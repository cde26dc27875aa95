"""A run as one of a side of a comparison: its facts, why it cannot be compared, and in which facts
sides differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core import units
from tfwatch.core.events import EpochEnded
from tfwatch.core.knobs import ON
from tfwatch.judge.steps.steady_steps import steady
from tfwatch.runs.sources import read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.judged_run import JudgedRun

    #: The runs of both sides.
    Sides: TypeAlias = "tuple[Sequence[RunToCompare], Sequence[RunToCompare]]"

#: The fewest steady steps of a run that can be compared: ten in a quarter.
LEAST_STEPS = 45
#: Steps that are read of a longer run.
_MOST_STEPS = 500_000
#: Arguments of a workload in which runs of one side may differ.
_FREE = frozenset({"seed", "epochs"})


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

    @cached_property
    def rows(self) -> Rows:
        """The steady steps of its last setting, at most 500 000."""
        return steady(self.judged.setting_steps[:_MOST_STEPS])

    @cached_property
    def settings(self) -> dict[str, str]:
        """The arguments of a workload and the last values of the knobs, by name."""
        arguments = arguments_by_name(str(self.run.manifest.settings.get("arguments") or ""))
        return {**arguments, **self.judged.situation.knobs}

    @cached_property
    def sources(self) -> dict[str, str]:
        """The text of its script, and of the modules beside it; empty where they are not
        recorded."""
        return read_sources(self.run.folder)

    @property
    def stages(self) -> list[str]:
        """The stages of its pipeline; empty where none were read."""
        return [stage.name for stage in table.stages] if (table := self.judged.pipeline) else []

    @property
    def has_failed(self) -> bool:
        """True where its training failed, was killed, or has not ended."""
        return self.run.ended is None or self.run.ended.cause not in ("finished", "stopped")

    @property
    def host(self) -> str:
        """The name of its machine; empty where unknown."""
        return str(self.run.manifest.machine.get("host") or "")

    @property
    def hardware(self) -> str:
        """The hardware that decides its step times: `4 cores, 16 GB, CPU`."""
        machine, device = self.run.manifest.machine, self.run.manifest.device
        cores, memory = machine.get("cores"), machine.get("memory_bytes")
        known = (f"{cores:g} cores" if cores else "", f"{memory / 2**30:.0f} GB" if memory else "")
        return ", ".join(filter(None, (*known, device)))

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


def check_sides(sides: Sides) -> None:
    """Check that the runs can be compared.

    Raises:
        NotComparableError: they cannot.
    """
    runs = [run for side in sides for run in side]
    reasons = (_other_machine(runs), *_unfit(runs), *(_mixed_side(side) for side in sides))
    if reason := next(filter(None, reasons), ""):
        raise NotComparableError(reason)


def _unfit(runs: Sequence[RunToCompare]) -> Iterator[str]:
    """Yield why single runs cannot be compared."""
    paths = Counter(run.path for run in runs)
    sizes = {run.run.manifest.batch_size for run in runs}
    for run in runs:
        if paths[run.path] > 1:
            yield f"{run.name} is given twice: give two runs"
        if not run.run.manifest.batch_size and len(sizes) > 1:
            yield f"the batch size of {run.name} is unknown: its steps may be other work"
        if len(run.rows) < LEAST_STEPS:
            steps = units.counted(len(run.rows), "steady step")
            yield f"{run.name} has {steps} with its last setting: a comparison needs {LEAST_STEPS}"


def _other_machine(runs: Sequence[RunToCompare]) -> str:
    kinds = {run.hardware: run for run in runs}
    if len({run.host for run in runs}) == 1 or len(kinds) == 1:
        return ""
    words = " and ".join(f"{run.name} ({run.host}, {kind})" for kind, run in kinds.items())
    return f"{words} are different machines: their step times cannot be compared"


def _mixed_side(side: Sequence[RunToCompare]) -> str:
    for other in side[1:]:
        for change in differences(side[:1], [other]):
            if change.kind == "setting" and change.name not in _FREE:
                names = f"{side[0].name} and {other.name}"
                values = f"{change.before or 'not set'} and {change.after or 'not set'}"
                return f"{names} are on one side, but {change.name} is {values}"
    return ""


# -- what differs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SideDifference:
    """A fact in which the sides differ: a value, or stages or lines that one of them has.

    kind: `workload`, `script`, `pipeline`, `setting`, `version` or `machine`.
    """

    kind: str
    name: str
    before: str
    after: str


#: The kinds of facts that need a record of their own: a run may lack it.
RECORDED = ("script", "pipeline")


def differences(
    before: Sequence[RunToCompare], after: Sequence[RunToCompare]
) -> list[SideDifference]:
    """Return the facts in which two sides differ, by the first run of each."""
    first, second = before[0], after[0]
    found = []
    for (kind, old), new in zip(_facts(first).items(), _facts(second).values(), strict=True):
        for name in dict.fromkeys((*old, *new)):
            one = SideDifference(kind, name, old.get(name, ""), new.get(name, ""))
            if one.before != one.after:
                found.append(one)
    known = set(RECORDED) - {*unknown(before), *unknown(after)}
    if "script" in known:
        found += _changed_lines(first.sources, second.sources)
    if "pipeline" in known:
        found += _edits("pipeline", "pipeline", first.stages, second.stages, ", ")
    return found


def unknown(side: Sequence[RunToCompare]) -> list[str]:
    """Return the kinds of facts that the first run of a side has no record of."""
    of_kind = side[0].sources, side[0].stages
    return [kind for kind, record in zip(RECORDED, of_kind, strict=True) if not record]


def _facts(one: RunToCompare) -> dict[str, Mapping[str, str]]:
    manifest = one.run.manifest
    return {
        "workload": {"workload": manifest.workload},
        "setting": {"batch_size": str(manifest.batch_size or ""), **one.settings},
        "version": manifest.versions,
        "machine": {"host": one.host, "device": manifest.device},
    }


def _changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[SideDifference]:
    """Yield the lines that differ of the files that both sides have, and of their scripts, which
    come first and may have two names."""
    pairs = {next(iter(before)): next(iter(after))}
    pairs |= {name: name for name in before if name in after}
    for old, new in pairs.items():
        lines = (before[old].splitlines(), after[new].splitlines())
        yield from _edits("script", new, *lines, "\n")


def _edits(
    kind: str, name: str, before: Sequence[str], after: Sequence[str], joined_by: str
) -> Iterator[SideDifference]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, first, last, begin, end in matcher.get_opcodes():
        if tag != "equal":
            place = f"{name}:{begin + 1}" if kind == "script" else name
            old, new = joined_by.join(before[first:last]), joined_by.join(after[begin:end])
            yield SideDifference(kind, place, old, new)
