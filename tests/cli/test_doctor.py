"""`tfwatch doctor` over facts that are made up: what is printed, and the exit code."""

import os
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from tests.cli.commands import exit_code
from tests.doctor.machines import linux, mac, stopped
from tests.pseudo import Pseudo
from tfwatch.cli import doctor as command
from tfwatch.doctor.checks import Check, CheckUp, Status, judge
from tfwatch.doctor.facts import Facts

_BROKEN = mac(
    "2.20.0",
    "1.2.0",
    trial=stopped("import", exit_code=1, log_text="Library not loaded: @rpath/_pywrap.so\n"),
)


def doctor(facts: Facts, *words: str) -> int:
    """Run the command over these facts."""

    def check(runs_dir: Path, notify: Callable[[str], None]) -> CheckUp:
        notify("the installation")
        return judge(facts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "check_up", check)
        return exit_code("doctor", *words)


class Terminal(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("facts", "code"), [(linux(), 0), (linux(busy_cores=1.6), 0), (_BROKEN, 1)]
)
def test_a_check_that_fails_is_exit_code_1(facts: Facts, code: int) -> None:
    assert doctor(facts) == code


def test_a_check_up_that_could_not_be_written_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "write", lambda *_: 1)
    assert doctor(linux()) == 1


def test_the_table_has_the_worst_first_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(_BROKEN)
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith("Apple M2 Pro, 16 GB")
    assert lines[2].startswith("FAIL  tensorflow")
    assert any("pip install -U 'tensorflow>=2.18,<2.20'" in line for line in lines[2:6])
    assert lines[-1].startswith("1 failed, 0 warnings")


@pytest.mark.parametrize("columns", [40, 200])
def test_it_wraps_at_any_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = command.as_text(judge(_BROKEN), StringIO())

    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= columns
    assert "Library not loaded" in " ".join(out.split())


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = command.as_text(judge(_BROKEN), Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    plain = command.as_text(judge(_BROKEN), Terminal())

    assert "\x1b[1;31m" in coloured
    assert "31m" not in plain


def test_the_words_of_others_are_never_markup_and_never_obeyed() -> None:
    checks = (
        Check("import", Status.FAIL, "Tensor[float32] \x1b[2J[/red] :smile:\nnext", "[b]pip[/b]"),
    )
    out = command.as_text(CheckUp("[bold]chip[/bold]", checks), StringIO())

    assert "Tensor[float32] [2J[/red] :smile: next" in out
    assert "> [b]pip[/b]" in out.replace("→", ">")
    assert out.startswith("[bold]chip[/bold]")


def test_without_unicode_it_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")

    assert command.as_text(judge(_BROKEN), StringIO()).isascii()


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    doctor(linux())

    assert "checking the installation" in err.getvalue()
    assert err.getvalue().endswith("\r\x1b[K")


def test_ctrl_c_ends_it_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(runs_dir: Path, notify: Callable[[str], None]) -> CheckUp:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "check_up", check)
    assert exit_code("doctor") == 130
    assert capsys.readouterr() == ("", "")


def test_the_line_of_sudoers_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("doctor", "--sudoers") == 0
    out, err = capsys.readouterr()

    assert f"#{os.getuid()} ALL=(root) NOPASSWD: /usr/bin/powermetrics -s" in out.splitlines()[-1]
    assert ("no other system needs this" in err) == (sys.platform != "darwin")


# -- the command line -----------------------------------------------------------------------------


@pytest.mark.terminal
def test_ctrl_c_in_a_terminal_ends_the_trial_too(tmp_path: Path) -> None:
    with Pseudo("-m", "tfwatch", "doctor", "--runs-dir", str(tmp_path)) as terminal:
        terminal.wait_for("checking TensorFlow")
        terminal.press("\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.words
