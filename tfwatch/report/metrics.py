"""The metrics of the runs of a folder. Names follow OpenTelemetry's conventions in Prometheus'
form.

A figure that is missing has no sample: never 0, and never an old one.
"""

from __future__ import annotations

import math
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.judge.findings.machine import gpu_status
from tfwatch.judge.steps.verdict import Bound
from tfwatch.judge.view import Follower, RunView
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import list_single_runs, run_name
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import RECENT, Run, open_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from prometheus_client.core import Metric

#: A run that is over says so for this long: several scrapes see it.
LINGER_S = 300.0
#: The newest runs that have metrics; each takes memory for its sums.
MOST = 16


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """A run and its present view. name: as `find_run` takes it."""

    name: str
    view: RunView


class ServedRuns:
    """Follows the runs of a folder; `look` reads what is new. One thread at a time calls it."""

    def __init__(self, runs_dir: Path, clock: Clock = SYSTEM) -> None:
        self._runs_dir = runs_dir
        self._clock = clock
        self._readers: dict[Path, tuple[Run, Follower]] = {}
        self._over: set[Path] = set()
        self._unknown: list[Path] = []

    def look(self) -> list[FollowedRun]:
        """Return the runs that have metrics now, the newest first; those in an unknown state are
        last.

        Raises:
            OSError: the folder cannot be read.
        """
        folders = list_single_runs(self._runs_dir)
        self._forget(set(folders))
        for folder in folders:
            if folder not in self._readers and folder not in self._over:
                self._begin(folder)
        runs = [one for folder in folders if (one := self._read(folder))]
        runs.sort(key=_is_unknown)
        self._unknown = [self._runs_dir / one.name for one in runs if _is_unknown(one)]
        return runs[:MOST]

    def _forget(self, present: set[Path]) -> None:
        self._over &= present
        for folder in self._readers.keys() - present:
            del self._readers[folder]

    def _begin(self, folder: Path) -> None:
        """Follow a run that is not over yet, or ended a moment ago. A folder that cannot be read is
        tried again."""
        with suppress(NotARunError, OSError):
            run = open_run(folder, self._clock, RECENT)
            ended_ns = run.manifest.origin_wall_ns + run.length_s * 1e9
            if run.life.is_over and self._clock.wall_ns() - ended_ns > LINGER_S * 1e9:
                self._over.add(folder)
            elif self._has_room(run.life):
                reader = Run(RunFolder(folder), self._clock)
                self._readers[folder] = reader, Follower(reader.steps_between, live=False)

    def _has_room(self, life: Life) -> bool:
        """Return whether another run can be followed: one in an unknown state gives its place to
        any other."""
        if len(self._readers) >= 2 * MOST and self._unknown and life is not Life.UNKNOWN:
            self._readers.pop(self._unknown.pop(), None)
        return len(self._readers) < 2 * MOST

    def _read(self, folder: Path) -> FollowedRun | None:
        if folder not in self._readers:
            return None
        reader, follower = self._readers[folder]
        view = follower.follow(reader.read(), (), None)
        ended_ns = view.snapshot.manifest.origin_wall_ns + view.snapshot.now_s * 1e9
        if view.is_over and self._clock.wall_ns() - ended_ns > LINGER_S * 1e9:
            del self._readers[folder]
            self._over.add(folder)
            return None
        return FollowedRun(run_name(folder), view)


def _is_unknown(run: FollowedRun) -> bool:
    return run.view.snapshot.life is Life.UNKNOWN


#: Every state of a run; one of them is 1.
STATES = ("running", "not responding", "finished", "stopped", "failed", "killed", "unknown")
_PARTS = {"data_wait": "wait_ms", "compute": "compute_ms", "host": "host_ms"}
#: An older sample is no present figure.
_FRESH_S = 5.0
#: Characters of a label.
_LONGEST = 200


class _Families:
    """Metric families by name, each with its samples."""

    def __init__(self) -> None:
        self._found: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def gauge(self, name: str, text: str, value: float | None, **labels: str) -> None:
        """Add a sample of a figure that goes up and down, where there is one."""
        self._add(GaugeMetricFamily, name, text, value, labels)

    def counter(self, name: str, text: str, value: float | None, **labels: str) -> None:
        """Add a sample of a sum over the whole run, where there is one."""
        self._add(CounterMetricFamily, name, text, value, labels)

    def _add(
        self, kind: Any, name: str, text: str, value: float | None, labels: dict[str, str]
    ) -> None:
        if value is None or not math.isfinite(value):
            return
        family = self._found.get(name) or kind(name, text, labels=list(labels))
        family.add_metric([label(text) for text in labels.values()], value)
        self._found[name] = family

    def all(self) -> list[Metric]:
        """Return the families."""
        return list(self._found.values())


def label(text: str) -> str:
    """Return text from outside as a label: one short line, which Prometheus can read."""
    return printable(text)[:_LONGEST]


def run_label(name: str) -> str:
    """Return the label of a run: its name, or where that is no label, one of its own; two equal
    ones fail a scrape."""
    text = label(name)
    return text if text == name else f"{text[: _LONGEST - 9]}~{zlib.crc32(os.fsencode(name)):08x}"


def metrics_of(runs: Sequence[FollowedRun] | None) -> list[Metric]:
    """Return the metrics of all runs; None: they cannot be read."""
    families = _Families()
    families.gauge("tfwatch_up", "1 where the runs folder can be read.", float(runs is not None))
    runs = runs or ()
    for run in runs:
        name = run_label(run.name)
        _add_run(families, name, run.view)
        _add_sums(families, name, run.view)
        if not (run.view.is_over or run.view.snapshot.life.is_stale):
            _add_present(families, name, run.view)
            _add_process(families, name, run.view)
    for view in _newest_of_each_host(runs):
        _add_machine(families, view)
    return families.all()


def _add_run(families: _Families, name: str, view: RunView) -> None:
    manifest = view.snapshot.manifest
    text = "A run: its workload, device and versions; always 1."
    versions = {key: manifest.versions.get(key, "") for key in ("tensorflow", "keras", "tfwatch")}
    about = {
        "workload": manifest.workload,
        "device": manifest.device,
        "host_name": _host(view),
        **versions,
    }
    families.gauge("tfwatch_run_info", text, 1.0, run=name, **about)
    now = _state(view)
    for state in STATES:
        families.gauge(
            "tfwatch_run_state",
            "1 for the state of the run.",
            float(state == now),
            run=name,
            state=state,
        )


def _state(view: RunView) -> str:
    ended = view.snapshot.ended
    state = ended.cause if ended else view.snapshot.life.value
    return state if state in STATES else "unknown"


def _add_sums(families: _Families, run: str, view: RunView) -> None:
    """Add the sums over the whole run; their rates are those of any window."""
    snapshot, epochs = view.snapshot, view.snapshot.epochs
    families.counter(
        "tfwatch_steps_total", "Training steps completed.", float(snapshot.steps_total), run=run
    )
    text = "Seconds of all steps: data_wait is the time that the device starves."
    for part, column in _PARTS.items():
        if len(epochs):
            families.counter(
                "tfwatch_step_seconds_total",
                text,
                float(epochs[column].sum()) / 1e3,
                run=run,
                part=part,
            )
    if len(epochs) and epochs["copies"].any():
        copy_s = float(epochs["copy_ms"].sum()) / 1e3
        families.counter("tfwatch_step_seconds_total", text, copy_s, run=run, part="copy")
    latest = snapshot.latest
    examples = latest.examples if latest and latest.examples else None
    families.counter("tfwatch_examples_total", "Examples trained on.", examples, run=run)
    # A long run is still searched: the number so far is not the run's.
    stalls = len(view.stalls) if view.situation.searched is None else None
    families.counter(
        "tfwatch_stalls_total", "Stretches in which the device got no batch.", stalls, run=run
    )
    families.counter(
        "tfwatch_switches_total",
        "Live switches of a knob.",
        len(snapshot.events.switches()),
        run=run,
    )


def _add_present(families: _Families, run: str, view: RunView) -> None:
    """Add the present figures of a run that runs."""
    now, latest = view.situation, view.snapshot.latest
    split = (
        now.setting.judgement.breakdown
        if now.setting.judgement.steps >= now.setting.judgement.needed
        else None
    )
    text = (
        "Data wait as a share of step time over the last seconds: from 0.05 moderately, from 0.2"
        " highly input-bound."
    )
    families.gauge("tfwatch_data_wait_ratio", text, split.wait_share if split else None, run=run)
    text = "Mean step time over the last seconds."
    families.gauge(
        "tfwatch_step_time_seconds", text, split.step.mean / 1e3 if split else None, run=run
    )
    for bound in Bound if now.setting.judgement.bound else ():
        at = float(bound is now.setting.judgement.bound)
        families.gauge(
            "tfwatch_bound", "1 for the limit of the steps.", at, run=run, bound=bound.value
        )
    waiting_s = now.phase_s if now.phase is Phase.WAIT else None
    families.gauge(
        "tfwatch_open_data_wait_seconds", "The data wait that lasts now.", waiting_s, run=run
    )
    epoch = latest.epoch + 1 if latest else None
    families.gauge("tfwatch_epoch", "The epoch, counted from 1.", epoch, run=run)
    families.gauge(
        "tfwatch_remaining_seconds",
        "Forecast time until the end of the run.",
        now.figures.left_s,
        run=run,
    )
    _add_loss(families, run, view)


def _add_loss(families: _Families, run: str, view: RunView) -> None:
    latest, manifest = view.snapshot.latest, view.snapshot.manifest
    diverged = view.situation.diverged
    loss = latest.loss if latest and not diverged else None
    families.gauge(
        "tfwatch_loss",
        "The training loss; without a sample while it is NaN or infinite.",
        loss,
        run=run,
    )
    if loss is not None or diverged:
        text = "1 while the loss is NaN or infinite."
        families.gauge("tfwatch_loss_diverged", text, float(diverged is not None), run=run)
    metric = latest.metric if latest and manifest.metric else None
    families.gauge(
        "tfwatch_metric", "The training metric.", metric, run=run, metric=manifest.metric
    )


def _add_process(families: _Families, run: str, view: RunView) -> None:
    newest = _newest_sample(view)
    value = None if newest is None else float(newest["process_bytes"])
    families.gauge(
        "process_memory_usage_bytes", "Memory of the process that trains.", value, run=run
    )
    value = None if newest is None else float(newest["process_cores"])
    families.gauge("tfwatch_process_cpu_cores", "CPU cores that the process uses.", value, run=run)


def _add_machine(families: _Families, view: RunView) -> None:
    newest, host = _newest_sample(view), _host(view)
    if newest is None:
        return
    used, cores = (
        float(newest["memory_used_bytes"]),
        view.snapshot.manifest.machine.get("cores") or math.nan,
    )
    text = "Memory of the machine."
    families.gauge(
        "system_memory_usage_bytes", text, used, host_name=host, system_memory_state="used"
    )
    text = "CPU time in use as a share of all cores."
    families.gauge(
        "system_cpu_utilization_ratio", text, float(newest["cpu_cores"]) / cores, host_name=host
    )
    text = "Power of a part of the machine."
    watts = float(newest["cpu_power_w"])
    families.gauge(
        "hw_power_watts", text, watts, host_name=host, hw_id="cpu", hw_name="CPU", hw_type="cpu"
    )
    gpu = gpu_status(view.snapshot.events.of(GpuFound, SensorMissing))
    if isinstance(gpu, GpuFound):
        _add_gpu(families, newest, gpu, host)


def _add_gpu(families: _Families, newest: Any, gpu: GpuFound, host: str) -> None:
    """Add the figures of the GPU that trains: the first one."""
    about = {"host_name": host, "hw_id": "gpu0", "hw_name": gpu.name}
    busy, memory = float(newest["gpu_busy"]), float(newest["gpu_memory_bytes"])
    families.gauge(
        "hw_gpu_utilization_ratio", "Share of time with a kernel on the GPU.", busy, **about
    )
    families.gauge("hw_gpu_memory_usage_bytes", "Memory of the GPU in use.", memory, **about)
    families.gauge("hw_gpu_memory_limit_bytes", "Memory of the GPU.", gpu.memory_bytes, **about)
    text = "Power of a part of the machine."
    families.gauge("hw_power_watts", text, float(newest["gpu_power_w"]), **about, hw_type="gpu")
    celsius = float(newest["gpu_temperature_c"])
    families.gauge(
        "hw_temperature_celsius",
        "Temperature of a part of the machine.",
        celsius,
        **about,
        hw_type="gpu",
    )


def _newest_of_each_host(runs: Iterable[FollowedRun]) -> Iterator[RunView]:
    """Yield one view a machine: several runs on it sample the same figures."""
    hosts: set[str] = set()
    for run in runs:
        if (
            not run.view.is_over
            and _newest_sample(run.view) is not None
            and _host(run.view) not in hosts
        ):
            hosts.add(_host(run.view))
            yield run.view


def _newest_sample(view: RunView) -> Any:
    """Return the newest sample; None without a recent one."""
    snapshot = view.snapshot
    if (
        not len(snapshot.samples)
        or float(snapshot.samples["at_ns"][-1]) / 1e9 < snapshot.now_s - _FRESH_S
    ):
        return None
    return snapshot.samples[-1]


def _host(view: RunView) -> str:
    return label(view.snapshot.manifest.machine.get("host") or "unknown")
