"""The metrics of the runs of a folder, as a table: each with its label, meaning and source.

A figure that is missing has no sample: never 0, and never an old one. docs/prometheus.md is
generated from here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.core.rows import Phase
from tfwatch.judge.view import Follower, RunView
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import list_single_runs, run_name
from tfwatch.runs.run import RECENT, Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prometheus_client.core import Metric

#: A run that is over says so for this long: several scrapes see it.
LINGER_S = 300.0
#: The newest runs that have metrics; each takes memory for its sums.
_MOST = 16
#: Every state of a run; one of them is 1.
STATES = ("running", "not responding", "finished", "stopped", "failed", "killed", "unknown")
#: An older sample is no present figure.
_FRESH_S = 5.0
_PARTS = {"data_wait": "wait_ms", "compute": "compute_ms", "host": "host_ms", "copy": "copy_ms"}


class ServedRuns:
    """Follows the newest runs of a folder; `look` reads what is new. One thread at a time calls
    it."""

    def __init__(self, runs_dir: Path, clock: Clock = SYSTEM) -> None:
        self._runs_dir = runs_dir
        self._clock = clock
        self._followed: dict[Path, tuple[Run, Follower]] = {}
        self._over: set[Path] = set()

    def look(self) -> dict[str, RunView]:
        """Return the runs that have metrics now, by their names, the newest first.

        Raises:
            OSError: the folder cannot be read.
        """
        folders = list_single_runs(self._runs_dir)
        self._over.intersection_update(folders)
        views: dict[str, RunView] = {}
        for folder in folders:
            if folder not in self._over and len(views) < _MOST and (view := self._view(folder)):
                views[run_name(folder)] = view
        self._followed = {one: self._followed[one] for one in folders if one in self._followed}
        return views

    def _view(self, folder: Path) -> RunView | None:
        """Return the present view; None of a run that is over for long. A folder that cannot be
        read is tried again."""
        with suppress(NotARunError, OSError):
            if folder not in self._followed:
                run = open_run(folder, self._clock, RECENT)
                if run.life.is_over and self._is_past(run.manifest.origin_wall_ns, run.length_s):
                    self._over.add(folder)
                    return None
                reader = Run(RunFolder(folder), self._clock)
                self._followed[folder] = reader, Follower(live=False)
            reader, follower = self._followed[folder]
            view = follower.follow(reader.read(), (), None)
            began_ns = view.snapshot.manifest.origin_wall_ns
            if not (view.is_over and self._is_past(began_ns, view.snapshot.now_s)):
                return view
            self._over.add(folder)
            del self._followed[folder]
        return None

    def _is_past(self, began_ns: int, length_s: float) -> bool:
        return self._clock.wall_ns() - began_ns > (length_s + LINGER_S) * 1e9


# -- the table -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric. Its name ends with its unit, and that of a sum over the whole run with `_total`."""

    name: str
    meaning: str
    #: Returns the value, None where it is missing; with a label, the value of each.
    of: Callable[[RunView], float | Mapping[str, float | None] | None]
    #: Beside `run`.
    label: str = ""
    #: Only while the run trains.
    is_present: bool = True


def _state(view: RunView) -> dict[str, float]:
    ended = view.snapshot.ended
    state = ended.cause if ended else view.snapshot.life.value
    now = state if state in STATES else "unknown"
    return {one: float(one == now) for one in STATES}


def _step_seconds(view: RunView) -> dict[str, float]:
    epochs = view.snapshot.epochs
    sums = {part: float(epochs[column].sum()) / 1e3 for part, column in _PARTS.items()}
    has_copy = len(epochs) and epochs["copies"].any()
    return {part: sums[part] for part in sums if len(epochs) and (part != "copy" or has_copy)}


def _steady(view: RunView) -> Any:
    split = view.situation.split
    return split if split and split.is_enough else None


def _loss(view: RunView) -> float | None:
    latest = view.snapshot.latest
    return latest.loss if latest and not view.situation.diverged else None


def _newest(column: str) -> Callable[[RunView], float | None]:
    """Return the source of a column of the newest sample; None without a recent one."""

    def value(view: RunView) -> float | None:
        samples, now_s = view.snapshot.samples, view.snapshot.now_s
        is_fresh = len(samples) and float(samples["at_ns"][-1]) / 1e9 >= now_s - _FRESH_S
        return float(samples[column][-1]) if is_fresh else None

    return value


METRICS = (
    MetricRow(
        "tfwatch_run_info",
        "1, with the workload and its device",
        lambda view: {f"{view.snapshot.manifest.workload} on {view.snapshot.manifest.device}": 1.0},
        "trains",
        is_present=False,
    ),
    MetricRow(
        "tfwatch_run_state",
        f"1 for the state: {', '.join(STATES)}",
        _state,
        "state",
        is_present=False,
    ),
    MetricRow(
        "tfwatch_steps_total",
        "steps completed",
        lambda view: view.snapshot.steps_total,
        is_present=False,
    ),
    MetricRow(
        "tfwatch_step_seconds_total",
        "seconds of all steps: data_wait, compute with compiling, host; copy where it is timed",
        _step_seconds,
        "part",
        is_present=False,
    ),
    MetricRow(
        "tfwatch_examples_total",
        "examples trained on",
        lambda view: view.snapshot.latest.examples or None if view.snapshot.latest else None,
        is_present=False,
    ),
    MetricRow(
        "tfwatch_data_wait_ratio",
        "data wait over step time in the last seconds",
        lambda view: split.wait_share if (split := _steady(view)) else None,
    ),
    MetricRow(
        "tfwatch_step_time_seconds",
        "mean step time in the last seconds",
        lambda view: split.step.mean / 1e3 if (split := _steady(view)) else None,
    ),
    MetricRow(
        "tfwatch_finding_ratio",
        "time that the remedy of a finding gives back, over the present regime",
        lambda view: {one.kind: one.share for one in view.losses if one.lost_s},
        "kind",
    ),
    MetricRow(
        "tfwatch_open_data_wait_seconds",
        "the data wait that lasts now",
        lambda view: view.situation.phase_s if view.situation.phase is Phase.WAIT else None,
    ),
    MetricRow(
        "tfwatch_remaining_seconds",
        "forecast time until the end",
        lambda view: view.situation.left_s,
    ),
    MetricRow("tfwatch_loss", "the loss; no sample while it is NaN or infinite", _loss),
    MetricRow(
        "tfwatch_process_memory_bytes",
        "memory of the process that trains",
        _newest("process_bytes"),
    ),
    MetricRow(
        "tfwatch_gpu_busy_ratio", "share of time with a kernel on the GPU", _newest("gpu_busy")
    ),
    MetricRow("tfwatch_gpu_memory_bytes", "memory of the GPU in use", _newest("gpu_memory_bytes")),
    MetricRow("tfwatch_gpu_power_watts", "power of the GPU", _newest("gpu_power_w")),
)
_UP = "1; 0 where the runs folder cannot be read"


def describe_metrics() -> Iterator[str]:
    """Yield the table of the page on Prometheus."""
    yield from ("| metric | labels | meaning |", "| --- | --- | --- |")
    yield f"| `tfwatch_up` | | {_UP} |"
    for one in METRICS:
        labels = f"`run`, `{one.label}`" if one.label else "`run`"
        yield f"| `{one.name}` | {labels} | {one.meaning} |"


def metrics_of(runs: Mapping[str, RunView] | None) -> list[Metric]:
    """Return the metrics of all runs; None: they cannot be read."""
    families: list[Metric] = [GaugeMetricFamily("tfwatch_up", _UP, float(runs is not None))]
    for row in METRICS:
        labels = ["run", row.label] if row.label else ["run"]
        kind = CounterMetricFamily if row.name.endswith("_total") else GaugeMetricFamily
        family: Any = kind(row.name, row.meaning, labels=labels)
        for name, view in (runs or {}).items():
            is_shown = not (row.is_present and (view.is_over or view.snapshot.life.is_stale))
            for own, value in _samples(row, view) if is_shown else ():
                family.add_metric([_run_label(name), *own], value)
        families.append(family)
    return families


def _samples(row: MetricRow, view: RunView) -> Iterator[tuple[list[str], float]]:
    found = row.of(view)
    values = found if isinstance(found, Mapping) else {"": found}
    for label, value in values.items():
        if value is not None and math.isfinite(value):
            yield [printable(label)] if row.label else [], value


def _run_label(name: str) -> str:
    """Return the name of a run as a label. Two equal ones fail a scrape: no name that is shown as
    it is looks like the escaped form of another one."""
    return name if printable(name) == name and name[0] not in "'\"" else repr(name)
