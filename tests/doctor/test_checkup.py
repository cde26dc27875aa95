"""The facts of this machine are collected, and a source that fails or hangs is a fact too."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.core.clock import Clock
from tfwatch.doctor import checkup as room
from tfwatch.doctor.checks import DiskSpeed, Status, judge
from tfwatch.doctor.checkup import Scope, backend, collect_facts, read_speed
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import Trial
from tfwatch.sensors.protocol import Available, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.doctor.checks import Facts
    from tfwatch.sensors.protocol import Availability


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        room, "try_tensorflow", lambda stages: Trial("completed", results={"tried": {}})
    )
    monkeypatch.setattr(room, "_BUSY_S", 0.01)


class Source:
    """A GPU source that answers, or raises."""

    period_s = 1.0

    def __init__(self, name: str, answer: Availability | Exception) -> None:
        self.name = name
        self.closed = False
        self._answer = answer

    def available(self) -> Availability:
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


def test_beside_a_training_tensorflow_is_not_started_and_the_disk_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "read_speed", lambda *_: pytest.fail("the disk was read"))
    facts = collect(tmp_path, is_beside_training=True)

    assert facts.trial.outcome == "skipped"
    assert isinstance(facts.disk, Unavailable)
    assert not isinstance(facts.cores, Unavailable)
    assert facts.cores.busy is None


def test_without_tensorflow_the_trial_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installed, "here", staticmethod(lambda: Installed("linux", "x86_64")))

    assert collect(tmp_path).trial.outcome == "skipped"


def test_the_gpu_sensors_are_those_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [Source("powermetrics", OSError("odd driver")), Source("ioreg", Available())]
    monkeypatch.setattr(room, "choose_sources", lambda *_: sources)
    facts = collect(tmp_path, is_beside_training=True)

    assert facts.gpu_sensors == (
        ("powermetrics", Unavailable("OSError: odd driver", "")),
        ("ioreg", Available()),
    )
    assert all(source.closed for source in sources)


def _hang(held: threading.Event) -> Callable[..., None]:
    def hang(*_: object) -> None:
        held.wait(60)

    return hang


def test_what_hangs_is_reported_and_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    source = Source("nvml", Available())
    monkeypatch.setattr(source, "available", _hang(held))
    monkeypatch.setattr(room, "choose_sources", lambda *_: [source])
    for name in ("_runs_folder", "backend", "read_speed"):
        monkeypatch.setattr(room, name, _hang(held))
    monkeypatch.setattr(room, "_PATIENCE_S", 0.05)
    facts = collect(tmp_path)
    held.set()
    (check,) = (check for check in judge(facts).checks if check.id == "runs-folder")

    assert facts.backend == "tensorflow"
    assert facts.disk == Unavailable("the disk did not answer within 0.05 s", "")
    assert facts.gpu_sensors == (("nvml", Unavailable("nvml did not answer within 0.05 s", "")),)
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"backend": "jax"}', "jax"),
        ("{", "tensorflow"),
        ("[]", "tensorflow"),
        ('{"floatx": "float32"}', "tensorflow"),
    ],
)
def test_the_backend_is_read_from_keras_json(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text(text)

    assert backend({}, tmp_path) == expected
    assert backend({"KERAS_BACKEND": "torch"}, tmp_path) == "torch"
    assert backend({"KERAS_HOME": str(tmp_path / "none")}, tmp_path) == "tensorflow"


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
    assert found.from_disk is None or 0 <= found.from_disk <= 1


def test_an_empty_folder_is_measured_with_a_temporary_file(tmp_path: Path) -> None:
    found = read_speed(tmp_path / "not" / "yet")

    assert isinstance(found, DiskSpeed)
    assert found.files == 1
    assert found.read_bytes > 0
    assert list(tmp_path.iterdir()) == []


def test_reading_ends_at_the_time_limit(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.bin").write_bytes(bytes(2**20))
    ticks = iter(range(10**6))
    found = read_speed(tmp_path, Clock(now_ns=lambda: next(ticks) * 100_000_000))

    assert isinstance(found, DiskSpeed)
    assert found.read_bytes < 6 * 2**20


@pytest.mark.parametrize(
    ("speeds_mb_s", "found_mb_s", "reads"),
    [
        pytest.param([200], 200, 1, id="fast"),
        pytest.param([10, 200], 200, 2, id="another program used the disk"),
        pytest.param([10, 8], 10, 2, id="slow"),
    ],
)
def test_a_slow_read_is_repeated(
    speeds_mb_s: list[int],
    found_mb_s: int,
    reads: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [DiskSpeed("/n", speed * 1e6, 1.0, 1) for speed in speeds_mb_s]
    monkeypatch.setattr(room, "_read_any", lambda *_: left.pop(0))
    found = read_speed(tmp_path)

    assert isinstance(found, DiskSpeed)
    assert found.bytes_s == found_mb_s * 1e6
    assert len(speeds_mb_s) - len(left) == reads


def test_a_full_disk_gets_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**20))
    found = read_speed(tmp_path)

    assert isinstance(found, Unavailable)
    assert "too little space" in found.reason


def test_a_folder_that_refuses_files_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refused)
    found = read_speed(tmp_path)

    assert isinstance(found, Unavailable)
    assert found.reason.endswith("Permission denied")
