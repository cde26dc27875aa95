"""`tfwatch explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "explain a run: finding, evidence, code suggestion and confidence; with --json for an assistant or a script"
    explain = options.add_command(commands, "explain", text, _run)
    explain.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    explain.add_argument("--json", action="store_true", help="one JSON object instead of the text")
    options.add_runs_dir(explain)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.evidence.explain import ExplainOptions, explain

    return explain(ExplainOptions(args.which, options.runs_dir(args), args.json))
