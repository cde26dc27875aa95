"""The progress of a run in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.core.events import (
    EpochStarted,
    LossDiverged,
    LossRecovered,
)
from tfwatch.core.rows import Phase
from tfwatch.judge.effects.tuner_text import (
    AUTOPILOT_EVENTS,
    EXPERIMENT_EVENTS,
    running_autopilot,
    running_experiment,
)
from tfwatch.judge.findings.loss import current_divergence, divergence_text
from tfwatch.judge.run_situation import judge_now

if TYPE_CHECKING:
    from tfwatch.runs.reading.reader import Snapshot

#: A longer wait is shown.
_LONG_WAIT_S = 1.0
_GAP = "  "
#: The largest value of `--epochs`; a run with more has no such limit.
_MOST_EPOCHS = 65_535
_STARTING = {
    Phase.STARTING: "starting",
    Phase.IMPORT: "importing TensorFlow",
    Phase.DATA_SET: "data set",
    Phase.COMPILE: "compiling",
}
#: A piece of the line, and its rank: where the line is too long the highest goes first.
_Piece = tuple[int, str]


def progress_line(snapshot: Snapshot, width: int | None = None) -> str:
    """Return the progress of a run, in at most `width` cells where it is given.

    `cnn  epoch 2/20  step 412  1 240 examples/s  23.4 ms/step, starving 41 %`.
    """
    trying = _experiment(snapshot) or _autopilot(snapshot)
    pieces = [
        (0, snapshot.manifest.title),
        *_how_far(snapshot),
        *(trying or _starving(snapshot)),
        *_now(snapshot),
    ]
    pieces = [(rank, one_line(text)) for rank, text in pieces]
    while width is not None and len(pieces) > 1 and len(_joined(pieces)) > width:
        pieces.remove(max(pieces, key=lambda piece: piece[0]))
    return _joined(pieces)


def one_line(text: str) -> str:
    """Return the first line of text from outside, without control characters."""
    return printable(text.strip().split("\n")[0])


def _joined(pieces: list[_Piece]) -> str:
    return _GAP.join(text for _, text in pieces)


def _how_far(snapshot: Snapshot) -> list[_Piece]:
    latest = snapshot.latest
    if latest is None:
        return []
    epoch = snapshot.events.newest(EpochStarted)
    of = f"/{epoch.epochs}" if epoch and 0 < epoch.epochs <= _MOST_EPOCHS else ""
    pieces = [(1, f"epoch {latest.epoch + 1}{of}")]
    pieces.append((3, f"step {units.count(latest.step)}"))
    if snapshot.examples_s is not None:
        pieces.append((2, f"{units.count(round(snapshot.examples_s))} examples/s"))
    diverged = current_divergence(snapshot.events.of(LossDiverged, LossRecovered))
    if diverged:
        pieces.append((1, divergence_text(diverged)))
    elif latest.loss is not None:
        pieces.append((5, f"loss {units.number(latest.loss, 3)}"))
    if latest.metric is not None and snapshot.manifest.metric:
        pieces.append((4, f"{snapshot.manifest.metric} {units.number(latest.metric, 3)}"))
    return pieces


def _starving(snapshot: Snapshot) -> list[_Piece]:
    judgement = judge_now(snapshot)
    if judgement.breakdown is None or judgement.steps < judgement.needed:
        return []
    split = judgement.breakdown
    return [
        (
            0,
            f"{units.milliseconds(split.step.median)}/step, starving {units.percent(split.wait_share)}",
        )
    ]


def _experiment(snapshot: Snapshot) -> list[_Piece]:
    running = running_experiment(snapshot.events.of(*EXPERIMENT_EVENTS))
    return (
        [(0, f"A/B test {running.subject}: {running.progress}")]
        if running and not snapshot.ended
        else []
    )


def _autopilot(snapshot: Snapshot) -> list[_Piece]:
    running = running_autopilot(snapshot.events.of(*AUTOPILOT_EVENTS))
    return [(0, f"autopilot, {running.progress}")] if running and not snapshot.ended else []


def _now(snapshot: Snapshot) -> list[_Piece]:
    pulse = snapshot.pulse
    if snapshot.ended:
        return [(0, snapshot.ended.cause)]
    if pulse is None:
        return []
    for_s = snapshot.now_s - pulse.since_ns / 1e9
    lasts = units.seconds(for_s)
    if pulse.phase in _STARTING:
        return [(0, f"{pulse.detail or _STARTING[pulse.phase]}, {lasts}")]
    if pulse.phase is Phase.WAIT and for_s >= _LONG_WAIT_S:
        return [(0, f"no batch for {lasts}")]
    return [(0, f"validation, {lasts}")] if pulse.phase is Phase.VALIDATION else []
