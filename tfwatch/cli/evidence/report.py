"""`tfwatch report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse

_EPILOG = """\
The page needs no network and no script, follows the reader's light or dark theme, and prints.
exit codes: 0 written; 1 it cannot be written; 2 bad input.
"""


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "a recorded run as one HTML page, or as markdown for a pull request"
    own = options.add_command(commands, "report", text, _run, epilog=_EPILOG)
    own.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    text = "where to write it; - is standard output; default: tfwatch-RUN.html here, markdown to standard output"
    own.add_argument("-o", "--output", metavar="FILE", type=options.typed(options.path), help=text)
    own.add_argument("--markdown", action="store_true", help="a short summary in markdown instead of the page")
    own.add_argument("--redact", action="store_true", help="leave out paths, names and the host")
    options.add_runs_dir(own)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.evidence.report import ReportOptions, report

    return report(ReportOptions(args.which, options.runs_dir(args), args.output, args.markdown, args.redact))
