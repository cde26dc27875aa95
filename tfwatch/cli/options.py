"""Options that several commands have, and the values that options take.

Options that several commands have.

What options take: from the text of the command line to a value. A ValueError's message is for the user.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core import parsing
from tfwatch.sensors.protocol import GPU_SENSORS

if TYPE_CHECKING:
    from collections.abc import Callable

#: As in `tfwatch.screens.themes`, which loads Textual.
THEMES = ("dark", "light")


def sentence(text: str) -> str:
    """A command's help as its description: the first letter is a capital, and names such as GPU stay as they are."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")


def add_runs_dir(group: Any) -> None:
    """`--runs-dir`."""
    group.add_argument("--runs-dir", metavar="DIR", type=typed(path), help="where run folders are kept")


def add_theme(group: Any) -> None:
    """`--theme`."""
    text = f"colours of the screen: {' or '.join(THEMES)}; remembered, as is the palette's choice (ctrl+p)"
    group.add_argument("--theme", choices=THEMES, help=text)


def runs_dir(args: argparse.Namespace) -> Path:
    """Where run folders are kept."""
    from tfwatch.runs.library import default_runs_dir

    return args.runs_dir or default_runs_dir()


#: What does not fit into memory is told and may be tried: these keep typing errors out.
LARGEST_BATCH, LARGEST_SIZE = 10_000_000, 1_000_000


def typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader for argparse, which shows the sentence of an ArgumentTypeError and hides that of a ValueError."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def whole(least: int, most: int) -> Callable[[str], int]:
    """A reader of whole numbers within limits."""

    return typed(lambda text: parsing.whole(text, least, most))


def setting(text: str) -> Any:
    """`off`, `default`, `auto` or a number."""
    from tfwatch.core.knobs import parse_setting

    return parse_setting(text)


def latency(text: str) -> float:
    """Milliseconds."""
    from tfwatch.core.knobs import parse_latency

    return parse_latency(text)


def on(text: str) -> bool:
    """Off or on."""
    from tfwatch.core.knobs import parse_on

    return parse_on(text)


def shuffle(text: str) -> Any:
    """The size of a shuffle buffer."""
    from tfwatch.core.knobs import parse_shuffle

    return parse_shuffle(text)


def switch(text: str) -> Any:
    """A `training.plan.Scheduled`."""
    from tfwatch.training.request import parse_switch

    return parse_switch(text)


def settings(text: str) -> Any:
    """A knob and its settings, see `training.plan.parse_settings`."""
    from tfwatch.training.request import parse_settings

    return parse_settings(text)


def optimizer(text: str) -> str:
    """An optimizer's name, in lower case."""
    from tfwatch.workloads.workload import OPTIMIZERS

    if text.lower() not in OPTIMIZERS:
        raise ValueError(f"{text!r} is no optimizer: there are {', '.join(OPTIMIZERS)}")
    return text.lower()


def gpu_sensor(text: str) -> str:
    """A GPU sensor's name."""
    if text not in GPU_SENSORS:
        raise ValueError(f"{text!r} is no GPU sensor: there are {', '.join(GPU_SENSORS)}")
    return text


def words(text: str) -> list[str]:
    """What commas part, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def wholes(text: str) -> list[int]:
    """Batch sizes, parted by commas."""
    return [whole(1, LARGEST_BATCH)(word) for word in words(text)]


def path(text: str) -> Path:
    """A path, `~` resolved.

    Raises:
        ValueError: it is empty, which would be the folder one is in.
    """
    if not text:
        raise ValueError("give a path")
    # Path.expanduser raises where there is no such user.
    return Path(os.path.expanduser(text))
