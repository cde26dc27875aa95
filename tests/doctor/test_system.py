"""The operating systems' texts on processor and GPU are parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfwatch.doctor.facts import Nvidia
from tfwatch.doctor.probes import interpreter, nvidia, parse_cpuinfo, parse_driver, parse_sysctl

if TYPE_CHECKING:
    from pathlib import Path

_NATIVE = (
    "sysctl.proc_translated: 0\nhw.optional.arm64: 1\nmachdep.cpu.brand_string: Apple M2 Pro\n"
)
_ROSETTA = (
    "sysctl.proc_translated: 1\nhw.optional.arm64: 1\nmachdep.cpu.brand_string: VirtualApple @ 2.50GHz processor\n"
    "machdep.cpu.features: FPU SSE4.2\n"
)
_INTEL = (
    "machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\n"
    "machdep.cpu.features: FPU SSE4.2 AVX1.0 FMA\nmachdep.cpu.leaf7_features: AVX2 BMI1\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_NATIVE, (False, True, "Apple M2 Pro", None), id="an Apple chip"),
        pytest.param(
            _ROSETTA,
            (True, True, "VirtualApple @ 2.50GHz processor", frozenset({"fpu", "sse4.2"})),
            id="under Rosetta 2",
        ),
        pytest.param(
            _INTEL,
            (
                None,
                False,
                "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz",
                frozenset(["fpu", "sse4.2", "avx", "fma", "avx2", "bmi1"]),
            ),
            id="an Intel Mac",
        ),
        pytest.param("", (None, None, "", None), id="nothing"),
        pytest.param(
            "sysctl: unknown oid 'hw.optional.arm64'\n", (None, None, "", None), id="an unknown oid"
        ),
        pytest.param("hw.optional.arm64: maybe\n", (None, None, "", None), id="no number"),
    ],
)
def test_sysctl_is_parsed(text: str, expected: tuple[object, ...]) -> None:
    assert parse_sysctl(text) == expected


def test_cpuinfo_is_parsed() -> None:
    text = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu AVX avx2\n\nprocessor\t: 1\nmodel name\t: other\n"

    assert parse_cpuinfo(text) == ("AMD EPYC", frozenset({"fpu", "avx", "avx2"}))
    assert parse_cpuinfo("processor : 0\nFeatures : fp asimd\n") == ("", None)
    assert parse_cpuinfo("") == ("", None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Fri May  2 2025\nGCC version: 12",
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


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
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
    _write(tmp_path, "proc/cpuinfo", "model name : A chip\nflags : avx\n")
    found = interpreter("linux", tmp_path)

    assert (found.bits, found.chip, found.instructions, found.is_translated) == (
        64,
        "A chip",
        frozenset({"avx"}),
        None,
    )
