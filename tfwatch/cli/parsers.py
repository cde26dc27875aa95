"""The table of the commands, and the parser of each: what it takes, and the function that runs it.

Nothing of a command is imported before its arguments are read, so help and bad input are quick.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import runpy
import shutil
import textwrap
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RUN = "a run folder, a script's name, part of a run's name, or latest"
_NEWEST_RUN = f"{_RUN} (the default)"
_TRAINING = f"{_RUN}; default: the newest training that runs"
#: As OpenTelemetry's exporter for Prometheus.
_PROMETHEUS_PORT = 9464
_MOST_RUNS, _MOST_GIGABYTES = 1_000_000, 65_536
#: The changes of what is trained that `fix` may try, as of `fix.changes.ALLOWED`.
_ALLOWED = ("batch-size", "metrics", "order", "random-draws", "precision", "validation")


@dataclass(frozen=True, slots=True)
class Command:
    """A command. text: its help, in lower case. add: adds its arguments to its parser.

    run: the module of tfwatch and the function in it that take the arguments. example: the
    words that follow a command which needs some. more, usage: of its help.
    """

    text: str
    add: Callable[[Any], None]
    run: str
    example: str = ""
    more: str = ""
    usage: str | None = None


def _add_run(own: Any) -> None:
    own.has_script = True
    _add_python(own)
    _add_training(own)


def _add_train(own: Any) -> None:
    own.keeps_unknown, own.more_help = True, _help_of_workloads
    text = "one of those below; `tfwatch run` takes a script of your own"
    own.add_argument("workload", metavar="WORKLOAD", help=text)
    _add_training(own)


def _help_of_workloads(words: Sequence[str]) -> str:
    """Return the help of the script of the workload among these words; without one, the list of
    all."""
    from tfwatch.workloads import as_main, list_workloads, script_of

    known = list_workloads()
    name = next((word for word in words if word in known), None)
    if name is None:
        return "\nworkloads:\n" + "".join(f"\n  {one:<12} {line}" for one, line in known.items())
    text, script = io.StringIO(), str(script_of(name))
    ended = contextlib.suppress(SystemExit)
    with contextlib.redirect_stdout(text), ended, as_main([script, "--help"]):
        runpy.run_path(script)
    return f"\narguments of {name}:\n\n{text.getvalue()}"


def _flag(own: Any, *names: str, text: str) -> None:
    own.add_argument(*names, action="store_true", help=text)


def _value(own: Any, name: str, what: str, read: Any, text: str, **more: Any) -> None:
    own.add_argument(name, metavar=what, type=options.typed(read), help=text, **more)


def _add_ab(own: Any) -> None:
    own.has_script = True
    text = "two settings of one knob (prefetch=off,4): the second is compared with the first"
    _value(own, "--knob", "KNOB=A,B", options.settings, text, required=True)
    text = "steps after which the test gives up; without it, after 600 steps and 30 s"
    _value(own, "--budget", "N", options.whole(1, 10**9), text)
    _add_python(own)
    _add_training(own)


def _add_fix(own: Any) -> None:
    own.has_script = True
    _flag(own, "--apply", text="write the changed files; without it the patch is printed alone")
    form = own.add_mutually_exclusive_group()
    _add_json(form, "the patch")
    text = "print the evidence with the patch as Markdown, for a pull request"
    _flag(form, "--markdown", text=text)
    text = (
        "try only this change: live, what can be switched while the script trains, which then runs"
        " once; or jit_compile and others (docs/fix.md). May be given again"
    )
    own.add_argument("--only", metavar="CHANGE", action="append", default=[], help=text)
    text = f"try changes of what is trained too: {', '.join(_ALLOWED)}. May be given again"
    own.add_argument(
        "--allow", metavar="KIND", choices=_ALLOWED, action="append", default=[], help=text
    )
    text = "no further run of the script begins after this time, as 10m (the default)"
    _value(own, "--budget", "TIME", units.parse_age, text, default=600.0)
    text = "stop each fit after N steps; the autopilot takes up to 400"
    _value(own, "--steps", "N", options.whole(1, 10**9), text)
    _add_python(own)
    _add_runs_dir(own)


def _add_python(own: Any) -> None:
    text = (
        "the interpreter of the script, which needs keras, msgspec, numpy and psutil; default: the"
        " one that runs tfwatch"
    )
    _value(own, "--python", "PATH", options.path, text)


def _add_training(own: Any) -> None:
    """Add the options of `run`, `train` and `ab`."""
    group = own.add_argument_group("training")
    _value(group, "--steps", "N", options.whole(1, 10**9), "stop each fit after N steps")
    text = "switch a knob of the first fit once STEP steps are completed, e.g. 100:prefetch=4"
    more: dict[str, Any] = {"action": "append", "default": []}
    _value(group, "--switch", "STEP:KNOB=VALUE", options.switch, text, **more)
    _add_allow(group)
    text = (
        "switch knobs until the device no longer starves, and keep what helps (key f); the batches"
        " stay the same"
    )
    _flag(group, "--autopilot", text=text)
    text = "profile a few steps: which layer, metric or optimizer takes the step"
    _flag(group, "--explain", text=text)
    text = (
        "this process is one of several that train together: record below the folder of this group"
    )
    _value(group, "--group", "NAME", options.group, text)
    text = "feed each fit from the tf.data service that runs there; the order of elements changes"
    _value(group, "--feed", "HOST:PORT", options.address, text)
    output = own.add_argument_group("output")
    _add_runs_dir(output)
    _add_screen(output)
    text = "the script's output, not the live screen, and a summary on stderr"
    _flag(output, "--headless", text=text)
    text = "print the summary as one JSON object on stdout; implies --headless"
    _flag(output, "--json", text=text)
    _flag(output, "-q", "--quiet", text="no summary on stderr")


def _add_allow(group: Any) -> None:
    text = (
        "random-draws: switch workers also where a map draws random numbers, which then differ from"
        " those of the script as it is"
    )
    group.add_argument("--allow", metavar="KIND", choices=["random-draws"], help=text)


def _add_screen(group: Any) -> None:
    text = f"colours of the screen: {' or '.join(options.THEMES)}; default: $TFWATCH_THEME"
    theme, command = (
        os.environ.get(f"TFWATCH_{name}") or None for name in ("THEME", "NOTIFY_COMMAND")
    )
    _value(group, "--theme", "THEME", options.theme, text, default=theme)
    text = (
        "ring the bell, and notify the desktop where the terminal can: the end, a failure, no batch"
        " for 30 s"
    )
    _flag(group, "--notify", text=text)
    text = (
        "run this command for each notice, its last argument; no shell runs it; default:"
        " $TFWATCH_NOTIFY_COMMAND"
    )
    _value(group, "--notify-command", "COMMAND", options.command, text, default=command)


def _add_runs_dir(own: Any, default: str | None = None) -> None:
    text = "folder of the runs; default: $TFWATCH_RUNS_DIR, or one in your home"
    _value(own, "--runs-dir", "DIR", options.path, text, default=default)


def _add_json(own: Any, instead: str) -> None:
    _flag(own, "--json", text=f"one JSON object instead of {instead}")


def _add_bench(own: Any) -> None:
    text = "matmul or conv; default: both"
    own.add_argument("body", metavar="BODY", nargs="?", choices=("matmul", "conv"), help=text)


def _add_shown(own: Any, which: str = _NEWEST_RUN) -> None:
    own.add_argument("which", metavar="RUN", nargs="?", help=which)
    _add_runs_dir(own)
    _add_screen(own)


def _add_report(own: Any) -> None:
    own.add_argument("which", metavar="RUN", nargs="?", help=_NEWEST_RUN)
    text = "where to write it; - is standard output, the default but for the page: tfwatch-RUN.html"
    own.add_argument("-o", "--output", metavar="FILE", type=options.typed(options.path), help=text)
    form = own.add_mutually_exclusive_group()
    _flag(form, "--markdown", text="a short summary in Markdown instead of the page")
    _flag(form, "--json", text="all figures and findings as one JSON object instead of the page")
    _add_runs_dir(own)


def _add_compare(own: Any) -> None:
    text = f"{_RUN}; commas join several runs of one side"
    own.add_argument("before", metavar="RUN_A[,RUN_A2,...]", help=text)
    text = "the same, compared with the first side; without it RUN_A is the name of a script, whose"
    text += " newest run is compared with the one before"
    own.add_argument("after", metavar="RUN_B[,RUN_B2,...]", nargs="?", help=text)
    text = "for CI: fail where a step of B takes longer than one of A by more than this"
    _value(own, "--max-slower", "PERCENT", options.number(1e4), text)
    form = own.add_mutually_exclusive_group()
    _add_json(form, "the text")
    _flag(form, "--markdown", text="a table in Markdown, for a pull request")
    _add_runs_dir(own)


def _add_set(own: Any) -> None:
    text = f"{_TRAINING}. The knobs: --switch"
    own.add_argument("words", metavar="[RUN] KNOB=VALUE", nargs="+", help=text)
    _add_allow(own)
    _add_runs_dir(own)


def _add_runs(own: Any) -> None:
    _add_json(own, "the table")
    _add_runs_dir(own)
    actions = own.add_subparsers(title="actions", metavar="ACTION")
    for name, action in RUNS_ACTIONS.items():
        add_command(actions, name, action)


def _add_remove(own: Any) -> None:
    own.add_argument("which", metavar="RUN", nargs="+", help=_RUN)
    _add_removal(own)


def _add_prune(own: Any) -> None:
    _value(own, "--older-than", "AGE", units.parse_age, "as 12h, 30d, 8w")
    _value(own, "--keep", "N", options.whole(0, _MOST_RUNS), "all but the newest N")
    text = "all but the newest GB, of 2^30 bytes"
    _value(own, "--max-size", "GB", options.number(_MOST_GIGABYTES), text)
    _add_removal(own)


def _add_removal(own: Any) -> None:
    _add_runs_dir(own, argparse.SUPPRESS)  # keeps DIR of `tfwatch runs --runs-dir DIR ACTION`
    _flag(own, "--yes", text="do not ask")


def _add_doctor(own: Any) -> None:
    text = "print the sudoers line that permits powermetrics (macOS); nothing is changed"
    _flag(own, "--sudoers", text=text)
    _add_runs_dir(own)


def _add_serve(own: Any) -> None:
    port = options.whole(0, 65_535)
    _value(own, "--port", "N", port, f"port ({_PROMETHEUS_PORT})", default=_PROMETHEUS_PORT)
    text = "address to listen on (127.0.0.1: this machine alone)"
    own.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help=text)
    _add_runs_dir(own)


RUNS_ACTIONS = {
    "remove": Command(
        "remove runs with all their files", _add_remove, "cli.runs:remove_runs", example="latest"
    ),
    "prune": Command(
        "remove runs beyond a limit; never one that still runs", _add_prune, "cli.runs:prune_runs"
    ),
}
#: In the order of the help.
COMMANDS = {
    "run": Command(
        "run a training script of yours, unmodified, on the live screen: every fit of Keras is"
        " watched",
        _add_run,
        "cli.script.run:run_training",
        more="What follows SCRIPT is the script's, as is the exit code.",
        usage="tfwatch run [OPTIONS] (SCRIPT | -m MODULE) [ARGS]",
    ),
    "train": Command(
        "train a workload and watch it live",
        _add_train,
        "cli.script.run:run_training",
        example="cnn",
        more="A workload is a plain script: what is no option of tfwatch is an argument of its own,"
        " and `tfwatch train WORKLOAD --help` shows these.",
        usage="tfwatch train [OPTIONS] WORKLOAD [ARGS]",
    ),
    "ab": Command(
        "A/B test: alternate between settings of a knob while a script trains; which is faster?",
        _add_ab,
        "cli.script.run:run_training",
        example="--knob prefetch=off,4 cnn",
        more="It alternates in short blocks of random order and ends when it is clear which one is"
        " faster, or that none is. The training result is the same either way.",
        usage="tfwatch ab --knob KNOB=A,B [OPTIONS] (WORKLOAD | SCRIPT | -m MODULE) [ARGS]",
    ),
    "fix": Command(
        "run a script, try settings while it trains, and print the proved ones as a patch",
        _add_fix,
        "cli.fix:fix",
        more="The script trains to its end, with the same result. What needs a restart is tried in"
        " copies of it, a few steps each. The patch is on stdout, all else on stderr.",
        usage="tfwatch fix [OPTIONS] (SCRIPT | -m MODULE) [ARGS]",
    ),
    "bench": Command(
        "time a matrix product and a convolution on CPU and GPU: is the GPU worth it?",
        _add_bench,
        "cli.bench:bench",
    ),
    "replay": Command(
        "open a recorded run in the same screen; a run that still trains is followed, read only",
        _add_shown,
        "cli.replay:replay",
    ),
    "report": Command(
        "a recorded run as one HTML page, as Markdown for a pull request, or as JSON",
        _add_report,
        "cli.report:report",
    ),
    "compare": Command(
        "compare two runs: is one faster, by how much, and which lines, stages and settings differ",
        _add_compare,
        "cli.report:compare",
        example="A B",
        more="One run of each side cannot show how much equal runs differ: three of each, made in"
        " turn, measure it.",
    ),
    "attach": Command(
        "the live screen, with its keys, on a training that runs in another terminal; d leaves it"
        " again",
        partial(_add_shown, which=_TRAINING),
        "cli.replay:attach",
    ),
    "set": Command(
        "switch the input pipeline of a training that runs in another terminal (tfwatch set cnn"
        " prefetch=4), or profile its steps (tfwatch set cnn trace)",
        _add_set,
        "cli.set:set_knobs",
        example="prefetch=4",
    ),
    "runs": Command(
        "list the recorded runs, and remove them", _add_runs, "cli.runs:list_past_runs"
    ),
    "doctor": Command(
        "check the installation and the machine: is TensorFlow slow because of them?",
        _add_doctor,
        "cli.doctor:doctor",
    ),
    "serve": Command(
        "metrics of the runs for Prometheus, from a process beside the training",
        _add_serve,
        "cli.serve:serve",
    ),
}


def add_command(commands: Any, name: str, command: Command) -> None:
    """Add the parser of a command to the parsers of all."""
    description = f"{_sentence(command.text)} {command.more}".rstrip()
    own = commands.add_parser(
        name,
        help=command.text,
        description=textwrap.fill(description, shutil.get_terminal_size().columns - 2),
        usage=command.usage,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.set_defaults(run=command.run)
    own.example = command.example
    command.add(own)


def _sentence(text: str) -> str:
    """Return a help as a description: a capital first, and names such as GPU unchanged."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")
