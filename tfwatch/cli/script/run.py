"""`tfwatch run`, `train` and `ab`: a training script, unmodified, and a summary of its runs on
stderr.

A script of the user's runs in a child process, a workload in a thread of this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.cli.factories import Factories
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, fails_open
from tfwatch.notices import NO_NOTICES
from tfwatch.runs.announcements import Launch
from tfwatch.terminal.child import describe_end, end_as, run_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.judge.effects.jobs import TunerJob
    from tfwatch.judge.steps.fits import FitFigures
    from tfwatch.notices import NotifyOptions
    from tfwatch.runs.library.removal import RunsToKeep
    from tfwatch.runs.requests import SwitchRequest

_BOOTSTRAP = Path(__file__).parents[2] / "watch" / "script" / "bootstrap.py"
_UNSEEN = """\
tfwatch sees Keras 3's fit and train_on_batch, and loops over a tf.data data set that train,
in the script's own process
a loop over other batches:  for batch in tfwatch.track(batches)
training in a process that the script starts:  callbacks=[tfwatch.Watch()] in its fit
"""
#: The exit code of a script that argparse ends: its sentence is enough.
_BAD_ARGUMENTS = 2
#: Seconds between two looks for the end of a workload.
_LOOK_S = 0.2
#: The newest fits of a script have a line each; the others are counted.
_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `tfwatch run` and `train`.

    script: the script, or `-m` and a module, and its arguments. is_workload: it runs in a thread of
    this process.
    python: its interpreter; None is this one. theme: of the screen; None is the remembered one.
    notify: the notices that are asked for. limits: of the runs that are kept; None keeps all.
    quiet: no summary. as_json: the summary as one JSON object on stdout, and the script's output on
    stderr.
    keep_awake: the machine does not fall asleep. gpu_sensor, steps, switches: as of `Launch`.
    job: an A/B test, or the autopilot, to begin with the first run. memory_bytes: the limit of the
    autopilot's buffers, also when a key starts it.
    """

    script: Sequence[str]
    runs_dir: Path
    headless: bool
    is_workload: bool = False
    python: Path | None = None
    theme: str | None = None
    notify: NotifyOptions = NO_NOTICES
    limits: RunsToKeep | None = None
    quiet: bool = False
    as_json: bool = False
    keep_awake: bool = False
    gpu_sensor: str = "auto"
    steps: int | None = None
    switches: tuple[SwitchRequest, ...] = ()
    job: TunerJob | None = None
    memory_bytes: float | None = None

    @property
    def launch(self) -> Launch:
        """The requests for the runs."""
        runs_dir = str(self.runs_dir.absolute())
        settings = {
            "arguments": shlex.join(self.script[1:]) if self.is_workload else "",
            "memory_limit_bytes": self.memory_bytes or 0,
            "keep_awake": self.keep_awake,
        }
        known = {name: value for name, value in settings.items() if value}
        return Launch(runs_dir, self.gpu_sensor, self.steps, self.switches, known)


def run(options: RunOptions, factories: Factories | None = None, clock: Clock = SYSTEM) -> int:
    """Run the script to its end and return its exit code; die of the signal that it died of.

    Raises:
        BadInputError: there is no such script, or the terminal cannot show the screen.
    """
    from tfwatch.runs.library.removal import reap_pruning, start_pruning

    has_screen = not options.headless and os.isatty(1)
    factories = factories or Factories()
    _check(options, has_screen, factories)
    began_ns = clock.wall_ns()
    try:
        start_pruning(
            options.runs_dir,
            options.limits,
            lambda why: _print(f"tfwatch: {why}\n"),
            in_training=False,
        )
        with _awake(options):
            ran = (
                _run_on_screen(options, factories, clock)
                if has_screen
                else _run_bare(options, clock)
            )
    except OSError as error:
        raise BadInputError(
            f"{_interpreter(options)} cannot be started: {error.strerror or error}"
        ) from error
    code = _conclude(options, ran, began_ns)
    if ran.is_hung:  # a step that blocks can neither be ended nor joined
        factories.exit_now(code)
    reap_pruning()
    return end_as(code)


def _conclude(options: RunOptions, ran: Ran, began_ns: int) -> int:
    """Print the summary of the script's runs, and return its exit code."""
    from tfwatch.runs.library.finding import runs_since

    with fails_open(
        lambda why: _print(f"tfwatch: the runs of this script cannot be read: {why}\n")
    ):
        runs = list(runs_since(options.runs_dir, ran.pid, began_ns))
        _record_signal(runs, ran.code)
        if options.as_json and runs:
            _print_json(runs[0])
        elif not options.quiet and (runs or ran.code != _BAD_ARGUMENTS):
            _print(_summary(runs) if runs else _nothing_recorded(options.runs_dir, ran.code))
    return ran.code


@dataclass(frozen=True, slots=True)
class Ran:
    """A script that has run. code: its exit code, or minus the signal that it died of.

    is_hung: it was left, and its thread still runs.
    """

    pid: int
    code: int
    is_hung: bool = False


def _awake(options: RunOptions) -> contextlib.AbstractContextManager[object]:
    from tfwatch.cli.script.keep_awake import KeepAwake

    if not options.keep_awake:
        return contextlib.nullcontext()
    return KeepAwake(
        lambda sentence: _print(f"tfwatch: {sentence}\n") if options.headless else None
    )


@contextlib.contextmanager
def _output_on_stderr(is_asked: bool) -> Iterator[None]:
    """Within, what is written to stdout goes to stderr."""
    if not is_asked:
        yield
        return
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def _run_bare(options: RunOptions, clock: Clock) -> Ran:
    """Run the script with the standard streams of this process."""
    with _output_on_stderr(options.as_json):
        return _run_workload(options, clock) if options.is_workload else _run_child(options, clock)


def _run_workload(options: RunOptions, clock: Clock) -> Ran:
    """Run a workload in a thread: SIGINT and SIGTERM stop it at the next batch, the second one
    leaves it."""
    from tfwatch.cli.script.headless import HeadlessRuns
    from tfwatch.cli.script.script_thread import ScriptThread
    from tfwatch.terminal.capture import Signals, held_signals

    with held_signals():
        notices = HeadlessRuns(options.notify, clock, options.job)
        script = ScriptThread(options.script, options.launch, notices.announced, clock)
        with Signals(script.send, _drop_output):
            notices.start()
            script.go_on()
            script.start()
            while not script.wait(_LOOK_S):
                pass
            script.end()
            notices.end(describe_end(script.code))
    return Ran(script.pid, script.code, script.is_hung)


def _drop_output() -> None:
    """Have a lost terminal end nothing: what is written to it would raise."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in filter(os.isatty, (1, 2)):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def _run_child(options: RunOptions, clock: Clock) -> Ran:
    """Run the script in a child process."""
    pids: list[int] = []
    if not options.notify.is_asked and options.job is None:
        code = run_child(_command(options, None), pids.append)
        return Ran(pids[0], code)
    from tfwatch.cli.script.headless import HeadlessRuns

    notices: list[HeadlessRuns] = []
    with fails_open(_report_no_notices):
        notices.append(HeadlessRuns(options.notify, clock, options.job))

    def begin(pid: int) -> None:
        pids.append(pid)
        for one in notices:
            one.start()

    code = run_child(_command(options, notices[0].announced if notices else None), begin)
    with fails_open(_report_no_notices):
        for one in notices:
            one.end(describe_end(code))
    return Ran(pids[0], code)


def _report_no_notices(why: str) -> None:
    _print(f"tfwatch: no more notices: {why}\n")


def _run_on_screen(options: RunOptions, factories: Factories, clock: Clock) -> Ran:
    """Run the script under the live screen."""
    from tfwatch.cli.script.script_session import ScriptShown, run_in_thread, run_on_screen

    name = options.script[1] if options.script[0] == "-m" else Path(options.script[0]).stem
    shown = ScriptShown(name, options.runs_dir, options.theme, options.notify, options.job)
    if options.is_workload:
        script = run_in_thread(options.script, options.launch, shown, factories, clock)
        return Ran(script.pid, script.code, script.is_hung)
    process = run_on_screen(partial(_command, options), shown, factories, clock)
    return Ran(process.pid, process.code)


def _record_signal(runs: Sequence[Path], code: int) -> None:
    """Record the signal that ended the script in its last run."""
    from tfwatch.runs.script_process import record_signal

    if code < 0 and runs:
        record_signal(runs[0], -code)


def _command(
    options: RunOptions, announcements: Path | None, descriptors: Sequence[int] = ()
) -> list[str]:
    """Return the command of the script's process.

    announcements: the file for the folders of its runs. descriptors: those of the relay of its
    output.
    """
    words = (
        options.launch.to_text(),
        str(announcements or ""),
        ",".join(map(str, descriptors)),
    )
    return [_interpreter(options), *_flags(), str(_BOOTSTRAP), *words, *options.script]


def _interpreter(options: RunOptions) -> str:
    return str(options.python or sys.executable)


def _check(options: RunOptions, has_screen: bool, factories: Factories) -> None:
    if has_screen:
        _check_terminal()
    if options.is_workload and (obstacle := factories.installed().obstacle()):
        raise BadInputError(obstacle)
    if options.python:
        check_interpreter(str(options.python))
    if options.script[0] != "-m":
        check_script(options.script[0])


def _check_terminal() -> None:
    from tfwatch.terminal.capture import why_no_screen

    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle)


def check_script(script: str) -> None:
    """Check that there is a script, or a folder that runs as one.

    Raises:
        BadInputError: there is neither.
    """
    try:
        mode = os.stat(script).st_mode
    except OSError as error:
        raise BadInputError(f"{script} cannot be run: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInputError(f"{script} cannot be run: {error}") from error
    if not stat.S_ISREG(mode) and not os.path.isfile(os.path.join(script, "__main__.py")):
        raise BadInputError(
            f"{script} cannot be run: it is neither a file nor a folder with a __main__.py"
        )


def _flags() -> list[str]:
    """Return the flags of this interpreter, for the script's."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009  not among the typed names
    return [*flags, "-u"] if getattr(sys.stdout, "write_through", False) else flags


def _nothing_recorded(runs_dir: Path, code: int) -> str:
    """Return that there is no run; where the script ended well, also how to have its training
    recorded."""
    line = f"tfwatch: no step of this script is recorded in {runs_dir}\n"
    return line if code else f"{line}{_UNSEEN}"


def _summary(runs: Sequence[Path]) -> str:
    """Return a line for each fit where there were several, and the whole summary of the last
    run."""
    from tfwatch.report.text import as_text
    from tfwatch.runs.reading.opened import open_run

    lines = _fit_lines(runs) if len(runs) > 1 else []
    return "".join(
        f"{line}\n" for line in (*lines, as_text(open_run(runs[0]), Path.home()).rstrip("\n"))
    )


def _fit_lines(runs: Sequence[Path]) -> list[str]:
    """Return a line for each of the newest fits of runs, which are sorted from the newest to the
    oldest."""
    from tfwatch.judge.script_runs import fits_of
    from tfwatch.runs.reading.opened import open_run

    fits: list[FitFigures] = []
    for run in reversed(runs):
        fits += fits_of(open_run(run), len(fits) + 1)
    earlier = [f"{len(fits) - _MOST_LINES} earlier fits"] if len(fits) > _MOST_LINES else []
    return [*earlier, *(fit.words for fit in fits[-_MOST_LINES:])]


def _print_json(run: Path) -> None:
    from tfwatch.report.document import as_json
    from tfwatch.runs.reading.opened import open_run
    from tfwatch.terminal.output import write

    write(sys.stdout, json.dumps(as_json(open_run(run)), indent=1) + "\n")


def _print(text: str) -> None:
    from tfwatch.terminal.capture import terminal_columns, wrapped
    from tfwatch.terminal.output import write

    if sys.stderr is not None:  # closed by the caller
        write(sys.stderr, wrapped(text, terminal_columns(sys.stderr)))


#: The packages that the recording half needs in the script's process.
_NEEDED = ("keras", "msgspec", "numpy", "psutil")
_OLDEST = (3, 10)
_PROBE = """\
import importlib.util, sys
missing = (name for name in sys.argv[1:] if importlib.util.find_spec(name) is None)
print("tfwatch", *sys.version_info[:2], *missing)
"""
#: A first start of Python from a slow disk takes seconds.
_PATIENCE_S = 60


def check_interpreter(python: str) -> None:
    """Start an interpreter, and check its version and its packages.

    Raises:
        BadInputError: it is not one, too old, or lacks a package; the sentence names the fix.
    """
    word, *answer = _ask(python)
    if word != "tfwatch" or len(answer) < 2:
        raise BadInputError(f"{python} is not a Python interpreter")
    version, missing = tuple(map(int, answer[:2])), answer[2:]
    if version < _OLDEST:
        oldest, present = (".".join(map(str, one)) for one in (_OLDEST, version))
        raise BadInputError(f"{python} is Python {present}, and tfwatch needs {oldest} or newer")
    if missing:
        names = " ".join(missing)
        raise BadInputError(
            f"{python} lacks {', '.join(missing)}: install with {python} -m pip install {names}"
        )


def _ask(python: str) -> list[str]:
    """Return the words that the interpreter prints; a single empty one without an answer."""
    command = [python, "-c", _PROBE, *_NEEDED]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
        )
    except OSError as error:
        raise BadInputError(f"{python} cannot be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise BadInputError(f"{python} did not respond within {_PATIENCE_S} s") from error
    return done.stdout.split() or [""]
