"""Tools that work, fail, hang, flood and ask."""

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
def make(tmp_path: Path) -> Callable[[str], str]:
    """Makes a tool that runs these lines of shell, and returns its path."""

    def made(lines: str) -> str:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return made


@pytest.mark.parametrize(
    ("lines", "out", "err", "code", "why_not"),
    [
        pytest.param("echo yes", "yes\n", "", 0, "", id="works"),
        pytest.param("echo no >&2; exit 3", "", "no\n", 3, "it ended with 3: no", id="fails"),
        pytest.param("echo no; exit 1", "no\n", "", 1, "it ended with 1: no", id="fails on stdout"),
        pytest.param("exit 1", "", "", 1, "it ended with 1", id="fails without a word"),
        pytest.param("kill -9 $$", "", "", -9, "it ended with -9", id="is killed"),
        pytest.param("printf '\\377\\000x'", "�\0x", "", 0, "", id="prints what is no text"),
        pytest.param("cat; echo end", "end\n", "", 0, "", id="finds no stdin"),
        pytest.param('echo "$LANG $LC_ALL $SECRET"', "C C \n", "", 0, "", id="gets no variables of the user's"),
    ],
)
def test_what_a_tool_says(
    make: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    out: str,
    err: str,
    code: int,
    why_not: str,
) -> None:
    monkeypatch.setenv("SECRET", "s")
    result = system_tool.run([make(lines), "a b"], timeout_s=20)

    assert (result.out, result.err, result.code, result.why_not, result.trouble) == (out, err, code, why_not, "")


def test_its_words_are_its_arguments_and_no_shells(make: Callable[[str], str]) -> None:
    assert system_tool.run([make('printf "%s|" "$@"'), "$HOME; ls", "*"], timeout_s=20).out == "$HOME; ls|*|"


@pytest.mark.parametrize(
    ("path", "trouble"),
    [
        pytest.param("/nowhere/tool", "No such file or directory", id="is not there"),
        pytest.param("/etc/passwd", "Permission denied", id="is no program"),
        pytest.param("/bin/a\0b", "embedded null byte", id="has no name"),
    ],
)
def test_a_tool_that_cannot_be_started(path: str, trouble: str) -> None:
    result = system_tool.run([path], timeout_s=20)

    assert (result.code, result.trouble, result.why_not) == (None, trouble, trouble)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("echo begun; exec sleep 600", id="hangs"),
        pytest.param("echo begun; exec >&- 2>&-; exec sleep 600", id="closes its output and lives"),
        pytest.param("echo begun; while :; do echo a >&2; sleep 0.01; done", id="prints slowly without end"),
        pytest.param("echo begun; sleep 600 & exit 0", id="leaves a child that holds its output"),
    ],
)
def test_a_tool_that_does_not_end_is_ended(make: Callable[[str], str], lines: str) -> None:
    result = system_tool.run([make(lines)], timeout_s=1.0)

    assert (result.code, result.why_not) == (None, "gives no answer within 1 s")
    assert result.out == "begun\n"
    assert not [child for child in psutil.Process().children() if child.name() == "tool"]


def test_a_tool_that_floods_is_ended(make: Callable[[str], str]) -> None:
    result = system_tool.run(
        [make("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")], 20, limit_bytes=10_000
    )

    assert (result.code, result.why_not) == (None, "prints more than 10000 bytes")
    assert len(result.out) == 10_000


def test_nobody_waits_for_a_tool_that_is_looked_at(make: Callable[[str], str]) -> None:
    hanging = system_tool.Running([make("echo begun; exec sleep 600")], timeout_s=2, now_ns=0)
    assert hanging.look(1_999_999_999) is None
    result = hanging.look(2_000_000_000)
    assert result is not None
    assert result.trouble == "gives no answer within 2 s"
    assert hanging.look(3_000_000_000) is result

    quick = system_tool.Running([make("echo yes")], timeout_s=2, now_ns=0)
    wait_until(lambda: quick.look(1) is not None)
    assert quick.look(1) == system_tool.Result("yes\n", "", 0)


def test_what_a_tool_cost_is_counted(make: Callable[[str], str]) -> None:
    before_ns = system_tool.spent_ns()
    result = system_tool.run([make("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")], timeout_s=20)

    assert 1_000_000 < result.cpu_ns < 20_000_000_000
    assert system_tool.spent_ns() - before_ns >= result.cpu_ns


def test_a_tool_that_nobody_looks_at_any_more_ends(make: Callable[[str], str], tmp_path: Path) -> None:
    left = system_tool.Running([make(f"echo $$ > {tmp_path}/pid; exec sleep 600")], timeout_s=600, now_ns=0)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    process = psutil.Process(int((tmp_path / "pid").read_text()))
    del left

    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_nothing_is_left_open(make: Callable[[str], str]) -> None:
    before = len(os.listdir("/dev/fd"))
    for lines in ("echo yes", "exec sleep 600"):
        system_tool.run([make(lines)], timeout_s=1.0)
    system_tool.run(["/nowhere"], timeout_s=1.0)

    assert len(os.listdir("/dev/fd")) == before
