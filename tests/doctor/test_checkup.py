"""The facts of this machine are collected, and a source that fails or hangs is a fact too."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from tfwatch.core.clock import Clock
from tfwatch.doctor import checkup as room
from tfwatch.doctor.checks import Status, judge
from tfwatch.doctor.checkup import Scope, collect_facts, read_speed
from tfwatch.doctor.facts import DiskSpeed
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import Trial
from tfwatch.sensors.sensor import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.doctor.facts import Facts


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        room, "try_tensorflow", lambda stages: Trial("completed", results={"tried": {}})
    )
    monkeypatch.setattr(room, "other_programs", lambda: 0.5)


class Source:
    """A GPU source that answers, or raises."""

    period_s = 1.0

    def __init__(self, name: str, answer: Unavailable | Exception | None) -> None:
        self.name = name
        self.closed = False
        self._answer = answer

    def why_unavailable(self) -> Unavailable | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def close(self) -> None:
        self.closed = True


def collect(folder: Path, *, is_beside_training: bool = False) -> Facts:
    return collect_facts(Scope(folder / "runs", folder, is_beside_training), lambda _: None)


def test_the_facts_of_this_machine_are_collected(tmp_path: Path) -> None:
    stages: list[str] = []
    facts = collect_facts(Scope(tmp_path), stages.append)

    assert facts.installed == Installed.here()
    assert facts.trial.results == {"tried": {}}
    assert not isinstance(facts.memory, Unavailable)
    assert 0 < facts.memory.free_bytes <= facts.memory.total_bytes
    assert not isinstance(facts.cores, Unavailable)
    assert facts.cores.busy is not None
    assert not isinstance(facts.runs, Unavailable)
    assert facts.runs.problem == ""
    assert facts.runs.free_bytes
    assert "TensorFlow 2." in facts.machine
    assert stages == ["the machine", "the disk"]


def test_beside_a_training_tensorflow_is_not_started(tmp_path: Path) -> None:
    facts = collect_facts(Scope(tmp_path, None, is_beside_training=True), lambda _: None)

    assert facts.trial.outcome == "skipped"
    assert facts.disk is None
    assert not isinstance(facts.cores, Unavailable)
    assert facts.cores.busy is None


def test_without_tensorflow_the_trial_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installed, "here", staticmethod(lambda: Installed("linux", "x86_64")))

    assert collect(tmp_path).trial.outcome == "skipped"


def test_the_gpu_sensor_is_that_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("nvml", OSError("odd driver"))
    monkeypatch.setattr(room, "choose_source", lambda _: source)
    facts = collect(tmp_path, is_beside_training=True)

    assert facts.gpu_sensor == ("nvml", Unavailable("OSError: odd driver"))
    assert source.closed


def _hang(held: threading.Event) -> Callable[..., None]:
    def hang(*_: object) -> None:
        held.wait(60)

    return hang


def test_what_hangs_is_reported_and_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    source = Source("nvml", None)
    monkeypatch.setattr(source, "why_unavailable", _hang(held))
    monkeypatch.setattr(room, "choose_source", lambda _: source)
    for name in ("_runs_folder", "read_speed"):
        monkeypatch.setattr(room, name, _hang(held))
    monkeypatch.setattr(room, "_PATIENCE_S", 0.05)
    facts = collect(tmp_path)
    held.set()
    (check,) = (check for check in judge(facts).checks if check.id == "runs-folder")

    assert facts.disk == Unavailable("the disk did not answer within 0.05 s", "")
    assert facts.gpu_sensor == ("nvml", Unavailable("nvml did not answer within 0.05 s"))
    assert check.status is Status.FAIL


def test_a_failing_probe_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(room, "read_speed", broken)

    assert collect(tmp_path).disk == Unavailable("ValueError: odd", "")


def test_a_missing_runs_folder_is_not_created(tmp_path: Path) -> None:
    facts = collect(tmp_path, is_beside_training=True)

    assert not isinstance(facts.runs, Unavailable)
    assert (facts.runs.problem, list(tmp_path.iterdir())) == ("", [])


# -- the disk -------------------------------------------------------------------------------------


def test_the_files_of_a_folder_are_read(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.bin").write_bytes(os.urandom(2**20))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    found = read_speed(tmp_path)

    assert isinstance(found, DiskSpeed)
    assert (found.files, found.read_bytes) == (6, 6 * 2**20)
    assert found.took_s > 0


def test_too_few_files_are_not_judged(tmp_path: Path) -> None:
    found = read_speed(tmp_path / "not" / "yet")

    assert isinstance(found, Unavailable)
    assert "less than 4 MB of files" in found.reason


def test_reading_ends_at_the_time_limit(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.bin").write_bytes(bytes(2**20))
    ticks = iter(range(10**6))
    found = read_speed(tmp_path, Clock(now_ns=lambda: next(ticks) * 100_000_000))

    assert isinstance(found, DiskSpeed)
    assert found.read_bytes < 6 * 2**20
