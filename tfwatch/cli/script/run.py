"""`tfwatch run`, `train` and `ab`: a training script, unmodified, and a summary of its runs on
stderr.

A script of the user's runs in a child process, a workload in a thread of this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tfwatch.cli.script.hosts import ScriptProcess, ScriptThread, describe_end, run_child
from tfwatch.cli.script.request import check_script, request_of
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError, fails_open
from tfwatch.judge.kept_setting import find_kept_setting
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.folder import DiskCall, SilentDiskError, call_and_report
from tfwatch.runs.script_process import Announcements, record_signal
from tfwatch.terminal.capture import flush, held_signals, open_missing, passed_signals
from tfwatch.terminal.pseudo_terminal import OutputRelay, is_one_output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from tfwatch.cli.script.hosts import Script
    from tfwatch.cli.script.request import RunOptions
    from tfwatch.cli.script.session import FollowedScript

_BOOTSTRAP = Path(__file__).parents[2] / "watch" / "script" / "bootstrap.py"
_UNSEEN = """\
tfwatch sees Keras 3's fit and train_on_batch, and loops over a tf.data data set that train,
in the script's own process
a loop over other batches:  for batch in tfwatch.track(batches)
training in a process that the script starts:  callbacks=[tfwatch.Watch()] in its fit"""
_NO_TENSORFLOW = "{} has no TensorFlow: tfwatch run --python PATH takes the one of your training"
#: The exit code of a script that argparse ends: its sentence is enough.
_BAD_ARGUMENTS = 2
#: Seconds that the end of a script waits for the disk of its runs.
_PATIENCE_S = 30.0
#: Seconds that the begin of a script waits for its earlier runs: 200 are read in 0.05.
_KEPT_S = 0.5
#: Seconds between two looks for the end of a workload.
_LOOK_S = 0.2


def run_training(args: argparse.Namespace) -> int:
    """`tfwatch run`, `train` and `ab`."""
    return run(request_of(args))


def run_unrecorded(args: argparse.Namespace, why: str) -> NoReturn:
    """Become the process of the script, which nothing watches.

    Raises:
        BadInputError: there is no such script, or it cannot be started.
    """
    options = request_of(args)
    _check(options, has_screen=False)
    say(f"tfwatch: nothing is recorded: {why}")
    flush(sys.stdout, sys.stderr)
    python = _interpreter(options)
    with startable(options):
        os.execvp(python, [python, *_flags(), *options.script])


@contextlib.contextmanager
def startable(options: RunOptions) -> Iterator[None]:
    """Name the interpreter that cannot be started.

    Raises:
        BadInputError: the system does not start it.
    """
    try:
        yield
    except OSError as error:
        why = f"{_interpreter(options)} cannot be started: {error.strerror or error}"
        raise BadInputError(why) from error


def run(options: RunOptions) -> int:
    """Run the script to its end and return its exit code; die of the signal that it died of.

    Raises:
        BadInputError: there is no such script, or the terminal cannot show the screen.
    """
    has_screen = not options.headless and os.isatty(1)
    _check(options, has_screen)
    if not (has_screen or options.quiet or options.switches or options.job or options.is_workload):
        _name_kept_setting(options)
    began_ns = SYSTEM.wall_ns()
    flush(sys.stdout, sys.stderr)
    with startable(options):
        run_bare = _run_thread if options.is_workload else _run_child
        ran = _run_on_screen(options) if has_screen else run_bare(options)
    code = _conclude(options, ran, began_ns)
    if ran.is_hung:  # a step that blocks can neither be ended nor joined
        os._exit(code)
    return end_as(code)


def _name_kept_setting(options: RunOptions) -> None:
    """Name the setting that the autopilot found for this script in an earlier run."""
    look = DiskCall(partial(find_kept_setting, options.runs_dir, options.script[0]))
    with fails_open(lambda _: None):
        if look.wait(_KEPT_S) and (kept := look.answer()):
            switches = (f"--switch 1:{knob}={value}" for knob, value in kept.values.items())
            say(f"tfwatch: the autopilot found {kept.text}; to use it: {' '.join(switches)}")


def run_recorded(options: RunOptions) -> tuple[Ran, list[Path]]:
    """Run a script without a screen; return its end, and its runs, the newest first.

    Raises:
        BadInputError: there is no such script, or it cannot be started.
    """
    from tfwatch.runs.library import runs_since

    _check(options, has_screen=False)
    began_ns = SYSTEM.wall_ns()
    flush(sys.stdout, sys.stderr)
    with startable(options):
        ran = _run_child(options)
    runs = list(runs_since(options.runs_dir, ran.pid, began_ns))
    _record_signal(runs, ran.code)
    return ran, runs


def _conclude(options: RunOptions, ran: Ran, began_ns: int) -> int:
    """Print the summary of the script's runs, and return its exit code."""
    from tfwatch.terminal.output import write

    with fails_open(lambda why: say(f"tfwatch: the runs of this script cannot be read: {why}")):
        read = partial(_read_end, options, ran, began_ns)
        try:
            document, summary = call_and_report(read, options.runs_dir, _PATIENCE_S)
        except SilentDiskError as error:
            document, summary = "", f"tfwatch: no summary: {error}"
        if document:
            write(sys.stdout, document)
        if summary:
            say(summary)
    return ran.code


def _read_end(options: RunOptions, ran: Ran, began_ns: int) -> tuple[str, str]:
    """Return the JSON object of the script's last run, or the summary of its runs; each empty where
    it is not to be printed."""
    from tfwatch.report.run_facts import as_json
    from tfwatch.report.text import summary_of_runs
    from tfwatch.runs.library import runs_since
    from tfwatch.runs.run import open_run
    from tfwatch.terminal.output import terminal_columns

    runs = list(runs_since(options.runs_dir, ran.pid, began_ns))
    _record_signal(runs, ran.code)
    if options.as_json and runs:
        return json.dumps(as_json(open_run(runs[0])), indent=1) + "\n", ""
    if options.quiet or not (runs or ran.code != _BAD_ARGUMENTS):
        return "", ""
    if not runs:
        return "", _nothing_recorded(options, ran.code)
    return "", summary_of_runs(runs, "script", terminal_columns(sys.stderr))


@dataclass(frozen=True, slots=True)
class Ran:
    """A script that has run. code: its exit code, or minus the signal that it died of.

    is_hung: it was left, and its thread still runs.
    """

    pid: int
    code: int
    is_hung: bool = False


def _run_thread(options: RunOptions) -> Ran:
    """Run a workload in a thread: SIGINT and SIGTERM stop it at the next batch, the second one
    leaves it. Its messages are copied to the logs of its runs."""
    open_missing()
    with held_signals(), contextlib.closing(OutputRelay(copies=True)) as relay:
        outputs = (1, 2) if _takes_all(options) else (2,)
        script = ScriptThread(options.script, options.launch, relay, outputs)
        followed = _follow(script.runs, options)
        hangup = _drop_stdout if 1 not in outputs else lambda: None
        with passed_signals(script.send, hangup), script:
            script.start()
            followed.start()
            while not script.wait(_LOOK_S):
                pass
        relay.finish_reading()
        followed.end(script.state)
    return Ran(script.pid, script.code, script.is_hung)


def _drop_stdout() -> None:
    """Have a lost terminal end nothing: what the script writes to it would raise."""
    if os.isatty(1):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _takes_all(options: RunOptions) -> bool:
    """Return whether all that a script writes goes one way: beside JSON on stdout, to stderr."""
    return options.as_json or is_one_output()


def _run_child(options: RunOptions) -> Ran:
    """Run the script in a child process; its messages are copied to the logs of its runs."""
    pids: list[int] = []
    with contextlib.ExitStack() as around:
        relay = _make_relay(around)
        if relay is None:
            stdout = 2 if options.as_json else None
            code = run_child(script_command(options, None), pids.append, (stdout, None))
            return Ran(pids[0], code)
        followed = _follow(ScriptRuns(Announcements(relay.runs).take), options)

        def begin(pid: int) -> None:
            pids.append(pid)
            relay.close_script_ends()
            followed.start()

        command = script_command(options, relay.runs, relay.for_script)
        outputs = (relay.slave if _takes_all(options) else None), relay.slave
        code = run_child(command, begin, outputs, relay.for_script)
        relay.finish_reading()
        followed.end(describe_end(code))
    return Ran(pids[0], code)


def _make_relay(around: contextlib.ExitStack) -> OutputRelay | None:
    """Return the relay of what the script writes to descriptor 2; None where that is closed, or
    the system gives none. It is closed with `around`."""
    try:
        os.fstat(2)
        return around.enter_context(contextlib.closing(OutputRelay(copies=True)))
    except OSError as error:
        say(f"tfwatch: messages of this script are not read: {error}")
        return None


def _follow(runs: ScriptRuns, options: RunOptions) -> FollowedScript:
    """Return the follower of the runs of a script without a screen."""
    from tfwatch.cli.script.session import FollowedScript, show_notice

    return FollowedScript(runs, options, show_notice)


def _run_on_screen(options: RunOptions) -> Ran:
    from tfwatch.cli.script.session import run_on_screen

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def make(relay: OutputRelay) -> Script:
        if options.is_workload:
            return ScriptThread(options.script, options.launch, relay)
        command = script_command(options, relay.runs, relay.for_script)
        return ScriptProcess(command, relay, mask)

    script = run_on_screen(make, options)
    return Ran(script.pid, script.code, script.is_hung)


def _record_signal(runs: Sequence[Path], code: int) -> None:
    """Record the signal that ended the script in its last run."""
    if code < 0 and runs:
        record_signal(runs[0], -code)


def script_command(
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


def _check(options: RunOptions, has_screen: bool) -> None:
    """Check what a run needs.

    Raises:
        BadInputError: the screen, TensorFlow or the script is missing.
    """
    from tfwatch.doctor.packages import require_tensorflow
    from tfwatch.terminal.output import why_no_screen

    if has_screen and (obstacle := why_no_screen(os.environ)):
        raise BadInputError(obstacle)
    if options.is_workload:
        require_tensorflow()
    if options.script[0] != "-m":
        check_script(options.script[0])


def _flags() -> list[str]:
    """Return the flags of this interpreter, for the script's."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009  not among the typed names
    return [*flags, "-u"] if getattr(sys.stdout, "write_through", False) else flags


def _nothing_recorded(options: RunOptions, code: int) -> str:
    """Return that there is no run; where the script ended well, also how to have its training
    recorded, and where it failed without TensorFlow, which interpreter has it."""
    from tfwatch.doctor.packages import Installed

    line = f"tfwatch: no step of this script is recorded in {options.runs_dir}"
    if not code:
        return f"{line}\n{_UNSEEN}"
    if options.python is None and "tensorflow" not in Installed.here().versions:
        return f"{line}\n{_NO_TENSORFLOW.format(sys.executable)}"
    return line


def say(text: str) -> None:
    """Print lines on stderr, wrapped to its terminal."""
    from tfwatch.report.text import wrapped
    from tfwatch.terminal.output import terminal_columns, write

    write(sys.stderr, wrapped(f"{text}\n", terminal_columns(sys.stderr)))


def end_as(code: int) -> int:
    """Return an exit code; minus a signal: die of this signal, without a second core file."""
    if code >= 0:
        return code
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code
