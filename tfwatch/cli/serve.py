"""`tfwatch serve`: the metrics of the runs for Prometheus, a process beside a training."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import BadInputError, fails_open, printable
from tfwatch.runs.library import short_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client.core import Metric

    from tfwatch.report.metrics import ServedRuns

#: A training beside it comes first.
_NICE = 10


class RunMetrics:
    """The metrics of the runs of a folder; a registry for prometheus-client."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs
        self._lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics now; of no run where the folder cannot be read."""
        from tfwatch.report.metrics import metrics_of

        with self._lock, fails_open(_report):
            return metrics_of(self._runs.look())
        return metrics_of(None)

    def restricted_registry(self, _names: Iterable[str]) -> RunMetrics:
        """Return all metrics: a client does not choose."""
        return self


def _report(why: str) -> None:
    sys.stderr.write(f"tfwatch: the runs cannot be read: {printable(why)}\n")


def serve(args: argparse.Namespace) -> int:
    """Serve metrics until the process is ended.

    Raises:
        BadInputError: a library is missing, the folder cannot be read, or the address cannot be
        used.
    """
    server, thread = start_server(args.runs_dir, args.host, args.port)
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


def start_server(runs_dir: Path, host: str, port: int) -> tuple[Any, threading.Thread]:
    """Return the server, which answers in threads, and its own thread. The runs are read once
    before, because the first reading is the longest.

    Raises:
        BadInputError: as `serve`.
    """
    try:
        from prometheus_client import start_wsgi_server
    except ImportError as error:
        needed = "serve needs prometheus-client: pip install 'prometheus-client>=0.22'"
        raise BadInputError(needed) from error

    from tfwatch.report.metrics import ServedRuns

    runs = ServedRuns(runs_dir)
    try:
        runs.look()
    except OSError as error:
        raise BadInputError(f"{runs_dir} cannot be read: {error.strerror or error}") from error
    metrics: Any = RunMetrics(runs)
    try:
        return start_wsgi_server(port, host, metrics)
    except (OSError, UnicodeError, OverflowError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise BadInputError(f"{printable(host)}, port {port}, cannot be used: {why}") from error
