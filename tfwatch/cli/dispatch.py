"""Parses the command line and runs the command."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from tfwatch import __version__
from tfwatch.cli import options
from tfwatch.cli.parsers import COMMANDS, add_command
from tfwatch.core.errors import BadInputError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_DESCRIPTION = (
    "See live how much of every training step the device starves for data, and change that while it"
    " trains. Without a command: the launcher. To begin: tfwatch run train.py (your own script), or"
    " tfwatch train cnn."
)

_EXIT_CODES = (
    "exit codes: 0 done; 1 training, a check or the output failed; of fix: no patch; 2 bad input;"
    " of compare --max-slower 3 inconclusive, 4 slower; 128 + N ended by signal N; of run, those of"
    " the script"
)
#: Options that replace a command.
_OPTIONS = ("-h", "--help", "-V", "--version", "--")


def run(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code: 2 and one sentence on stderr for bad input."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = make_parser((words or [""])[0])
    args = None
    if words:
        parser.check_command(words[0])
        args = parser.parse_args(words)
    try:
        return _run_command(args) if args else _launch(parser)
    except BadInputError as error:
        sys.stderr.write(f"tfwatch: {printable(str(error))}\n")
        return 2


def _run_command(args: argparse.Namespace) -> int:
    try:
        if "runs_dir" in args:
            args.runs_dir = args.runs_dir or _usual_runs_dir()
    except BadInputError as error:
        if args.run != COMMANDS["run"].run or "knob" in args:  # an A/B test needs a run
            raise
        from tfwatch.cli.script.run import run_unrecorded

        run_unrecorded(args, str(error))
    module, _, name = args.run.partition(":")
    command: Callable[[argparse.Namespace], int] = getattr(import_module(f"tfwatch.{module}"), name)
    return command(args)


def _usual_runs_dir() -> Path:
    """Return the folder of the runs where none is named.

    Raises:
        BadInputError: the user has no home; the sentence of platformdirs names the fix.
    """
    from tfwatch.runs.library import default_runs_dir

    try:
        return default_runs_dir()
    except RuntimeError as error:
        raise BadInputError(str(error)) from error


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one sentence, without the usage.

    commands: the names of its commands, of the parser that has them. example: the words that follow
    its command, which say more than the name of an argument.
    has_script: what follows its options is a script's, and is kept as `words`.
    keeps_unknown: what the parser does not know is a script's, and is kept as `words`.
    more_help: makes text that the help ends with, from the words of the command line.
    """

    commands: tuple[str, ...] = ()
    example = ""
    has_script = False
    keeps_unknown = False
    more_help: Callable[[Sequence[str]], str] | None = None

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse what is tfwatch's as argparse does."""
        words = list(sys.argv[1:] if args is None else args)
        if self.has_script:
            own = self._count_own_words(words)
            namespace = argparse.Namespace(words=words[own:])
            words = words[:own]
        if self.more_help and {"-h", "--help"} & set(words):
            self.epilog = self.more_help(words)
        if self.keeps_unknown:
            own_words, unknown = super().parse_known_args(words, namespace or argparse.Namespace())
            own_words.words = unknown
            return own_words, []
        return super().parse_known_args(words, namespace)

    def _count_own_words(self, words: Sequence[str]) -> int:
        """Return the number of words before the script, or before `-m`."""
        at = 0
        while (
            at < len(words)
            and words[at].startswith("-")
            and not words[at].startswith("-m")
            and words[at] != "--"
        ):
            option = self._option_string_actions.get(words[at])
            at += 2 if option and option.nargs is None else 1
        return min(at, len(words))

    def error(self, message: str) -> NoReturn:
        missing = message.partition("the following arguments are required: ")[2]
        one_of = message.partition("one of the arguments ")[2].removesuffix(" is required")
        if missing := missing or " or ".join(one_of.split()):
            how = f", as in: {self.prog} {self.example}"
            message = f"{missing} is missing{how if self.example else f': {self.prog} --help'}"
        self.exit(2, f"tfwatch: {printable(message.removeprefix('argument '))}\n")

    def check_command(self, word: str) -> None:
        """Exit with a sentence that names the nearest command where `word` is neither a command nor
        an option."""
        if word in (*self.commands, *_OPTIONS):
            return
        if word.startswith("-"):
            self.error(f"unrecognized arguments: {word}")
        near = difflib.get_close_matches(word, self.commands, n=1)
        self.error(
            f"no command {word!r}: "
            + (f"did you mean {near[0]}?" if near else f"there are {', '.join(self.commands)}")
        )


def make_parser(chosen: str | None = None) -> _Parser:
    """Return the parser of all commands. chosen: the only command that gets its options; None: each
    gets them."""
    parser = _Parser("tfwatch", description=_DESCRIPTION, epilog=_EXIT_CODES, allow_abbrev=False)
    parser.add_argument("-V", "--version", action="version", version=f"tfwatch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        if chosen in (None, name):
            add_command(commands, name, command)
        else:
            commands.add_parser(name, help=command.text)
    parser.commands = tuple(COMMANDS)
    return parser


def _launch(parser: argparse.ArgumentParser) -> int:
    """Show the launcher, or the help where no screen can be shown."""
    from tfwatch.terminal.output import why_no_screen

    if why_no_screen(os.environ):
        parser.print_help()
        return 0
    from tfwatch.cli.launch import launch

    try:
        theme = options.theme(os.environ.get("TFWATCH_THEME") or options.THEMES[0])
    except ValueError as error:
        raise BadInputError(f"TFWATCH_THEME: {error}") from error
    return launch(_usual_runs_dir(), theme)
