"""`tfwatch run` in a terminal: scripts under the live screen. Their fits write runs without
TensorFlow."""

import os
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.pseudo import ROOT, Pseudo
from tests.runs.processes import wait_until
from tfwatch.cli.script.hosts import ScriptProcess
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.screens.text import plain

pytestmark = pytest.mark.terminal

#: Stands on the live screen of a fit.
RECORDS = "recording"
LEFT_SCREEN = "\x1b[?1049l"
FIT = "from tests.cli.fake_fits import fit\n"


def session(folder: Path, script: str, *flags: str, **more: str) -> Pseudo:
    """Start a script in a terminal; its first argument is the folder of the runs."""
    (folder / "train.py").write_text(script)
    words = (
        "--runs-dir",
        str(folder / "runs"),
        *flags,
        str(folder / "train.py"),
        str(folder / "runs"),
    )
    # pytest-xdist sets COLUMNS and LINES, which would count for more than the terminal's size.
    environ = {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TMPDIR": str(folder),
        "COLUMNS": "120",
        "LINES": "40",
    }
    return Pseudo("-m", "tfwatch", "run", *words, columns=120, rows=40, **environ, **more)


def runs(folder: Path) -> list[Snapshot]:
    """Return the runs, the oldest first."""
    return [open_run(run) for run in reversed(list_runs(folder / "runs"))]


def trains(folder: Path) -> bool:
    """Return whether a run has steps on disk."""
    return any(len(run.steps) > 5 for run in runs(folder))


def test_a_script_without_a_fit_shows_its_state_gets_the_terminals_size_and_then_its_output(
    tmp_path: Path,
) -> None:
    script = (
        "import os, signal\ndef resized(*_):\n    print(os.get_terminal_size(1), flush=True)\n   "
        " input()\nsignal.signal(signal.SIGWINCH, resized)\nprint('a line',"
        " os.get_terminal_size(1).columns, flush=True)\nprint('I0000 00:00:1795798273.067563"
        "    7697 port.cc:153] oneDNN is on')\nwhile True:\n    signal.pause()\n"
    )
    with session(tmp_path, script) as terminal:
        terminal.wait_for("train runs, no fit yet")
        terminal.wait_for("a line 120")
        terminal.resize(132, 43)
        terminal.wait_for("os.terminal_size(columns=132, lines=43)")
        assert terminal.wait() == 1
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert "a line 120" in after
    assert "EOFError" in after
    assert "oneDNN" not in after, "a page of TensorFlow's log would hide the error"
    assert "the script reads its input, which is empty under the screen: use --headless" in after
    assert "no step of this script is recorded" in after


def test_a_script_that_reads_its_input_is_told_so_also_where_python_colours_its_errors(
    tmp_path: Path,
) -> None:
    """As Python does in a terminal from 3.13 on."""
    script = (
        r"raise SystemExit('\x1b[1;35mEOFError\x1b[0m: \x1b[35mEOF when reading a line\x1b[0m')"
    )
    with session(tmp_path, script) as terminal:
        assert terminal.wait() == 1
        assert (
            "the script reads its input, which is empty under the screen"
            in terminal.output.decode()
        )


def test_the_screen_goes_on_with_each_fit_and_ends_with_the_last_and_the_error_of_the_script(
    tmp_path: Path,
) -> None:
    script = (
        f"{FIT}print('before')\nfit(60, loss=0.25)\nfor n in range(400):\n    print(f'\\rbar"
        " {n}', end='')\nprint()\nfit(60, loss=0.125)\nprint('after')\nopen('/no/such/file')\n"
    )
    with session(tmp_path, script) as terminal:
        terminal.wait_for("fit 2")
        terminal.wait_for("script ended, exit code 1")
        terminal.press("q")
        assert terminal.wait() == 1
        reported = terminal.output.decode()
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert "1 earlier run of this script: tfwatch runs" in after
    assert "loss 0.125" in after
    assert "Traceback (most recent call last)" in after
    assert "No such file or directory: '/no/such/file'" in after
    first, second = runs(tmp_path)
    assert first.log == ("before", "bar 399")
    assert second.log[0] == "after"
    assert plain(second.log[-1]).startswith("FileNotFoundError")
    assert not list(tmp_path.glob("tfwatch-*"))


def test_a_key_reaches_the_fit_of_the_script(tmp_path: Path) -> None:
    with session(tmp_path, f"{FIT}fit()\n") as terminal:
        terminal.wait_for(RECORDS)
        terminal.press("5p")
        terminal.wait_for("switch prefetch by key")
        terminal.answer("y")  # a killed screen leaves the script alone
        assert terminal.wait() == -signal.SIGINT


def test_y_interrupts_the_script_and_its_own_handler_decides(tmp_path: Path) -> None:
    script = (
        f"{FIT}import sys\ntry:\n    fit()\nexcept KeyboardInterrupt:\n    print('saved')\n   "
        " sys.exit(7)\n"
    )
    with session(tmp_path, script) as terminal:
        terminal.wait_for(RECORDS)
        terminal.press("\x03")
        terminal.wait_for("Quit?")
        terminal.press("y")
        assert terminal.wait() == 7
        reported = terminal.output.decode()
    (run,) = runs(tmp_path)
    assert run.ended
    assert run.ended.cause == "stopped"
    assert run.log[-1] == "saved"
    assert "train on CPU stopped" in reported[reported.rindex(LEFT_SCREEN) :]


TEARDOWN = """saved
W0000 00:00:1795810297.567519    5499 generator_dataset_op.cc:113] Error occurred when finalizing
\t [[{{node PyFunc}}]]"""


def test_after_y_the_script_writes_to_the_terminal_and_tensorflows_end_does_not(
    tmp_path: Path,
) -> None:
    script = (
        f"{FIT}import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\ntry:\n"
        "    fit()\nexcept KeyboardInterrupt:\n    signal.sigwait([signal.SIGWINCH])\n"
        f"    print({TEARDOWN!r})\n"
    )
    with session(tmp_path, script) as terminal:
        terminal.wait_for(RECORDS)
        terminal.answer("y")
        terminal.wait_for("waiting for the end of the script")
        terminal.resize(132, 43)
        assert terminal.wait() == 0
        reported = terminal.output.decode()
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert "saved" in after
    assert "PyFunc" in runs(tmp_path)[0].log[-1]
    assert "generator_dataset_op" not in after
    assert "PyFunc" not in after


def test_y_twice_ends_a_script_that_ignores_ctrl_c(tmp_path: Path) -> None:
    script = f"{FIT}import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfit()\n"
    with session(tmp_path, script) as terminal:
        terminal.wait_for(RECORDS)
        terminal.answer("y")
        terminal.wait_for("STOPPING")
        terminal.press("y")
        assert terminal.wait() == -signal.SIGTERM
        reported = terminal.output.decode()
    assert "the process was ended by SIGTERM" in reported[reported.rindex(LEFT_SCREEN) :]


def test_d_leaves_the_screen_and_the_script_writes_to_the_terminal(tmp_path: Path) -> None:
    script = f"{FIT}import sys\nprint('hidden')\nfit(300)\nprint('seen')\nsys.exit(5)\n"
    with session(tmp_path, script) as terminal:
        terminal.wait_for(RECORDS)
        terminal.answer("d")
        terminal.wait_for("the script runs on without a screen")
        assert terminal.wait() == 5
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert "seen\r\n" in after
    assert "hidden" not in after
    assert re.search(r"train on CPU finished: .*300 steps in ", after)
    assert runs(tmp_path)[0].log == ("hidden", "seen")


PRINTS_ON = (
    f"{FIT}import sys\nfit(150)\nprint('x' * 100_000)\nsys.stdout.flush()\nfit(60)\nprint('end')\n"
)


@pytest.mark.parametrize("how", ["SIGKILL", "hangup"])
def test_a_screen_that_is_gone_leaves_the_script_alone(how: str, tmp_path: Path) -> None:
    with session(tmp_path, PRINTS_ON) as terminal:
        wait_until(lambda: trains(tmp_path))
        pid = runs(tmp_path)[0].manifest.pid
        if how == "hangup":
            terminal.hang_up()
        else:
            terminal.process.kill()
        wait_until(lambda: len(runs(tmp_path)) == 2 and not psutil.pid_exists(pid))
        if how == "SIGKILL":
            assert "the script runs on" in terminal.wait_for("the script runs on")
            assert terminal.wait() == -signal.SIGKILL
            assert terminal.state == terminal.before
        else:
            assert terminal.process.wait(timeout=20) == 0
    assert [(run.ended and run.ended.cause, len(run.steps)) for run in runs(tmp_path)] == [
        ("finished", 150),
        ("finished", 60),
    ]
    wait_until(lambda: not list(tmp_path.glob("tfwatch-*/runs")))
    assert [len(run.log[0]) for run in runs(tmp_path)] == [100_000, 3]


PRINTS_IN_LINES = """
import os, sys, time
from tests.cli.fake_fits import fit
print("before")
fit(20)
n = 0
while not os.path.exists(sys.argv[1] + "-stop"):
    print(n, "x" * 1000, flush=True)
    n += 1
    with open(sys.argv[1] + "-count", "a") as count:
        count.write(".")
    time.sleep(0.002)
fit(20)
print("end")
sys.exit(9)
"""


def relay_of(terminal: Pseudo) -> list[psutil.Process]:
    """Return the process that reads the script's output; none while it starts."""
    guard_and_relay = [
        child
        for child in psutil.Process(terminal.process.pid).children()
        if "bootstrap.py" not in " ".join(child.cmdline())
    ]
    return guard_and_relay[:1]


def reads_on(log: Path) -> None:
    """Wait until a log grows by more than a pseudo terminal holds."""
    size = log.stat().st_size
    wait_until(lambda: log.stat().st_size > size + 50_000)


@pytest.mark.parametrize("screen_gone", [True, False])
def test_where_the_relay_is_killed_the_script_goes_on(screen_gone: bool, tmp_path: Path) -> None:
    with session(tmp_path, PRINTS_IN_LINES) as terminal:
        wait_until(lambda: trains(tmp_path))
        log = list_runs(tmp_path / "runs")[0] / "log.txt"
        reads_on(log)
        (relay,) = relay_of(terminal)
        if screen_gone:
            terminal.process.kill()
        relay.kill()
        pid = runs(tmp_path)[0].manifest.pid
        count = tmp_path / "runs-count"
        had = count.stat().st_size
        wait_until(lambda: count.stat().st_size > had + 100)  # a pseudo terminal holds fewer
        (tmp_path / "runs-stop").touch()
        wait_until(lambda: not psutil.pid_exists(pid))
        if not screen_gone:
            terminal.wait_for("script ended, exit code 9")
            terminal.press("q")
            assert terminal.wait() == 9
    first, second = runs(tmp_path)
    assert first.log[0] == "before"
    assert [run.ended and run.ended.cause for run in (first, second)] == ["finished", "finished"]


def test_ctrl_backslash_ends_a_script_that_ignores_ctrl_c_after_the_screen(tmp_path: Path) -> None:
    script = f"{FIT}import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfit()\n"
    with session(tmp_path, script) as terminal:
        terminal.wait_for(RECORDS)
        terminal.answer("d")
        terminal.wait_for("the script runs on without a screen")
        terminal.press("\x03")
        terminal.press("\x1c")
        assert terminal.wait() == -signal.SIGQUIT
    assert "the process was ended by SIGQUIT" in terminal.words


def test_sigterm_reaches_the_script_and_its_run_says_so(tmp_path: Path) -> None:
    with session(tmp_path, f"{FIT}fit()\n") as terminal:
        wait_until(lambda: trains(tmp_path))
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == -signal.SIGTERM
        assert terminal.state == terminal.before
    (run,) = runs(tmp_path)
    assert run.ended
    assert (run.ended.cause, run.ended.detail) == ("stopped", "the process was ended by SIGTERM")


def test_a_signal_that_cannot_be_recorded_is_reported_and_the_script_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = ScriptProcess.__new__(ScriptProcess)
    process, announced = (
        SimpleNamespace(returncode=-signal.SIGTERM),
        SimpleNamespace(take=lambda: [tmp_path]),
    )
    relay = SimpleNamespace(copy_size=bool)
    ended = threading.Event()
    vars(script).update(_process=process, _announced=announced, _relay=relay, _ended=ended)

    script._run()

    assert script.has_ended
    said = capsys.readouterr().err
    assert said.startswith("tfwatch: the run does not say which signal ended it: NotARunError: ")


#: Sends SIGTERM to the process that imports a module, in the middle of it.
SIGTERM_AT_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["tfwatch.screens.keyline", "tfwatch.screens.live.header"])
def test_sigterm_reaches_the_script_while_the_screen_is_loaded(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SIGTERM_AT_IMPORT.format(module=module))
    with session(
        tmp_path, f"{FIT}fit()\n", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])
    ) as terminal:
        assert terminal.wait() == -signal.SIGTERM
        assert terminal.state == terminal.before
