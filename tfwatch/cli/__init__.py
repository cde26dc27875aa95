"""The command line, a module a command. Help and bad input cost no import of numpy, Textual or TensorFlow.

The module of a command has `add`, which adds its parser and the function that runs it.
"""

from __future__ import annotations

from tfwatch import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; 130 where ctrl+c comes before the command handles signals."""
    try:
        from tfwatch.cli.dispatch import run

        return run(argv)
    except KeyboardInterrupt:
        return 130
