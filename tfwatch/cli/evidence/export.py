"""`tfwatch export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse

#: As in `tfwatch.commands.evidence.export`, which loads numpy.
FORMATS = ("perfetto", "csv", "parquet", "tensorboard")
_EPILOG = """\
perfetto     one JSON file for ui.perfetto.dev or chrome://tracing: steps, their parts, stages, machine, events
csv          a folder with a plain CSV file a table: steps, samples, progress, stages, epochs, events
parquet      the same tables as Parquet files; needs pyarrow
tensorboard  a folder of scalars for tensorboard --logdir; needs tensorboard
exit codes: 0 written; 1 it cannot be written; 2 bad input.
"""


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "a recorded run for other tools: Perfetto, CSV, Parquet, TensorBoard"
    own = options.add_command(commands, "export", text, _run, epilog=_EPILOG)
    own.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    own.add_argument("--to", choices=FORMATS, required=True, help="the format")
    text = "the file (perfetto) or the new folder (others); default: named after the run, here"
    own.add_argument("-o", "--output", metavar="PLACE", type=options.typed(options.path), help=text)
    text = "only the steps from FIRST to LAST, and what was recorded meanwhile"
    own.add_argument("--steps", metavar="FIRST:LAST", type=options.typed(_steps), help=text)
    options.add_runs_dir(own)


def _steps(text: str) -> tuple[int, int]:
    """Read the first and the last step.

    Raises:
        ValueError: it is no range; the message is for the user.
    """
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
        raise ValueError(f"{text!r} is not a range of steps: give FIRST:LAST, e.g. 1000:2000")
    return int(first), int(last)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.evidence.export import ExportOptions, export

    return export(ExportOptions(args.which, options.runs_dir(args), args.to, args.output, args.steps))
