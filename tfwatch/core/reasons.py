"""Errors in words."""

from __future__ import annotations


def reason(error: BaseException) -> str:
    """`ValueError: no`; the class alone where the error says nothing."""
    return f"{type(error).__name__}: {said(error)}".removesuffix(": ")


def said(error: BaseException) -> str:
    """`no`; empty where the error says nothing, or raises when it is asked."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the exception may be the user's, and its text raise anything
        return ""
