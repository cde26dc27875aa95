"""Tools that work, fail, hang and prompt."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tfwatch.core import system_tool


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
    ("lines", "out", "failure"),
    [
        pytest.param("echo yes", "yes\n", "", id="works"),
        pytest.param("echo no >&2; exit 3", "", "it ended with 3: no", id="fails"),
        pytest.param("echo no; exit 1", "no\n", "it ended with 1: no", id="fails on stdout"),
        pytest.param("exit 1", "", "it ended with 1", id="fails without output"),
        pytest.param("kill -9 $$", "", "it ended with -9", id="is killed"),
        pytest.param("printf '\\377\\000x'", "�\0x", "", id="prints bytes"),
        pytest.param("cat; echo end", "end\n", "", id="has no stdin"),
        pytest.param('echo "$LANG $SECRET"', "C \n", "", id="gets no variables of the user's"),
        pytest.param('printf "%s|" "$@"', "$HOME; ls|*|", "", id="is started without a shell"),
    ],
)
def test_the_result_of_a_tool(
    make_tool: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    out: str,
    failure: str,
) -> None:
    monkeypatch.setenv("SECRET", "s")

    result = system_tool.run([make_tool(lines), "$HOME; ls", "*"], timeout_s=20)

    assert result == system_tool.Result(out, failure)


@pytest.mark.parametrize(
    ("path", "failure"),
    [
        pytest.param("/nowhere/tool", "No such file or directory", id="is not there"),
        pytest.param("/etc/passwd", "Permission denied", id="is not a program"),
        pytest.param("/bin/a\0b", "embedded null", id="has no name"),
    ],
)
def test_a_tool_that_cannot_be_started(path: str, failure: str) -> None:
    assert failure in system_tool.run([path], timeout_s=20).failure


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("exec sleep 600", id="hangs"),
        pytest.param("exec >&- 2>&-; exec sleep 600", id="closes its output and lives"),
        pytest.param("sleep 5 & exit 0", id="leaves a child that holds its output"),
    ],
)
def test_a_tool_that_does_not_end_is_killed(make_tool: Callable[[str], str], lines: str) -> None:
    before = len(os.listdir("/dev/fd"))
    result = system_tool.run([make_tool(lines)], timeout_s=0.5)

    assert result.failure == "did not respond within 0.5 s"
    assert not [child for child in psutil.Process().children() if child.name() == "tool"]
    assert len(os.listdir("/dev/fd")) <= before
