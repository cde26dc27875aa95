"""Errors in words."""

from __future__ import annotations


def reason(error: BaseException) -> str:
    """`ValueError: no`; the class alone where the error says nothing."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")
