"""The tool that prints documents of powermetrics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.sensors.powerdocs import PLAIN, document
from tfwatch.sensors.gpu import powermetrics
from tfwatch.sensors.gpu.powermetrics import PowermetricsSource
from tfwatch.sensors.protocol import Available, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], PowermetricsSource]:
    """Return a function that makes a source whose tool runs these shell lines; `"$d"` is a
    document's path."""
    (tmp_path / "document").write_bytes(document() + b"\n\0")

    def make(lines: str) -> PowermetricsSource:
        path = tmp_path / "powermetrics"
        path.write_text(f"#!/bin/sh\nd={tmp_path}/document\n{lines}\n")
        path.chmod(0o755)
        return PowermetricsSource(command=(str(path),))

    return make


def test_a_tool_that_works(tool: Callable[[str], PowermetricsSource]) -> None:
    source = tool('cat "$d" "$d" "$d"; exec sleep 600')

    assert source.available() == Available()
    assert [source.read() for _ in range(3)] == [PLAIN] * 3
    assert set(source.gaps()) == {"memory_bytes", "process_busy", "temperature_c"}
    source.close()
    source.close()
    with pytest.raises(SensorError, match="does not run"):
        source.read()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("sudo: a password is required", id="sudo"),
        pytest.param("powermetrics must be invoked as the superuser", id="not root"),
        pytest.param("user x is not allowed to execute", id="sudo has another rule"),
    ],
)
def test_without_permission_there_is_a_fix(
    words: str, tool: Callable[[str], PowermetricsSource]
) -> None:
    answer = tool(f"echo {words} >&2; exit 1").available()

    assert answer == Unavailable(
        "powermetrics runs as root only, and sudo has no rule for it",
        "tfwatch doctor --sudoers prints the line that permits powermetrics",
    )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("exit 3", "it ended with 3", id="exits at once"),
        pytest.param(
            "echo no such sampler >&2; exit 64",
            "it ended with 64: no such sampler",
            id="prints its reason",
        ),
        pytest.param(
            "printf 'Password:' >&2; read answer; exit 1",
            "it ended with 1: Password:",
            id="prompts",
        ),
        pytest.param("exec sleep 600", "printed nothing readable in time", id="hangs"),
        pytest.param(
            "while :; do printf x; sleep 0.05; done", "nothing readable in time", id="prints slowly"
        ),
        pytest.param(
            "while :; do cat /bin/sh; done", "it (has closed its output|printed more)", id="floods"
        ),
        pytest.param("while :; do cat /bin/sh >&2; done", "it printed more", id="floods stderr"),
        pytest.param(
            "exec 1>&-; exec sleep 600", "it has closed its output", id="closes its output"
        ),
    ],
)
def test_a_failed_tool_has_a_reason(
    lines: str,
    reason: str,
    tool: Callable[[str], PowermetricsSource],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a loaded machine a tool may need seconds to print too much; the others print nothing
    # readable in any time.
    monkeypatch.setattr(powermetrics, "_PATIENCE_S", 20.0 if "printed more" in reason else 0.4)

    with pytest.raises(SensorError, match=reason):
        tool(lines).available()


def test_a_missing_tool() -> None:
    answer = PowermetricsSource(
        command=("/nowhere/sudo", "-n", "/nowhere/powermetrics")
    ).available()

    assert isinstance(answer, Unavailable)
    assert answer.reason == "powermetrics is a tool of macOS"


@pytest.mark.parametrize(("uid", "before"), [(0, ()), (501, ("/usr/bin/sudo", "-n"))])
def test_root_needs_no_sudo(
    uid: int, before: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)

    assert PowermetricsSource()._command == (*before, *powermetrics.COMMAND)


def test_nothing_is_left_running(tool: Callable[[str], PowermetricsSource], tmp_path: Path) -> None:
    source = tool(f'echo $$ > {tmp_path}/pid; cat "$d"; exec sleep 600')
    source.available()
    pid = int((tmp_path / "pid").read_text())
    assert os.getsid(pid) == pid  # no terminal of the user's
    source.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
