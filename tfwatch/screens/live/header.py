"""The top of the screen: a line with workload, device, progress, speed and the state of the
recording; below it the banner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.judge.banner import moment_text
from tfwatch.judge.effects.wording import steps_text
from tfwatch.judge.findings.finding import MOMENT, Finding, Tone
from tfwatch.judge.script_runs import newest_fit
from tfwatch.runs.folder import SLOW_S
from tfwatch.runs.library import short_path
from tfwatch.runs.liveness import Life
from tfwatch.screens.pane import Pane, ViewPane
from tfwatch.screens.text import fit, row, shorten, shorten_clauses, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.judge.view import RunView
    from tfwatch.runs.folder import RunFolder
    from tfwatch.runs.snapshot import Snapshot

_RECORDING = "recording"
#: The longest name in a narrow window, cells: at 60 columns the epoch and the recording state fit
#: beside it.
_LONGEST_NAME = 28


class RunHeader(ViewPane):
    """The run in one line; a narrow line drops the least important parts first."""

    DEFAULT_CSS = """
    RunHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    def news(self, view: RunView) -> object:
        """Return the second, as faster figures are unreadable, and the states."""
        second = second_of(view.snapshot.now_s, Slot.HEADER)
        moment = _moment(view)
        return second, view.snapshot.life, epoch_text(view), _state(view), moment

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.view is None:
            return []
        text, alert = _state(self.view)
        mark = "● " if text == _RECORDING else ""
        state = row((f"{mark}{text}", "$text-error bold" if alert else "$text-success"))
        parts = [(rank, part) for rank, part in self._parts(self.view, width) if part.plain]
        room = max(10, width - state.cell_length - 2)
        return [spread(fit(parts, room), state, width)]

    def _parts(self, view: RunView, width: int) -> Iterator[tuple[int, Content]]:
        device, name = _device(view), max(_LONGEST_NAME, width * 3 // 7)
        runs, moment = view.snapshot.life is Life.RUNNING, _moment(view)
        yield 5, row(("tfwatch", "$accent bold"))
        yield 0, row((shorten(view.snapshot.manifest.workload, name), "bold"))
        yield 4, row(f"on {device}" if device else "")
        yield 0, row((_rank(view), "bold"))
        yield 0, row(epoch_text(view))
        yield 3, self._bar(view.snapshot)
        yield 2, row(_step(view.snapshot))
        yield 0, row((moment, "$text-warning bold"))
        runs = runs and not moment
        per_s, left_s = view.snapshot.examples_s, view.situation.left_s
        if runs and per_s is not None:
            yield 1, row((f"{units.count(round(per_s))} examples/s", "bold"))
        if runs and left_s is not None and view.snapshot.latest:
            yield 1, row(f"ETA {_duration(left_s)}")

    def _bar(self, snapshot: Snapshot) -> Content:
        """Draw the finished share of the epoch; nothing where its length is unknown."""
        latest, per_epoch = snapshot.latest, _steps_of_epoch(snapshot)
        if latest is None or not per_epoch:
            return Content()
        full = min(round(10 * latest.epoch_step / per_epoch), 10)
        rest = "░" * (10 - full)
        return row(("█" * full, "$primary"), (rest, "$foreground 40%"))


def epoch_text(view: RunView) -> str:
    """Return `epoch 2/20`, from a script's second fit on after its number: `fit 3 epoch 1`; of
    fits with one epoch each `fit 78`."""
    manifest, latest = view.snapshot.manifest, view.snapshot.latest
    fit = f"{'loop' if manifest.loop else 'fit'} {view.fit}" if view.fit > 1 else ""
    if 1 < newest_fit(view.snapshot) >= (manifest.epochs or 0) > 0:
        return fit
    # The manifest of a script's next fit comes a moment after its first steps.
    is_known = latest is not None and latest.epoch < (manifest.epochs or 0)
    of = f"/{manifest.epochs}" if is_known else ""
    return " ".join(filter(None, (fit, f"epoch {latest.epoch + 1}{of}" if latest else "")))


def _rank(view: RunView) -> str:
    manifest = view.snapshot.manifest
    of_size = f" of {manifest.group_size}" if manifest.group_size else ""
    return f"rank {manifest.rank}{of_size}" if manifest.group else ""


def _device(view: RunView) -> str:
    """Return the GPU's name as its sensor reads it: TensorFlow has no useful name for a Mac's."""
    manifest, machine = view.snapshot.manifest, view.situation.machine
    if not manifest.accelerated or machine is None or machine.found is None:
        return manifest.device
    return f"{manifest.device.partition(' ')[0]} {machine.found.name}".strip()


def _steps_of_epoch(snapshot: Snapshot) -> int | None:
    """Return the steps that the epoch will have: `--steps` may end it earlier."""
    manifest, latest = snapshot.manifest, snapshot.latest
    if latest is None or not manifest.steps_limit:
        return manifest.steps_per_epoch
    left = manifest.steps_limit - (latest.step - latest.epoch_step)
    return max(min(manifest.steps_per_epoch or left, left), latest.epoch_step)


def _step(snapshot: Snapshot) -> str:
    latest, per_epoch = snapshot.latest, _steps_of_epoch(snapshot)
    if latest is None:
        return ""
    if per_epoch:
        return f"{units.count(latest.epoch_step)}/{units.count(per_epoch)}"
    return f"step {units.count(latest.step)}"


def _moment(view: RunView) -> str:
    newest = view.comparisons[-1] if view.comparisons else None
    if moment := moment_text(view.situation):
        return moment
    if newest is None or newest.settled or view.is_over:
        return ""
    return f"{newest.change.words}: {steps_text(newest)}"


def _duration(seconds: float) -> str:
    """Return `50 s`, `57 min`, `1 h 3 min`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else units.seconds(seconds)


def _state(view: RunView) -> tuple[str, bool]:
    snapshot = view.snapshot
    if view.script:
        return _script_state(view)
    if snapshot.life is Life.KILLED:
        return "REPLAY, killed", True
    if snapshot.ended:
        return f"REPLAY, ended {snapshot.local_time(snapshot.ended.at_ns / 1e9):%d %b %H:%M}", False
    if snapshot.unrecorded:
        return "NOT RECORDED", True
    return (
        "ATTACHED" if view.situation.live else "FOLLOWING, read only",
        snapshot.life is not Life.RUNNING,
    )


def _script_state(view: RunView) -> tuple[str, bool]:
    snapshot = view.snapshot
    if view.is_over or snapshot.folder is None:
        return view.script, snapshot.life is Life.KILLED
    if snapshot.unrecorded:
        return "NOT RECORDED", True
    if snapshot.life is Life.GONE:
        return "FOLDER GONE", True
    return _RECORDING, snapshot.life is not Life.RUNNING


# -- the banner ------------------------------------------------------------------------------------

EMPTY = Finding(MOMENT, "STARTING", "", tone=Tone.BUSY)


class BannerPane(Pane):
    """Shows a `Finding`; the tone sets the colour."""

    DEFAULT_CSS = """
    BannerPane {
        height: 3; padding: 0 1; color: $foreground;
        &.-calm, &.-busy { background: $primary-muted; }
        &.-good { background: $success-muted; }
        &.-warn { background: $warning-muted; }
        &.-bad { background: $error-darken-1; color: #ffffff; }
    }
    """

    banner: reactive[Finding] = reactive(EMPTY, repaint=False)

    def watch_banner(self, banner: Finding) -> None:
        self.update_classes({f"-{tone.value}": tone is banner.tone for tone in Tone})
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        """Return the loss, its cause, and what to do; a remark has the place of the loss."""
        found = self.banner
        word = row((f" {found.word} ", "bold reverse"))
        loss = "" if found.kind == MOMENT else found.loss
        first = shorten_clauses(found.remark or loss, width - word.cell_length - 2)
        second = found.sentence if found.remark or not loss else found.cause
        is_cause = bool(found.brief) and second.startswith((f"{found.brief}:", f"{found.brief};"))
        if is_cause and cell_len(second) > width:
            second = found.cause  # a sentence of its own; the word and the chart have the figures
        # Words go before the place, of which a narrow row cuts the end.
        begins = (second, found.cause, second[max(second.find(found.where), 0) :])
        rows = [shorten_clauses(one, width) for one in begins]
        cause = next((one for one in rows if found.where in one), rows[0])
        return [
            word + row((f"  {first}", "bold")),
            row((cause, "bold")),
            row(shorten_clauses(found.advice, width)),
        ]


def silence_of(folder: Path | None, silent_s: float) -> str:
    """Return for how long a disk has not responded; empty where it responds in time.

    Its folder comes last: its end is what a narrow window cuts.
    """
    if silent_s < SLOW_S:
        return ""
    place = f": {short_path(folder)}" if folder else ""
    return f"the disk has not responded for {units.seconds(silent_s)}{place}"


def silent_disk(disk: RunFolder) -> Finding | None:
    """Return the finding about the disk of a run that cannot be read now; None where the disk
    responds in time."""
    silence = silence_of(disk.folder, disk.silent_s) if disk.folder else ""
    advice = (
        "the figures are those of the last answer; the training goes on by itself, and the keys of"
        " this screen work"
    )
    return (
        Finding(MOMENT, "DISK NOT RESPONDING", silence, advice, tone=Tone.WARN) if silence else None
    )
