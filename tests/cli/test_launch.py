"""`tfwatch` alone: what it offers, and what it gives to the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.pseudo import Pseudo
from tests.screens.canned import usual
from tfwatch import cli
from tfwatch.cli import launch as room
from tfwatch.core.clock import Clock
from tfwatch.judge.steps.steady_steps import breakdown, steady
from tfwatch.runs.run import open_run


def test_a_script_of_ones_own_is_run_with_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("train.py", "two words.py"):
        (tmp_path / name).touch()
    script = str(tmp_path / "train.py")
    assert room.run_script("~/train.py --epochs 3 --name 'a b'") == (
        "run",
        script,
        "--epochs",
        "3",
        "--name",
        "a b",
    )
    assert room.run_script(" ~/two words.py ") == ("run", str(tmp_path / "two words.py"))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param("  ", "give the path of a script", id="none"),
        pytest.param(
            "/nonexistent/x.py", "/nonexistent/x.py cannot be run: No such file", id="no such file"
        ),
        pytest.param("'x.py", "No closing quotation", id="an open quotation"),
    ],
)
def test_a_script_that_is_not_there_is_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        room.run_script(line)


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        pytest.param("tr", "train.py", id="the first that fits"),
        pytest.param("train_", "train_big.py", id="another one"),
        pytest.param("m", "my\\ data/", id="a folder, as a shell writes it"),
        pytest.param("my\\ data/x", "my\\ data/x.py", id="within it"),
        pytest.param("x --data n", "x --data notes.txt", id="any file after it"),
        pytest.param(".h", ".hidden.py", id="a hidden one by its name"),
        pytest.param("z", None, id="none"),
    ],
)
def test_a_path_is_completed(
    line: str, completed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my data").mkdir()
    for name in ("train.py", "train_big.py", "notes.txt", ".hidden.py", "my data/x.py"):
        (tmp_path / name).touch()

    assert room.complete(line) == completed


class _Chooses:
    """A launcher in which somebody has chosen at once."""

    def __init__(self, *words: str) -> None:
        self.words = words


def _played(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def show_app(make: Any) -> int:
        make()
        return code

    monkeypatch.setattr(room, "show_app", show_app)


@pytest.mark.parametrize(
    ("code", "chosen", "runs", "printed"),
    [
        pytest.param(
            0, ("train", "cnn", "--steps", "9"), True, "tfwatch train cnn --steps 9\n", id="chosen"
        ),
        pytest.param(
            0, ("run", "/a b.py"), True, "tfwatch run '/a b.py'\n", id="as a shell takes it"
        ),
        pytest.param(0, ("replay", "cnn"), True, "tfwatch replay cnn\n", id="replay"),
        pytest.param(0, (), False, "", id="left"),
        pytest.param(143, ("train", "cnn"), False, "", id="ended by a signal"),
    ],
)
def test_what_is_chosen_is_printed_and_run(
    code: int,
    chosen: tuple[str, ...],
    runs: bool,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    _played(monkeypatch, code)

    def make(offer: object, **options: object) -> Any:
        return _Chooses(*chosen)

    became: list[Sequence[str]] = []
    monkeypatch.setattr("tfwatch.screens.launcher.LauncherApp", make)
    monkeypatch.setattr(room, "exec_command", became.append)

    assert room.launch(tmp_path) == code
    assert became == ([chosen] if runs else [])
    assert capsys.readouterr() == ("", printed)


@pytest.mark.terminal
def test_in_a_terminal_a_run_is_chosen_and_replayed(tmp_path: Path) -> None:
    usual(tmp_path / "tfwatch" / "runs" / "2026-11-20T10-17-03_cnn").ended().writer.close()
    home = str(tmp_path)
    with Pseudo("-m", "tfwatch", XDG_STATE_HOME=home, XDG_CONFIG_HOME=home) as terminal:
        terminal.wait_for("finished")
        terminal.press("\x1b[B")
        terminal.wait_for("tfwatch replay 2026-11-20T10-17-03_cnn")
        terminal.press("\r")
        terminal.wait_for("tfwatch replay 2026-11-20T10-17-03_cnn\r\n")
        terminal.wait_for("z zoom")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before


def test_without_a_terminal_it_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert capsys.readouterr().out.startswith("usage: tfwatch")


def test_runs_are_the_newest_first_with_what_became_of_them(tmp_path: Path) -> None:
    for name, cause in (
        ("2026-11-20T10-17-03_cnn", "finished"),
        ("2026-11-20T10-17-03_cnn-2", "stopped"),
    ):
        usual(tmp_path / name).ended(cause).writer.close()
    broken = tmp_path / "2026-11-20T10-17-03_cnn-3"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    manifest_wall_ns = usual(None).writer.manifest().origin_wall_ns
    clock = Clock(
        now_ns=lambda: 0, wall_ns=lambda: manifest_wall_ns + 720 * 10**9, thread_ns=lambda: 0
    )

    runs = list(room.past_runs(tmp_path, clock))

    assert [run.state for run in runs] == ["stopped", "finished"]
    # The older one's name is a part of the newer one's.
    assert [run.words for run in runs] == [
        "2026-11-20T10-17-03_cnn-2",
        str(tmp_path / "2026-11-20T10-17-03_cnn"),
    ]
    assert [(run.workload, run.age_s) for run in runs] == [("cnn", 720.0)] * 2
    assert runs[0].length.startswith("451 steps, ")
    split = breakdown(steady(open_run(runs[1].words).steps))
    assert split
    assert runs[1].wait_share == pytest.approx(split.wait_share)
    assert list(room.past_runs(tmp_path / "nowhere")) == []
