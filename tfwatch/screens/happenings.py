"""The run's events and stalls as rows of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.comparing import in_a_line, setting
from tfwatch.analysis.patterns import shape
from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.widgets.happened import Happening
from tfwatch.widgets.timeline_picture import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.analysis.switches import Comparison
    from tfwatch.screens.situation import RunView

_LETTERS = {"prefetch": "p", "workers": "w", "latency_ms": "l"}
#: A pause this long is worth a row.
_PAUSED_MS = 200.0
#: Mark, sentence, style.
_Row = tuple[str, str, str]


def happenings(view: RunView) -> tuple[Happening, ...]:
    """Everything worth a row, oldest first."""
    snapshot = view.snapshot
    rows = [*_told(view), *_stalled(view), *_shaped(view)]
    rows.sort(key=lambda timed: timed[0])
    return tuple(Happening(at_s, clock(snapshot, at_s), *row) for at_s, row in rows)


def _stalled(view: RunView) -> Iterator[tuple[float, _Row]]:
    for stall in view.stalls:
        cause = "" if stall.cause == "unexplained" else f", {stall.cause}"
        text = f"no batch for {units.seconds(stall.lost_ms / 1e3)} at step {units.count(stall.step)}{cause}"
        yield stall.start_ns / 1e9, ("S", text, "$text-error")


def _shaped(view: RunView) -> Iterator[tuple[float, _Row]]:
    for pattern in view.patterns:
        yield (
            pattern.start_ns / 1e9,
            ("S", f"{shape(pattern)}, from step {units.count(pattern.step)} on", "$text-error"),
        )


def _told(view: RunView) -> Iterator[tuple[float, _Row]]:
    switches = {(c.step, c.knob): c for c in view.comparisons}
    waiting = {state.asked_s for state in view.knobs.values() if state.asked is not None}
    validations = {e.epoch: e.took_ms for e in view.snapshot.events if isinstance(e, facts.ValidationEnded)}
    for event in view.snapshot.events:
        at_s = event.at_ns / 1e9
        if isinstance(event, facts.PipelineSwitched):
            yield at_s, _switched(event, switches.get((event.step, event.knob)))
        elif isinstance(event, facts.SwitchAsked):
            if at_s in waiting:
                text = f"{setting(event.knob, event.old)} > {event.new} asked"
                yield at_s, (_LETTERS.get(event.knob, "."), text, "")
        elif isinstance(event, facts.EpochEnded):
            yield at_s, _epoch(event, validations.get(event.epoch))
        elif (row := _plain_fact(event)) is not None:
            yield at_s, row


def _switched(event: facts.PipelineSwitched, comparison: Comparison | None) -> _Row:
    letter = _LETTERS.get(event.knob, ".")
    if comparison:
        return letter, in_a_line(comparison), "$text-accent"
    return letter, f"{setting(event.knob, event.old)} > {event.new} at step {units.count(event.step)}", "$text-accent"


def _epoch(event: facts.EpochEnded, validation_ms: float | None) -> _Row:
    """Its figures first: where the pane is narrow, the end is cut."""
    figures = [f"{name} {value:.3g}" for name, value in list(event.metrics.items())[:4]]
    if validation_ms is not None:
        figures.append(f"validation {units.seconds(validation_ms / 1e3)}")
    return "E", f"epoch {event.epoch + 1} to step {units.count(event.step)}: {', '.join(figures)}".rstrip(": "), ""


def _plain_fact(event: facts.Event) -> _Row | None:
    """A fact that needs nothing else to be told; None where it is no row of its own."""
    match event:
        case facts.ImportEnded():
            return ".", f"TensorFlow {event.tensorflow} imported in {units.seconds(event.took_ms / 1e3)}", ""
        case facts.DatasetReady():
            skipped = f", {event.skipped} skipped that cannot be read" if event.skipped else ""
            names = f": {', '.join(event.examples[:3])}" if event.examples else ""
            took = units.seconds(event.took_ms / 1e3)
            return ".", f"{units.count(event.images)} images ready in {took}{skipped}{names}", ""
        case facts.SwitchFailed():
            return _LETTERS.get(event.knob, "."), f"{event.knob} not switched: {event.reason}", "$text-warning"
        case facts.SensorMissing():
            return ".", f"{event.sensor} n/a: {event.reason}{f'; {event.fix}' if event.fix else ''}", ""
        case facts.Paused() if event.took_ms >= _PAUSED_MS and event.cause != "CPU contention":
            name = f"{event.cause} {event.detail}".strip()
            return ".", f"{name} held the training up for {units.seconds(event.took_ms / 1e3)}", ""
        case facts.Noted():
            return ".", event.text, ""
    return _trouble(event)


def _trouble(event: facts.Event) -> _Row | None:
    match event:
        case facts.Slept():
            return "Z", f"asleep for {units.seconds(event.slept_ms / 1e3)}, not counted", ""
        case facts.RecordingLost():
            text = f"not recorded from step {units.count(event.step)} on: {event.reason}"
            return "!", text, "$text-error"
        case facts.RecordingResumed():
            return "!", "recording again; what was kept in memory is on disk", ""
        case facts.WatchFailed():
            return "!", f"tfwatch failed and measures no more: {event.reason}", "$text-error"
        case facts.TrainingFailed():
            return "X", f"failed at step {units.count(event.step)}: {event.error}", "$text-error"
        case facts.RunEnded():
            detail = f": {event.detail}" if event.detail else ""
            return "X", f"{event.cause} after {units.count(event.steps)} steps{detail}", ""
    return None
