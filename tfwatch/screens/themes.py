"""The two palettes. Roles: warning is data wait, error a stall, primary compute, accent what can be pressed."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="tfwatch-dark",
    primary="#4f8fd9",
    secondary="#7a8ea6",
    warning="#e8a33d",
    error="#d8434e",
    success="#4fb37d",
    accent="#5ccfd6",
    foreground="#dfe5ec",
    background="#0f1318",
    surface="#161c23",
    panel="#1d252e",
    dark=True,
)
LIGHT = Theme(
    name="tfwatch-light",
    primary="#2767b0",
    secondary="#5b6b7d",
    warning="#c27803",
    error="#b3202c",
    success="#1f7a4a",
    accent="#0b6f78",
    foreground="#1d2329",
    background="#fbfbf8",
    surface="#f1f2ee",
    panel="#e4e7e3",
    dark=False,
)
#: What `--theme` and the saved choice are called.
THEMES = {"dark": DARK, "light": LIGHT}
