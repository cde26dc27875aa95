"""The processor and the GPU are described, without TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfwatch.doctor.quick_facts import (
    Nvidia,
    describe_machine,
    interpreter,
    nvidia,
    parse_cpuinfo,
    parse_driver,
    parse_sysctl,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_this_machine_is_described_in_one_line() -> None:
    line = describe_machine()
    assert "TensorFlow 2." in line
    assert " GB, " in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "sysctl.proc_translated: 0\nmachdep.cpu.brand_string: Apple M2 Pro\n",
            (False, "Apple M2 Pro"),
            id="an Apple chip",
        ),
        pytest.param(
            "sysctl.proc_translated: 1\nmachdep.cpu.brand_string: VirtualApple @ 2.50GHz\n",
            (True, "VirtualApple @ 2.50GHz"),
            id="under Rosetta 2",
        ),
        pytest.param(
            "machdep.cpu.brand_string: Intel(R) Core(TM) i7\n",
            (False, "Intel(R) Core(TM) i7"),
            id="an Intel Mac",
        ),
        pytest.param("", (None, ""), id="nothing"),
        pytest.param("sysctl: unknown oid 'x.y'\n", (None, ""), id="an unknown oid"),
    ],
)
def test_sysctl_is_parsed(text: str, expected: tuple[object, ...]) -> None:
    assert parse_sysctl(text) == expected


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Fri May  2 2025\nGCC"
                " version: 12"
            ),
            "580.159.04",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
            "570.86.15",
        ),
        ("NVRM version: something else\n", ""),
        ("", ""),
    ],
)
def test_the_driver_version_is_parsed(text: str, version: str) -> None:
    assert parse_driver(text) == version


@given(st.binary(max_size=200))
def test_no_text_raises(data: bytes) -> None:
    text = data.decode("latin-1")
    parse_sysctl(text)
    parse_cpuinfo(text)
    parse_driver(text)


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_machine_without_nvidia(tmp_path: Path) -> None:
    _write(tmp_path, "sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n")
    _write(tmp_path, "sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n")

    assert nvidia({}, tmp_path) == Nvidia()


def test_a_card_with_its_sound_device_and_its_driver(tmp_path: Path) -> None:
    for device, kind in (("0000:01:00.0", "0x030200"), ("0000:01:00.1", "0x040300")):
        _write(tmp_path, f"sys/bus/pci/devices/{device}/vendor", "0x10de\n")
        _write(tmp_path, f"sys/bus/pci/devices/{device}/class", f"{kind}\n")
    assert nvidia({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == Nvidia(has_card=True, hidden="")

    _write(
        tmp_path,
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  x\n",
    )
    _write(tmp_path, "dev/nvidiactl", "")
    assert nvidia({}, tmp_path) == Nvidia("580.159.04", has_card=True, has_device_files=False)

    _write(tmp_path, "dev/nvidia0", "")
    assert nvidia({}, tmp_path) == Nvidia("580.159.04", has_card=True, has_device_files=True)


def test_wsl_uses_the_driver_of_windows(tmp_path: Path) -> None:
    _write(tmp_path, "dev/dxg", "")
    _write(tmp_path, "usr/lib/wsl/lib/libcuda.so.1", "")

    assert nvidia({}, tmp_path) == Nvidia("Windows' own", has_device_files=True)


def test_this_python_is_described(tmp_path: Path) -> None:
    _write(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name\t: A chip\n\nmodel name : other\n")
    found = interpreter("linux", tmp_path)

    assert (found.chip, found.is_rosetta) == ("A chip", None)
