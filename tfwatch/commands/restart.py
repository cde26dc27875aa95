"""This process becomes another command of tfwatch; a restart is the same training with other start knobs.

This process becomes another command of tfwatch.

A restart of a run with other start knobs: what the screen offers, and the command that comes of it.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tfwatch.commands.start_knobs import start_knobs
from tfwatch.core.knobs import Knobs
from tfwatch.core.start_knobs import Restarting, StartKnob, Value
from tfwatch.doctor.quick_facts import GpuHere, gpu_here
from tfwatch.runs.library import default_runs_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.commands.factories import Parts
    from tfwatch.runs.control import Control
    from tfwatch.runs.writer import RunWriter
    from tfwatch.training.request import Order


def become(words: Sequence[str], parts: Parts) -> int:
    """Print the command, and become it. Returns only where that fails: 1, after a sentence."""
    sys.stderr.write(f"tfwatch {shlex.join(words)}\n")
    sys.stderr.flush()
    try:
        parts.become(words)
    except OSError as error:
        sys.stderr.write(f"tfwatch: it cannot be begun: {error.strerror or error}\n")
        return 1
    return 0


#: In the folder of the run that trained them.
WEIGHTS = "last.weights.h5"
_BEGIN_WITH = "--begin-with"


class Keeping(Protocol):
    """What a restart needs of `tfwatch.training.trainer.Trainer`."""

    def save_weights(self, path: Path) -> str: ...


class Restart:
    """Of one run. chosen: the words of the screen; None where nobody asked for a restart."""

    def __init__(self, order: Order, writer: RunWriter, control: Control) -> None:
        self.chosen: tuple[str, ...] | None = None
        self._order = order
        self._writer = writer
        self._control = control

    @property
    def offer(self) -> Restarting:
        """What the screen shows, and tells."""
        return Restarting(self._knobs, self._take)

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command line: what was chosen, the live knobs as last asked for, and the rest as ordered."""
        plan, folder = self._order.plan, self._writer.folder
        after = ("--after", str(folder.absolute())) if folder else ()
        return ("train", plan.workload, *_live(self._control.coming), *(self.chosen or ()), *_rest(self._order), *after)

    def keep(self, trainer: Keeping) -> str:
        """Keep the weights, where that was chosen. Returns why they could not be kept; empty where all is well.

        Those of the run that this one was restarted from go then; until then a restart that fails can be tried again.
        """
        if self.chosen is None or _BEGIN_WITH not in self.chosen or self._writer.folder is None:
            return ""
        why = trainer.save_weights(self._writer.folder / WEIGHTS)
        begun_with, after = self._order.plan.begin_with, self._order.after
        if not why and begun_with and after and begun_with == Path(after) / WEIGHTS:
            with contextlib.suppress(OSError):  # a file more
                begun_with.unlink()
        return why

    def _take(self, words: tuple[str, ...] | None) -> None:
        self.chosen = words

    def _knobs(self) -> tuple[StartKnob, ...]:
        plan = self._order.plan
        return (self._weights(), *start_knobs(plan.workload, plan.settings, self._gpu()))

    def _gpu(self) -> GpuHere:
        """TensorFlow's own word, once it is there."""
        manifest, here = self._writer.manifest(), gpu_here()
        if manifest.accelerated:
            return replace(here, missing="")
        seen = manifest.device and self._order.plan.settings.device == "auto"
        return replace(here, missing=here.missing or "TensorFlow sees none") if seen else here

    def _weights(self) -> StartKnob:
        """Which weights the training begins with."""
        folder, anew, note = self._writer.folder, Value("anew"), "as the model is made"
        why = "nothing is recorded" if folder is None else "no step is done yet" if not self._writer.has_trained else ""
        if why or folder is None:
            return StartKnob("weights of", (anew,), 0, note, refused=f"this run: {why}")
        kept = Value("this run", (_BEGIN_WITH, str(folder.absolute() / WEIGHTS)))
        return StartKnob("weights of", (kept, anew), 0, "or anew: as the model is made")


def _live(knobs: Knobs) -> tuple[str, ...]:
    """The knobs that can be turned while it trains, where they do not stand at their defaults."""
    off = Knobs()
    words: list[str] = []
    for option, now, default in (
        ("--prefetch", knobs.prefetch, off.prefetch),
        ("--workers", knobs.workers, off.workers),
        ("--shuffle", knobs.shuffle, off.shuffle),
    ):
        words += [] if now == default else [option, str(now)]
    words += ["--storage-latency", f"{knobs.latency_ms:g}"] if knobs.latency_ms else []
    words += ["--fast-form"] if knobs.fast_form else []
    words += ["--cache", "on"] if knobs.cache else []
    return tuple(words)


def _rest(order: Order) -> tuple[str, ...]:
    """What was ordered besides the knobs and the settings; scheduled switches were for the run that they were in."""
    words = [] if order.runs_dir == default_runs_dir() else ["--runs-dir", str(order.runs_dir.absolute())]
    words += ["--theme", order.theme] if order.theme else []
    words += ["--keep-awake"] if order.keep_awake else []
    words += [] if order.gpu_sensor == "auto" else ["--gpu-sensor", order.gpu_sensor]
    words += ["--autopilot"] if order.autopilot else []
    words += [] if order.memory_bytes is None else ["--memory-limit", f"{order.memory_bytes / 2**30:.12g}"]
    return tuple(words)
