"""What the autopilot found for a script is kept in its run, for the same lines of the same file."""

import threading
from pathlib import Path

import msgspec
import pytest

from tests.cli.recorded import noisy_rows, record, trained
from tests.fix.test_script_fix import autopilot
from tests.screens.canned import STARVING, Canned, usual
from tests.screens.showing import Shown, shown
from tfwatch.cli.script import run as run_command
from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.run import _name_kept_setting
from tfwatch.core.events import Event
from tfwatch.judge.effects.interval import UNKNOWN
from tfwatch.judge.kept_setting import KeptSetting, find_kept_setting
from tfwatch.runs.format import SOURCES

TEXT = "model.fit(data)\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    return path


def ran(script: Path, name: str, *events: Event, text: str = TEXT) -> None:
    rows = noisy_rows(1)
    folder = script.parent / "runs" / name
    folder.parent.mkdir(exist_ok=True)
    record(folder, rows, *events, *trained(rows), script=str(script))
    (folder / SOURCES).write_bytes(msgspec.json.encode({"train.py": text}))


def found(script: Path) -> str:
    kept = find_kept_setting(script.parent / "runs", str(script))
    return kept.text if kept else ""


def test_the_setting_of_the_newest_tuned_run_is_found(script: Path) -> None:
    ran(script, "2026-11-20T10-00-00_train", *autopilot(low=1.61))
    ran(script, "2026-11-20T11-00-00_train")
    text = "prefetch 4: 1.68 x faster (1.61 to 1.74) in 2026-11-20T10-00-00_train"
    assert found(script) == text


def test_a_newer_run_in_which_it_found_nothing_decides(script: Path) -> None:
    ran(script, "2026-11-20T10-00-00_train", *autopilot(low=1.61))
    began, *_, ended = autopilot(low=1.61)
    nothing = msgspec.structs.replace(ended, ratio=None, low=None, high=None, knobs={})
    ran(script, "2026-11-20T11-00-00_train", began, nothing)
    assert found(script) == ""


@pytest.mark.parametrize("changed", ["the run's lines", "the file"])
def test_other_lines_are_another_script(script: Path, changed: str) -> None:
    text = "other()\n" if changed == "the run's lines" else TEXT
    ran(script, "2026-11-20T10-00-00_train", *autopilot(low=1.61), text=text)
    if changed == "the file":
        script.write_text("other()\n")
    assert found(script) == ""


def test_without_runs_there_is_none(script: Path) -> None:
    assert found(script) == ""


def test_a_run_without_a_screen_names_it_with_its_options(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ran(script, "2026-11-20T10-00-00_train", *autopilot(low=1.61))
    _name_kept_setting(RunOptions([str(script)], script.parent / "runs", headless=True))
    said = " ".join(capfd.readouterr().err.split())
    assert "tfwatch: the autopilot found prefetch 4: 1.68 x faster (1.61 to 1.74) in" in said
    assert said.endswith("to use it: --switch 1:prefetch=4")


def test_a_script_does_not_wait_for_a_disk_that_hangs(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    responds = threading.Event()

    def find_late(*_: object) -> KeptSetting:
        responds.wait(9)
        return KeptSetting({"prefetch": "4"}, UNKNOWN, "a run")

    monkeypatch.setattr(run_command, "find_kept_setting", find_late)
    monkeypatch.setattr(run_command, "_KEPT_S", 0.01)
    _name_kept_setting(RunOptions([str(script)], script.parent / "runs", headless=True))
    responds.set()
    assert capfd.readouterr().err == ""


async def test_the_screen_offers_it_and_k_switches_to_it(script: Path) -> None:
    ran(script, "2026-11-20T10-00-00_train", *autopilot(low=1.61))
    now = script.parent / "runs" / "2026-11-20T11-00-00_train"
    run = Canned(now, script=str(script)).started().begin_epoch().steps(30, STARVING)
    async with shown(run) as show:
        assert show.asked() == []
        for _ in range(100):
            await show.frame()
            if _offers(show):
                break
        await show.press("k")
        assert show.asked() == [("prefetch", "4")]


async def test_k_without_such_a_run_says_so(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("k")
        (note,) = (one.message for one in show.app._notifications)
        assert note.startswith("no earlier run of this script")


def _offers(show: Shown) -> bool:
    return any("k switches to it" in one.message for one in show.app._notifications)
