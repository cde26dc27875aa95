"""The limits of control groups, and the types of a CPU, read from simulated files."""

from pathlib import Path

import psutil
import pytest

from tests.runs.begun import begin_run
from tests.runs.folders import FakeClock, read_back
from tfwatch.runs import machine_info
from tfwatch.runs.machine_info import (
    ProcessLimits,
    cpu_types,
    describe_machine,
    limits,
    memory_total,
    used_bytes,
)

GB = 2**30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores, 64 GB."""
    monkeypatch.setattr(machine_info, "bound_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"total": 64 * GB}))


def make_root(folder: Path, own: str, files: dict[str, str]) -> Path:
    """A file system with these files below its cgroup mount."""
    write(folder / "proc/self/cgroup", f"0::{own}\n")
    for name, text in files.items():
        write(folder / "sys/fs/cgroup" / name, text)
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def limited(memory: object = None, cpu: str | None = None, folder: str = "") -> dict[str, str]:
    """The files of a group with these limits."""
    files = {"memory.max": memory, "cpu.max": cpu}
    return {f"{folder}{name}": f"{text}\n" for name, text in files.items() if text is not None}


NESTED = {
    **limited(9 * GB, "300000 100000", "user.slice/a.scope/"),
    **limited(2 * GB, "max 100000", "user.slice/"),
}


@pytest.mark.parametrize(
    ("own", "files", "memory", "group", "cores"),
    [
        pytest.param("/", {}, None, None, None, id="none: the machine itself"),
        pytest.param("/", limited(8 * GB, "200000 100000"), 8 * GB, "", 2.0, id="a container"),
        pytest.param("/", limited("max", "max 100000"), None, None, None, id="no limit set"),
        pytest.param("/", limited(99 * GB, "800000 100000"), None, None, None, id="too high"),
        pytest.param("/", limited(cpu="50000 100000"), None, None, 0.5, id="half a core"),
        pytest.param("/docker/ab12", limited(GB), GB, "", None, id="that sees the host's names"),
        pytest.param("/user.slice/a.scope", NESTED, 2 * GB, "user.slice", 3.0, id="nested groups"),
        pytest.param("/../other", limited(5), None, None, None, id="moved out of its container"),
        pytest.param("/", limited("much", "1 0"), None, None, None, id="damaged"),
    ],
)
def test_the_limits_of_this_process(
    tmp_path: Path,
    own: str,
    files: dict[str, str],
    memory: int | None,
    group: str | None,
    cores: float | None,
) -> None:
    folder = None if group is None else tmp_path / "sys/fs/cgroup" / group

    assert limits(make_root(tmp_path, own, files)) == ProcessLimits(memory, folder, cores)


def test_the_cores_are_those_that_the_process_is_bound_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_info, "bound_cores", lambda: [4, 5, 6])
    assert describe_machine()["cores"] == 3
    assert limits(tmp_path).cores is None
    assert limits(make_root(tmp_path, "/", {"cpu.max": "200000 100000"})).cores == 2


@pytest.mark.parametrize(
    ("visible", "is_hidden"), [(None, False), ("0,1", False), ("-1", True), ("", True)]
)
def test_it_is_recorded_that_all_gpus_are_hidden(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, is_hidden: bool
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert describe_machine()["gpus_hidden"] is is_hidden


def test_a_run_records_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_info, "limits", lambda: ProcessLimits(8 * GB, None, 2.0))
    writer, _ = begin_run(tmp_path, "cnn", FakeClock(1).clock)
    writer.close()

    run = read_back(writer, FakeClock(1).clock)

    assert (run.manifest.machine["cores_allowed"], run.manifest.machine["memory_limit_bytes"]) == (
        2.0,
        8 * GB,
    )
    assert memory_total(run.manifest.machine) == 8 * GB


CURRENT = {"memory.current": "1000\n"}


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({**CURRENT, "memory.stat": "anon 600\ninactive_file 300\n"}, 700),
        (CURRENT, 1000),
        ({**CURRENT, "memory.stat": "inactive_file 3000\n"}, 0),
        ({}, None),
    ],
    ids=["with cache", "cache unknown", "read at two times", "not reported"],
)
def test_the_memory_used_by_a_group(
    tmp_path: Path, files: dict[str, str], used: int | None
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)

    assert used_bytes(tmp_path) == used


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 sse\n\n", ["bfloat16"]),
        ("processor\t: 0\nflags\t\t: avx512_fp16 amx_tile avx512_bf16\n", ["bfloat16"]),
        ("processor\t: 0\nFeatures\t: fp asimd asimdhp\n", ["float16"]),
        ("processor\t: 0\nflags\t\t: fpu sse\n", []),
        ("processor\t: 0\n", None),
    ],
)
def test_types_of_16_bits_are_those_of_the_flags_of_the_cpu(
    text: str, types: list[str] | None, tmp_path: Path
) -> None:
    file = tmp_path / "cpuinfo"
    assert cpu_types(file) is None

    file.write_text(text)
    assert cpu_types(file) == types
