"""A/B tests and autopilot runs in words, and the settings that a run's end left undecided.

The screen and the summary use the same words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import (
    AUTOPILOT,
    EXPERIMENT,
    WITH_THE_RUN,
    AutopilotBegan,
    AutopilotEnded,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
    TunerLost,
)
from tfwatch.core.knobs import knob_name
from tfwatch.judge.effects.experiment import SAME, Estimate
from tfwatch.judge.effects.switch_text import changes_text, effect_text, estimate_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.core.events import Event
    from tfwatch.judge.effects.experiment import Answer

_WHY = {
    "budget": "too noisy",
    "cancelled": "it was cancelled",
    "key": "a knob was switched first",
    "stopped": "the training was stopped first",
    "ended": "the run ended first",
}


@dataclass(frozen=True, slots=True)
class RunningExperiment:
    """An A/B test that has not ended."""

    began: ExperimentBegan
    #: Its newest one; None before the first one is over.
    block: ExperimentBlock | None
    #: The run ended first.
    cut_off: bool = False

    @property
    def subject(self) -> str:
        """`prefetch off vs 4`."""
        return subject_text(self.began.knob, self.began.values)

    @property
    def status(self) -> str:
        """The end of the test, or that it still runs."""
        return (
            "no answer: the run ended first" if self.cut_off else "runs until the answer is clear"
        )

    @property
    def block_words(self) -> str:
        """`block 7`: the current one."""
        return f"block {self.block.block + 1 if self.block else 1}"

    @property
    def brief(self) -> str:
        """`block 7, so far 1.6 x`."""
        if self.block is None or self.block.ratio is None:
            return self.block_words
        of = f"{self.block.best}: " if len(self.began.values) > 2 else ""
        return f"{self.block_words}, so far {of}{units.times(self.block.ratio)} x"

    @property
    def progress(self) -> str:
        """`block 7, so far 1.6 x (1.2 to 2.1)`."""
        if self.block is None or self.block.low is None or self.block.high is None:
            return self.brief
        return f"{self.brief} ({units.times(self.block.low)} to {units.times(self.block.high)})"


TUNER_LOST = "the terminal of the A/B test or autopilot is gone; its settings stay"
#: The events by which an A/B test runs or not.
EXPERIMENT_EVENTS = (ExperimentBegan, ExperimentBlock, ExperimentEnded, TunerLost)


def running_experiment(events: Iterable[Event]) -> RunningExperiment | None:
    """Return the A/B test that runs; None where none does. Other events are skipped."""
    running: RunningExperiment | None = None
    for event in events:
        if isinstance(event, ExperimentBegan):
            running = RunningExperiment(event, None)
        elif isinstance(event, ExperimentBlock) and running:
            running = RunningExperiment(running.began, event)
        elif isinstance(event, ExperimentEnded | TunerLost):
            running = None
    return running


def subject_text(knob: str, values: list[str]) -> str:
    """Return `prefetch off vs 4`, `prefetch off vs 2, 4`."""
    return f"{knob_name(knob)} {values[0]} vs {', '.join(values[1:])}"


def answer_text(ended: ExperimentEnded) -> str:
    """Return `1.68 x faster (1.61 to 1.74) over 412 steps`, `no difference: between 0.97 and 1.03
    ...`.

    A clear but small difference reads `less than 3 % apart: between 1.00 and 1.02 ...`, no answer
    `not clear: ...`.
    """
    over = f"over {units.count(ended.steps)} steps"
    known = estimate_of(ended)
    if known is None:
        few = "not enough steps" if ended.cause == "budget" else ""
        why = ended.reason or few or _WHY.get(ended.cause, ended.cause)
        return (
            f"not clear: {why} ({units.counted(ended.steps, 'step')} in"
            f" {units.counted(ended.rounds, 'round')})"
        )
    if ended.answer in ("faster", "slower"):
        return f"{estimate_text(known)} {over}"
    if ended.answer == "same":
        none = (
            "no difference"
            if known.low <= 1 <= known.high
            else f"less than {units.percent(SAME)} apart"
        )
        return f"{none}: between {units.times(known.low)} and {units.times(known.high)} {over}"
    why = ended.reason or _WHY.get(ended.cause, ended.cause)
    return (
        f"not clear: between {units.times(known.low)} and {units.times(known.high)} {over}, {why}"
    )


def estimate_of(ended: ExperimentEnded | AutopilotEnded) -> Estimate | None:
    """Return the ratio with its interval; None where it is unknown."""
    if ended.ratio is None or ended.low is None or ended.high is None:
        return None
    return Estimate(ended.ratio, ended.low, ended.high)


def answer_of(ended: AutopilotEnded) -> Answer:
    """Return the answer that the interval proves, as that of a switch."""
    known = estimate_of(ended)
    return known.answer if known and ended.compute_drift is None else "unclear"


def rounds_text(ended: ExperimentEnded) -> str:
    """Return `14 rounds in random order; kept 4`."""
    return f"{units.counted(ended.rounds, 'round')} in random order{_kept(ended)}"


def experiment_line(ended: ExperimentEnded) -> str:
    """Return `prefetch off vs 4: 1.68 x faster (1.61 to 1.74) over 412 steps; kept 4`."""
    of = (
        f"{ended.value} is "
        if len(ended.values) > 2 and ended.answer in ("faster", "slower")
        else ""
    )
    return f"{subject_text(ended.knob, ended.values)}: {of}{answer_text(ended)}{_kept(ended)}"


def _kept(ended: ExperimentEnded) -> str:
    return f"; kept {ended.kept}" if ended.kept and ended.cause not in WITH_THE_RUN else ""


#: The events of an autopilot run.
AUTOPILOT_EVENTS = (AutopilotBegan, MoveMade, MoveJudged, AutopilotEnded, TunerLost)


@dataclass(frozen=True, slots=True)
class AutopilotRun:
    """A run of the autopilot."""

    began: AutopilotBegan
    #: The newest move.
    made: MoveMade | None = None
    #: Judged ones, oldest first.
    moves: tuple[MoveJudged, ...] = ()
    #: None while it runs.
    ended: AutopilotEnded | None = None
    #: Its process is gone without an end.
    is_lost: bool = False

    @property
    def before_ms(self) -> float | None:
        """The mean step at its start; None before a move was judged."""
        known = self.ended.before_ms if self.ended else None
        return self.moves[0].before_ms if known is None and self.moves else known

    @property
    def after_ms(self) -> float | None:
        """The mean step with the moves kept so far; None before a move was judged."""
        if self.ended and self.ended.after_ms is not None:
            return self.ended.after_ms
        kept = [move.after_ms for move in self.moves if move.kept and move.after_ms is not None]
        return kept[-1] if kept else self.before_ms

    @property
    def progress(self) -> str:
        """`move 3: workers off → 8, forecast 9.1 ms; prefetch off → 4 kept: 23.4 to 13.9 ms`."""
        return "; ".join(self.parts)

    @property
    def parts(self) -> list[str]:
        """The current move, and the judgement of the move before."""
        if self.made is None:
            return ["measuring the current setting"]
        judged = self.moves[-1] if self.moves else None
        waits = judged is None or (self.made.at_ns >= judged.at_ns and not self.made.undoes)
        texts = [f"move {len(self.moves) + 1}: {move_text(self.made)}"] if waits else []
        return [*texts, judged_move_text(judged)] if judged else texts


def autopilot_runs(events: Iterable[object]) -> list[AutopilotRun]:
    """Return every autopilot run, oldest first; other events are skipped."""
    runs: list[AutopilotRun] = []
    for event in events:
        if isinstance(event, AutopilotBegan):
            runs.append(AutopilotRun(event))
        elif runs and isinstance(event, MoveMade):
            runs[-1] = replace(runs[-1], made=event)
        elif runs and isinstance(event, MoveJudged):
            runs[-1] = replace(runs[-1], moves=(*runs[-1].moves, event))
        elif runs and isinstance(event, AutopilotEnded):
            runs[-1] = replace(runs[-1], ended=event)
        elif runs and isinstance(event, TunerLost):
            runs[-1] = replace(runs[-1], is_lost=True)
    return runs


def running_autopilot(events: Iterable[object]) -> AutopilotRun | None:
    """Return the autopilot run that has not ended; None where there is none."""
    newest = next(iter(reversed(autopilot_runs(events))), None)
    return newest if newest and newest.ended is None and not newest.is_lost else None


def find_undecided_move(events: Iterable[object]) -> MoveMade | None:
    """Return the move in effect at the end of a run's events that was not kept: the run ended
    first."""
    newest: MoveMade | None = None
    knobs_in_effect: MoveMade | None = None
    for event in events:
        if isinstance(event, MoveMade):
            newest = event
        elif isinstance(event, PipelineSwitched) and event.by == AUTOPILOT:
            knobs_in_effect = newest if newest and not newest.undoes else None
        elif knobs_in_effect and _decides(event, knobs_in_effect):
            knobs_in_effect = None
    return knobs_in_effect


def _decides(event: object, made: MoveMade) -> bool:
    """Return whether an event keeps a move, or is another switch of its knob."""
    if isinstance(event, PipelineSwitched):
        return event.knob == made.knob
    return isinstance(event, MoveJudged) and event.kept


def move_text(made: MoveMade) -> str:
    """Return `workers off → 8, forecast 9.1 ms`."""
    forecast = (
        f", forecast {units.milliseconds(made.forecast_ms)}" if made.forecast_ms is not None else ""
    )
    return f"{made.change.words}{_beside(made)}{forecast}"


def judged_move_text(judged: MoveJudged) -> str:
    """Return `prefetch off → 4 kept: 23.4 to 13.9 ms`, `workers off → 8 undone: 13.9 to 14.0 ms,
    slower`."""
    what = f"{judged.change.words}{_beside(judged)}"
    did, why = "kept" if judged.kept else "undone", judged.reason and f", {judged.reason}"
    if judged.after_ms is None:
        return f"{what} {did}{why}"
    return f"{what} {did}: {' to '.join(units.in_one_unit(judged.before_ms, judged.after_ms))}{why}"


def _beside(move: MoveMade | MoveJudged) -> str:
    return f" with {changes_text(move.beside)}" if move.beside else ""


def move_line(judged: MoveJudged) -> str:
    """Return `prefetch off → 4 kept: 23.4 to 13.9 ms, forecast 13.8`."""
    known = judged.after_ms is not None and judged.forecast_ms is not None
    return judged_move_text(judged) + (
        f", forecast {units.number(judged.forecast_ms)}" if known else ""
    )


def autopilot_gain_text(autopilot_run: AutopilotRun) -> str:
    """Return `autopilot: 1.68 x faster (1.61 to 1.74), 2 of 3 moves kept`; `unchanged` where no
    move was kept.

    While it runs, and where the interval is unknown, the steps alone: `autopilot: 23.4 to 9.2
    ms/step so far, ...`.
    """
    count = sum(move.kept for move in autopilot_run.moves)
    kept = f"{count} of {len(autopilot_run.moves)} moves kept"
    if not count:
        return f"autopilot: unchanged, {kept}"
    if autopilot_run.ended and (claim := _gain_claim(autopilot_run.ended)):
        return f"autopilot: {claim}, {kept}"
    before, after = autopilot_run.before_ms, autopilot_run.after_ms
    so_far = "" if autopilot_run.ended else " so far"
    return (
        f"autopilot: {_steps_text(before, after)}{so_far}, {kept}"
        if before and after
        else f"autopilot: {kept}"
    )


def autopilot_end_text(ended: AutopilotEnded) -> str:
    """Return `autopilot: 2.57 x faster (2.4 to 2.7), 23.4 to 9.1 ms/step, data wait 61 % to 1 %, in
    180 steps; reason`.

    Parts that are unknown are left out.
    """
    over = f"in {units.counted(ended.steps, 'step')}; {ended.reason}"
    if ended.before_ms is None or ended.after_ms is None:
        return f"autopilot: {over}"
    parts = [_gain_claim(ended), _steps_text(ended.before_ms, ended.after_ms)]
    if ended.before_share is not None and ended.after_share is not None:
        parts.append(
            f"data wait {units.percent(ended.before_share)} to {units.percent(ended.after_share)}"
        )
    return f"autopilot: {', '.join(part for part in parts if part)}, {over}"


def _steps_text(before_ms: float, after_ms: float) -> str:
    return f"{' to '.join(units.in_one_unit(before_ms, after_ms))}/step"


def _gain_claim(ended: AutopilotEnded) -> str:
    """Return the ratio of the steps as a switch's; empty where it is unknown."""
    known = estimate_of(ended)
    return effect_text(known, ended.compute_drift) if known else ""


#: The events that show an undecided setting.
UNDECIDED_EVENTS = (
    PipelineSwitched,
    MoveMade,
    MoveJudged,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
)


@dataclass(frozen=True, slots=True)
class Undecided:
    """The knobs under test by an A/B test or the autopilot at the end of a run."""

    #: By knob, the setting by the answer of the test; without an answer the setting before it.
    decided: Mapping[str, str]
    #: First and last step of each stretch with `decided`, oldest first.
    stretches: tuple[tuple[int, int], ...]
    #: The end of the last of them.
    at_ns: int


def find_undecided(events: Iterable[object]) -> Undecided | None:
    """Return the knobs under test at the end of a run's events, of `UNDECIDED_EVENTS`; None where
    all was decided."""
    events = list(events)
    move = find_undecided_move(events)
    if move:
        return Undecided(_before(move, events), ((1, move.step),), move.at_ns)
    experiment = _newest(events)
    return experiment.find_undecided() if experiment else None


def blocks_like_the_last(events: Iterable[object]) -> tuple[tuple[int, int], ...]:
    """Return first and last step of the newest A/B test's earlier stretches with the final setting
    of the run.

    Empty where no A/B test made the last switch. events: of `UNDECIDED_EVENTS`.
    """
    experiment = _newest(events)
    return experiment.like_the_last() if experiment and experiment.switches else ()


def _before(move: MoveMade, events: list[object]) -> dict[str, str]:
    """Return the settings before a move, without the knobs that somebody else has switched
    since."""
    switched = [
        event for event in events[events.index(move) :] if isinstance(event, PipelineSwitched)
    ]
    newest = {one.knob: one for one in switched}.values()
    its_own = [one for one in newest if one.by == AUTOPILOT and one.change in move.beside]
    return {move.knob: move.old} | {one.knob: one.old for one in its_own}


@dataclass(slots=True)
class _Experiment:
    began: ExperimentBegan
    blocks: list[ExperimentBlock]
    switches: list[PipelineSwitched]
    ended: ExperimentEnded | None = None

    def find_undecided(self) -> Undecided | None:
        """Return the undecided knob; None where no switch was made, or the last one made the
        decided setting."""
        if not self.switches:
            return None
        before, now = self.switches[0].old, self.switches[-1].new
        left = self.ended.kept if self.ended and self.ended.cause not in WITH_THE_RUN else before
        decided = left if any(block.value == left for block in self.blocks) else before
        if decided == now or not left:
            return None
        seen = [block for block in self.blocks if block.value == decided]
        at_ns = seen[-1].at_ns if seen else self.began.at_ns
        return Undecided({self.began.knob: decided}, self._stretches(decided), at_ns)

    def like_the_last(self) -> tuple[tuple[int, int], ...]:
        """Return the stretches with the value of the last switch that end before it."""
        last = self.switches[-1]
        return tuple(stretch for stretch in self._stretches(last.new) if stretch[1] < last.step)

    def _stretches(self, value: str) -> tuple[tuple[int, int], ...]:
        """Return first and last step of each stretch with a value of the knob, also of the one
        before the test."""
        first = [(1, self.began.step)] if value == self.switches[0].old else []
        return (
            *first,
            *((block.first, block.last) for block in self.blocks if block.value == value),
        )


def _newest(events: Iterable[object]) -> _Experiment | None:
    """Return the newest A/B test; None where another switch was made since."""
    newest: _Experiment | None = None
    for event in events:
        if isinstance(event, ExperimentBegan):
            newest = _Experiment(event, [], [])
        elif newest and isinstance(event, PipelineSwitched):
            newest.switches.append(event)
            newest = newest if event.by == EXPERIMENT else None
        elif newest and isinstance(event, ExperimentBlock):
            newest.blocks.append(event)
        elif newest and isinstance(event, ExperimentEnded):
            newest.ended = event
    return newest
