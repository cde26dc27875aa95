"""The line of sudoers pins the whole command. sudo 1.9.13 took the golden line, and nothing that
differs from it."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tfwatch.sensors.gpu.powermetrics import COMMAND, line, sudoers

if TYPE_CHECKING:
    from pathlib import Path

_GOLDEN = (
    "alice ALL=(root) NOPASSWD: /usr/bin/powermetrics -s cpu_power\\,gpu_power\\,thermal -f plist"
    " -i 1000 -n 86400"
)


def test_the_line() -> None:
    assert line("alice") == _GOLDEN


def test_every_argument_of_the_command_that_a_run_uses_is_in_it() -> None:
    assert line("alice").partition("NOPASSWD: ")[2].replace("\\,", ",").split() == list(COMMAND)


@pytest.mark.parametrize(
    "name", ["ALICE", "a b", "DOMAIN\\alice", "%admin", "", "alice,bob", "ünal"]
)
def test_a_special_name_is_replaced_by_its_number(name: str) -> None:
    assert line_of(sudoers(name, 501)).startswith("#501 ALL=(root)")


def test_the_rest_are_comments_about_checking_and_removing_it() -> None:
    text = sudoers("alice", 501)
    comments = text.splitlines()[:-1]

    assert all(comment.startswith("# ") or comment == "#" for comment in comments)
    assert not any(comment.startswith("#include") for comment in comments)
    for words in (
        "visudo -cf",
        "sudo rm /etc/sudoers.d/tfwatch",
        "-o",
        "Never permit /usr/bin/powermetrics alone",
    ):
        assert words in text
    assert line_of(text) == _GOLDEN


@pytest.mark.skipif(
    not shutil.which("visudo", path="/usr/sbin:/usr/bin:/sbin"), reason="no visudo on this machine"
)
def test_visudo_accepts_it(tmp_path: Path) -> None:
    (tmp_path / "tfwatch").write_text(sudoers("alice", 501))
    visudo = shutil.which("visudo", path="/usr/sbin:/usr/bin:/sbin")
    done = subprocess.run(
        [str(visudo), "-cf", str(tmp_path / "tfwatch")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def line_of(text: str) -> str:
    return text.splitlines()[-1]
