"""The facts of this machine are collected, and a folder that hangs is a fact too."""

import threading
from pathlib import Path

import pytest

from tfwatch.doctor import facts as room
from tfwatch.doctor.facts import Facts, Nvidia, collect_facts, nvidia, processor
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.trial import Trial


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "run_program", lambda *_: Trial("completed"))
    monkeypatch.setattr(room, "other_programs", lambda: 0.5)


def collect(folder: Path, *, is_beside_training: bool = False) -> Facts:
    return collect_facts(folder / "runs", lambda _: None, is_beside_training=is_beside_training)


def test_the_facts_of_this_machine_are_collected(tmp_path: Path) -> None:
    stages: list[str] = []
    facts = collect_facts(tmp_path / "runs", stages.append)

    assert facts.installed == Installed.here()
    assert facts.trial.outcome == "completed"
    assert 0 < facts.free_bytes <= facts.total_bytes
    assert facts.busy_cores is not None
    assert facts.runs_problem == ""
    assert facts.disk_free_bytes
    assert " GB, TensorFlow 2." in facts.machine
    assert stages == ["the machine", "TensorFlow"]
    assert list(tmp_path.iterdir()) == [], "a missing runs folder is not created"


def test_tensorflow_is_not_started_beside_a_training_nor_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = collect(tmp_path, is_beside_training=True)
    assert (facts.trial.outcome, facts.busy_cores) == ("skipped", None)

    monkeypatch.setattr(Installed, "here", staticmethod(lambda: Installed("linux", "x86_64")))
    assert collect(tmp_path).trial.outcome == "skipped"


def test_a_folder_that_hangs_is_reported_and_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    monkeypatch.setattr(room, "find_problem", lambda _: held.wait(60))
    monkeypatch.setattr(room, "_PATIENCE_S", 0.05)
    facts = collect(tmp_path)
    held.set()

    assert facts.runs_problem == "no answer within 0.05 s"


# -- the processor and the GPU ---------------------------------------------------------------------


def test_the_processor_of_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        out = "Apple M2 Pro\n"

    monkeypatch.setattr(room, "run", lambda *_: Answer())
    assert processor("darwin") == "Apple M2 Pro"


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_the_processor_of_linux(tmp_path: Path) -> None:
    assert processor("linux", tmp_path) == ""
    _write(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name\t: A chip\n\nmodel name : other\n")
    assert processor("linux", tmp_path) == "A chip"


def test_a_card_with_its_sound_device_and_its_driver(tmp_path: Path) -> None:
    devices = {"00:02.0": ("0x8086", "0x030000"), "01:00.1": ("0x10de", "0x040300")}
    for name, (vendor, kind) in devices.items():
        _write(tmp_path, f"sys/bus/pci/devices/{name}/vendor", f"{vendor}\n")
        _write(tmp_path, f"sys/bus/pci/devices/{name}/class", f"{kind}\n")
    assert nvidia({}, tmp_path) == Nvidia()

    _write(tmp_path, "sys/bus/pci/devices/01:00.0/vendor", "0x10de\n")
    _write(tmp_path, "sys/bus/pci/devices/01:00.0/class", "0x030200\n")
    assert nvidia({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == Nvidia(has_card=True, hidden="")

    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n"
    _write(tmp_path, "proc/driver/nvidia/version", version)
    assert nvidia({}, tmp_path) == Nvidia("580.159.04", has_card=True)

    _write(tmp_path, "dev/nvidia0", "")
    assert nvidia({}, tmp_path) == Nvidia("580.159.04", has_card=True, has_device_files=True)


def test_wsl_uses_the_driver_of_windows(tmp_path: Path) -> None:
    _write(tmp_path, "usr/lib/wsl/lib/libcuda.so.1", "")

    assert nvidia({}, tmp_path) == Nvidia("Windows' own", has_device_files=True)
