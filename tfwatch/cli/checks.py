"""`tfwatch selftest` and `tfwatch bench`: are the figures right, and is the GPU worth it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add_selftest(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    own = options.add_command(commands, "selftest", text, _run_selftest)
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run_selftest(args: argparse.Namespace) -> int:
    from tfwatch.checks.selftest import selftest

    return selftest(args.json)


def add_bench(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
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
        help=(
            "processes for each configuration (3), up to three times as many where their times"
            " differ"
        ),
    )
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run_bench(args: argparse.Namespace) -> int:
    from tfwatch.checks.bench import BenchOptions, bench

    chosen = BenchOptions(args.bodies, args.devices, args.modes, args.sizes, args.rounds)
    return bench(chosen, as_json=args.json)
