"""Every command line, option and value in the pages is one that tfwatch takes; none is run."""

import argparse
import contextlib
import functools
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PAGES, ROOT, code_lines, commands, inline_codes
from tfwatch.cli.dispatch import make_parser
from tfwatch.cli.script.request import workload_script
from tfwatch.runs.requests import parse_change

#: Stand-ins of the pages for what a reader puts there, by values that parse.
_PLACEHOLDERS = {
    "NAME": "cnn",
    "HOST:PORT": "box:1",
    "DIR": ".",
    "FILE": "f",
}


@functools.cache
def _parser() -> Any:
    """A parser to look names up in: one that parses is made again, because it keeps what it
    hides."""
    return make_parser()


@pytest.fixture(autouse=True)
def _programs_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--notify-command` takes a program that this machine has: notify-send and ntfy are
    examples."""
    monkeypatch.setattr(shutil, "which", lambda name: name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_of_a_code_block_parses(page: Path) -> None:
    lines = [
        words for line in code_lines(page.read_text(encoding="utf-8")) for words in commands(line)
    ]

    assert [(" ".join(words), mistake) for words in lines if (mistake := _mistake(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_within_a_sentence_is_known(page: Path) -> None:
    codes = inline_codes(page.read_text(encoding="utf-8"))

    assert [
        (code, mistake) for code in codes if (mistake := _mistake_within_a_sentence(code))
    ] == []


def test_command_lines_are_found() -> None:
    lines = [
        words for page in PAGES for line in code_lines(page.read_text()) for words in commands(line)
    ]

    assert {words[1] for words in lines if len(words) > 1} >= set(_commands(make_parser()))


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("tfwatch trian cnn", "no command 'trian'"),
        ("tfwatch train cnn --prefetsch 4", "unrecognized arguments: --prefetsch"),
        ("tfwatch train nothing", "no workload 'nothing'"),
        ("tfwatch train dense --data .", "--data"),
        ("tfwatch train cnn --switch 9:prefetch=many", "--switch"),
        ("tfwatch set cnn prefetsch=4", "prefetsch"),
        ("tfwatch runs prunne --keep 3", "prunne"),
        ("tfwatch run train.py --notify", "--notify follows the script"),
        ("python -m tests.bench.nothing", "no program"),
        ("python -m tests.bench.walks --nothing", "--nothing"),
    ],
)
def test_a_wrong_line_is_found(line: str, mistake: str) -> None:
    assert mistake in str(_mistake(commands(line)[0]))


@pytest.mark.parametrize(
    "code",
    ["tfwatch trian", "tfwatch train --prefetsch 4", "--prefetsch", "tfwatch runs prunne", "-z"],
)
def test_a_wrong_word_within_a_sentence_is_found(code: str) -> None:
    assert _mistake_within_a_sentence(code)


#: Runs a workload until it loads Keras.
_READS_ARGUMENTS = """
import os, runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
sys.modules["keras"] = None
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except ImportError:
    pass
"""


def _mistake(words: Sequence[str]) -> str | None:
    """Return why tfwatch, or its benchmark, would not take a command line; None where it would."""
    program, *rest = words
    if program != "tfwatch":
        return _mistake_of_program(program, rest)
    parser = make_parser()
    rest = [_PLACEHOLDERS.get(word, word) for word in rest]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            if rest:
                parser.check_command(rest[0])
                _check_values(rest, parser.parse_args(rest))
    except SystemExit:
        return printed.getvalue()
    except ValueError as error:
        return str(error)
    return None


def _check_values(words: Sequence[str], args: argparse.Namespace) -> None:
    """Read the values that argparse leaves to the command.

    Raises:
        ValueError: one is not right, for this workload for example.
    """
    if words[0] == "train":
        _check_arguments([args.workload, *args.words])
    if words[0] == "ab" and not args.words[0].endswith(".py"):
        _check_arguments(args.words)
    if words[0] == "set":
        for word in args.words:
            if "=" in word:
                parse_change(word)
    if words[0] == "run":
        own = _options(_parser(), ["run"])
        late = [word for word in args.words if word in own]
        if late:
            raise ValueError(f"{late[0]} follows the script, so it is the script's")


def _check_arguments(words: Sequence[str]) -> None:
    """Have the script of a workload read its arguments; it ends with the import of Keras.

    Raises:
        ValueError: it does not take one of them.
    """
    script = workload_script(words[0])
    ended = subprocess.run(
        [sys.executable, "-c", _READS_ARGUMENTS, str(script), *words[1:]],
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise ValueError(ended.stderr)


def _mistake_of_program(program: str, words: Sequence[str]) -> str | None:
    path = ROOT / (program.removeprefix("python -m ").replace(".", "/") + ".py")
    if not path.exists():
        return f"no program {path.name}"
    text = path.read_text(encoding="utf-8")
    unknown = [word for word in words if word.startswith("--") and f'"{word}"' not in text]
    return f"no option {', '.join(unknown)}" if unknown else None


def _mistake_within_a_sentence(code: str) -> str | None:
    """Return what is unknown of a command that a sentence names, complete or not, or of an option
    by itself."""
    words = code.replace("[", "").replace("]", "").split()
    if code.startswith("python -m tests."):
        return _mistake_of_program(" ".join(words[:3]), words[3:])
    parser = _parser()
    if words[:1] == ["tfwatch"]:
        return _unknown(parser, words[1:])
    if not re.match(r"--?[a-z]", code):
        return None
    everywhere = set().union(
        *(_options(parser, [name]) for name in _commands(parser)), _options(parser, [])
    )
    return next((f"no option {word}" for word in _dashed(words) if word not in everywhere), None)


def _unknown(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    names = _commands(parser)
    if not words:
        return None
    if not words[0].startswith("-") and words[0] not in names:
        return f"no command {words[0]}"
    actions = _commands(names[words[0]]) if words[0] in names else {}
    if actions and words[1:] and re.fullmatch("[a-z]+", words[1]) and words[1] not in actions:
        return f"no action {words[1]}"
    known = _options(parser, words[:1])
    own = words[: next((at for at, word in enumerate(words) if word.endswith(".py")), len(words))]
    return next(
        (f"no option {word} of {words[0]}" for word in _dashed(own) if word not in known), None
    )


def _dashed(words: Sequence[str]) -> list[str]:
    return [word.partition("=")[0].rstrip(",") for word in words if re.match(r"--?[a-zA-Z]", word)]


def _commands(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """The parsers of a parser's commands, by their names."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _options(parser: argparse.ArgumentParser, words: Sequence[str]) -> set[str]:
    """The options of a command, and of its actions."""
    own = _commands(parser)[words[0]] if words and words[0] in _commands(parser) else parser
    below = (
        [set(action._option_string_actions) for action in _commands(own).values()]
        if own is not parser
        else []
    )
    return set(own._option_string_actions).union(*below)
