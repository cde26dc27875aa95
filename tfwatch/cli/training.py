"""`tfwatch run`, `train`, `ab` and `workloads`: a script of one's own, and the built-in
workloads."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import shlex
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.config import GPU_SENSORS, gpu_sensor
from tfwatch.core import units
from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.cli.script.run import RunOptions

_EXIT_CODES = """\
exit codes: that of the script; 0 finished, or stopped from the screen; 1 training failed;
2 bad input; 130 stopped by ctrl+c, 143 by SIGTERM (128 + the signal).
"""


def add_run(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    more = "What follows SCRIPT is the script's, as is the exit code."
    usage = "tfwatch run [OPTIONS] (SCRIPT | -m MODULE) [ARGS]"
    own = options.add_command(commands, "run", text, _run_script, more=more, usage=usage)
    own.has_script = True
    _add_python(own)
    _add_shared(own)


def add_train(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    more = (
        "A workload is a plain script: what is no option of tfwatch is an argument of its own, and "
        "`tfwatch train WORKLOAD --help` shows these too."
    )
    usage = "tfwatch train [OPTIONS] WORKLOAD [ARGS]"
    train = options.add_command(
        commands, "train", text, _run_train, more=more, usage=usage, epilog=_EXIT_CODES
    )
    train.keeps_unknown, train.more_help = True, help_of_workload
    text = "a workload (`tfwatch workloads` lists them); `tfwatch run` takes a script of your own"
    train.add_argument("workload", metavar="WORKLOAD", help=text)
    _add_shared(train)


def _add_python(group: Any) -> None:
    text = (
        "the interpreter of the script, which needs keras, msgspec, numpy and psutil; default: the"
        " one that runs tfwatch"
    )
    group.add_argument("--python", metavar="PATH", type=options.typed(options.path), help=text)


def _add_shared(own: Any) -> None:
    """Add the options of `run`, `train` and `ab`."""
    training = own.add_argument_group("training")
    text = "stop each fit after N steps"
    training.add_argument("--steps", metavar="N", type=options.whole(1, 10**9), help=text)
    text = "switch a knob of the first fit once STEP steps are completed, e.g. 100:prefetch=4"
    training.add_argument(
        "--switch",
        metavar="STEP:KNOB=VALUE",
        type=options.typed(options.switch),
        action="append",
        default=[],
        help=text,
    )
    text = (
        "switch knobs until the device no longer starves, and keep what helps (key f); the batches"
        " stay the same"
    )
    training.add_argument("--autopilot", action="store_true", help=text)
    text = "memory for its buffers, in gigabytes; default: a quarter of the free memory"
    training.add_argument(
        "--memory-limit", metavar="GB", type=options.typed(units.parse_gigabytes), help=text
    )
    text = "keep the machine awake while it trains (caffeinate, systemd-inhibit)"
    training.add_argument("--keep-awake", action=argparse.BooleanOptionalAction, help=text)
    options.add_group(training)
    options.add_feed(training)
    _add_showing(own.add_argument_group("output"))


def _add_showing(group: Any) -> None:
    text = "source of the GPU figures: auto takes the first that works here; none reads no GPU"
    names = options.typed(gpu_sensor)
    group.add_argument(
        "--gpu-sensor", metavar="NAME", type=names, help=f"{', '.join(GPU_SENSORS)}: {text}"
    )
    options.add_runs_dir(group)
    options.add_keep(group)
    options.add_theme(group)
    options.add_notify(group)
    text = "the script's output, not the live screen, and a summary on stderr"
    group.add_argument("--headless", action="store_true", help=text)
    text = "print the summary as one JSON object on stdout; implies --headless"
    group.add_argument("--json", action="store_true", help=text)
    options.add_verbosity(group, "no summary on stderr")


def _script(words: Sequence[str]) -> list[str]:
    """Return the script or `-m` and a module, and the arguments.

    Raises:
        BadInputError: there is neither.
    """
    first, rest = (words[0], list(words[1:])) if words else ("", [])
    if first.startswith("-m"):
        script = ["-m", *([first[2:]] if first[2:] else []), *rest]
        missing = len(script) == 1
    else:
        script = rest if first == "--" else list(words)
        missing = not script
    if missing:
        raise BadInputError(
            "run needs a script: tfwatch run SCRIPT [ARGS], or tfwatch run -m MODULE [ARGS]"
        )
    return script


def _run_script(args: argparse.Namespace) -> int:
    from tfwatch.cli.script.run import run

    return run(_run_options(args, _script(args.words)))


def _run_train(args: argparse.Namespace) -> int:
    from tfwatch.cli.script.run import run

    words = [str(workload_script(args.workload)), *args.words]
    return run(_run_options(args, words, is_workload=True))


def _run_options(args: argparse.Namespace, script: Sequence[str], **more: Any) -> RunOptions:
    """Return the options that `_add_shared` reads."""
    from tfwatch.cli.config import report_settings
    from tfwatch.cli.script.run import RunOptions
    from tfwatch.judge.effects.jobs import Autopilot

    options.join_group(args)
    options.use_feed(args)
    report_settings(args)
    chosen = {
        "job": Autopilot(options.of_config(args, "memory-limit")) if args.autopilot else None,
        "headless": args.headless or args.json,
        "python": options.of_config(args, "python") if "is_workload" not in more else None,
    }
    return RunOptions(
        script,
        options.runs_dir(args),
        **{**chosen, **more},
        theme=options.of_config(args, "theme"),
        notify=options.notify(args),
        limits=options.limits(args),
        quiet=bool(options.of_config(args, "quiet")),
        as_json=args.json,
        keep_awake=bool(options.of_config(args, "keep-awake")),
        gpu_sensor=options.of_config(args, "gpu-sensor") or "auto",
        steps=args.steps,
        memory_bytes=options.of_config(args, "memory-limit"),
        switches=tuple(args.switch),
    )


# -- workloads -------------------------------------------------------------------------------------


def workload_script(name: str) -> Path:
    """Return the script of a workload.

    Raises:
        BadInputError: there is none of this name; the sentence names the nearest one.
    """
    from tfwatch.workloads import list_workloads, script_of

    known = list_workloads()
    if name in known:
        return script_of(name)
    if name.endswith(".py") or os.path.isfile(name):
        run = f"tfwatch run {shlex.quote(name)}"
        raise BadInputError(f"train takes a workload; run your own script with: {run}")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`tfwatch workloads` lists them"
    raise BadInputError(f"no workload {name!r}: {hint}")


def help_of_workload(words: Sequence[str]) -> str:
    """Return the help of the script of the workload among these words; empty without one."""
    import runpy

    from tfwatch.workloads import as_main, list_workloads, script_of

    name = next((word for word in words if word in list_workloads()), None)
    if name is None:
        return ""
    text = io.StringIO()
    with (
        contextlib.redirect_stdout(text),
        contextlib.suppress(SystemExit),
        as_main([str(script_of(name)), "--help"]),
    ):
        runpy.run_path(str(script_of(name)))
    return f"\narguments of {name}:\n\n{text.getvalue()}"


def add_workloads(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    listing = options.add_command(commands, "workloads", text, _run_workloads)
    listing.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run_workloads(args: argparse.Namespace) -> int:
    import json
    import sys

    from tfwatch.terminal.output import render, write
    from tfwatch.workloads import list_workloads

    known = list_workloads()
    if args.json:
        listed = [{"name": name, "shows": line} for name, line in known.items()]
        return write(sys.stdout, json.dumps({"workloads": listed}) + "\n")
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, line in known.items():
        table.add_row(name, line)
    return write(sys.stdout, render(sys.stdout, table))


# -- an A/B test -----------------------------------------------------------------------------------

_EPILOG = """\
The run alternates between the settings in short blocks of random order and ends when it is clear
which one is faster, or that none is. The training result is the same either way.
exit codes: 0 it ran, whatever the answer; 1 training failed; 2 bad input; 130 stopped by ctrl+c,
with the result so far.
"""


def add_ab(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    usage = "tfwatch ab --knob KNOB=A,B [OPTIONS] (WORKLOAD | SCRIPT | -m MODULE) [ARGS]"
    own = options.add_command(commands, "ab", text, _run_ab, epilog=_EPILOG, usage=usage)
    own.has_script = True
    text = (
        "two or more settings of one knob (prefetch=off,4): the others are compared with the first"
    )
    own.add_argument(
        "--knob", metavar="KNOB=A,B", type=options.typed(options.settings), required=True, help=text
    )
    text = "steps after which the test gives up; without it, after 600 steps and 30 s"
    own.add_argument("--budget", metavar="N", type=options.whole(1, 10**9), help=text)
    _add_python(own)
    _add_shared(own)


def _run_ab(args: argparse.Namespace) -> int:
    from tfwatch.cli.script.run import run
    from tfwatch.judge.effects.jobs import Experiment
    from tfwatch.workloads import list_workloads

    knob, values = args.knob
    test = {"job": Experiment(knob, values, args.budget, ends=True), "headless": True}
    script = _script(args.words)
    if script[0] in list_workloads():
        script = [str(workload_script(script[0])), *script[1:]]
        test["is_workload"] = True
    return run(_run_options(args, script, **test))
