"""Tools that work, fail, hang, print without end and prompt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.runs.processes import wait_until
from tfwatch.core import system_tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def make_tool(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a tool of these shell lines and returns its path."""

    def make(lines: str) -> str:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("lines", "out", "err", "code", "failure"),
    [
        pytest.param("echo yes", "yes\n", "", 0, "", id="works"),
        pytest.param("echo no >&2; exit 3", "", "no\n", 3, "it ended with 3: no", id="fails"),
        pytest.param("echo no; exit 1", "no\n", "", 1, "it ended with 1: no", id="fails on stdout"),
        pytest.param("exit 1", "", "", 1, "it ended with 1", id="fails without output"),
        pytest.param("kill -9 $$", "", "", -9, "it ended with -9", id="is killed"),
        pytest.param("printf '\\377\\000x'", "�\0x", "", 0, "", id="prints bytes"),
        pytest.param("cat; echo end", "end\n", "", 0, "", id="has no stdin"),
        pytest.param(
            'echo "$LANG $LC_ALL $SECRET"',
            "C C \n",
            "",
            0,
            "",
            id="gets no variables of the user's",
        ),
    ],
)
def test_the_result_of_a_tool(
    make_tool: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    out: str,
    err: str,
    code: int,
    failure: str,
) -> None:
    monkeypatch.setenv("SECRET", "s")
    result = system_tool.run([make_tool(lines), "a b"], timeout_s=20)

    assert (result.out, result.err, result.code, result.failure, result.trouble) == (
        out,
        err,
        code,
        failure,
        "",
    )


def test_arguments_are_passed_without_a_shell(make_tool: Callable[[str], str]) -> None:
    assert (
        system_tool.run([make_tool('printf "%s|" "$@"'), "$HOME; ls", "*"], timeout_s=20).out
        == "$HOME; ls|*|"
    )


@pytest.mark.parametrize(
    ("path", "trouble"),
    [
        pytest.param("/nowhere/tool", "No such file or directory", id="is not there"),
        pytest.param("/etc/passwd", "Permission denied", id="is not a program"),
        pytest.param("/bin/a\0b", "embedded null", id="has no name"),
    ],
)
def test_a_tool_that_cannot_be_started(path: str, trouble: str) -> None:
    result = system_tool.run([path], timeout_s=20)

    assert trouble in result.trouble
    assert (result.code, result.failure) == (None, result.trouble)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("echo begun; exec sleep 600", id="hangs"),
        pytest.param("echo begun; exec >&- 2>&-; exec sleep 600", id="closes its output and lives"),
        pytest.param(
            "echo begun; while :; do echo a >&2; sleep 0.01; done", id="prints slowly without end"
        ),
        pytest.param("echo begun; sleep 600 & exit 0", id="leaves a child that holds its output"),
    ],
)
def test_a_tool_that_does_not_end_is_killed(make_tool: Callable[[str], str], lines: str) -> None:
    result = system_tool.run([make_tool(lines)], timeout_s=1.0)

    assert (result.code, result.failure) == (None, "did not respond within 1 s")
    assert result.out == "begun\n"
    assert not [child for child in psutil.Process().children() if child.name() == "tool"]


def test_a_tool_that_prints_too_much_is_killed(make_tool: Callable[[str], str]) -> None:
    result = system_tool.run(
        [make_tool("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")],
        20,
        limit_bytes=10_000,
    )

    assert (result.code, result.failure) == (None, "prints more than 10000 bytes")
    assert len(result.out) == 10_000


def test_polling_a_tool_does_not_wait(make_tool: Callable[[str], str]) -> None:
    hanging = system_tool.RunningTool(
        [make_tool("echo begun; exec sleep 600")], timeout_s=2, now_ns=0
    )
    assert hanging.poll(1_999_999_999) is None
    result = hanging.poll(2_000_000_000)
    assert result is not None
    assert result.trouble == "did not respond within 2 s"
    assert hanging.poll(3_000_000_000) is result

    quick = system_tool.RunningTool([make_tool("echo yes")], timeout_s=2, now_ns=0)
    wait_until(lambda: quick.poll(1) is not None)
    assert quick.poll(1) == system_tool.Result("yes\n", "", 0)


def test_the_cpu_time_of_a_tool_is_counted(make_tool: Callable[[str], str]) -> None:
    before_ns = system_tool.spent_ns()
    result = system_tool.run(
        [make_tool("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")], timeout_s=20
    )

    assert 1_000_000 < result.cpu_ns < 20_000_000_000
    assert system_tool.spent_ns() - before_ns >= result.cpu_ns


def test_a_dropped_tool_ends(make_tool: Callable[[str], str], tmp_path: Path) -> None:
    dropped = system_tool.RunningTool(
        [make_tool(f"echo $$ > {tmp_path}/pid; exec sleep 600")], timeout_s=600, now_ns=0
    )
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    process = psutil.Process(int((tmp_path / "pid").read_text()))
    del dropped

    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_no_descriptor_is_left_open(make_tool: Callable[[str], str]) -> None:
    before = len(os.listdir("/dev/fd"))
    for lines in ("echo yes", "exec sleep 600"):
        system_tool.run([make_tool(lines)], timeout_s=1.0)
    system_tool.run(["/nowhere"], timeout_s=1.0)

    assert len(os.listdir("/dev/fd")) <= before, (
        "fewer where what earlier tests left is freed meanwhile"
    )
