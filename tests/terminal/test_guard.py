"""The guard restores the terminal of a killed process and prints the end of its log."""

import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.pseudo import Pseudo

_RAW_SCREEN = """
import os, signal, sys, tty
from pathlib import Path
from tfwatch.terminal.capture import Capture
with Capture() as terminal:
    tty.setraw(0)
    terminal.out.write("\\x1b[?1049h\\x1b[?25l\\x1b[?1000h")
    terminal.out.flush()
    os.write(2, b"native code \\x1b[31mcomplains\\n")
    terminal.out.write("ready")
    terminal.out.flush()
    {die}
"""
_PLAIN = """
import os, signal, sys
from pathlib import Path
from tfwatch.terminal.capture import Capture
with Capture() as terminal:
    os.write(2, b"native code complains\\n")
    {die}
"""
_FORKS_AND_DIES = (
    "worker = os.fork()",
    "if not worker:",
    "    for stream in (terminal.out, terminal.err): os.close(stream.fileno())",
    "    signal.pause()",
    "Path(sys.argv[1] + '.worker').write_text(str(worker))",
    "os.kill(os.getpid(), signal.SIGKILL)",
)
_KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("die", "signum"),
    [
        pytest.param("os.abort()", signal.SIGABRT, id="abort"),
        pytest.param(_KILL, signal.SIGKILL, id="SIGKILL"),
    ],
)
def test_a_killed_screen_is_left_and_the_log_is_shown(
    tmp_path: Path, die: str, signum: int
) -> None:
    with Pseudo("-c", _RAW_SCREEN.format(die=die), str(tmp_path / "log.txt")) as terminal:
        output = terminal.wait_for("complains")
        assert terminal.wait() == -signum
        assert terminal.state == terminal.before
    after = output[output.index("ready") :]
    assert "\x1b[?1049l" in after
    assert "\x1b[?25h" in after
    assert "\x1b[?1000l" in after
    assert "native code  [31mcomplains" in after


@pytest.mark.terminal
def test_a_mode_that_a_shell_has_already_set_is_kept(tmp_path: Path) -> None:
    """Readline turns echo off itself; with the old state restored every key would show twice."""
    die = (
        "mode = tty.tcgetattr(0); mode[3] |= tty.ISIG; tty.tcsetattr(0, tty.TCSANOW, mode); "
        + _KILL
    )
    with Pseudo("-c", _RAW_SCREEN.format(die=die), str(tmp_path / "log.txt")) as terminal:
        terminal.wait_for("complains")
        terminal.wait()
        assert not terminal.state[3] & termios.ECHO


def test_a_fatal_signal_without_a_screen_shows_its_stack(tmp_path: Path) -> None:
    result = _run(_PLAIN.format(die="os.abort()"), tmp_path)
    assert result.returncode == -signal.SIGABRT
    assert "native code complains" in result.stderr
    assert "Fatal Python error: Aborted" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("die", "code"),
    [
        pytest.param("pass", 0, id="in order"),
        pytest.param("raise SystemExit(3)", 3, id="by an exception"),
    ],
)
def test_a_regular_end_prints_nothing(tmp_path: Path, die: str, code: int) -> None:
    result = _run(_PLAIN.format(die=die), tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


def test_a_worker_that_outlives_the_process_does_not_delay_the_guard(tmp_path: Path) -> None:
    """A forked data worker keeps the guard's pipe open: the pipe alone does not show that the
    parent is dead."""
    script = _PLAIN.format(die="\n    ".join(_FORKS_AND_DIES))
    result = _run(script, tmp_path)
    os.kill(int((tmp_path / "log.txt.worker").read_text()), signal.SIGKILL)
    assert result.returncode == -signal.SIGKILL
    assert "killed or crashed" in result.stderr


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, str(folder / "log.txt")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
