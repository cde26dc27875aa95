"""The metrics of the runs of a folder, as a table: each with its labels, meaning and source.

Names follow OpenTelemetry's conventions in Prometheus' form. A figure that is missing has no
sample: never 0, and never an old one. docs/prometheus.md is generated from here.
"""

from __future__ import annotations

import math
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.judge.machine import gpu_status
from tfwatch.judge.view import Follower, RunView
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import list_single_runs, run_name
from tfwatch.runs.run import RECENT, Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Follows the newest runs of a folder; `look` reads what is new. One thread at a time calls
    it."""

    def __init__(self, runs_dir: Path, clock: Clock = SYSTEM) -> None:
        self._runs_dir = runs_dir
        self._clock = clock
        self._readers: dict[Path, tuple[Run, Follower]] = {}
        self._over: set[Path] = set()

    def look(self) -> list[FollowedRun]:
        """Return the runs that have metrics now, the newest first.

        Raises:
            OSError: the folder cannot be read.
        """
        folders = list_single_runs(self._runs_dir)
        self._over.intersection_update(folders)
        for folder in folders:
            if folder not in self._readers and folder not in self._over:
                self._begin(folder)
        newest = [folder for folder in folders if folder in self._readers][:MOST]
        self._readers = {folder: self._readers[folder] for folder in newest}
        return [one for folder in newest if (one := self._read(folder))]

    def _begin(self, folder: Path) -> None:
        """Follow a run that is not over yet, or ended a moment ago. A folder that cannot be read is
        tried again."""
        with suppress(NotARunError, OSError):
            run = open_run(folder, self._clock, RECENT)
            if run.life.is_over and self._is_past(run.manifest.origin_wall_ns, run.length_s):
                self._over.add(folder)
            else:
                reader = Run(RunFolder(folder), self._clock)
                self._readers[folder] = reader, Follower(live=False)

    def _is_past(self, origin_wall_ns: int, length_s: float) -> bool:
        return self._clock.wall_ns() - origin_wall_ns > (length_s + LINGER_S) * 1e9

    def _read(self, folder: Path) -> FollowedRun | None:
        reader, follower = self._readers[folder]
        view = follower.follow(reader.read(), (), None)
        snapshot = view.snapshot
        if view.is_over and self._is_past(snapshot.manifest.origin_wall_ns, snapshot.now_s):
            del self._readers[folder]
            self._over.add(folder)
            return None
        return FollowedRun(run_name(folder), view)


# -- the table -------------------------------------------------------------------------------------

#: Every state of a run; one of them is 1.
STATES = ("running", "not responding", "finished", "stopped", "failed", "killed", "unknown")
#: An older sample is no present figure.
_FRESH_S = 5.0
#: Characters of a label.
_LONGEST = 200
_PARTS = {"data_wait": "wait_ms", "compute": "compute_ms", "host": "host_ms", "copy": "copy_ms"}
_VERSIONS = ("tensorflow", "keras", "tfwatch")
_GPU_LABELS = ("hw_id", "hw_name")

#: A value, and the labels that set it apart within its metric.
Sample: TypeAlias = "tuple[float | None, dict[str, str]]"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric. Its name ends with its unit, and that of a sum over the whole run with `_total`."""

    name: str
    meaning: str
    #: Yields the samples of a view; one without labels of its own may be a plain value.
    of: Callable[[RunView], Iterable[Sample] | float | None]
    #: Beside `run`, of a machine beside `host_name`.
    labels: tuple[str, ...] = ()

    def samples(self, view: RunView) -> Iterator[Sample]:
        """Yield the samples that are known."""
        found = self.of(view)
        known = [(found, {})] if found is None or isinstance(found, float | int) else found
        yield from (one for one in known if one[0] is not None and math.isfinite(one[0]))


def _info(view: RunView) -> Iterator[Sample]:
    manifest = view.snapshot.manifest
    versions = {key: manifest.versions.get(key, "") for key in _VERSIONS}
    about = {"workload": manifest.workload, "device": manifest.device, "host_name": _host(view)}
    yield 1.0, {**about, **versions}


def _state(view: RunView) -> Iterator[Sample]:
    ended = view.snapshot.ended
    state = ended.cause if ended else view.snapshot.life.value
    now = state if state in STATES else "unknown"
    yield from ((float(one == now), {"state": one}) for one in STATES)


def _step_seconds(view: RunView) -> Iterator[Sample]:
    epochs = view.snapshot.epochs
    for part, column in _PARTS.items():
        if len(epochs) and (part != "copy" or epochs["copies"].any()):
            yield float(epochs[column].sum()) / 1e3, {"part": part}


def _stalls(view: RunView) -> int | None:
    """Return None while a long run is still searched: the number so far is not the run's."""
    return len(view.stalls) if view.situation.searched is None else None


def _examples(view: RunView) -> float | None:
    latest = view.snapshot.latest
    return latest.examples if latest and latest.examples else None


def _steady(view: RunView) -> Any:
    judgement = view.situation.setting.judgement
    return judgement.breakdown if judgement.steps >= judgement.needed else None


def _data_wait(view: RunView) -> float | None:
    split = _steady(view)
    return split.wait_share if split else None


def _step_s(view: RunView) -> float | None:
    split = _steady(view)
    return split.step.mean / 1e3 if split else None


def _findings(view: RunView) -> Iterator[Sample]:
    yield from ((one.share, {"kind": one.kind}) for one in view.losses if one.lost_s)


def _loss(view: RunView) -> float | None:
    latest = view.snapshot.latest
    return latest.loss if latest and not view.situation.diverged else None


def _diverged(view: RunView) -> float | None:
    is_known = view.situation.diverged or _loss(view) is not None
    return float(view.situation.diverged is not None) if is_known else None


def _metric(view: RunView) -> Iterator[Sample]:
    latest, name = view.snapshot.latest, view.snapshot.manifest.metric
    if latest and name:
        yield latest.metric, {"metric": name}


def _newest(column: str) -> Callable[[RunView], float | None]:
    """Return the source of a column of the newest sample; None without a recent one."""

    def value(view: RunView) -> float | None:
        sample = _newest_sample(view)
        return None if sample is None else float(sample[column])

    return value


def _memory(view: RunView) -> Iterator[Sample]:
    yield _newest("memory_used_bytes")(view), {"system_memory_state": "used"}


def _of_gpu(column: str, **labels: str) -> Callable[[RunView], Iterator[Sample]]:
    """Return the source of a column of the first GPU, the one that trains."""

    def samples(view: RunView) -> Iterator[Sample]:
        if gpu := _gpu(view):
            yield _newest(column)(view), {"hw_id": "gpu0", "hw_name": gpu.name, **labels}

    return samples


def _gpu(view: RunView) -> GpuFound | None:
    found = gpu_status(view.snapshot.events.of(GpuFound, SensorMissing))
    return found if isinstance(found, GpuFound) else None


#: Of each run, also one that is over.
RUN_METRICS = (
    MetricRow("tfwatch_run_info", "1", _info, ("workload", "device", "host_name", *_VERSIONS)),
    MetricRow("tfwatch_run_state", f"1 for the state: {', '.join(STATES)}", _state, ("state",)),
    MetricRow("tfwatch_steps_total", "steps completed", lambda v: v.snapshot.steps_total),
    MetricRow(
        "tfwatch_step_seconds_total",
        "seconds of all steps: data_wait, compute with compiling, host; copy where it is timed",
        _step_seconds,
        ("part",),
    ),
    MetricRow("tfwatch_examples_total", "examples trained on", _examples),
    MetricRow("tfwatch_stalls_total", "stretches without a batch", _stalls),
    MetricRow(
        "tfwatch_switches_total",
        "live switches of knobs",
        lambda view: len(view.snapshot.events.switches()),
    ),
)
#: Of a run that trains.
PRESENT_METRICS = (
    MetricRow(
        "tfwatch_data_wait_ratio", "data wait over step time in the last seconds", _data_wait
    ),
    MetricRow("tfwatch_step_time_seconds", "mean step time in the last seconds", _step_s),
    MetricRow(
        "tfwatch_finding_ratio",
        "time that the remedy of a finding gives back, over the present regime",
        _findings,
        ("kind",),
    ),
    MetricRow(
        "tfwatch_open_data_wait_seconds",
        "the data wait that lasts now",
        lambda view: view.situation.phase_s if view.situation.phase is Phase.WAIT else None,
    ),
    MetricRow(
        "tfwatch_epoch",
        "the epoch, from 1",
        lambda view: view.snapshot.latest.epoch + 1 if view.snapshot.latest else None,
    ),
    MetricRow(
        "tfwatch_remaining_seconds",
        "forecast time until the end",
        lambda view: view.situation.figures.left_s,
    ),
    MetricRow("tfwatch_loss", "the loss; no sample while it is NaN or infinite", _loss),
    MetricRow("tfwatch_loss_diverged", "1 while the loss is NaN or infinite", _diverged),
    MetricRow("tfwatch_metric", "the metric", _metric, ("metric",)),
    MetricRow(
        "process_memory_usage_bytes", "memory of the process that trains", _newest("process_bytes")
    ),
    MetricRow("tfwatch_process_cpu_cores", "cores that the process uses", _newest("process_cores")),
)
#: Of each machine that trains.
MACHINE_METRICS = (
    MetricRow("system_memory_usage_bytes", "memory in use", _memory, ("system_memory_state",)),
    MetricRow(
        "hw_power_watts",
        "power of the GPU",
        _of_gpu("gpu_power_w", hw_type="gpu"),
        (*_GPU_LABELS, "hw_type"),
    ),
    MetricRow(
        "hw_temperature_celsius",
        "temperature of the GPU",
        _of_gpu("gpu_temperature_c", hw_type="gpu"),
        (*_GPU_LABELS, "hw_type"),
    ),
    MetricRow(
        "hw_gpu_utilization_ratio",
        "share of time with a kernel on the GPU",
        _of_gpu("gpu_busy"),
        _GPU_LABELS,
    ),
    MetricRow(
        "hw_gpu_memory_usage_bytes",
        "memory of the GPU in use",
        _of_gpu("gpu_memory_bytes"),
        _GPU_LABELS,
    ),
)


def describe_metrics() -> Iterator[str]:
    """Yield the table of the page on Prometheus."""
    yield from ("| metric | labels | meaning |", "| --- | --- | --- |")
    yield "| `tfwatch_up` | | 1; 0 where the runs folder cannot be read |"
    for first, metrics in (
        ("run", RUN_METRICS),
        ("run", PRESENT_METRICS),
        ("host_name", MACHINE_METRICS),
    ):
        for one in metrics:
            labels = ", ".join(f"`{name}`" for name in (first, *one.labels))
            yield f"| `{one.name}` | {labels} | {one.meaning} |"


# -- samples ---------------------------------------------------------------------------------------


class _Families:
    """Metric families by name, each with its samples."""

    def __init__(self) -> None:
        self.found: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def add(self, metrics: Sequence[MetricRow], view: RunView, **labels: str) -> None:
        """Add the samples of a view. labels: of all of them."""
        for metric in metrics:
            for value, own in metric.samples(view):
                self.add_sample(metric.name, metric.meaning, value, {**labels, **own})

    def add_sample(self, name: str, meaning: str, value: Any, labels: dict[str, str]) -> None:
        """Add one sample."""
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = self.found.setdefault(name, kind(name, meaning, labels=list(labels)))
        family.add_metric([label(text) for text in labels.values()], value)


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
    up = "1; 0 where the runs folder cannot be read"
    families.add_sample("tfwatch_up", up, float(runs is not None), {})
    for run in runs or ():
        name, view = run_label(run.name), run.view
        families.add(RUN_METRICS, view, run=name)
        if not (view.is_over or view.snapshot.life.is_stale):
            families.add(PRESENT_METRICS, view, run=name)
    for host, view in _newest_of_each_host(runs or ()).items():
        families.add(MACHINE_METRICS, view, host_name=host)
    return list(families.found.values())


def _newest_of_each_host(runs: Iterable[FollowedRun]) -> dict[str, RunView]:
    """Return one view a machine: several runs on it sample the same figures."""
    views: dict[str, RunView] = {}
    for run in runs:
        if not run.view.is_over and _newest_sample(run.view) is not None:
            views.setdefault(_host(run.view), run.view)
    return views


def _newest_sample(view: RunView) -> Any:
    """Return the newest sample; None without a recent one."""
    snapshot = view.snapshot
    if not len(snapshot.samples):
        return None
    is_fresh = float(snapshot.samples["at_ns"][-1]) / 1e9 >= snapshot.now_s - _FRESH_S
    return snapshot.samples[-1] if is_fresh else None


def _host(view: RunView) -> str:
    return label(view.snapshot.manifest.machine.get("host") or "unknown")
