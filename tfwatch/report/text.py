"""The summary of a run in at most twelve lines, at its end."""

from __future__ import annotations

import math
import shlex
import textwrap
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, pairwise
from typing import TYPE_CHECKING, NamedTuple

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.core.events import (
    AUTOMATIC,
    AUTOPILOT,
    AutopilotBegan,
    AutopilotEnded,
    Noted,
    PipelineSwitched,
    RandomDrawsAllowed,
    RecordingLost,
    RecordingResumed,
    StepProfiled,
)
from tfwatch.judge.event_rows import changes_of_run, measured_changes_of_run, other_draws_text
from tfwatch.judge.findings.finding import RemedyForecast
from tfwatch.judge.findings.switch_lines import lines_of, proved_knobs
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.judge.log_lines import NO_GPU, find_meanings
from tfwatch.judge.profile.step_parts import why_no_profile
from tfwatch.judge.steps.time_breakdown import PART_NAMES
from tfwatch.judge.troubles import divergences_text
from tfwatch.report.run_facts import final_loss, finished_epochs, steps_done
from tfwatch.runs.format import MANIFEST
from tfwatch.runs.library import home_folder, is_default
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.steps.time_breakdown import TimeSpent
    from tfwatch.runs.snapshot import Snapshot

_CHANGE = "lines to change:"
#: The indent of a line that is code to paste: it is never wrapped.
CODE = "    "
#: The most rows of the summary, half of a small terminal; its columns where there is no terminal.
_MOST_ROWS, _COLUMNS = 10, 80
#: Characters of one text on a page: a name may have any length, and a line of code is longer.
LONGEST, LONGEST_CODE = 400, 2000
#: The most losses, and lines of code.
_MOST_LOSSES, _MOST_CODE = 3, 4
#: Findings without a loss that have a line of their own; the others have one above, or are losses.
_WARNINGS = ("trainable-ignored", "heat", "swapping", "memory-growth", "callback-stall")
#: The most columns of the bar with its words, and the least of the bar alone.
_MOST_COLUMNS, _LEAST_BAR = 120, 16
_MOST_PARTS = 3
#: A smaller part is not in the bar.
_LEAST_SHARE = 0.02
#: A shorter part reads as 0.0 s.
_LEAST_S = 0.05
#: The fill of a part in the bar.
_FILL = {
    "compute": "=",
    "data wait": "#",
    "validation": ":",
    "between epochs": ".",
    "compile": "~",
    "host": "-",
    "copy to the GPU": "+",
}
_OTHER_FILL = "_"
#: Between epochs beside validation, which is a part of its own: as the words of findings are.
_BETWEEN = ("first_batch_s", "epoch_end_s")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run's time."""

    name: str
    #: The field of `TimeSpent` without its unit; of several, `between`.
    kind: str
    seconds: float
    #: Of the run, 0 to 1.
    share: float


def as_text(run: Snapshot, home: Path, before: str = "", columns: int | None = None) -> str:
    """Return the summary that stays on the terminal; `home` is written `~`. before: a first line.
    columns: of the terminal; None without one.

    Text from outside is cut to one line, without control characters. What does not fit is left out,
    the least important first: the largest losses and the lines to change are left out last.
    """
    columns = columns or _COLUMNS
    number, lines = count(1), []
    for block in _fitting([*_blocks(JudgedRun(run), home, before, columns)], columns):
        lines += block.shown(next(number) if block.is_loss else 0)
    return "\n".join(lines)


def summary_of_runs(runs: Sequence[Path], of: str, columns: int | None = None) -> str:
    """Return the summary of the last of some runs, and the number of those before it.

    runs: the newest first. of: what they are of, `script`. columns: as of `as_text`.
    """
    earlier = units.counted(len(runs) - 1, "earlier run")
    before = f"{earlier} of this {of}: tfwatch runs" if runs[1:] else ""
    return as_text(open_run(runs[0]), home_folder(), before, columns)


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of the summary."""

    #: The blocks of the largest are left out first; 0 stays.
    rank: int
    lines: list[str]
    #: Lines to paste below them, which are left out before them.
    code: list[str] = field(default_factory=list)
    #: It is numbered.
    is_loss: bool = False

    def shown(self, number: int) -> list[str]:
        """Return all lines; the first one begins with the number of a loss."""
        lines = [*self.lines, *self.code]
        return [f"{number}. {lines[0]}", *lines[1:]] if self.is_loss else lines

    def rows(self, columns: int) -> int:
        """Return the rows of a terminal."""
        rows = wrapped("\n".join(self.shown(1)), columns).split("\n")
        return sum(math.ceil(len(row) / columns) for row in rows)


def _blocks(judged: JudgedRun, home: Path, before: str, columns: int) -> Iterator[_Block]:
    run, change, switched = judged.run, _lines_to_change(judged), _switched(judged)
    errors = [textwrap.shorten(one, 2 * columns, placeholder=" ...") for one in failure(run)]
    yield _Block(0, [*filter(None, [before]), outcome_text(judged), *errors])
    yield _Block(0, [*filter(None, [divergences_text(run)])])
    if change.proved:
        yield replace(switched, rank=0, lines=[*switched.lines, *_code(change.proved, columns)])
    # What other programs took stands before all times.
    others = [one.sentence for one in judged.findings if one.kind == "other-programs"]
    yield _Block(2, [*map(one_line, others)])
    yield _Block(5, _not_separated(run))
    yield _Block(4, [*filter(None, [time_bar(judged.time_breakdown.total, columns)])])
    yield _step(judged)
    yield from _losses(judged, change, columns)
    yield from (_Block(5, [line]) for line in _warnings(judged))
    if not change.proved:
        yield switched
    # Why the last A/B test did not begin: `tfwatch ab` has no other answer.
    refused = [one.text for one in run.events.of(Noted) if one.is_refusal][-1:]
    yield _Block(1, [*map(one_line, refused)])
    yield _Block(0, _recorded(run, home))


def _fitting(blocks: Sequence[_Block], columns: int) -> list[_Block]:
    """Return the blocks that fit, in their order, some without their code."""
    left, kept = _MOST_ROWS, {}
    for number, block in sorted(enumerate(blocks), key=lambda one: one[1].rank):
        choices = (block, replace(block, code=[]))
        fitting = (one for one in choices if not one.rank or one.rows(columns) <= left)
        if (block.lines or block.code) and (found := next(fitting, None)):
            kept[number] = found
            left -= found.rows(columns)
    return [kept[number] for number in sorted(kept)]


def one_line(text: str) -> str:
    """Return the first line of text from outside, without control characters."""
    return printable(text.strip().split("\n")[0])


def shown(text: str, longest: int = LONGEST) -> str:
    """Return text from outside for a page: one line without control characters, cut to
    `longest`."""
    return printable(text if len(text) <= longest else f"{text[: longest - 1]}…")


def outcome_text(judged: JudgedRun) -> str:
    """Return `train.py on GPU:0 finished: 3 epochs, 600 steps in 1:12, loss 0.31`."""
    run = judged.run
    where = f" on {run.manifest.device}" if run.manifest.device else ""
    trained = "no step was trained"
    if steps := steps_done(judged):
        epochs, loss = finished_epochs(judged), final_loss(run)
        counts = f"{units.counted(epochs, 'epoch')}, " if epochs else ""
        ended = "" if units.is_missing(loss) else f", loss {loss:.4g}"
        trained = f"{counts}{units.counted(steps, 'step')} in {units.seconds(run.length_s)}{ended}"
    return one_line(f"{run.manifest.workload}{where} {state_text(run)}: {trained}")


def state_text(run: Snapshot) -> str:
    """Return the state of a run: `finished`, `still running`."""
    if run.ended:
        return "stopped by you" if run.ended.is_by_user else run.ended.cause
    if run.has_unrecorded_end:
        return "ended (the disk took no end record)"
    return {
        Life.RUNNING: "still running",
        Life.NOT_RESPONDING: f"not responding for {units.seconds(run.silent_s)}",
        Life.UNKNOWN: f"unknown, no new data for {units.seconds(run.silent_s)}",
        Life.KILLED: "killed (no end record; out of memory?)",
    }.get(run.life, "no end record")


def failure(run: Snapshot) -> list[str]:
    """Return why a run failed, in one sentence; empty where it did not."""
    if run.failure:
        return [one_line(run.failure)]
    if run.ended and run.ended.detail and not run.ended.is_by_user:
        return [one_line(run.ended.detail)]
    return []


def _not_separated(run: Snapshot) -> list[str]:
    why = run.manifest.not_split
    return [one_line(f"the parts of a step were not separated: {why}")] if why else []


# -- time ------------------------------------------------------------------------------------------


def time_parts(total: TimeSpent) -> list[Part]:
    """Return the parts of a run's time that do not read 0.0 s, in the order of display."""
    wall_s = total.wall_s
    spent = {field: getattr(total, field) for field in PART_NAMES}
    return [
        Part(PART_NAMES[field], field.removesuffix("_s"), seconds, seconds / wall_s)
        for field, seconds in spent.items()
        if seconds >= _LEAST_S
    ]


def shown_parts(total: TimeSpent) -> list[Part]:
    """Return the parts of a run's time from 2 % on, in the order of display, and the rest as one;
    first batches and the ends of epochs are one part. They sum to the run."""
    parts = [one for one in time_parts(total) if f"{one.kind}_s" not in _BETWEEN]
    between_s = sum(getattr(total, field) for field in _BETWEEN)
    if between_s > 0:
        parts.append(Part("between epochs", "between", between_s, between_s / total.wall_s))
    shown = [one for one in parts if one.share >= _LEAST_SHARE]
    rest_s = total.wall_s - sum(one.seconds for one in shown)
    return [*shown, Part("other", "other", rest_s, rest_s / total.wall_s)] if shown else []


def time_bar(total: TimeSpent, columns: int) -> str:
    """Return `[=====###..]  = compute 52 %, # data wait 30 %, . between epochs 18 %`, which sum to
    100 %; no bar where it does not fit, and nothing without a second."""
    parts = shown_parts(total)
    shares = [one.share for one in parts]
    named = [
        (_fill(one), f"{one.name} {percent} %")
        for one, percent in zip(parts, _apportion(shares, 100), strict=True)
        if percent
    ]
    words = ", ".join(f"{fill} {text}" for fill, text in named)
    room = min(columns, _MOST_COLUMNS) - len(words) - 5
    if room < _LEAST_BAR:
        return ", ".join(text for _, text in named)
    cells = zip(map(_fill, parts), _apportion(shares, room), strict=True)
    return f"[{''.join(fill * count for fill, count in cells)}]  {words}" if parts else ""


def _apportion(shares: Sequence[float], whole: int) -> list[int]:
    """Return shares of a whole that sum to 1 in whole numbers that sum to it."""
    ends = [round(whole * end) for end in accumulate(shares)]
    return [end - begin for begin, end in pairwise([0, *ends])]


def _fill(part: Part) -> str:
    return _FILL.get(part.name, _OTHER_FILL)


def _step(judged: JudgedRun) -> _Block:
    """Return the longest parts of a profiled step, or why one that was asked for is missing; no
    line without a profile, and where the largest loss names them."""
    profiles = judged.run.events.of(StepProfiled)
    is_asked = bool(profiles) and profiles[-1].by != AUTOMATIC
    parts = judged.situation.step_rows[:_MOST_PARTS]
    words = ", ".join(f"{one.title} {units.percent(one.share)}" for one in parts)
    line = f"a step by layer: {words}; report has all"
    if not parts:
        why = why_no_profile(judged.run.events) if is_asked else ""
        line = f"no profile of the step: {why}" if why else ""
    elif any(one.kind == "compute-bound" for one in judged.losses[:1]):
        line = ""
    return _Block(1 if is_asked else 6, [*filter(None, [one_line(line)])])


# -- losses ----------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """The lines to change. at: the number of the loss that has them, from 0. proved: those that a
    run has proved, as they stand beside others. rest: the others. has_proved: in any of them."""

    at: int
    proved: str
    rest: str
    has_proved: bool


def _lines_to_change(judged: JudgedRun) -> _Change:
    losses, now = judged.losses[:_MOST_LOSSES], judged.situation
    at = next((n for n, one in enumerate(losses) if one.code), 0)
    text = losses[at].code if losses else ""
    made = lines_of(now, proved_knobs(now)) if now.better else ""
    # Where a loss has other lines for the same place, these have what is proved too.
    proved = made if at or not text or text.startswith(made) else ""
    return _Change(at, proved, text.removeprefix(proved), bool(made))


def _losses(judged: JudgedRun, change: _Change, columns: int) -> Iterator[_Block]:
    """Yield the largest losses; a limit without a loss has no number."""
    code = _code(change.rest, columns, "then:" if change.proved else _CHANGE)
    for number, (rank, one) in enumerate(zip((0, 3, 5), judged.losses, strict=False)):
        own = code if number == change.at > 0 else []
        yield _Block(rank, [*_loss(one)], own, is_loss=one.lost_s > 0)
    if not change.at:
        yield _Block(0 if change.has_proved and not change.proved else 1, code)


def _loss(finding: Finding) -> Iterator[str]:
    yield one_line(loss_text(finding) if finding.lost_s else finding.sentence)
    if finding.advice:
        yield f"   -> {one_line(finding.advice)}"
    if isinstance(finding.forecast, RemedyForecast):
        yield f"      {one_line(remedy_text(finding.forecast))}"


def remedy_text(forecast: RemedyForecast) -> str:
    """Return `41.6 to about 9.0 ms/step (78 % of compute by a profile of 3 steps)`."""
    now, then = units.in_one_unit(forecast.now_ms, forecast.step_ms)
    return f"{now} to about {then}/step ({forecast.why})"


def loss_text(finding: Finding) -> str:
    """Return `27.0 s avoidable since the last switch: each step waits 11.9 of 35.8 ms for data
    (train.py:24)`."""
    words = f"avoidable {finding.since}".rstrip()
    lost = f"{units.seconds(finding.lost_s)} {words}: " if finding.lost_s else ""
    is_named = all(part in finding.sentence for part in finding.where.split(", "))
    return f"{lost}{finding.sentence}{'' if is_named else f' ({finding.where})'}"


def _code(code: str, columns: int, title: str = _CHANGE) -> list[str]:
    """Return the lines to change below a title; one that is too wide has no comment."""
    room = columns - len(CODE)
    lines = [printable(line) for line in code.split("\n") if line.strip()]
    short = [line if len(line) <= room else line.partition("  # ")[0] for line in lines]
    fitting = [f"{CODE}{line}" for line in short]
    return [title, *fitting[:_MOST_CODE]] if lines else []


def _warnings(judged: JudgedRun) -> list[str]:
    warnings = [one.sentence for one in judged.findings if one.kind in _WARNINGS]
    # The summary names the device.
    said = [one.text for one in find_meanings(judged.run.log) if one.name != NO_GPU]
    return [one_line(line) for line in (*warnings, *said)]


def _switched(judged: JudgedRun) -> _Block:
    """Return the newest proved gain, else the newest change, measured before others."""
    changes = changes_of_run(judged.run, judged.switches)
    measured = measured_changes_of_run(judged.run, judged.switches)
    # The autopilot's row has its own switches.
    own = judged.run.events.of(PipelineSwitched) if judged.run.events.of(AutopilotEnded) else []
    others = len(changes) - 1 - sum(one.by == AUTOPILOT for one in own)
    drawn = judged.run.events.newest(RandomDrawsAllowed)
    more = f"; {other_draws_text(drawn)}" if drawn else ""
    more += f"; {units.counted(others, 'other change')}" if others > 0 else ""
    newest = (measured or changes)[-1:]
    # The results are others then; or the user has asked for an answer.
    is_asked = bool(judged.run.events.of(AutopilotBegan))
    rank = 0 if drawn or is_asked else 1 if measured else 5
    return _Block(rank, [one_line(f"switched: {one.text}{more}") for one in newest])


# -- the record ------------------------------------------------------------------------------------


def _recorded(run: Snapshot, home: Path) -> list[str]:
    if run.folder is None:
        return ["not recorded: the run folder could not be created"]
    path = run.folder.absolute()
    lost = _lost(run)
    if not (path / MANIFEST).is_file():
        return lost or [one_line(f"no record is left: {_shown(path, home)} no longer exists")]
    is_usual = is_default(path.parent)
    place = f" in {_shown(path.parent, home)}" if is_usual else ""
    again = path.name if is_usual else _shown(path, home, quote=True)
    return [*lost, one_line(f"recorded{place}: tfwatch replay {again}")]


def _lost(run: Snapshot) -> list[str]:
    for event in reversed(run.events):
        if isinstance(event, RecordingResumed):
            return []
        if isinstance(event, RecordingLost):
            return [one_line(f"not recorded since step {units.count(event.step)}: {event.reason}")]
    return []


def _shown(path: Path, home: Path, quote: bool = False) -> str:
    inside = path.is_relative_to(home) and path != home
    text = str(path.relative_to(home)) if inside else str(path)
    text = shlex.quote(text) if quote else text
    return f"~/{text}" if inside else text


def wrapped(text: str, columns: int | None) -> str:
    """Return the text with its lines wrapped between words to a terminal's width; code to paste is
    not wrapped."""
    if columns is None:
        return text
    return "\n".join(
        (
            line
            if len(line) <= columns or line.startswith(CODE)
            else textwrap.fill(
                line,
                columns,
                subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
        for line in text.split("\n")
    )
