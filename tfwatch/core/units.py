"""Figures as people read them. A missing figure is None or NaN and reads `n/a`."""

from __future__ import annotations

import math

MISSING = "n/a"


def is_missing(value: float | None) -> bool:
    """Whether there is no figure."""
    return value is None or math.isnan(value)


def count(value: int) -> str:
    """`3 477`: thousands apart by a space."""
    return f"{value:,}".replace(",", " ")


def counted(value: int, noun: str) -> str:
    """`1 step`, `3 477 steps`."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def milliseconds(value: float | None) -> str:
    """`13.9 ms`, `412 ms`, `20.3 s`."""
    if value is None or math.isnan(value):
        return MISSING
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def together(*values: float | None) -> list[str]:
    """Milliseconds beside each other, e.g. to be joined by ` to `: `23.4`, `9.1 ms`; `429`, `432 ms`.

    All have the unit of the longest and the decimals of the shortest, and the last says the unit. Where one would read
    as nothing so, or is missing, each is told as `milliseconds` has it.
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    if len(known) < len(values) or (max(known) >= 10_000 and 0 < min(known) < 1000):
        return [milliseconds(value) for value in values]
    in_seconds = max(known) >= 10_000
    digits, size, unit = (1, 1000, "s") if in_seconds else (0 if min(known) >= 100 else 1, 1, "ms")
    *others, last = (number(value / size, digits) for value in known)
    return [*others, f"{last} {unit}"]


def seconds(value: float | None) -> str:
    """`2.4 s` below a minute, `4:12` below an hour, `3 h 12 min` above."""
    if value is None or math.isnan(value):
        return MISSING
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(share: float | None) -> str:
    """`41 %` from 0.41; `<1 %` for a trace that would read 0."""
    if share is None or math.isnan(share):
        return MISSING
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def gigabytes(value: float | None) -> str:
    """`9.8 GB`, in units of 2^30 bytes below the name that operating systems' panels use."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{value / 2**30:.1f} GB"


def memory(value: float | None) -> str:
    """`0.4 MB`, `16 MB`, `4.1 GB`: as `gigabytes`, and what is small in 2^20 bytes."""
    if value is None or math.isnan(value) or value >= 0.1 * 2**30:
        return gigabytes(value)
    return f"{value / 2**20:.{0 if value >= 2**20 else 1}f} MB"


def joules(value: float | None) -> str:
    """`0.14 J`, `4.9 J`, `412 J`, `1.2 kJ`, `3.4 MJ`."""
    if value is None or math.isnan(value):
        return MISSING
    for unit, size in (("MJ", 1e6), ("kJ", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} J" if value >= 10 else f"{value:.1f} J" if value >= 1 else f"{value:.2f} J"


def watts(value: float | None) -> str:
    """`9.8 W`, `412 W`."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:.1f} W" if value < 100 else f"{value:.0f} W"


def times(ratio: float | None, digits: int = 2) -> str:
    """`1.68`, from ten on `20`: steps of two figures, one over the other, tell no more."""
    return number(ratio, digits if ratio is None or round(ratio, digits) < 10 else 0)


def number(value: float | None, digits: int = 1) -> str:
    """A plain number with `digits` decimals."""
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}"
