"""`tfwatch serve`: the metrics of the runs for Prometheus, a process beside a training."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, fails_open, printable
from tfwatch.runs.library import short_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from prometheus_client.core import Metric

    from tfwatch.report.metrics import ServedRuns

#: Scrapes within this time get the same figures: more of them cost no more reading.
FRESH_S = 1.0
#: A training beside it comes first.
_NICE = 10


class Published:
    """The metrics, made when they are asked for and at most once in `FRESH_S`; a registry for
    prometheus-client."""

    def __init__(self, make: Callable[[], list[Metric]], clock: Clock = SYSTEM) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._due_ns = 0
        self._metrics: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        with self._lock:
            if self._clock.now_ns() >= self._due_ns:
                self._metrics = self._make()
                self._due_ns = self._clock.now_ns() + round(FRESH_S * 1e9)
            return self._metrics

    def restricted_registry(self, _names: Iterable[str]) -> Published:
        """Return all metrics: a client does not choose."""
        return self


def serve(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Serve metrics until the process is ended.

    Raises:
        BadInputError: a library is missing, the folder cannot be read, or the address cannot be
        used.
    """
    server, thread = start_server(args.runs_dir, args.host, args.port, clock)
    with fails_open(lambda _: None):
        os.nice(_NICE)
    host, port = server.server_address[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    sys.stderr.write(
        f"tfwatch: {url} has the runs of {short_path(args.runs_dir)}; ctrl+c ends it\n"
    )
    sys.stderr.flush()
    thread.join()
    return 0


def start_server(
    runs_dir: Path, host: str, port: int, clock: Clock = SYSTEM
) -> tuple[Any, threading.Thread]:
    """Return the server, which answers in threads, and its own thread. The runs are read once
    before, because the first reading is the longest.

    Raises:
        BadInputError: as `serve`.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise BadInputError("serve needs prometheus-client: pip install 'prometheus-client>=0.22'")
    from prometheus_client import start_wsgi_server

    from tfwatch.report.metrics import ServedRuns

    runs = ServedRuns(runs_dir, clock)
    try:
        runs.look()
    except OSError as error:
        raise BadInputError(f"{runs_dir} cannot be read: {error.strerror or error}") from error
    published: Any = Published(lambda: read_metrics(runs), clock)
    try:
        return start_wsgi_server(port, host, published)
    except (OSError, UnicodeError, OverflowError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise BadInputError(f"{printable(host)}, port {port}, cannot be used: {why}") from error


def read_metrics(runs: ServedRuns) -> list[Metric]:
    """Return the metrics now; of no run where the folder cannot be read."""
    from tfwatch.report.metrics import metrics_of

    with fails_open(
        lambda why: sys.stderr.write(f"tfwatch: the runs cannot be read: {printable(why)}\n")
    ):
        return metrics_of(runs.look())
    return metrics_of(None)
