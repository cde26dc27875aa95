"""Cores in use: all, the busiest, and the performance and efficiency cores of a processor that has
both."""

from __future__ import annotations

import math
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.system_tool import run
from tfwatch.runs.machine_info import kernel_text
from tfwatch.sensors.protocol import Availability, Available, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IOREG = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-k", "cluster-type")
#: Linux, for Intel's processors with two kinds of cores.
_LINUX = Path("/sys/devices")
#: Letters of Apple's clusters from efficiency to performance. Most chips have E and P; the M5 has M
#: and P, which macOS 26.4 and later call P and S.
_CLUSTERS = "EMPS"

_CPU = re.compile(r"^[^\n]{0,80}\+-o cpu\d{1,4}\b", re.MULTILINE | re.ASCII)
_CLUSTER = re.compile(r'"cluster-type" = <"(\w)(?:\\0)?">', re.ASCII)
#: A number, or its bytes, the lowest first.
_NUMBER = r'"{name}" = (?:(\d{{1,4}})\s|<([0-9a-f]{{2}}(?:[0-9a-f]{{2}}){{0,3}})>)'
_IDS = [re.compile(_NUMBER.format(name=name), re.ASCII) for name in ("logical-cpu-id", "cpu-id")]
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CoreKinds:
    """Numbers of the performance and the efficiency cores, counted from 0."""

    performance: frozenset[int]
    efficiency: frozenset[int]


class CpuSensor:
    """Cores in use by all programs, and the busiest core.

    shares: each core's share of busy time between the last two readings, 0 to 1; empty before there
    are two.
    """

    name = "CPU"

    def __init__(self) -> None:
        self.shares: list[float] = []
        self._before: list[tuple[float, float]] = []

    def available(self) -> Availability:
        """Return `Available`: psutil works everywhere."""
        return Available()

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `cpu_cores` and `core_max`, over the time since the last call."""
        del now_ns
        times = [_busy_and_total(core) for core in psutil.cpu_times(percpu=True)]
        before, self._before = self._before, times
        self.shares = busy_shares(before, times)
        if not self.shares:
            return {"cpu_cores": math.nan, "core_max": math.nan}
        return {"cpu_cores": sum(self.shares), "core_max": max(self.shares)}


class CoreKindsSensor:
    """Performance and efficiency cores in use, from the shares that a `CpuSensor` has just read."""

    name = "cores"

    def __init__(self, cpu: CpuSensor, system: str = sys.platform) -> None:
        self._cpu = cpu
        self._system = system
        self._kinds: CoreKinds | None = None

    def available(self) -> Availability:
        """Return whether the system reports the kind of each core."""
        self._kinds = detect_core_kinds(self._system)
        if self._kinds:
            return Available()
        return Unavailable("this system does not report which cores are performance cores", fix="")

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Return `p_cores` and `e_cores`."""
        del now_ns
        shares = dict(enumerate(self._cpu.shares))
        if (
            self._kinds is None
            or not shares.keys() >= self._kinds.performance | self._kinds.efficiency
        ):
            return {}
        kinds = {"p_cores": self._kinds.performance, "e_cores": self._kinds.efficiency}
        return {column: sum(shares[core] for core in cores) for column, cores in kinds.items()}


def has_core_kinds(system: str = sys.platform, devices: Path = _LINUX) -> bool:
    """Return whether this processor has cores of several kinds."""
    return platform.machine() == "arm64" if system == "darwin" else (devices / "cpu_atom").is_dir()


def detect_core_kinds(system: str = sys.platform, devices: Path = _LINUX) -> CoreKinds | None:
    """Return the kinds of this machine's cores; None where the system does not report them."""
    if system == "darwin":
        return group_clusters(parse_ioreg(run(IOREG, timeout_s=1.0).out), psutil.cpu_count() or 0)
    performance, efficiency = (
        parse_list(kernel_text(devices / kind / "cpus")) for kind in ("cpu_core", "cpu_atom")
    )
    return (
        CoreKinds(performance, efficiency)
        if performance and efficiency and not performance & efficiency
        else None
    )


def group_clusters(clusters: Mapping[int, str], cores: int) -> CoreKinds | None:
    """Return the kinds from each core's letter; None unless all of `cores` cores have one, of more
    than one known kind.

    Efficiency cores do not always come first: chips of two dies have some in the middle.
    """
    known = sorted(set(clusters.values()) & set(_CLUSTERS), key=_CLUSTERS.index)
    if (
        clusters.keys() != set(range(cores))
        or len(known) < 2
        or set(clusters.values()) - set(known)
    ):
        return None
    performance = frozenset(core for core, letter in clusters.items() if letter == known[-1])
    return CoreKinds(performance, frozenset(clusters) - performance)


def parse_ioreg(text: str) -> dict[int, str]:
    """Return each core's number and its cluster's letter, from ioreg's device tree; incomplete
    cores are left out."""
    starts = [match.start() for match in _CPU.finditer(text)]
    clusters: dict[int, str] = {}
    for start, end in zip(starts, [*starts, len(text)][1:], strict=True):
        node = text[start:end]
        letter = _CLUSTER.search(node)
        number = next((match for pattern in _IDS if (match := pattern.search(node))), None)
        if letter and number:
            core = (
                int(number[1]) if number[1] else int.from_bytes(bytes.fromhex(number[2]), "little")
            )
            clusters.setdefault(core, letter[1])
    return clusters


def parse_list(text: str) -> frozenset[int]:
    """Return the numbers in `0-3,8`; empty where the text is not such a list."""
    cores: set[int] = set()
    for part in text.strip().split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return frozenset()
        cores.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cores)


def busy_shares(
    before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]]
) -> list[float]:
    """Return each core's share of busy time, 0 to 1, from two readings of (busy, total) seconds.

    Empty where the readings do not match (a core came or went) or no time has passed.
    """
    if len(before) != len(after):
        return []
    spans = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(before, after, strict=True)]
    if any(span <= 0 for _, span in spans):
        return []
    return [min(max(busy / span, 0.0), 1.0) for busy, span in spans]


def _busy_and_total(times: Any) -> tuple[float, float]:
    """Return (busy, total) seconds of a core. Linux counts guests' time twice: within user and nice
    too."""
    spent = times._asdict()
    total = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return total - times.idle - spent.get("iowait", 0.0), total
