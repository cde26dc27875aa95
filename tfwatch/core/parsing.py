"""Parsers of numbers that a user types. A ValueError's message is a sentence for the user."""

from __future__ import annotations

import math

_HIGHEST_RATE = 1000
_MOST_GIGABYTES = 65536
_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LONGEST_AGE = 8


def whole(text: str, least: int, most: int) -> int:
    """Return a whole number within limits, in plain digits.

    Raises:
        ValueError: the text is not such a number.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def gigabytes(text: str) -> float:
    """Return bytes from a number of gigabytes (2**30 bytes) above 0.

    Raises:
        ValueError: the text is not such a number.
    """
    return _above_0(text, _MOST_GIGABYTES, "memory: give gigabytes") * 2**30


def age(text: str) -> float:
    """Return seconds from `90m`, `12h`, `30d` or `8w`.

    Raises:
        ValueError: the text is not such an age.
    """
    unit = _UNITS_S.get(text[-1:])
    if unit is None or not (text.isascii() and text[:-1].isdigit() and len(text) < _LONGEST_AGE):
        raise ValueError(f"{text!r} is not an age: give 90m, 12h, 30d or 8w")
    return float(text[:-1]) * unit


def learning_rate(text: str) -> float:
    """Return an optimizer's learning rate, above 0.

    Raises:
        ValueError: the text is not such a number.
    """
    return _above_0(text, _HIGHEST_RATE, "learning rate: give a number")


def number(text: str, most: float) -> float:
    """Return a number from 0 to `most`.

    Raises:
        ValueError: the text is not such a number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise ValueError(f"{text!r} is not a number from 0 to {most:g}")
    return value


def _above_0(text: str, most: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= most:
        raise ValueError(f"{text!r} is no {what} above 0, up to {most}")
    return value
