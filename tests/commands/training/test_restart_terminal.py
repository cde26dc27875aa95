"""A restart as a user sees it: in a pseudo terminal, with the real screen, to the program that comes after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.commands.training.test_train_terminal import (
    LEFT_SCREEN,
    PAINTED,
    end_of,
    session,
    the_run,
    trains,
    trains_a_step,
)
from tests.runs.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.terminal


def test_the_process_becomes_the_command_and_the_terminal_is_left_in_order(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains(tmp_path))
        pid = terminal.process.pid
        terminal.press("r")
        terminal.wait_for("no changes yet")
        terminal.press("\r")
        assert terminal.wait() == 1  # the new process prints it
        assert terminal.process.pid == pid
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    run = the_run(tmp_path)
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert f"recorded in {run.path}" in "".join(after.split("\r\n"))
    assert (
        f"became train cnn --begin-with {run.path}/last.weights.h5 --runs-dir {tmp_path} --after {run.path}"
        in after
    )
    assert end_of(run) == "stopped"


def test_a_stalled_run_begins_again_at_once(tmp_path: Path) -> None:
    with session(tmp_path, "hang") as terminal:
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains_a_step(tmp_path))
        terminal.press("r")
        terminal.wait_for("no changes yet")
        terminal.press("\r")
        terminal.wait_for("quit now")
        terminal.press("y")
        assert terminal.wait() == 1
        assert terminal.state == terminal.before
        assert "became train cnn" in terminal.words
    assert end_of(the_run(tmp_path)) == "stopped"


def test_a_run_that_is_over_begins_again(tmp_path: Path) -> None:
    with session(tmp_path, steps=30) as terminal:
        terminal.wait_for("FINISHED")
        terminal.press("r")
        terminal.wait_for("restarts now")
        terminal.press("\r")
        assert terminal.wait() == 1
        assert "became train cnn" in terminal.words
        assert terminal.state == terminal.before
    assert end_of(the_run(tmp_path)) == "finished"
