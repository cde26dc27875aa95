"""`tfwatch serve` and `tfwatch feed`: services beside a training, for Prometheus and for the input pipeline."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from itertools import chain
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, fails_open, printable
from tfwatch.terminal.guard import short_path
from tfwatch.terminal.output import write
from tfwatch.tfdata.feed.processes import FeedError, LocalFeed, join, start_local

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


_FEED_CHECK_S = 0.5


def serve_feed(workers: int, joined: str | None, host: str, port: int = 0) -> int:
    """Run the service until Ctrl-C, or until its last process has ended.

    Raises:
        BadInputError: it cannot be started.
    """
    _print(f"starting {_count(workers)} of the tf.data service")
    try:
        feed = join(joined, workers, host) if joined else start_local(workers, host, port)
        try:
            _print(f"tf.data service: {joined or feed.address}, {_count(workers)}; Ctrl-C ends it")
            return _watch_feed(feed)
        finally:
            feed.stop()
    except KeyboardInterrupt:
        return 0
    except FeedError as error:
        raise BadInputError(str(error)) from error


def _watch_feed(feed: LocalFeed) -> int:
    can_serve = True
    while can_serve:
        time.sleep(_FEED_CHECK_S)
        for sentence in chain(feed.newly_lost(), feed.restart_lost()):
            _print(sentence)
        can_serve = feed.can_serve
    return 1


def _count(workers: int) -> str:
    return f"{workers} worker{'s' * (workers != 1)}"


def _print(text: str) -> None:
    write(sys.stdout, f"{text}\n")
