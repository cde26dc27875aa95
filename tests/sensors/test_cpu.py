"""Cores in use, and their kinds."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.sensors.conftest import one_after_another
from tfwatch.sensors import cpu as cores
from tfwatch.sensors.cpu import (
    CoreKinds,
    CoreKindsSensor,
    CpuSensor,
    busy_shares,
    group_clusters,
    parse_ioreg,
    parse_list,
)
from tfwatch.sensors.protocol import Available, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

LinuxTimes = namedtuple("LinuxTimes", "user nice system idle iowait guest")
MacTimes = namedtuple("MacTimes", "user nice system idle")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            [LinuxTimes(10, 0, 5, 80, 5, 2), LinuxTimes(0, 0, 0, 0, 0, 0)],
            [LinuxTimes(10.1, 0, 5, 80.8, 5.1, 2.1), LinuxTimes(0.5, 0.2, 0.2, 0.1, 0, 0)],
            id="Linux: waiting for a disk is idle, a guest's time is counted once",
        ),
        pytest.param(
            [MacTimes(10, 0, 5, 80), MacTimes(0, 0, 0, 0)],
            [MacTimes(10.1, 0, 5, 80.9), MacTimes(0.9, 0, 0, 0.1)],
            id="macOS",
        ),
    ],
)
def test_cores_in_use_and_the_busiest(
    before: list[Any], after: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_times", one_after_another([before, after]))
    sensor = CpuSensor()
    assert all(math.isnan(figure) for figure in sensor.read(0).values())
    assert sensor.read(10**9) == pytest.approx({"cpu_cores": 1.0, "core_max": 0.9})


@pytest.mark.parametrize(
    ("before", "after", "shares"),
    [
        pytest.param([(1, 10)], [(1.5, 11)], [0.5], id="half busy"),
        pytest.param([(1, 10)], [(0.9, 11)], [0.0], id="a counter that fell is not less than idle"),
        pytest.param([(1, 10)], [(2.1, 11)], [1.0], id="never more than one core"),
        pytest.param([(1, 10)], [(1, 10)], [], id="no time passed"),
        pytest.param([(1, 10)], [(1, 10), (2, 12)], [], id="a core was added"),
    ],
)
def test_busy_shares(before: list[Any], after: list[Any], shares: list[float]) -> None:
    assert busy_shares(before, after) == pytest.approx(shares)


def node(number: int, letter: str, as_bytes: bool = True, name: str = "cpu-id") -> str:
    """Return one core in the form that `ioreg -r -d 1 -k cluster-type` prints; the order of its
    lines changes."""
    shown = f"<{number.to_bytes(4, 'little').hex()}>" if as_bytes else str(number)
    lines = [f'"cluster-type" = <"{letter}">', f'"{name}" = {shown}', f'"name" = <"cpu{number}">']
    lines = lines if number % 2 else lines[::-1]
    body = "\n".join(f"      {line}" for line in lines)
    return (
        f"+-o cpu{number}@{number}  <class IOPlatformDevice, id 0x100000280, registered>\n   "
        f" {{\n{body}\n    }}\n"
    )


def chip(letters: str, **options: Any) -> str:
    return "".join(node(number, letter, **options) for number, letter in enumerate(letters))


@pytest.mark.parametrize(
    ("letters", "performance"),
    [
        pytest.param("EEPPPPPPPP", {*range(2, 10)}, id="efficiency cores first"),
        pytest.param("EEPPEEPP", {2, 3, 6, 7}, id="two dies"),
        pytest.param("MMMMPP", {4, 5}, id="a chip without E"),
        pytest.param("PPPPSS", {4, 5}, id="the same under a later system"),
        pytest.param("PPPP", None, id="one kind"),
        pytest.param("EEPX", None, id="an unknown kind"),
        pytest.param("", None, id="nothing"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [{}, {"as_bytes": False}, {"name": "logical-cpu-id", "as_bytes": False}],
    ids=["bytes", "number", "logical"],
)
def test_performance_cores(
    letters: str, performance: set[int] | None, options: dict[str, Any]
) -> None:
    kinds = group_clusters(parse_ioreg(chip(letters, **options)), len(letters))

    assert kinds == (
        None
        if performance is None
        else CoreKinds(frozenset(performance), frozenset(range(len(letters))) - performance)
    )


def test_a_core_too_few_or_too_many_is_not_guessed() -> None:
    clusters = parse_ioreg(chip("EEPP"))
    assert group_clusters(clusters, 5) is group_clusters(clusters, 3) is None
    assert parse_ioreg(chip("EEPP").replace("cpu-id", "id")) == {}
    assert parse_ioreg('+-o cluster0\n  "cluster-type" = <"P">\n' + chip("EP")) == {0: "E", 1: "P"}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        ("0-", set()),
        ("a", set()),
        ("3-1", set()),
    ],
)
def test_a_list_of_cores(text: str, numbers: set[int]) -> None:
    assert parse_list(text) == numbers


@given(
    some.text()
    | some.from_regex(
        r'(\+-o cpu\d{0,5}@\n|"(logical-)?cpu-id" = <?\w{0,9}>?\n|"cluster-type" = <"\w?">\n){0,9}'
    )
)
def test_any_text_is_cores_or_none(text: str) -> None:
    assert all(core >= 0 and len(letter) == 1 for core, letter in parse_ioreg(text).items())
    assert all(0 <= core < 10_000 for core in parse_list(text))


def test_performance_and_efficiency_cores_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = CpuSensor()
    sensor = CoreKindsSensor(cpu, "linux")
    monkeypatch.setattr(
        cores, "detect_core_kinds", lambda _: CoreKinds(frozenset({1, 2}), frozenset({0}))
    )
    assert sensor.available() == Available()
    assert sensor.read(0) == {}

    cpu.shares = [0.25, 1.0, 0.5]
    assert sensor.read(0) == {"p_cores": 1.5, "e_cores": 0.25}

    cpu.shares = [0.25, 1.0]
    assert sensor.read(0) == {}


def test_unknown_kinds_of_cores_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "IOREG", ("/nowhere/ioreg",))
    sensor = CoreKindsSensor(CpuSensor(), "darwin")
    assert sensor.available() == Unavailable(
        "this system does not report which cores are performance cores", ""
    )
    assert sensor.read(0) == {}


@pytest.mark.parametrize(
    ("lists", "kinds"),
    [
        pytest.param(
            {"cpu_core": "0-3\n", "cpu_atom": "4-5\n"},
            CoreKinds(frozenset(range(4)), frozenset({4, 5})),
            id="both",
        ),
        pytest.param({}, None, id="one kind"),
        pytest.param({"cpu_core": "0-4\n", "cpu_atom": "4-5\n"}, None, id="a core in both"),
    ],
)
def test_kinds_of_cores_on_linux(
    tmp_path: Path, lists: dict[str, str], kinds: CoreKinds | None
) -> None:
    for name, text in lists.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpus").write_text(text)

    assert cores.detect_core_kinds("linux", tmp_path) == kinds
    assert cores.has_core_kinds("linux", tmp_path) == bool(lists)
