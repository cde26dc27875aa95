"""`tfwatch fix` by its command line: the patch on stdout, the evidence on stderr."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import exit_code
from tests.fix.test_script_fix import LINE, autopilot, recorded
from tfwatch.cli import fix as command
from tfwatch.cli import main
from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.run import Ran

NEW = f"{LINE}.prefetch(4)\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(f"{LINE}\n")


def run_as(monkeypatch: pytest.MonkeyPatch, code: int = 0, low: float = 1.61) -> list[RunOptions]:
    """Have the script run to this end with this proof; return the options it runs with."""
    asked: list[RunOptions] = []

    def run(options: RunOptions, *_: Any) -> tuple[Ran, list[Path]]:
        asked.append(options)
        return Ran(1, code), [recorded(*autopilot(low))]

    monkeypatch.setattr(command, "run_recorded", run)
    return asked


def test_a_proved_setting_is_printed_as_a_patch_and_not_written(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (asked,) = [run_as(monkeypatch)]
    assert main(["fix", "--steps", "900", "train.py", "--epochs", "3"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"--- a/train.py\n+++ b/train.py\n")
    assert f"+{NEW}".encode() in out
    assert b"1.68 x faster (1.61 to 1.74)" in err
    assert b"nothing is written" in err
    assert Path("train.py").read_text() == f"{LINE}\n"
    assert [(one.script, one.steps) for one in asked] == [(["train.py", "--epochs", "3"], 900)]


@pytest.mark.parametrize(("kind", "expected"), [("metrics", True), ("order", False)])
def test_the_script_is_profiled_where_that_finds_what_is_allowed(
    kind: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = run_as(monkeypatch)
    main(["fix", "--allow", kind, "train.py"])
    assert [one.explain for one in asked] == [expected]


def test_apply_writes_the_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run_as(monkeypatch)
    assert main(["fix", "--apply", "--json", "train.py"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["applied"] is True
    assert f"+{NEW}" in document["patch"]
    assert Path("train.py").read_text() == NEW


def test_without_a_proof_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run_as(monkeypatch, low=1.01)
    assert main(["fix", "--apply", "train.py"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "no setting is proved faster: " in err
    assert Path("train.py").read_text() == f"{LINE}\n"


@pytest.mark.parametrize("code", [130, 143])
def test_a_script_that_is_stopped_changes_nothing(
    code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run_as(monkeypatch, code=code)
    assert main(["fix", "--apply", "train.py"]) == code
    out, err = capfd.readouterr()
    assert (out, "no patch, and no file is changed" in err) == ("", True)
    assert Path("train.py").read_text() == f"{LINE}\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_a_stop_while_it_runs_again_says_that_no_file_is_changed(
    error: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(error)), command._ended_by_signals():
        raise error
    assert "no patch, and no file is changed" in capfd.readouterr().err


def test_the_signal_of_the_script_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    end: Callable[[int], int] = lambda code: ended.append(code) or 130  # type: ignore[func-returns-value]  # noqa: E731
    run_as(monkeypatch, code=-signal.SIGINT)
    monkeypatch.setattr(command, "end_as", end)
    assert main(["fix", "train.py"]) == 130
    assert ended == [-signal.SIGINT]


@pytest.mark.parametrize(
    "words",
    [
        ["fix"],
        ["fix", "nothing.py"],
        ["fix", "--steps", "0", "a.py"],
        ["fix", "--json", "--markdown", "a.py"],
    ],
)
def test_bad_input_is_one_sentence(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*words) == 2
    assert capfd.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_hangup_ends_it_unless_it_runs_under_nohup(before: signal.Handlers) -> None:
    outer = signal.signal(signal.SIGHUP, before)
    try:
        with command._ended_by_signals():
            is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert is_ignored == (before is signal.SIG_IGN)
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, outer)


def test_a_handler_that_is_not_of_python_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getsignal` returns None for a handler in C, which cannot be put back."""
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    numbers: list[Any] = []
    monkeypatch.setattr(signal, "signal", lambda number, _: numbers.append(number))
    with command._ended_by_signals():
        assert numbers == [signal.SIGTERM, signal.SIGHUP]
    assert len(numbers) == 2
