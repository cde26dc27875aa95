"""Tools that are asked again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runs.processes import wait_until
from tfwatch.sensors import tool_readers as module
from tfwatch.sensors.protocol import Available, SensorError, Unavailable
from tfwatch.sensors.tool_readers import Asked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND_NS = 10**9


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that tests is busy."""
    monkeypatch.setattr(module, "PATIENCE_S", 20.0)


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], str]:
    """Makes the tool do something else from now on, and returns its path."""

    def made(lines: str) -> str:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/calls\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return made


def number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def settled(asked: Asked[int], now_ns: int) -> tuple[int, int] | None:
    """The answer once the tool has given it."""
    asked.newest(now_ns)
    wait_until(lambda: asked.newest(now_ns) is not None and asked._running is None)
    return asked.newest(now_ns)


def test_an_answer_holds_until_the_next_one(tool: Callable[[str], str], tmp_path: Path) -> None:
    asked = Asked([tool("echo 7")], number, period_s=2)
    assert asked.newest(0) is None
    assert settled(asked, 0) == (0, 7)
    tool("echo 8")
    assert asked.newest(2 * SECOND_NS - 1) == (0, 7)
    assert (tmp_path / "calls").read_text().count("asked") == 1

    assert asked.newest(2 * SECOND_NS) == (0, 7)
    wait_until(lambda: asked.newest(2 * SECOND_NS) == (2 * SECOND_NS, 8))
    assert (tmp_path / "calls").read_text().count("asked") == 2


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("echo no rights >&2; exit 1", "tool: it ended with 1: no rights", id="fails"),
        pytest.param("echo what", "tool prints 'what', which says nothing", id="prints something else"),
        pytest.param("exit 0", "tool prints nothing", id="prints nothing"),
    ],
)
def test_a_tool_that_gives_nothing_is_told_and_asked_again(tool: Callable[[str], str], lines: str, reason: str) -> None:
    asked = Asked([tool("echo 7")], number, period_s=2)
    assert asked.available() == Available()
    assert settled(asked, 0) == (0, 7)
    tool(lines)
    assert asked.available() == Unavailable(reason, "")

    with pytest.raises(SensorError, match=reason):
        settled(asked, 2 * SECOND_NS)
    assert asked.newest(3 * SECOND_NS) is None
    tool("echo 8")
    assert settled(asked, 4 * SECOND_NS) == (4 * SECOND_NS, 8)


def test_a_tool_that_hangs_is_left_after_a_second(tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    asked = Asked([tool("exec sleep 600")], number, period_s=2)
    assert asked.newest(0) is asked.newest(SECOND_NS - 1) is None
    with pytest.raises(SensorError, match="tool: gives no answer within 1 s"):
        asked.newest(SECOND_NS)
    assert asked.newest(SECOND_NS + 1) is None


def test_a_tool_that_is_not_there_is_unavailable() -> None:
    assert Asked(["/nowhere/tool"], number, 2).available() == Unavailable("tool: No such file or directory", "")
