"""Options that several commands share, and readers of option values. A ValueError's message is for the user."""

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
    """Return a command's help as its description: a capital first, and names such as GPU unchanged."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")


def add_runs_dir(group: Any, default: str | None = None) -> None:
    """`--runs-dir`."""
    group.add_argument("--runs-dir", metavar="DIR", type=typed(path), default=default, help="folder of the runs")


def add_theme(group: Any) -> None:
    """`--theme`."""
    text = f"colours of the screen: {' or '.join(THEMES)}; remembered, as the choice in the palette (ctrl+p)"
    group.add_argument("--theme", choices=THEMES, help=text)


def runs_dir(args: argparse.Namespace) -> Path:
    """Return the folder of the runs."""
    from tfwatch.runs.library import default_runs_dir

    return args.runs_dir or default_runs_dir()


#: Limits against typing errors. A size that does not fit into memory is reported and may be tried.
LARGEST_BATCH, LARGEST_SIZE = 10_000_000, 1_000_000


def typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader for argparse, which shows the message of an ArgumentTypeError only."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within limits."""

    return typed(lambda text: parsing.whole(text, least, most))


def setting(text: str) -> Any:
    """Read `off`, `default`, `auto` or a number."""
    from tfwatch.core.knobs import parse_setting

    return parse_setting(text)


def device_prefetch(text: str) -> Any:
    """Read `off` or a number of batches."""
    from tfwatch.core.knobs import as_value

    return as_value("device_prefetch", text)


def latency(text: str) -> float:
    """Read milliseconds."""
    from tfwatch.core.knobs import parse_latency

    return parse_latency(text)


def on(text: str) -> bool:
    """Read `off` or `on`."""
    from tfwatch.core.knobs import parse_on

    return parse_on(text)


def shuffle(text: str) -> Any:
    """Read the size of a shuffle buffer."""
    from tfwatch.core.knobs import parse_shuffle

    return parse_shuffle(text)


def switch(text: str) -> Any:
    """Read a `runs.control.Scheduled`."""
    from tfwatch.training.request import parse_switch

    return parse_switch(text)


def change(text: str) -> Any:
    """Read a knob and its value, see `training.request.parse_change`."""
    from tfwatch.training.request import parse_change

    return parse_change(text)


def settings(text: str) -> Any:
    """Read a knob and its settings, see `training.request.parse_settings`."""
    from tfwatch.training.request import parse_settings

    return parse_settings(text)


def optimizer(text: str) -> str:
    """Read an optimizer's name, in lower case."""
    from tfwatch.workloads.workload import OPTIMIZERS

    if text.lower() not in OPTIMIZERS:
        raise ValueError(f"{text!r} is no optimizer: there are {', '.join(OPTIMIZERS)}")
    return text.lower()


def gpu_sensor(text: str) -> str:
    """Read a GPU sensor's name."""
    if text not in GPU_SENSORS:
        raise ValueError(f"{text!r} is no GPU sensor: there are {', '.join(GPU_SENSORS)}")
    return text


def words(text: str) -> list[str]:
    """Read words separated by commas, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def wholes(text: str) -> list[int]:
    """Read batch sizes separated by commas."""
    return [whole(1, LARGEST_BATCH)(word) for word in words(text)]


def path(text: str) -> Path:
    """Read a path and resolve `~`.

    Raises:
        ValueError: it is empty, which would be the current folder.
    """
    if not text:
        raise ValueError("give a path")
    # Path.expanduser raises where there is no such user.
    return Path(os.path.expanduser(text))
