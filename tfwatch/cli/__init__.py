"""The command line, a module for each kind of command.

Help and bad input cost no import of numpy, Textual or TensorFlow.
The function `add_NAME` adds the parser of a command and the function that runs it.
"""

from __future__ import annotations

import os
import sys

from tfwatch import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; 130 where ctrl+c comes before the command handles
    signals."""
    _replace_closed_outputs()
    try:
        from tfwatch.cli.dispatch import run

        return run(argv)
    except KeyboardInterrupt:
        return 130


def _replace_closed_outputs() -> None:
    """Replace outputs that the caller closed (`>&-`) by a stdout that fails as a full disk does,
    and a mute stderr.

    Python sets such an output to None. A file that is opened next would get its descriptor, and
    with it what TensorFlow writes there. A child process inherits the output closed, as it would
    without tfwatch.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, encoding="utf-8")  # noqa: SIM115  for reading only: each write raises an OSError
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
