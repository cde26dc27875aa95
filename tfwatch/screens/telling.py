"""What happened in words: a mark, a sentence and a style for each fact that is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tfwatch.analysis import comparing, flights, trials
from tfwatch.analysis.causes import STOPPED
from tfwatch.analysis.comparing import in_a_line, setting
from tfwatch.analysis.compiles import Compiled
from tfwatch.analysis.limits import LIMITS
from tfwatch.analysis.losses import diverged_words, recovered_words
from tfwatch.analysis.patterns import Pattern, shape
from tfwatch.analysis.stalls import Stall
from tfwatch.analysis.warnings import Told
from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.knobs import KEYS, epochs_until, knob_name
from tfwatch.core.losses import LossDiverged, LossRecovered
from tfwatch.core.moves import AutopilotEnded, MoveJudged
from tfwatch.core.trials import ExperimentBegan, ExperimentEnded
from tfwatch.live.situation import metric_name

if TYPE_CHECKING:
    from tfwatch.analysis.switches import Comparison
    from tfwatch.runs.reader import Snapshot

#: The marks of an experiment and of the autopilot.
_EXPERIMENT, _AUTOPILOT = "A", "F"
#: When a setting that was asked for is in effect, by the times that an epoch has to begin until then.
_WHEN = ("", ", with the next epoch", ", once an epoch has filled it")
#: A pause this long is worth a row.
_PAUSED_MS = 200.0
#: A shorter sleep is told by its length alone.
_SLEPT_MS = 60_000.0
#: Mark, sentence, style.
Row: TypeAlias = tuple[str, str, str]
#: What can be a row.
Source: TypeAlias = facts.Event | Stall | Pattern | Compiled | Told


def found(what: Stall | Pattern | Compiled) -> Row:
    """What was found in the steps."""
    if isinstance(what, Compiled):
        again = f"retraced at step {units.count(what.step)}" if what.again else "compiled"
        return "C", f"{again} in {units.seconds(what.took_ms / 1e3)}, not counted", ""
    if isinstance(what, Pattern):
        return "S", f"{shape(what)}, from step {units.count(what.step)} on", "$text-error"
    cause = "" if what.cause == "unexplained" else f", {what.cause}"
    text = f"no batch for {units.seconds(what.lost_ms / 1e3)} at step {units.count(what.step)}{cause}"
    return "S", text, "$text-error"


def switched(event: facts.PipelineSwitched, comparison: Comparison | None, form: str) -> Row:
    """A switch, and what it gave; `form` names the pipeline's fast form."""
    letter = KEYS.get(event.knob, ".")
    if comparison:
        return letter, in_a_line(comparison, form), "$text-accent"
    where = f"at step {units.count(event.step)}"
    return letter, f"{setting(event.knob, event.old, form)} > {event.new} {where}", "$text-accent"


def asked(event: facts.SwitchAsked, form: str) -> Row:
    """A switch that waits; `form` names the pipeline's fast form."""
    when = _WHEN[epochs_until(event.knob, event.new)]
    return KEYS.get(event.knob, "."), f"{setting(event.knob, event.old, form)} > {event.new} asked{when}", ""


def missed(event: facts.SwitchMissed, form: str) -> Row:
    """A switch for which the run was too short; `form` names the pipeline's fast form."""
    return KEYS.get(event.knob, "."), comparing.missed(event, form), "$text-warning"


def epoch(event: facts.EpochEnded, validation_ms: float | None) -> Row:
    """Its figures first: where the pane is narrow, the end is cut."""
    figures = [f"{metric_name(name)} {value:.3g}" for name, value in list(event.metrics.items())[:4]]
    if validation_ms is not None:
        figures.append(f"validation {units.seconds(validation_ms / 1e3)}")
    figures.append(f"to step {units.count(event.step)}")
    return "E", f"epoch {event.epoch + 1}: {', '.join(figures)}", ""


def slept(event: facts.Slept, snapshot: Snapshot) -> Row:
    """From when until when: the times of day of both its ends."""
    if event.slept_ms < _SLEPT_MS:
        return "Z", f"asleep for {units.seconds(event.slept_ms / 1e3)}, not counted", ""
    # The run's clock stood still: a moment before it is the time at which it fell asleep.
    began, woke = (f"{snapshot.local_time((event.at_ns - before) / 1e9):%H:%M}" for before in (1000, 0))
    advice = "" if snapshot.manifest.settings.get("keep_awake") else "; --keep-awake next time"
    return "Z", f"asleep {began} - {woke}, not counted{advice}", ""


def said(what: Told) -> Row:
    """What TensorFlow said."""
    if what.harmless:
        return ".", f"{what.text} (5 log)", ""
    return ".", f"TensorFlow (5 log): {what.text}", "$text-warning"


def limited(event: facts.Paused) -> Row:
    """Heat or swapping, all of one stretch."""
    took = units.seconds(event.took_ms / 1e3)
    letter, _ = LIMITS[event.cause]
    if event.cause == "swap":
        return letter, f"swapping for {took}: memory was too small", "$text-warning"
    why = f" ({event.detail})" if event.detail else ""
    return letter, f"held back by heat for {took}{why}", "$text-warning"


def plain_fact(event: facts.Event) -> Row | None:
    """A fact that needs nothing else to be told; None where it is no row of its own."""
    match event:
        case facts.ImportEnded():
            return ".", f"TensorFlow {event.tensorflow} imported in {units.seconds(event.took_ms / 1e3)}", ""
        case facts.DatasetReady():
            skipped = f", {event.skipped} skipped that cannot be read" if event.skipped else ""
            names = f": {', '.join(event.examples[:3])}" if event.examples else ""
            took = units.seconds(event.took_ms / 1e3)
            what = "data set" if event.images is None else f"{units.count(event.images)} images"
            return ".", f"{what} ready in {took}{skipped}{names}", ""
        case ExperimentBegan():
            return _EXPERIMENT, f"experiment: {trials.subject(event.knob, event.values)}", "$text-accent"
        case ExperimentEnded():
            return _EXPERIMENT, trials.in_a_line(event), "$text-accent"
        case MoveJudged():
            return _AUTOPILOT, flights.judged_words(event), "" if event.kept else "$foreground 65%"
        case AutopilotEnded():
            return _AUTOPILOT, flights.ended_words(event), "$text-accent"
        case facts.SwitchFailed():
            return (
                KEYS.get(event.knob, "."),
                f"{knob_name(event.knob)} not switched: {event.reason}",
                "$text-warning",
            )
        case facts.SensorMissing():
            return ".", f"{event.sensor} n/a: {event.reason}{f'; {event.fix}' if event.fix else ''}", ""
        case facts.GpuFound():
            first = f", the first of {event.gpus}" if event.gpus > 1 else ""
            return ".", f"{event.name}{first}: figures from {event.source}", ""
        case facts.Paused() if event.took_ms >= _PAUSED_MS and event.cause not in ("CPU contention", *LIMITS):
            took = units.seconds(event.took_ms / 1e3)
            if event.cause == STOPPED:
                where = f" {event.detail}" if event.detail else ""
                return ".", f"held up for {took}{where}: the process was stopped", ""
            name = f"{event.cause} {event.detail}".strip()
            return ".", f"held up for {took} by {name}", ""
        case facts.Noted():
            return ".", event.text, ""
    return _trouble(event)


def _trouble(event: facts.Event) -> Row | None:
    match event:
        case facts.RecordingLost():
            text = f"not recorded from step {units.count(event.step)} on: {event.reason}"
            return "!", text, "$text-error"
        case facts.RecordingResumed():
            return "!", "recording again; what was kept in memory is on disk", ""
        case facts.WatchFailed():
            return "!", f"tfwatch failed and measures no more: {event.reason}", "$text-error"
        case LossDiverged():
            return "!", diverged_words(event), "$text-error"
        case LossRecovered():
            return "!", recovered_words(event), ""
        case facts.TrainingFailed():
            return "X", f"failed at step {units.count(event.step)}: {event.error}", "$text-error"
        case facts.RunEnded():
            detail = f": {event.detail}" if event.detail else ""
            return "X", f"{event.cause} after {units.counted(event.steps, 'step')}{detail}", ""
    return None
