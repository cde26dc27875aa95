"""The lines of a code suggestion, pasted into a script as its user does it."""

import re

#: A place with the lines as they are, and the lines that replace them, down to the next place.
_CHANGE = re.compile(
    r"^# \S*:(\d+)(?:-(\d+))?  in place of: (.*)\n((?:(?!# \S+:\d+(?:-\d+)?  in).*\n?)*)",
    re.MULTILINE,
)


def pasted(source: str, text: str) -> str:
    """Return a source with the lines of a code suggestion in the places that the comments before
    them name."""
    lines = source.splitlines()
    for first, last, old, new in reversed(_CHANGE.findall(text)):
        at, end = int(first) - 1, int(last or first)
        begin, _, rest = old.partition(" ... ") if last else (old, "", lines[at])
        if lines[at].strip() != begin or (last and lines[end - 1].strip() != rest):
            raise ValueError(f"line {first} is not {old!r}")
        lines[at:end] = new.splitlines()
    return "\n".join([*lines, ""])
