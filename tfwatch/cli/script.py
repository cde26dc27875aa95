"""`tfwatch run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

#: Its options that have a value.
_WITH_VALUE = (
    "--runs-dir",
    "--python",
    "--theme",
    "--notify-command",
    "--notify-after",
    "--keep-runs",
    "--keep-age",
    "--keep-size",
    "--group",
    "--feed-workers",
    "--feed",
)


def add_run(commands: Any) -> None:
    """Add the command's parser."""
    text = "run a training script of yours, unmodified, on the live screen: every fit of Keras is watched"
    more = "What follows SCRIPT is the script's, as is the exit code."
    usage = "tfwatch run [OPTIONS] (SCRIPT | -m MODULE) [ARGS]"
    own = options.add_command(commands, "run", text, _run, more=more, usage=usage)
    own.count_own_words = _count_own_words
    own.add_argument(
        "--headless", action="store_true", help="the script's output, not the live screen, and a summary on stderr"
    )
    text = "the interpreter of the script, which needs keras, numpy and psutil; default: the one that runs tfwatch"
    own.add_argument("--python", metavar="PATH", type=options.typed(options.path), help=text)
    options.add_runs_dir(own)
    options.add_theme(own)
    options.add_keep(own)
    options.add_notify(own)
    options.add_group(own)
    options.add_feed(own)
    options.add_verbosity(own, "no summary on stderr")


def _count_own_words(words: Sequence[str]) -> int:
    """Return the number of words before the script, or before `-m`."""
    at = 0
    while at < len(words) and words[at].startswith("-") and not words[at].startswith("-m") and words[at] != "--":
        at += 2 if words[at] in _WITH_VALUE else 1
    return min(at, len(words))


def _script(words: Sequence[str]) -> list[str]:
    """Return the script or `-m` and a module, and the arguments.

    Raises:
        BadInputError: there is neither.
    """
    from tfwatch.workloads.workload import BadInputError

    first, rest = (words[0], list(words[1:])) if words else ("", [])
    if first.startswith("-m"):
        script = ["-m", *([first[2:]] if first[2:] else []), *rest]
        missing = len(script) == 1
    else:
        script = rest if first == "--" else list(words)
        missing = not script
    if missing:
        raise BadInputError("run needs a script: tfwatch run SCRIPT [ARGS], or tfwatch run -m MODULE [ARGS]")
    return script


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.script.run import RunOptions, run

    options.join_group(args)
    options.use_feed(args)
    script, runs_dir = _script(args.words), options.runs_dir(args)
    notices, limits = options.notify(args), options.limits(args)
    theme = options.of_config(args, "theme")
    options.report_settings(args)
    return run(RunOptions(script, runs_dir, args.headless, args.python, theme, notices, limits, args.quiet))
