"""The time of a training over its restarts, as text and as a JSON object; docs/goodput.schema.json describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis.steps.goodput import stepping_s
from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.core.errors import printable
from tfwatch.report.document_switches import finite

if TYPE_CHECKING:
    from tfwatch.analysis.steps.goodput import Bounds, Goodput, RunLoss

SCHEMA = 1
TWICE = "trained twice"
#: Parts below this would read 0.0 s.
_LEAST_S = 0.05
#: The keys of the parts in the JSON object.
_KEYS = {
    "training steps": "training_steps",
    "data wait": "data_wait",
    "validation": "validation",
    "start: import, data set, compile": "start",
    "first batches, ends of epochs": "between_epochs",
    TWICE: "trained_twice",
    "between runs": "between_runs",
    "other loops and fits": "others",
    "asleep": "asleep",
    "unaccounted": "unaccounted",
}


def goodput_lines(workload: str, found: Goodput, has_names: bool = True) -> list[str]:
    """Return the share of useful steps, where the other time went, and a line a run.

    has_names: of the runs; without them a line is 72 columns wide, and has the moment at which the run began.
    """
    runs, restarts = len(found.runs), len(found.runs) - 1
    over = f"{units.counted(runs, 'run')} of one training, {units.counted(restarts, 'restart')}"
    head = f"{workload}: {over}, {units.seconds(found.wall_s)} of wall clock time"
    lines = [
        head,
        _share_line(found),
        *_why_lines(found),
        "",
        *_part_lines(found),
        "",
        *_run_lines(found, has_names),
    ]
    return [printable(line) for line in lines]


def _share_line(found: Goodput) -> str:
    steps, share = found.useful_steps, found.share
    rate = (
        units.number(steps.known / found.wall_s, 2)
        if steps.known is not None and found.wall_s > 0
        else units.MISSING
    )
    if steps.known is not None:
        useful = units.counted(round(steps.known), "useful step")
        return f"goodput {units.percent(share.known)}: {useful}, {rate} a second of wall clock time"
    useful = (
        f"{units.count(round(steps.least))} to {units.counted(round(steps.most), 'useful step')}"
    )
    return f"goodput n/a: {units.percent(share.least)} to {units.percent(share.most)}, {useful}"


def _why_lines(found: Goodput) -> list[str]:
    return [f"lost progress: n/a, {found.why_not}"] if found.why_not else []


def _part_lines(found: Goodput) -> list[str]:
    """Return a line a part that would not read 0.0 s."""
    rows = [(name, spent_s) for name, spent_s in parts_s(found).items() if spent_s >= _LEAST_S]
    widest = max((len(name) for name, _ in rows), default=0)
    head = ["where nothing of the unknown progress is lost:"] if found.why_not else []
    lines = [
        f"{name:<{widest}}  {units.seconds(spent_s):>12}  {_percent(spent_s, found):>5}"
        for name, spent_s in rows
    ]
    return [*head, *(f"{line}{_note(found, line)}" for line in lines)]


def _percent(spent_s: float, found: Goodput) -> str:
    return units.percent(spent_s / found.wall_s) if found.wall_s > 0 else units.MISSING


def _note(found: Goodput, line: str) -> str:
    steps = round(found.lost_steps.least)
    return f"  {units.counted(steps, 'step')}" if line.startswith(TWICE) and steps else ""


def parts_s(found: Goodput) -> dict[str, float]:
    """Return the parts of the wall clock time, seconds; where lost progress is not known, none of that is lost."""
    kept = found.kept
    return {
        "training steps": stepping_s(kept),
        "data wait": kept.data_wait_s,
        "validation": kept.validation_s,
        "start: import, data set, compile": kept.import_s + kept.data_set_s + kept.compile_s,
        "first batches, ends of epochs": kept.first_batch_s + kept.epoch_end_s,
        TWICE: found.lost_s.least,
        "between runs": found.down_s,
        "other loops and fits": kept.others_s,
        "asleep": kept.asleep_s,
        "unaccounted": kept.unaccounted_s,
    }


def _run_lines(found: Goodput, has_names: bool) -> list[str]:
    head = ("run", "began", "state", "from epoch", "steps", "trained twice", "then down")
    rows = [row if has_names else row[1:] for row in (head, *map(_run_row, found.runs))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _run_row(one: RunLoss) -> tuple[str, ...]:
    run = one.run
    began = local_time(round(run.began_s * 1e9)).strftime("%d %b %H:%M")
    epoch = units.MISSING if run.first_epoch is None else str(run.first_epoch + 1)
    twice = (
        f"n/a, up to {units.count(one.most.steps)}"
        if one.known is None
        else units.count(one.known.steps)
    )
    down = "" if one.down_s is None else units.seconds(one.down_s)
    return (
        printable(run.name),
        began,
        printable(run.state),
        epoch,
        units.count(run.steps),
        twice,
        down,
    )


def goodput_json(workload: str, found: Goodput) -> dict[str, Any]:
    """Return the training over its restarts; docs/goodput.schema.json describes its keys."""
    steps, share = found.useful_steps, found.share
    has_rate = steps.known is not None and found.wall_s > 0
    document: dict[str, Any] = finite(
        {
            "schema": SCHEMA,
            "workload": workload,
            "wall_s": found.wall_s,
            "goodput_share": _bounds(share),
            "useful_steps": _bounds(steps, int),
            "useful_steps_per_s": (steps.known or 0.0) / found.wall_s if has_rate else None,
            "lost_progress_not_known": found.why_not or None,
            "parts_s": {_KEYS[name]: spent_s for name, spent_s in parts_s(found).items()},
            "runs": [_run_json(one) for one in found.runs],
        }
    )
    return document


def _bounds(of: Bounds, kind: type[float] = float) -> dict[str, float | None]:
    known = None if of.known is None else kind(of.known)
    return {"value": known, "low": kind(of.least), "high": kind(of.most)}


def _run_json(one: RunLoss) -> dict[str, Any]:
    run, known = one.run, one.known
    return {
        "run": run.name,
        "state": run.state,
        "began_wall_s": run.began_s,
        "length_s": run.length_s,
        "first_epoch": run.first_epoch,
        "steps": run.steps,
        "trained_twice_steps": known.steps if known else None,
        "trained_twice_s": known.seconds if known else None,
        "trained_twice_steps_high": one.most.steps,
        "trained_twice_s_high": one.most.seconds,
        "why_not": one.why_not or None,
        "down_s": one.down_s,
    }
