"""Restarts: the same training with other start knobs. The process is replaced by the new command."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tfwatch.commands.training.start_knobs import start_knobs
from tfwatch.config import read_config
from tfwatch.core.start_knobs import RestartOffer, StartKnob, Value
from tfwatch.doctor.quick_facts import GpuPresence, find_gpu
from tfwatch.runs.library.finding import default_runs_dir
from tfwatch.runs.library.removal import configured_limits, limit_words
from tfwatch.workloads.registry import default_knobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.commands.factories import Factories
    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.control.requests import Control
    from tfwatch.runs.writer import RunWriter
    from tfwatch.terminal.notification import NotifyOptions
    from tfwatch.training.request import TrainRequest


def announce(words: Sequence[str]) -> None:
    """Print the command that starts now."""
    sys.stderr.write(f"{shlex.join(('tfwatch', *words))}\n")
    sys.stderr.flush()


def exec_command(words: Sequence[str], factories: Factories) -> int:
    """Print the command and replace this process by it. Returns 1, after a sentence, only where that fails."""
    announce(words)
    try:
        factories.exec_command(words)
    except OSError as error:
        sys.stderr.write(f"tfwatch: the command cannot start: {error.strerror or error}\n")
        return 1
    return 0


#: In the folder of the run that trained them.
WEIGHTS = "last.weights.h5"
_BEGIN_WITH = "--begin-with"


class Keeping(Protocol):
    """The part of `tfwatch.training.trainer.Trainer` that a restart uses."""

    def save_weights(self, path: Path) -> str: ...


class Restart:
    """The restart of one run. chosen: the options chosen on the screen; None where no restart is asked for."""

    def __init__(self, request: TrainRequest, writer: RunWriter, control: Control) -> None:
        self.chosen: tuple[str, ...] | None = None
        self._request = request
        self._writer = writer
        self._control = control

    @property
    def offer(self) -> RestartOffer:
        """The start knobs that the screen offers, and the function that takes the choice."""
        return RestartOffer(self._knobs, self._take)

    @property
    def command(self) -> tuple[str, ...]:
        """The command line: the options that were chosen, the live knobs as last requested, and the rest as before."""
        plan, folder = self._request.plan, self._writer.folder
        after = ("--after", str(folder.absolute())) if folder else ()
        return (
            "train",
            plan.workload,
            *_live(
                _possible(self._control.requested_knobs, self.chosen or ()),
                default_knobs(plan.workload),
            ),
            *(self.chosen or ()),
            *_rest(self._request),
            *after,
        )

    def keep(self, trainer: Keeping) -> str:
        """Save the weights, where that was chosen. Returns the reason of a failure; empty where there is none.

        The weights that this run started with are deleted afterwards, so that a failed restart can be repeated.
        """
        if self.chosen is None or _BEGIN_WITH not in self.chosen or self._writer.folder is None:
            return ""
        why = trainer.save_weights(self._writer.folder / WEIGHTS)
        begun_with, after = self._request.plan.start_weights, self._request.after
        if not why and begun_with and after and begun_with == Path(after) / WEIGHTS:
            with contextlib.suppress(OSError):  # a file more
                begun_with.unlink()
        return why

    def _take(self, words: tuple[str, ...] | None) -> None:
        self.chosen = words

    def _knobs(self) -> tuple[StartKnob, ...]:
        plan = self._request.plan
        return (self._weights(), *start_knobs(plan.workload, plan.settings, self._gpu()))

    def _gpu(self) -> GpuPresence:
        """The GPU as TensorFlow reports it, once it is imported."""
        manifest, here = self._writer.manifest(), find_gpu()
        if manifest.accelerated:
            return replace(here, missing="")
        seen = manifest.device and self._request.plan.settings.device == "auto"
        return replace(here, missing=here.missing or "TensorFlow sees none") if seen else here

    def _weights(self) -> StartKnob:
        """The weights that the training starts with."""
        folder, fresh, note = self._writer.folder, Value("re-initialized"), "as the model is built"
        why = (
            "nothing is recorded"
            if folder is None
            else "no step is completed yet"
            if not self._writer.has_trained
            else ""
        )
        if why or folder is None:
            return StartKnob("weights of", (fresh,), 0, note, refused=f"this run: {why}")
        kept = Value("this run", (_BEGIN_WITH, str(folder.absolute() / WEIGHTS)))
        return StartKnob("weights of", (kept, fresh), 0, "or re-initialized: as the model is built")


def _possible(knobs: Knobs, chosen: tuple[str, ...]) -> Knobs:
    """Return the knobs without a prefetch to the device where the chosen options exclude it."""
    is_on_cpu = ("--device", "cpu") in pairwise(chosen)
    return (
        replace(knobs, device_prefetch="off")
        if is_on_cpu or "--steps-per-execution" in chosen
        else knobs
    )


def _live(knobs: Knobs, defaults: Knobs) -> tuple[str, ...]:
    """The options of the live knobs that differ from their defaults: the new process reads the config file too."""
    words: list[str] = []
    for option, now, default in (
        ("--prefetch", knobs.prefetch, defaults.prefetch),
        ("--workers", knobs.workers, defaults.workers),
        ("--shuffle", knobs.shuffle, defaults.shuffle),
        ("--device-prefetch", knobs.device_prefetch, defaults.device_prefetch),
    ):
        words += [] if now == default else [option, str(now)]
    words += ["--storage-latency", f"{knobs.latency_ms:g}"] if knobs.latency_ms else []
    words += _switch("fast-pipeline", knobs.fast_pipeline, defaults.fast_pipeline)
    words += [] if knobs.cache == defaults.cache else ["--cache", "on" if knobs.cache else "off"]
    return tuple(words)


def _rest(request: TrainRequest) -> tuple[str, ...]:
    """The other options of the request. Scheduled switches belong to the first run only."""
    words = (
        []
        if request.runs_dir == default_runs_dir()
        else ["--runs-dir", str(request.runs_dir.absolute())]
    )
    words += ["--theme", request.theme] if request.theme else []
    configured = read_config().values
    words += _switch("keep-awake", request.keep_awake, configured.get("keep-awake", False))
    words += (
        []
        if request.gpu_sensor == configured.get("gpu-sensor", "auto")
        else ["--gpu-sensor", request.gpu_sensor]
    )
    words += ["--autopilot"] if request.autopilot else []
    words += _notify_words(request.notify)
    limits = request.limits
    words += (
        []
        if limits is None or limits == configured_limits(request.runs_dir)
        else limit_words(limits)
    )
    words += (
        []
        if request.memory_bytes is None
        else ["--memory-limit", f"{request.memory_bytes / 2**30:.12g}"]
    )
    return tuple(words)


def _switch(name: str, is_on: bool, default: bool) -> list[str]:
    """Return the option that turns a switch on or off, where it is not so by default."""
    return [] if is_on == default else [f"--{name}" if is_on else f"--no-{name}"]


def _notify_words(asked: NotifyOptions) -> list[str]:
    """Return the options of the notices; none turns those of the config file off."""
    configured = read_config().values
    if not asked.is_asked:
        return ["--no-notify"] if "notify" in configured or "notify-command" in configured else []
    words = ["--notify"] if asked.in_terminal else ["--no-notify"]
    words += ["--notify-command", shlex.join(asked.command)] if asked.command else []
    return [*words, "--notify-after", f"{asked.after_s:g}"]
