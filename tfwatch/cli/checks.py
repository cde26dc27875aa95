"""`tfwatch selftest` and `bench`: the numbers and the devices of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


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
    text = "time workloads on CPU and GPU, eager, as a graph and with XLA: is the GPU worth it?"
    own = options.add_command(commands, "bench", text, _run_bench)
    own.add_argument(
        "workloads",
        metavar="WORKLOAD",
        nargs="*",
        action=options.WorkloadAction,
        help="workloads to time; default: all",
    )
    own.add_argument("--devices", metavar="LIST", type=options.words, default="cpu,gpu", help="cpu,gpu")
    own.add_argument(
        "--modes",
        metavar="LIST",
        type=options.words,
        default="graph",
        help="graph, eager, jit, separated by commas; default: graph",
    )
    own.add_argument(
        "--batch-sizes",
        metavar="LIST",
        type=options.wholes,
        default=[],
        help="e.g. 32,256; default: the workload's own",
    )
    own.add_argument(
        "--size", metavar="N", type=options.whole(1, options.LARGEST_SIZE), help="matmul: rows and columns (2048)"
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

    chosen = BenchOptions(args.workloads, args.devices, args.modes, args.batch_sizes, args.size, args.rounds)
    return bench(chosen, as_json=args.json)
