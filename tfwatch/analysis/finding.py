"""A finding: one word, one sentence and one piece of advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Tone(Enum):
    """How a finding looks."""

    CALM = "calm"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try next: a sentence with the number, and lines of Python that do it; empty where there is none."""

    sentence: str
    edit: str = ""


@dataclass(frozen=True, slots=True)
class Banner:
    """The finding. `advice` and `remark`, what to know of the machine beside it, may be empty.

    edit: lines of Python for the user's own pipeline or training; empty where there is nothing to change.
    brief: the sentence where there is no room for it, its figures kept; empty where it says no more than that.
    """

    word: str
    sentence: str
    advice: str
    tone: Tone
    remark: str = ""
    edit: str = ""
    brief: str = ""
