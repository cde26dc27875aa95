"""Numbers with their units, as text and from text. A missing number is None or NaN and reads
`n/a`."""

from __future__ import annotations

import math

MISSING = "n/a"
#: Shorter times are shown in milliseconds where it matters that they are not 0.
_SHORT_S = 0.1


def is_missing(value: float | None) -> bool:
    """Return whether the number is missing."""
    return value is None or math.isnan(value)


def count(value: int) -> str:
    """Return `3 477`: a space separates thousands."""
    return f"{value:,}".replace(",", " ")


def counted(value: int, noun: str) -> str:
    """Return `1 step`, `3 477 steps`."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def milliseconds(value: float | None) -> str:
    """Return `13.9 ms`, `412 ms`, `20.3 s`."""
    if value is None or math.isnan(value):
        return MISSING
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def in_one_unit(*values: float | None) -> list[str]:
    """Return milliseconds as texts to join, e.g. with ` to `: `23.4`, `9.1 ms`; `429`, `432 ms`.

    All have the unit of the largest and the decimals of the smallest, and the last one has the
    unit. Where one would round to 0 that way, or is missing, each has its own unit as in
    `milliseconds`.
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    if len(known) < len(values) or (max(known) >= 10_000 and 0 < min(known) < 1000):
        return [milliseconds(value) for value in values]
    in_seconds = max(known) >= 10_000
    digits, size, unit = (1, 1000, "s") if in_seconds else (0 if min(known) >= 100 else 1, 1, "ms")
    *others, last = (number(value / size, digits) for value in known)
    return [*others, f"{last} {unit}"]


def seconds(value: float | None) -> str:
    """Return `2.4 s` below a minute, `4:12` below an hour, `3 h 12 min` above."""
    if value is None or math.isnan(value):
        return MISSING
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def duration(value_s: float) -> str:
    """Return `98.9 ms` below a tenth of a second, else as `seconds`: `0.0 s` says nothing."""
    return milliseconds(value_s * 1e3) if value_s < _SHORT_S else seconds(value_s)


def age(seconds: float) -> str:
    """Return `now`, `12 min`, `3 h`, `5 days`."""
    for unit, size in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return "now"


def percent(share: float | None) -> str:
    """Return `41 %` from 0.41; `<1 %` for a share that would round to 0."""
    if share is None or math.isnan(share):
        return MISSING
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def memory(value: float | None) -> str:
    """Return `48 kB`, `0.4 MB`, `16 MB`, `4.1 GB`, of 2^10, 2^20 and 2^30 bytes, named as in the
    panels of operating systems."""
    if value is None or math.isnan(value):
        return MISSING
    if value >= 0.1 * 2**30:
        return f"{value / 2**30:.1f} GB"
    if 0 < abs(value) < 0.1 * 2**20:
        return f"{max(round(value / 2**10), 1)} kB"
    return f"{value / 2**20:.{0 if value >= 2**20 else 1}f} MB"


def watts(value: float | None) -> str:
    """Return `9.8 W`, `412 W`."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:.1f} W" if value < 100 else f"{value:.0f} W"


def times(ratio: float | None, digits: int = 2) -> str:
    """Return `1.68`, and from ten on `20`: a ratio of two step times has no more precision."""
    return number(ratio, digits if ratio is None or round(ratio, digits) < 10 else 0)


def number(value: float | None, digits: int = 1) -> str:
    """Return a plain number with `digits` decimals."""
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}"


_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LONGEST_AGE = 8


def parse_whole(text: str, least: int, most: int) -> int:
    """Return a whole number within limits, in plain digits.

    Raises:
        ValueError: the text is not such a number.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def parse_age(text: str) -> float:
    """Return seconds from `90m`, `12h`, `30d` or `8w`.

    Raises:
        ValueError: the text is no such time.
    """
    unit = _UNITS_S.get(text[-1:])
    if unit is None or not (text.isascii() and text[:-1].isdigit() and len(text) < _LONGEST_AGE):
        raise ValueError(f"{text!r} is no time: give 90m, 12h, 30d or 8w")
    return float(text[:-1]) * unit


def parse_number(text: str, most: float) -> float:
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
