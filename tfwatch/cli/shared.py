"""Options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import values

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

#: As in `tfwatch.screens.themes`, which loads Textual.
THEMES = ("dark", "light")


def sentence(text: str) -> str:
    """A command's help as its description: the first letter is a capital, and names such as GPU stay as they are."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")


def add_runs_dir(group: Any) -> None:
    """`--runs-dir`."""
    group.add_argument("--runs-dir", metavar="DIR", type=values.typed(values.path), help="where run folders are kept")


def add_theme(group: Any) -> None:
    """`--theme`."""
    text = f"colours of the screen: {' or '.join(THEMES)}; remembered, as is the palette's choice (ctrl+p)"
    group.add_argument("--theme", choices=THEMES, help=text)


def runs_dir(args: argparse.Namespace) -> Path:
    """Where run folders are kept."""
    from tfwatch.runs.library import default_runs_dir

    return args.runs_dir or default_runs_dir()
