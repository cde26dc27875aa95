"""`tfwatch serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse

#: As OpenTelemetry's exporter for Prometheus.
_PORT = 9464


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "metrics of the runs for Prometheus, from a process beside the training"
    own = options.add_command(commands, "serve", text, _run)
    own.add_argument("--prometheus", action="store_true", required=True, help="in the format of Prometheus")
    own.add_argument("--port", metavar="N", type=options.whole(0, 65_535), default=_PORT, help=f"port ({_PORT})")
    text = "address to listen on (127.0.0.1: this machine alone)"
    own.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help=text)
    options.add_runs_dir(own)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.system.serve import ServeOptions, serve

    return serve(ServeOptions(options.runs_dir(args), args.host, args.port))
