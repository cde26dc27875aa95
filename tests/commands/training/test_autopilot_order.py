"""`tfwatch train --autopilot`: from the options to what the run holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.fakes import factories, order
from tfwatch import cli
from tfwatch.commands.training.train import train
from tfwatch.core.events import AutopilotBegan, AutopilotEnded
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("options", "ordered"),
    [
        pytest.param([], (False, None), id="off unless asked for"),
        pytest.param(["--autopilot"], (True, None), id="a share of what is free"),
        pytest.param(["--autopilot", "--memory-limit", "1.5"], (True, 1.5 * 2**30), id="gigabytes"),
        pytest.param(["--memory-limit", "2"], (False, 2.0 * 2**30), id="for the key"),
    ],
)
def test_what_is_ordered(
    options: list[str], ordered: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Any] = []

    def taken(order: Any) -> int:
        orders.append(order)
        return 0

    monkeypatch.setattr("tfwatch.commands.training.train.train", taken)
    assert cli.main(["train", "cnn", *options]) == 0
    assert (orders[0].autopilot, orders[0].memory_bytes) == ordered


@pytest.mark.parametrize("limit", ["0", "-1", "much", "nan", "1e9"])
def test_a_limit_that_is_none_is_one_sentence(
    limit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "cnn", f"--memory-limit={limit}"])
    assert ended.value.code == 2
    assert f"'{limit}' is no memory: give gigabytes above 0" in capsys.readouterr().err


def test_the_autopilot_runs_and_the_summary_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ordered = order(tmp_path, headless=True, autopilot=True, memory_bytes=2.0**30)
    assert train(ordered, factories(steps=60)) == 0
    run = open_run(list_runs(tmp_path)[0])
    (began,) = [event for event in run.events if isinstance(event, AutopilotBegan)]
    (ended,) = [event for event in run.events if isinstance(event, AutopilotEnded)]
    assert began.memory_bytes == 2.0**30
    assert run.manifest.settings["memory_limit_bytes"] == 2.0**30
    assert (
        ended.cause == "over"
    )  # no training obeys there, so the run ends before the first move is in effect
    assert "autopilot: " in capfd.readouterr().out
