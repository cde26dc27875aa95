"""The versions of packages that tfwatch works with."""

from __future__ import annotations

import re
from typing import Final

#: The oldest Keras whose `fit` is watched: from it on `train_function` takes any iterator.
OLDEST_KERAS: Final = (3, 8)
NEWER_KERAS: Final = f"pip install -U 'keras>={OLDEST_KERAS[0]}.{OLDEST_KERAS[1]}'"


def first_two(version: str) -> tuple[int, int]:
    """Return `(2, 18)` of `2.18.1`; zeros where it cannot be read."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_older(version: str, least: tuple[int, int]) -> bool:
    """Return True where the version is older; a version that cannot be read is not."""
    return (0, 0) < first_two(version) < least
