"""Tools that run at an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runs.processes import wait_until
from tfwatch.sensors import tool_readers as module
from tfwatch.sensors.protocol import Available, SensorError, Unavailable
from tfwatch.sensors.tool_readers import PolledTool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND_NS = 10**9


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the time limit: a test machine is busy."""
    monkeypatch.setattr(module, "PATIENCE_S", 20.0)


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes the tool's lines and returns its path."""

    def made(lines: str) -> str:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\necho polled >> {tmp_path}/calls\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return made


def number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def settled(polled: PolledTool[int], now_ns: int) -> tuple[int, int] | None:
    """Return the newest output once the tool has finished."""
    polled.newest(now_ns)
    wait_until(lambda: polled.newest(now_ns) is not None and polled._running is None)
    return polled.newest(now_ns)


def test_an_output_is_current_until_the_next_one(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    polled = PolledTool([tool("echo 7")], number, period_s=2)
    assert polled.newest(0) is None
    assert settled(polled, 0) == (0, 7)
    tool("echo 8")
    assert polled.newest(2 * SECOND_NS - 1) == (0, 7)
    assert (tmp_path / "calls").read_text().count("polled") == 1

    assert polled.newest(2 * SECOND_NS) == (0, 7)
    wait_until(lambda: polled.newest(2 * SECOND_NS) == (2 * SECOND_NS, 8))
    assert (tmp_path / "calls").read_text().count("polled") == 2


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("echo no rights >&2; exit 1", "tool: it ended with 1: no rights", id="fails"),
        pytest.param(
            "echo what",
            "tool prints 'what', which tfwatch cannot parse",
            id="prints something else",
        ),
        pytest.param("exit 0", "tool prints nothing", id="prints nothing"),
    ],
)
def test_a_tool_without_output_is_an_error_and_runs_again(
    tool: Callable[[str], str], lines: str, reason: str
) -> None:
    polled = PolledTool([tool("echo 7")], number, period_s=2)
    assert polled.available() == Available()
    assert settled(polled, 0) == (0, 7)
    tool(lines)
    assert polled.available() == Unavailable(reason, "")

    with pytest.raises(SensorError, match=reason):
        settled(polled, 2 * SECOND_NS)
    assert polled.newest(3 * SECOND_NS) is None
    tool("echo 8")
    assert settled(polled, 4 * SECOND_NS) == (4 * SECOND_NS, 8)


def test_a_hung_tool_is_killed_after_a_second(
    tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    polled = PolledTool([tool("exec sleep 600")], number, period_s=2)
    assert polled.newest(0) is polled.newest(SECOND_NS - 1) is None
    with pytest.raises(SensorError, match="tool: did not respond within 1 s"):
        polled.newest(SECOND_NS)
    assert polled.newest(SECOND_NS + 1) is None


def test_a_missing_tool_is_unavailable() -> None:
    assert PolledTool(["/nowhere/tool"], number, 2).available() == Unavailable(
        "tool: No such file or directory", ""
    )
