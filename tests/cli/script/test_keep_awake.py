"""Tools that keep a machine awake, or do not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.runs.processes import wait_until
from tfwatch.cli.script import keep_awake
from tfwatch.cli.script.keep_awake import KeepAwake, tool_for
from tfwatch.terminal.capture import held_signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], list[str]]:
    """Makes a tool that writes its process number down and goes on as given."""

    def made(lines: str) -> list[str]:
        path = tmp_path / "caffeinate"
        path.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{lines}\n")
        path.chmod(0o755)
        return [str(path)]

    return made


def pid_in(folder: Path) -> int:
    wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip() != "")
    return int((folder / "pid").read_text())


def test_the_tool_lives_as_long_as_the_run(
    tool: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_awake, "_FAILS_WITHIN_S", 0.05)
    reported: list[str] = []
    with KeepAwake(reported.append, tool("exec cat")):
        pid = pid_in(tmp_path)
        wait_until(lambda: bool(reported))
        assert psutil.pid_exists(pid)

    assert reported == ["kept awake by caffeinate until the run ends"]
    assert not psutil.pid_exists(pid)


def test_a_tool_that_began_while_signals_were_held_back_leaves_too(
    tool: Callable[[str], list[str]], tmp_path: Path
) -> None:
    with held_signals():
        with KeepAwake(lambda _: None, tool("exec sleep 60")):
            pid = pid_in(tmp_path)
        assert not psutil.pid_exists(pid)


def test_a_run_that_is_killed_takes_the_tool_with_it(
    tool: Callable[[str], list[str]], tmp_path: Path
) -> None:
    imports = "import sys; from tfwatch.cli.script.keep_awake import KeepAwake"
    code = f"{imports}; KeepAwake(print, sys.argv[1:]).__enter__(); input()"
    run = subprocess.Popen([sys.executable, "-c", code, *tool("exec cat")], stdin=subprocess.PIPE)
    pid = pid_in(tmp_path)
    assert psutil.pid_exists(pid)
    run.kill()
    run.communicate()

    wait_until(
        lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    )


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        pytest.param("echo Access denied >&2; exit 1", "caffeinate: Access denied", id="denied"),
        pytest.param("exit 3", "caffeinate: it ended with 3", id="without a word"),
    ],
)
def test_a_tool_that_fails_is_reported_once(
    tool: Callable[[str], list[str]], lines: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_awake, "_FAILS_WITHIN_S", 20.0)
    reported: list[str] = []
    with KeepAwake(reported.append, tool(lines)):
        wait_until(lambda: bool(reported))

    assert reported == [f"--keep-awake does not work here, the machine may fall asleep: {why}"]


def test_no_tool_is_a_sentence() -> None:
    reported: list[str] = []
    for argv in ([], ["/nowhere/caffeinate"]):
        with KeepAwake(reported.append, argv):
            pass

    assert reported == [
        "--keep-awake has no tool for this system: the machine may fall asleep",
        (
            "--keep-awake does not work here, the machine may fall asleep: caffeinate: No such file"
            " or directory"
        ),
    ]


def test_each_system_has_its_tool() -> None:
    assert tool_for(7, "darwin") == ["/usr/bin/caffeinate", "-i", "-w", "7"]
    assert tool_for(7, "linux")[0] == "/usr/bin/systemd-inhibit"
    assert tool_for(7, "win32") == []
