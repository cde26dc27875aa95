"""A notice as a terminal shows it: the bell, and a desktop notification where the terminal is known to have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.config import NOTIFY_AFTER_S
from tfwatch.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

BELL = "\a"
_TITLE = "tfwatch"
_END = "\x1b\\"
#: Characters of a notification: no desktop shows more.
_LONGEST = 300
#: Terminals that document `OSC 9 ; text`, and those that document `OSC 777 ; notify ; title ; text`. Everywhere else it
#: stays off: consoles of older Linux kernels print it, and ConEmu reads `9 ; 1` as a command.
_OSC_9 = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")
_OSC_9_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm")
#: Variables that stay in the shells of tmux and screen, and that ssh may pass on.
_OSC_9_VARIABLES = ("KITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "ITERM_SESSION_ID")
#: Their terminals have none of it, whatever variables their shells inherit.
_NEVER_TERMS = ("linux", "dumb", "eterm", "vt")
_OSC_777_TERMS = ("foot", "rxvt-unicode", "contour")
_MULTIPLEXER_TERMS = ("tmux", "screen")
_OSC_777_VARIABLES = ("KONSOLE_VERSION",)


@dataclass(frozen=True, slots=True)
class NotifyOptions:
    """The notices that a user asks for.

    in_terminal: by the bell and the desktop. after_s: the time that the run starves, or waits for one batch, until a
    notice. command: the words of the user's command; empty without one.
    """

    in_terminal: bool = False
    after_s: float = NOTIFY_AFTER_S
    command: tuple[str, ...] = ()

    @property
    def is_asked(self) -> bool:
        """True where the user asks for any notice."""
        return self.in_terminal or bool(self.command)


NO_NOTICES = NotifyOptions()


def notification(sentence: str, environ: Mapping[str, str]) -> str:
    """Return the characters that notify the user of this terminal: the bell, and a notification where it has one."""
    return BELL + desktop_notification(sentence, environ)


def desktop_notification(sentence: str, environ: Mapping[str, str]) -> str:
    """Return the sequence of a desktop notification; empty where this terminal is not known to show one."""
    text = printable(sentence)[:_LONGEST]
    if environ.get("TERM", "").startswith(_NEVER_TERMS):
        return ""
    if _has_osc_9(environ):
        # ConEmu's commands begin with a digit; the title keeps a sentence from looking like one.
        sequence = f"\x1b]9;{_TITLE}: {text}{_END}"
    elif _has_osc_777(environ):
        sequence = f"\x1b]777;notify;{_TITLE};{text.replace(';', ',')}{_END}"
    else:
        return ""
    return _through_multiplexer(sequence, environ)


def _has_osc_9(environ: Mapping[str, str]) -> bool:
    return (
        environ.get("TERM_PROGRAM") in _OSC_9
        or environ.get("LC_TERMINAL") == "iTerm2"
        or environ.get("TERM") in _OSC_9_TERMS
        or any(environ.get(name) for name in _OSC_9_VARIABLES)
    )


def _has_osc_777(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "").startswith(_OSC_777_TERMS) or any(environ.get(name) for name in _OSC_777_VARIABLES)


def _through_multiplexer(sequence: str, environ: Mapping[str, str]) -> str:
    """Return the sequence as tmux or screen passes it on; tmux drops it where `allow-passthrough` is off.

    Vim's terminal, rxvt and screen print what is wrapped for tmux: a shell in them may inherit its variables.
    """
    if not environ.get("TERM", "").startswith(_MULTIPLEXER_TERMS):
        return sequence
    if environ.get("TMUX") and environ.get("STY"):  # one in the other, in either order
        return ""
    if environ.get("TMUX"):
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}{_END}"
    # screen ends its string at the first ESC \, so the sequence inside ends with a bell.
    return f"\x1bP{sequence.removesuffix(_END)}{BELL}{_END}" if environ.get("STY") else sequence
