"""Text from outside, made harmless for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """In one line and without what a terminal would obey: a space stands for each such character."""
    return "".join(c if c.isprintable() else " " for c in text)
