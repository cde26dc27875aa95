"""The reasons why runs cannot be compared, and the settings, versions and machines in which they
differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: Arguments of a workload in which runs of one side may differ.
_FREE = frozenset({"seed", "epochs"})
#: Machines of one kind may differ in memory by this share.
_SAME_MEMORY = 0.05


class NotComparableError(ValueError):
    """The runs cannot be compared; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The facts of a run that decide whether it can be compared."""

    name: str
    #: Of its folder.
    path: str
    workload: str
    batch_size: int | None
    #: The arguments of a workload and the last live knobs, in words.
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    host: str
    #: Cores, allowed cores and memory in bytes, None where unknown.
    hardware: tuple[float | None, float | None, float | None]
    device: str
    #: Since 1970.
    start_s: float
    steady_steps: int = 0


@dataclass(frozen=True, slots=True)
class SideDifference:
    """A fact in which the sides differ. kind: `setting`, `version` or `machine`."""

    kind: str
    name: str
    before: str
    after: str


def check_sides(sides: Sequence[Sequence[Subject]], by_example: bool, least_steps: int) -> None:
    """Check that the runs can be compared.

    Raises:
        NotComparableError: they cannot.
    """
    runs = [run for side in sides for run in side]
    for reason in (
        _twice(runs),
        _other_workload(runs),
        _other_batch_size(runs, by_example),
        _other_machine(runs),
        _too_short(runs, least_steps),
        *(_mixed_side(side) for side in sides),
    ):
        if reason:
            raise NotComparableError(reason)


def check_side(side: Sequence[Subject]) -> None:
    """Check that the runs of one side are equal in all settings.

    Raises:
        NotComparableError: they are not.
    """
    for reason in (
        _twice(side),
        _other_workload(side),
        _other_batch_size(side, by_example=False),
        _mixed_side(side),
    ):
        if reason:
            raise NotComparableError(reason)


def _twice(runs: Sequence[Subject]) -> str:
    names = [run.path for run in runs]
    again = next((run for run in runs if names.count(run.path) > 1), None)
    return f"{again.name} is given twice: give two runs" if again else ""


def _other_workload(runs: Sequence[Subject]) -> str:
    other = _first_other(runs, lambda run: run.workload)
    if other is None:
        return ""
    return (
        f"{_named(runs[0], runs[0].workload)} and {_named(other, other.workload)} trained different"
        " workloads"
    )


def _other_batch_size(runs: Sequence[Subject], by_example: bool) -> str:
    sizes = [run.batch_size for run in runs]
    if by_example:
        unknown = next((run for run in runs if not run.batch_size), None)
        return (
            f"the batch size of {unknown.name} is unknown: no time per example" if unknown else ""
        )
    other = _first_other(runs, lambda run: run.batch_size)
    if other is None:
        return ""
    first = runs[0]
    words = " and ".join(
        (_named(first, f"batch size {sizes[0]}"), _named(other, f"batch size {other.batch_size}"))
    )
    return (
        f"{words}: their steps are not the same work; compare the time of an example with"
        " --by-example"
    )


def _other_machine(runs: Sequence[Subject]) -> str:
    other = next((run for run in runs if not is_same_kind(runs[0], run)), None)
    if other is None:
        return ""
    pair = " and ".join(_named(run, _machine_words(run)) for run in (runs[0], other))
    return f"{pair} are different machines: their step times cannot be compared"


def _too_short(runs: Sequence[Subject], least_steps: int) -> str:
    short = next((run for run in runs if run.steady_steps < least_steps), None)
    if short is None:
        return ""
    steps = units.counted(short.steady_steps, "steady step")
    return f"{short.name} has {steps} with its last setting: a comparison needs {least_steps}"


def _mixed_side(side: Sequence[Subject]) -> str:
    for other in side[1:]:
        for change in [*_changed("setting", side[0].settings, other.settings)]:
            if change.name not in _FREE:
                differ = (
                    f"{change.name} is {change.before or 'not set'} and {change.after or 'not set'}"
                )
                return f"{side[0].name} and {other.name} are on one side, but {differ}"
    return ""


def is_same_kind(one: Subject, other: Subject) -> bool:
    """Return whether two runs were made on one machine, or on machines with the same hardware."""
    if one.host == other.host:
        return True
    if (
        one.device != other.device
        or one.hardware[:2] != other.hardware[:2]
        or one.hardware[0] is None
    ):
        return False
    memory = [run.hardware[2] or 0.0 for run in (one, other)]
    return abs(memory[0] - memory[1]) <= _SAME_MEMORY * max(memory)


def are_equal(one: Subject, other: Subject) -> bool:
    """Return whether two runs trained the same with the same settings and versions on one
    machine."""
    return (one.workload, one.batch_size, one.host, one.device) == (
        other.workload,
        other.batch_size,
        other.host,
        other.device,
    ) and not [change for change in changes([one], [other]) if change.name not in _FREE]


def changes(before: Sequence[Subject], after: Sequence[Subject]) -> list[SideDifference]:
    """Return the facts in which two sides differ."""
    first, second = before[0], after[0]
    differences = [*_changed("setting", first.settings, second.settings)]
    if first.batch_size != second.batch_size and not any(
        change.name == "batch_size" for change in differences
    ):
        differences.append(
            SideDifference(
                "setting", "batch_size", str(first.batch_size or ""), str(second.batch_size or "")
            )
        )
    differences += _changed("version", first.versions, second.versions)
    names = ("host", "device")
    return differences + [
        SideDifference("machine", name, getattr(first, name), getattr(second, name))
        for name in names
        if getattr(first, name) != getattr(second, name)
    ]


def _changed(
    kind: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterable[SideDifference]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            yield SideDifference(kind, name, old, new)


def _first_other(runs: Sequence[Subject], fact: Callable[[Subject], object]) -> Subject | None:
    return next((run for run in runs if fact(run) != fact(runs[0])), None)


def _named(run: Subject, fact: str) -> str:
    return f"{run.name} ({fact})"


def _machine_words(run: Subject) -> str:
    cores, memory = run.hardware[0], run.hardware[2]
    parts = [run.host or "unknown host", f"{cores:g} cores" if cores else "", run.device]
    parts.insert(2, f"{memory / 2**30:.0f} GB" if memory else "")
    return ", ".join(filter(None, parts))
