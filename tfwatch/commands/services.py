"""`tfwatch serve`: the metrics of the runs for Prometheus, a process beside a training."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, fails_open, printable
from tfwatch.terminal.guard import short_path

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client.core import Metric

    from tfwatch.exporter.metrics import FollowedRuns
    from tfwatch.exporter.server import MetricsServer

_NO_LIBRARY = "serve needs prometheus-client: pip install 'tfwatch[serve]'"
#: A training beside it comes first.
_NICE = 10


def serve_metrics(runs_dir: Path, host: str, port: int, clock: Clock = SYSTEM) -> int:
    """Serve metrics until the process is ended.

    Raises:
        BadInputError: a library is missing, the folder cannot be read, or the address cannot be used.
    """
    server = make_server(runs_dir, host, port, clock)
    with fails_open(lambda _: None):
        os.nice(_NICE)
    sys.stderr.write(
        f"tfwatch: {server.url} has the runs of {short_path(runs_dir)}; ctrl+c ends it\n"
    )
    sys.stderr.flush()
    try:
        server.serve_forever()
    finally:
        server.server_close()
    return 0


def make_server(runs_dir: Path, host: str, port: int, clock: Clock = SYSTEM) -> MetricsServer:
    """Return the server, which listens; the runs are read once, because the first reading is the longest.

    Raises:
        BadInputError: as `serve`.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise BadInputError(_NO_LIBRARY)
    from tfwatch.exporter.metrics import FollowedRuns
    from tfwatch.exporter.server import MetricsServer, Published

    runs = FollowedRuns(runs_dir, clock)
    try:
        runs.look()
    except OSError as error:
        raise BadInputError(f"{runs_dir} cannot be read: {error.strerror or error}") from error
    try:
        return MetricsServer(host, port, Published(lambda: read_metrics(runs), clock), clock)
    except (OSError, UnicodeError, OverflowError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise BadInputError(f"{printable(host)}, port {port}, cannot be used: {why}") from error


def read_metrics(runs: FollowedRuns) -> list[Metric]:
    """Return the metrics now; of no run where the folder cannot be read."""
    from tfwatch.exporter.metrics import metrics_of

    with fails_open(
        lambda why: sys.stderr.write(f"tfwatch: the runs cannot be read: {printable(why)}\n")
    ):
        return metrics_of(runs.look())
    return metrics_of(None)
