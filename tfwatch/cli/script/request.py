"""The options of `tfwatch run`, `train` and `ab`: a script, and the ways to run, show and record
it."""

from __future__ import annotations

import difflib
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tfwatch.cli import options
from tfwatch.core.errors import BadInputError
from tfwatch.notices import NO_NOTICES, NotifyOptions
from tfwatch.runs.group import GROUP
from tfwatch.runs.script_process import FEED, Launch
from tfwatch.tuner.autopilot import Autopilot
from tfwatch.tuner.experiment import Experiment
from tfwatch.workloads import list_workloads, script_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tfwatch.runs.requests import SwitchRequest
    from tfwatch.runs.script_process import ScriptTrial
    from tfwatch.tuner.client import TunerJob


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `tfwatch run`, `train` and `ab`.

    script: the script, or `-m` and a module, and its arguments. is_workload: it runs in a thread of
    this process. python: its interpreter; None is this one.
    theme: of the screen; None is the dark one. notify: the notices that are asked for. quiet: no
    summary. as_json: the summary as one JSON object on stdout, and the script's output on stderr.
    steps, switches, explain, trial: as of `Launch`.
    job: an A/B test, or the autopilot, to begin with the first run.
    """

    script: Sequence[str]
    runs_dir: Path
    headless: bool
    is_workload: bool = False
    python: Path | None = None
    theme: str | None = None
    notify: NotifyOptions = NO_NOTICES
    quiet: bool = False
    as_json: bool = False
    steps: int | None = None
    switches: tuple[SwitchRequest, ...] = ()
    explain: bool = False
    trial: ScriptTrial | None = None
    job: TunerJob | None = None

    @property
    def name(self) -> str:
        """The name of the script."""
        return self.script[1] if self.script[0] == "-m" else Path(self.script[0]).stem

    @property
    def launch(self) -> Launch:
        """The requests for the runs."""
        arguments = shlex.join(self.script[1:]) if self.is_workload else ""
        known = {"arguments": arguments} if arguments else {}
        runs_dir = str(self.runs_dir.absolute())
        asked = self.steps, self.switches, self.explain
        return Launch(runs_dir, *asked, known, self.trial)


def request_of(args: argparse.Namespace) -> RunOptions:
    """Return the options of a command line, and set the variables by which the runs find their
    group, and the script's process its feed.

    Raises:
        BadInputError: there is no script, or no such workload.
    """
    is_train, is_test = "workload" in args, "knob" in args
    command = "ab --knob KNOB=A,B" if is_test else "run"
    script = [args.workload, *args.words] if is_train else script_of_words(args.words, command)
    is_workload = is_train or (is_test and script[0] in list_workloads())
    if is_workload:
        script[0] = str(workload_script(script[0]))
    random_draws = bool(args.allow)
    job: TunerJob | None = Autopilot(random_draws) if args.autopilot else None
    if is_test:
        knob, values = args.knob
        job = Experiment(knob, values, args.budget, ends=True)
    for variable, value in ((GROUP, args.group), (FEED, args.feed)):
        if value:
            os.environ[variable] = value
    return RunOptions(
        script,
        args.runs_dir,
        headless=args.headless or args.json or is_test,
        is_workload=is_workload,
        python=None if is_train else args.python,
        theme=args.theme,
        notify=options.notify(args),
        quiet=args.quiet,
        as_json=args.json,
        steps=args.steps,
        switches=tuple(replace(one, random_draws=random_draws) for one in args.switch),
        explain=args.explain,
        job=job,
    )


def workload_script(name: str) -> Path:
    """Return the script of a workload.

    Raises:
        BadInputError: there is none of this name; the sentence names the nearest one.
    """
    known = list_workloads()
    if name in known:
        return script_of(name)
    if name.endswith(".py") or os.path.isfile(name):
        run = f"tfwatch run {shlex.quote(name)}"
        raise BadInputError(f"train takes a workload; run your own script with: {run}")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`tfwatch train --help` lists them"
    raise BadInputError(f"no workload {name!r}: {hint}")


def script_of_words(words: Sequence[str], command: str) -> list[str]:
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
            f"{command} needs a script: tfwatch {command} SCRIPT [ARGS], or tfwatch {command} -m"
            " MODULE [ARGS]"
        )
    return script


def check_script(script: str) -> None:
    """Check that there is a script, or a folder that runs as one.

    Raises:
        BadInputError: there is neither.
    """
    try:
        mode = os.stat(script).st_mode
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{script} cannot be run: {why or error}") from error
    if not stat.S_ISREG(mode) and not os.path.isfile(os.path.join(script, "__main__.py")):
        raise BadInputError(
            f"{script} cannot be run: it is neither a file nor a folder with a __main__.py"
        )
