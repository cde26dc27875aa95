"""`tfwatch serve`: the metrics of the runs for Prometheus, a process beside a training."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tfwatch.cli import options
from tfwatch.config import short_path
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, fails_open, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from prometheus_client.core import Metric

    from tfwatch.report.metrics import ServedRuns

#: As OpenTelemetry's exporter for Prometheus.
_PROMETHEUS_PORT = 9464


def add_serve(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    own = options.add_command(commands, "serve", text, _run_serve)
    own.add_argument(
        "--prometheus", action="store_true", required=True, help="in the format of Prometheus"
    )
    own.add_argument(
        "--port",
        metavar="N",
        type=options.whole(0, 65_535),
        default=_PROMETHEUS_PORT,
        help=f"port ({_PROMETHEUS_PORT})",
    )
    text = "address to listen on (127.0.0.1: this machine alone)"
    own.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help=text)
    options.add_runs_dir(own)


def _run_serve(args: argparse.Namespace) -> int:
    return serve_metrics(options.runs_dir(args), args.host, args.port)


THREADS = 4
#: Connections that are open at a time; the next one is closed at once.
MOST_CONNECTIONS = 16
#: A connection is closed after this long, whatever its client does.
DEADLINE_S = 5.0
#: Scrapes within this time get the same figures: more of them cost no more reading.
FRESH_S = 1.0
_NO_LIBRARY = "serve needs prometheus-client: pip install 'tfwatch[serve]'"
#: A training beside it comes first.
_NICE = 10


class Published:
    """The metrics, made when they are asked for and at most once in `FRESH_S`; a registry for
    prometheus-client."""

    def __init__(self, make: Callable[[], list[Metric]], clock: Clock = SYSTEM) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._made_ns: int | None = None
        self._metrics: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        with self._lock:
            now_ns = self._clock.now_ns()
            if self._made_ns is None or now_ns - self._made_ns >= FRESH_S * 1e9:
                self._metrics = self._make()
                self._made_ns = self._clock.now_ns()
            return self._metrics

    def restricted_registry(self, _names: Iterable[str]) -> Published:
        """Return all metrics: a client does not choose."""
        return self


class _Handler(WSGIRequestHandler):
    timeout = DEADLINE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are frequent, and their text is from outside."""


class MetricsServer(WSGIServer):
    """Serves metrics on an address until the process ends; `serve_forever` accepts connections.

    Raises:
        OSError: the address cannot be used. UnicodeError, OverflowError: it is none.
    """

    request_queue_size = MOST_CONNECTIONS
    allow_reuse_address = True

    def __init__(self, host: str, port: int, published: Published, clock: Clock = SYSTEM) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        from prometheus_client.exposition import make_wsgi_app

        self.set_app(make_wsgi_app(published))
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[socket.socket, int] = {}
        self._waiting: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        for number in range(THREADS):
            threading.Thread(target=self._work, name=f"tfwatch-serve-{number}", daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the metrics."""
        host, port = self.server_address[:2]
        place = f"[{host!s}]" if self.address_family == socket.AF_INET6 else str(host)
        return f"http://{place}:{port}/metrics"

    @property
    def open_connections(self) -> int:
        """The number of connections that are served or wait."""
        return len(self._open)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Pass a connection to a thread, or close it where there are too many."""
        with self._lock:
            is_full = self.open_connections >= MOST_CONNECTIONS
            if not is_full:
                self._open[request] = self._clock.now_ns()
        if is_full:
            self.shutdown_request(request)
        else:
            self._waiting.put((request, client_address))

    def service_actions(self) -> None:
        """Close the connections that are past their deadline; called twice a second."""
        with self._lock:
            late_ns = self._clock.now_ns() - DEADLINE_S * 1e9
            for request, since_ns in self._open.items():
                if since_ns < late_ns:
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Drop the connection: its client has gone, or sent no HTTP."""

    def _work(self) -> None:
        while True:
            request, client_address = self._waiting.get()
            try:
                self.finish_request(request, client_address)
            except Exception:  # noqa: BLE001  the boundary of a client: what it sends ends its own connection only
                self.handle_error(request, client_address)
            finally:
                with self._lock:
                    del self._open[request]
                self.shutdown_request(request)


def serve_metrics(runs_dir: Path, host: str, port: int, clock: Clock = SYSTEM) -> int:
    """Serve metrics until the process is ended.

    Raises:
        BadInputError: a library is missing, the folder cannot be read, or the address cannot be
        used.
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
    """Return the server, which listens; the runs are read once, because the first reading is the
    longest.

    Raises:
        BadInputError: as `serve`.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise BadInputError(_NO_LIBRARY)
    from tfwatch.report.metrics import ServedRuns

    runs = ServedRuns(runs_dir, clock)
    try:
        runs.look()
    except OSError as error:
        raise BadInputError(f"{runs_dir} cannot be read: {error.strerror or error}") from error
    try:
        return MetricsServer(host, port, Published(lambda: read_metrics(runs), clock), clock)
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
