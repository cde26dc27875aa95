"""`tfwatch doctor`, `selftest`, `bench`, `config` and `serve`: the machine and its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add_doctor(commands: Any) -> None:
    """Add the command's parser."""
    text = "check the installation and the machine: is TensorFlow slow because of them?"
    own = options.add_command(
        commands, "doctor", text, _run_doctor, more="Exit code 1 where a check fails."
    )
    form = own.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    text = "print the sudoers line that permits powermetrics (macOS); nothing is changed"
    form.add_argument("--sudoers", action="store_true", help=text)
    own.add_argument(
        "--data",
        metavar="DIR",
        type=options.typed(options.path),
        help="a data folder, whose read speed is measured",
    )
    options.add_runs_dir(own)


def _run_doctor(args: argparse.Namespace) -> int:
    from tfwatch.cli.doctor import doctor, print_sudoers

    if args.sudoers:
        return print_sudoers()
    return doctor(options.runs_dir(args), args.data, args.json)


_CONFIG_EPILOG = "Each key is the name of an option, which overrides it for one command. docs/settings.md has an example."


def add_config(commands: Any) -> None:
    """Add the command's parser."""
    text = "show the config file, and each of its keys with the value in force"
    options.add_command(commands, "config", text, _run_config, epilog=_CONFIG_EPILOG)


def _run_config(_args: argparse.Namespace) -> int:
    from tfwatch.cli.config import show_config

    return show_config()


#: As OpenTelemetry's exporter for Prometheus.
_PROMETHEUS_PORT = 9464


def add_serve(commands: Any) -> None:
    """Add the command's parser."""
    text = "metrics of the runs for Prometheus, from a process beside the training"
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
    from tfwatch.cli.serve import serve_metrics

    return serve_metrics(options.runs_dir(args), args.host, args.port)


def add_selftest(commands: Any) -> None:
    """Add the command's parser."""
    text = "check the numbers on this machine: train with known delays and compare; about three minutes"
    own = options.add_command(commands, "selftest", text, _run_selftest)
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run_selftest(args: argparse.Namespace) -> int:
    from tfwatch.checks.selftest import selftest

    return selftest(args.json)


def add_bench(commands: Any) -> None:
    """Add the command's parser."""
    text = "time a matrix product and a convolution on CPU and GPU: is the GPU worth it?"
    own = options.add_command(commands, "bench", text, _run_bench)
    own.add_argument("bodies", metavar="BODY", nargs="*", help="matmul, conv; default: both")
    own.add_argument(
        "--devices", metavar="LIST", type=options.words, default="cpu,gpu", help="cpu,gpu"
    )
    own.add_argument(
        "--modes",
        metavar="LIST",
        type=options.words,
        default="graph",
        help="graph, eager, jit, separated by commas; default: graph",
    )
    own.add_argument(
        "--sizes",
        metavar="LIST",
        type=options.wholes,
        default=[],
        help="rows of the matrices (2048), images of the convolution (1)",
    )
    own.add_argument(
        "--rounds",
        metavar="N",
        type=options.whole(1, 100),
        default=3,
        help="processes for each configuration (3), up to three times as many where their times differ",
    )
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run_bench(args: argparse.Namespace) -> int:
    from tfwatch.checks.bench import BenchOptions, bench

    chosen = BenchOptions(args.bodies, args.devices, args.modes, args.sizes, args.rounds)
    return bench(chosen, as_json=args.json)
