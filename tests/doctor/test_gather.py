"""The facts of this machine are collected, and a source that fails is a fact too."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from tfwatch.doctor import checkup as room
from tfwatch.doctor.check import Status
from tfwatch.doctor.checkup import Scope, collect_facts, run_checks
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import Trial
from tfwatch.sensors.protocol import Available, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tfwatch.sensors.protocol import Availability

_REFUSED = Unavailable("sudo has no rule for it", "tfwatch doctor --sudoers")


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        room, "try_tensorflow", lambda stages: Trial("completed", results={"tried": {}})
    )


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


class Failing:
    """A sensor that raises in `available` or in `read`."""

    def __init__(self, name: str, breaks: str) -> None:
        self.name = name
        self._breaks = breaks

    def available(self) -> Availability:
        if self._breaks == "available":
            raise OSError(5, "broken")
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        if self._breaks == "read":
            raise OSError(5, "broken")
        return {"memory_available_bytes": 1.0}


def scope(folder: Path, *, is_beside_training: bool = False) -> Scope:
    return Scope(folder / "runs", folder, (60, 18), is_beside_training)


def test_the_facts_of_this_machine_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("A_SECRET", "x")
    stages: list[str] = []
    facts = collect_facts(scope(tmp_path), stages.append)

    assert facts.installed == Installed.here()
    assert facts.environ["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert "A_SECRET" not in facts.environ
    assert facts.trial.results == {"tried": {}}
    assert not isinstance(facts.machine, Unavailable)
    assert facts.machine.memory_bytes > 0
    assert facts.machine.figure("memory_available_bytes")
    assert not isinstance(facts.runs, Unavailable)
    assert facts.runs.problem == ""
    assert stages == ["the installation", "the disk", "the machine"]


def test_beside_a_training_tensorflow_is_not_started_and_the_disk_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "read_speed", lambda *_: pytest.fail("the disk was read"))
    facts = collect_facts(scope(tmp_path, is_beside_training=True), lambda _: None)

    assert facts.trial.outcome == "skipped"
    assert isinstance(facts.disk, Unavailable)


def test_without_tensorflow_the_trial_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installed, "here", staticmethod(lambda: Installed("linux", "x86_64")))

    assert collect_facts(scope(tmp_path), lambda _: None).trial.outcome == "skipped"


@pytest.mark.parametrize("breaks", ["available", "read"])
def test_a_failing_sensor_is_a_gap_and_stops_no_other(
    breaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        room, "host_sensors", lambda: [Failing("pressure", breaks), Failing("memory", "")]
    )
    facts = collect_facts(scope(tmp_path, is_beside_training=True), lambda _: None)

    assert not isinstance(facts.machine, Unavailable)
    assert "broken" in facts.machine.gap("pressure").reason
    assert facts.machine.figure("memory_available_bytes") == 1.0


@pytest.mark.parametrize(
    ("sources", "powermetrics", "counters"),
    [
        pytest.param(
            [Source("powermetrics", _REFUSED), Source("ioreg", Available())],
            _REFUSED,
            ("ioreg", Available()),
            id="a password is needed",
        ),
        pytest.param(
            [Source("powermetrics", Available()), Source("ioreg", Available())],
            Available(),
            ("powermetrics", Available()),
            id="permitted",
        ),
        pytest.param(
            [
                Source("powermetrics", SensorError("prints nothing")),
                Source("ioreg", Unavailable("no GPU", "")),
            ],
            Unavailable("prints nothing", ""),
            ("ioreg", Unavailable("no GPU", "")),
            id="none works",
        ),
        pytest.param([Source("nvml", Available())], None, ("nvml", Available()), id="NVIDIA"),
        pytest.param(
            [Source("nvml", OSError("odd driver"))],
            None,
            ("nvml", Unavailable("OSError: odd driver", "")),
            id="what a library raises",
        ),
    ],
)
def test_the_gpu_sources_are_those_of_a_run(
    sources: list[Source],
    powermetrics: Availability | None,
    counters: tuple[str, Availability],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "choose_sources", lambda *_: sources)
    facts = collect_facts(scope(tmp_path, is_beside_training=True), lambda _: None)

    assert (facts.powermetrics, facts.gpu_counters) == (powermetrics, counters)
    assert all(source.closed for source in sources)


def _hang(held: threading.Event) -> Callable[..., None]:
    def hang(*_: object) -> None:
        held.wait(60)

    return hang


def test_a_folder_that_hangs_is_reported_and_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    monkeypatch.setattr(room, "read_speed", _hang(held))
    monkeypatch.setattr(room, "_PATIENCE_S", 0.05)
    facts = collect_facts(scope(tmp_path), lambda _: None)
    held.set()

    assert isinstance(facts.disk, Unavailable)
    assert "the disk did not answer" in facts.disk.reason


def test_a_home_folder_that_hangs_fails_with_its_mount_and_hangs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = SimpleNamespace(mountpoint=str(tmp_path), fstype="nfs4", device="server:/home")
    root = SimpleNamespace(mountpoint="/", fstype="ext4", device="/dev/vda")
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [root, home])
    held = threading.Event()
    for name in ("runs_folder", "backend", "read_speed"):
        monkeypatch.setattr(room, name, _hang(held))
    monkeypatch.setattr(room, "_PATIENCE_S", 0.05)
    facts = collect_facts(scope(tmp_path), lambda _: None)
    held.set()
    (check,) = (check for check in run_checks(facts) if check.id == "runs-folder")

    assert facts.backend == "tensorflow"
    assert check.status is Status.FAIL
    assert f"it is on {tmp_path} (nfs4 from server:/home)" in check.found


def test_a_gpu_source_that_hangs_is_reported_and_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    source = Source("nvml", Available())
    monkeypatch.setattr(source, "available", _hang(held))
    monkeypatch.setattr(room, "choose_sources", lambda *_: [source])
    monkeypatch.setattr(room, "_PATIENCE_S", 0.05)
    facts = collect_facts(scope(tmp_path, is_beside_training=True), lambda _: None)
    held.set()

    assert facts.gpu_counters == (
        "nvml",
        Unavailable("nvml did not answer within 0.05 s", "is its driver stuck?"),
    )


def test_a_failing_probe_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(room, "read_speed", broken)
    facts = collect_facts(scope(tmp_path), lambda _: None)

    assert facts.disk == Unavailable("ValueError: odd", "")
