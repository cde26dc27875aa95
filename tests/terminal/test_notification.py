"""Notices to the user: of the terminal, and by the user's own command."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from tfwatch.terminal.notification import NotifyCommand, desktop_notification, notification

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("environ", "sequence"),
    [
        pytest.param({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;tfwatch: it ended\x1b\\", id="iTerm2"),
        pytest.param({"TERM": "xterm-kitty"}, "\x1b]9;tfwatch: it ended\x1b\\", id="kitty"),
        pytest.param({"TERM": "foot"}, "\x1b]777;notify;tfwatch;it ended\x1b\\", id="foot"),
        pytest.param({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, "", id="tmux"),
        pytest.param(
            {"TERM": "linux", "TERM_PROGRAM": "WezTerm"},
            "",
            id="a console that inherits a variable",
        ),
        *(
            pytest.param({"TERM": term}, "", id=term)
            for term in ("linux", "dumb", "eterm-color", "xterm-256color", "vt100", "tmux-256color")
        ),
        pytest.param(
            {"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "", id="Terminal.app"
        ),
        pytest.param({"ConEmuANSI": "ON", "WT_SESSION": "1"}, "", id="ConEmu"),
        pytest.param({}, "", id="nothing known"),
    ],
)
def test_the_desktop_is_notified_where_the_terminal_can(
    environ: dict[str, str], sequence: str
) -> None:
    assert desktop_notification("it ended", environ) == sequence
    assert notification("it ended", environ) == "\a" + sequence


def test_a_name_cannot_end_the_sequence_or_begin_another() -> None:
    sequence = desktop_notification("a\x1b\\\x07\x9c;b" + "c" * 1000, {"TERM": "foot"})

    body = sequence.removeprefix("\x1b]777;notify;tfwatch;").removesuffix("\x1b\\")
    assert body.isprintable()
    assert ";" not in body
    assert len(body) == 300


_WRITES = "import os, sys; open(sys.argv[1], 'w').write('|'.join([*sys.argv[2:], os.environ['TFWATCH_CAUSE']]))"


def test_the_notice_is_one_argument_whatever_it_contains(tmp_path: Path) -> None:
    failures: list[str] = []
    command = NotifyCommand(
        [sys.executable, "-c", _WRITES, str(tmp_path / "out"), "a b"], failures.append
    )

    command.run("$(touch x); `id` 'q' \"", {"TFWATCH_CAUSE": "end"})
    command.wait(60)

    assert (tmp_path / "out").read_text() == "a b|$(touch x); `id` 'q' \"|end"
    assert failures == []


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        pytest.param(["/nonexistent/program"], "cannot start: No such file", id="missing"),
        pytest.param(["/bin/sh", "-c", "exit 3"], "failed: exit code 3", id="fails"),
        pytest.param(["/bin/sh", "-c", "sleep 60 & wait"], "it took longer than 0.2 s", id="hangs"),
    ],
)
def test_a_failure_is_a_sentence_once(words: list[str], failure: str) -> None:
    failures: list[str] = []
    command = NotifyCommand(words, failures.append, timeout_s=0.2)
    for _ in range(2):
        command.run("it ended", {})
        command.wait(60)

    (sentence,) = failures
    assert failure in sentence


def test_a_command_that_hangs_runs_alone_and_nobody_waits_for_it() -> None:
    failures: list[str] = []
    command = NotifyCommand(["/bin/sh", "-c", "sleep 60"], failures.append, timeout_s=1.0)
    began_s = time.monotonic()
    command.run("it ended", {})
    command.run("it ended", {})

    assert time.monotonic() - began_s < 1.0
    assert failures == ["the notify command still runs: a notice was not passed on"]
    command.wait(60)
