"""The pages for users, and the command lines, options and names of keys that they contain."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Where a shell expects a command: a folder of programs may stand before it.
_COMMAND = re.compile(
    r"(?:^|&& |\| |; |\(|`)(?:[\w./]*/)?(?P<program>tfwatch|python -m tests\.[\w.]+)(?= |$)"
)
_COMMENT = re.compile(r" {3,}\S.*| {2,}#.*")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)((?: {4}.*\n)+)|(?<=\n)(?<=[^\n]\n)((?: {4}tfwatch .*\n)+)")


def code_lines(page: str) -> list[str]:
    """Return the lines of a page's code blocks without their comments; continued lines are
    joined."""
    blocks = [
        block for language, block in _FENCED.findall(page) if language not in ("python", "toml")
    ]
    blocks += [
        indented or heading for indented, heading in _INDENTED.findall(_FENCED.sub("", page))
    ]
    lines = "\n".join(blocks).replace("\\\n", "\\ ").split("\n")
    return [
        _COMMENT.sub("", re.sub(r" *\\ +", " ", line.strip())) for line in lines if line.strip()
    ]


def commands(line: str) -> list[list[str]]:
    """Return the words of each command line of tfwatch, or of its benchmarks, in a line for a
    shell."""
    found = []
    for match in _COMMAND.finditer(line):
        rest = line[match.end() :]
        if line[match.start() : match.start() + 1] == "(":
            rest = rest.partition(")")[0]
        found.append([match["program"], *_words(rest)])
    return found


def _words(text: str) -> list[str]:
    """Return the words up to the end of a command: a pipe, a redirection, another command."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("();<>|&"):
            break
        words.append(word)
    return words


def inline_codes(page: str) -> list[str]:
    """Return the texts in backticks outside the code blocks, with one space in place of line
    ends."""
    text = _INDENTED.sub("", _FENCED.sub("", page))
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]
