"""An Apple GPU: ioreg, which any program may run, and over its activity the activity, watts and
clock of powermetrics, which only root may run: `sudoers` returns the line that permits tfwatch's
command.
"""

from __future__ import annotations

import contextlib
import math
import os
import plistlib
import re
import select
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers.expat import ExpatError

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.system_tool import start
from tfwatch.sensors.sensor import GpuReading, GpuSource, SensorError, Unavailable, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IOREG = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
#: A call takes some 15 ms; it ends before the sensor counts as hung.
_TIMEOUT_S = 0.6

_STATISTICS = re.compile(r'"PerformanceStatistics"\s?=\s?\{([^\n]*)')
_MODEL = re.compile(r'"model"\s?=\s?<?"([^"\n]{1,80})"')


def _counter(key: str) -> re.Pattern[str]:
    """Return a pattern of the whole quoted key, because some are prefixes of others, and of a
    complete number."""
    return re.compile(rf'"{re.escape(key)}"\s?=\s?(\d{{1,20}})(?=\s?[,}}])', re.ASCII)


_BUSY = _counter("Device Utilization %")
_MEMORY = _counter("In use system memory")
#: The largest plausible number: a negative one is printed as 2**64 minus its value.
_MAX_MEMORY = 2**46


def parse_ioreg(text: str) -> dict[str, float]:
    """Parse `ioreg -c IOAccelerator`: `gpu_busy` and `gpu_memory_bytes`, as far as they are there.

    Activity is "Device Utilization %", the only figure that shows machine-learning load; memory is
    "In use system memory", because "Alloc system memory" is virtual. Of several GPUs the first with
    activity. Never raises.
    """
    gpus = [_figures(match[1]) for match in _STATISTICS.finditer(text)]
    return next((gpu for gpu in gpus if "gpu_busy" in gpu), gpus[0] if gpus else {})


def _figures(statistics: str) -> dict[str, float]:
    busy, memory = _BUSY.search(statistics), _MEMORY.search(statistics)
    figures: dict[str, float] = {}
    # Some releases print a little more than 100.
    if busy and int(busy[1]) <= 200:
        figures["gpu_busy"] = min(int(busy[1]) / 100, 1.0)
    if memory and int(memory[1]) <= _MAX_MEMORY:
        figures["gpu_memory_bytes"] = float(memory[1])
    return figures


#: The time of each process on the GPU.
_UNREAD = Unavailable("it is not read on macOS")


class AppleSource(GpuSource):
    """Figures of both tools; those of powermetrics, as long as it prints any, come first."""

    name = "ioreg"
    #: Its tools take some 15 ms of a core a call.
    period_s = 2.0

    def __init__(self, clock: Clock = SYSTEM, command: Sequence[str] = ()) -> None:
        """command: in place of powermetrics, for tests."""
        self._powermetrics = Powermetrics(clock, command)
        self._gpu = GpuReading()

    def why_unavailable(self) -> Unavailable | None:
        """Other systems have no ioreg, and a virtual machine no GPU. Start powermetrics where there
        is one; it may be refused."""
        if not Path(IOREG[0]).exists():
            return Unavailable("ioreg is a tool of macOS")
        text = output_of(IOREG, _TIMEOUT_S)
        if not text.strip():
            return Unavailable("macOS shows no GPU, as in a virtual machine")
        if not parse_ioreg(text):
            return Unavailable("ioreg prints no activity of this GPU")
        self._powermetrics.start()
        return None

    def read(self) -> Sequence[GpuReading]:
        """Return ioreg's reading with the newest figures of powermetrics, which suffice where ioreg
        fails."""
        figures = self._powermetrics.read()
        if figures or self._powermetrics.ended:
            self.name = "powermetrics" if figures else "ioreg"
        try:
            self._gpu = self._read_ioreg()
        except SensorError:
            if not self._gpu.name or "gpu_busy" not in figures:
                raise
            return [replace(self._gpu, figures=figures)]
        return [replace(self._gpu, figures={**self._gpu.figures, **figures})]

    def _read_ioreg(self) -> GpuReading:
        text = output_of(IOREG, _TIMEOUT_S)
        figures, model = parse_ioreg(text), _MODEL.search(text)
        if not figures:
            raise SensorError("ioreg no longer prints the activity of a GPU")
        self.gpus = len(_STATISTICS.findall(text))
        name = model[1] if model else "Apple GPU"
        return GpuReading(figures, name, psutil.virtual_memory().total, unified=True)

    def gaps(self) -> Mapping[str, Unavailable]:
        gaps = {"gpu_process_busy": _UNREAD, **self._powermetrics.gaps()}
        if self.name == "ioreg" and "gpu_busy" not in self._gpu.figures:
            why = 'ioreg prints no "Device Utilization %" for this GPU'
            gaps["gpu_busy"] = Unavailable(why)
        return gaps

    def close(self) -> None:
        self._powermetrics.close()


# -- powermetrics ---------------------------------------------------------------------------------

#: The command that a sudoers line permits: a document a second. It ends by itself after a week,
#: because root's process cannot be killed from here. Short flags: macOS 12 renamed the long ones.
POWERMETRICS = (
    "/usr/bin/powermetrics",
    *("-s", "cpu_power,gpu_power,thermal", "-f", "plist", "-i", "1000", "-n", "604800"),
)
#: Without a rule sudo fails at once: it never asks for a password.
SUDO = ("/usr/bin/sudo", "-n")
#: `thermal_level` of `core.rows.SAMPLE` by its words; the last three are critical.
_HEAT = ("Nominal", "Light", "Moderate", "Heavy", "Critical", "Trapping", "Sleeping")
#: The figures that ioreg does not have.
_OWN = ("gpu_power_w", "gpu_freq_mhz")
#: A document of an M1 has 29 KB. plistlib takes half a second for a token of this length.
_MAX_BYTES = 2**20
#: A document is longer than a pipe: the tool writes on within this time.
_REFILL_MS = 10
#: A figure is shown for this time; the tool counts as dead after the other.
_STALE_NS = 2_000_000_000
_DEAD_NS = 10_000_000_000
#: Single figures are NaN at times: one is missing where this many documents have none.
_TRIED = 5
#: The time that a killed tool has to end, seconds.
_END_S = 0.2
_END = b"</plist>"
_REFUSED = re.compile(
    r"superuser|password is required|not allowed|may not run|not in the sudoers|a tty",
    re.IGNORECASE,
)
_PERMIT = Unavailable(
    "powermetrics runs as root only, and sudo has no rule for it; ioreg shows the activity",
    "tfwatch doctor --sudoers prints the line that permits it",
)
_NEXT_RUN = "the next run tries again"
_UNPRINTED = Unavailable("powermetrics prints none that can be read")


def parse_powermetrics(document: bytes) -> dict[str, float]:
    """Parse the figures of one document, as far as they are there and plausible. Never raises.

    Watts are the processor's energy (mJ) over `elapsed_ns`, not over the requested interval. The
    energy in the GPU part covers another window, up to 22 % longer or shorter, whose length no
    field reports. Activity is 1 - `idle_ratio`, never from `elapsed_ns`, which differs on some
    chips. `freq_hz` is MHz in spite of its name.
    """
    root = _read(document)
    gpu = _part(root, "gpu")
    idle = _number(gpu.get("idle_ratio"), -0.01, 1.01)
    elapsed_ns = _number(root.get("elapsed_ns"), 1e6, 1e14)
    millijoules = _number(_part(root, "processor").get("gpu_energy"), 0, 1e15)
    watts = millijoules * 1e6 / elapsed_ns if elapsed_ns and millijoules is not None else None
    word = root.get("thermal_pressure")
    figures = {
        "gpu_busy": None if idle is None else min(max(1 - idle, 0.0), 1.0),
        "gpu_freq_mhz": _number(gpu.get("freq_hz"), 0, 1e5),
        "gpu_power_w": _number(watts, 0, 1e4),
        "thermal_level": min(_HEAT.index(word), 4) if word in _HEAT else None,
    }
    return {column: value for column, value in figures.items() if value is not None}


def _read(document: bytes) -> dict[str, Any]:
    """Return a document's outermost dict; empty where it is damaged."""
    begin = max(document.rfind(b"<?xml"), 0)
    try:
        root = plistlib.loads(document[begin:], fmt=plistlib.FMT_XML)
    except (ExpatError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return {}
    return root if isinstance(root, dict) else {}


def _number(value: Any, least: float, most: float) -> float | None:
    """Return a number between two bounds; None for NaN, other types and numbers outside."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and least <= value <= most else None


def _part(root: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a dict of the document; empty where there is none."""
    part = root.get(name)
    return part if isinstance(part, dict) else {}


class Powermetrics:
    """One process of powermetrics, as root or through a sudoers rule. It prints while it is read.

    ended: why there are no figures any more.
    """

    def __init__(self, clock: Clock = SYSTEM, command: Sequence[str] = ()) -> None:
        self._command = command or (POWERMETRICS if os.geteuid() == 0 else (*SUDO, *POWERMETRICS))
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self.ended: Unavailable | None = None
        self._rest = b""
        self._figures: Mapping[str, float] = {}
        self._at_ns = 0
        self._documents = 0
        self._seen: set[str] = set()

    def start(self) -> None:
        """Start it, unless it runs or has failed before: each refusal is a line in sudo's log."""
        if self._process or self.ended:
            return
        self._rest, self._figures, self._at_ns = b"", {}, self._clock.now_ns()
        try:
            self._process = start(self._command)
        except OSError as error:
            self.ended = Unavailable(f"powermetrics: {error.strerror or error}", _NEXT_RUN)

    def read(self) -> Mapping[str, float]:
        """Return the figures of the newest document, at most two seconds old; none where there is
        no such document."""
        if self._process is None:
            return {}
        try:
            self._take(self._process)
        except SensorError as error:
            is_refused = not self._seen and _REFUSED.search(str(error))
            why = Unavailable(f"{error}; ioreg shows the activity", _NEXT_RUN)
            self.ended = _PERMIT if is_refused else why
            self.close()
        return self._figures if self._clock.now_ns() - self._at_ns < _STALE_NS else {}

    def gaps(self) -> Mapping[str, Unavailable]:
        """Return the reasons why columns are missing."""
        if self.ended:
            return dict.fromkeys(_OWN, self.ended)
        missing = [column for column in _OWN if column not in self._seen]
        return dict.fromkeys(missing, _UNPRINTED) if self._documents >= _TRIED else {}

    def close(self) -> None:
        """Close its pipe: powermetrics, which as root's cannot be killed, ends when it prints
        next."""
        process, self._process, self._figures = self._process, None, {}
        if process is None:
            return
        assert process.stdout
        process.stdout.close()
        with contextlib.suppress(PermissionError, subprocess.TimeoutExpired):
            process.kill()
            process.wait(_END_S)

    def _take(self, process: subprocess.Popen[bytes]) -> None:
        """Take what is printed, and the figures of its newest readable document.

        Raises:
            SensorError: the tool has ended or counts as dead; the message is the reason.
        """
        has_ended = self._drain(process)
        *whole, self._rest = self._rest.split(_END)
        figures = next(
            filter(None, (parse_powermetrics(text + _END) for text in reversed(whole))), {}
        )
        now_ns = self._clock.now_ns()
        if figures:
            self._figures, self._at_ns = figures, now_ns
            self._documents += 1
            self._seen.update(figures)
        if has_ended:
            line = self._rest.decode(errors="replace").strip("\0 \n").split("\n")[0][:200]
            raise SensorError(f"powermetrics ended: {line}" if line else "powermetrics ended")
        if now_ns - self._at_ns >= _DEAD_NS:
            raise SensorError(f"powermetrics printed nothing readable for {_DEAD_NS / 1e9:g} s")

    def _drain(self, process: subprocess.Popen[bytes]) -> bool:
        """Add what the pipe has; return True at its end."""
        assert process.stdout
        pipe, poll = process.stdout.fileno(), select.poll()
        poll.register(pipe, select.POLLIN)
        while poll.poll(_REFILL_MS):
            if not (piece := os.read(pipe, 2**16)):
                return True
            self._rest += piece
            if len(self._rest) > _MAX_BYTES:
                raise SensorError("powermetrics prints too much")
        return False


_FILE = """\
# Lets one user run one command as root without a password, so that tfwatch shows watts and clock of
# this Mac's GPU. In the last line #{uid} is the user's number, and no comment; it pins the whole
# command. Never permit /usr/bin/powermetrics alone, as is often advised: with its option -o, any
# program of yours could then write any file as root.
# Check and install it (tfwatch writes no file itself):
#   tfwatch doctor --sudoers > tfwatch.sudoers
#   visudo -cf tfwatch.sudoers
#   sudo install -o root -g wheel -m 0440 tfwatch.sudoers /etc/sudoers.d/tfwatch
# Remove it:
#   sudo rm /etc/sudoers.d/tfwatch
#{uid} ALL=(root) NOPASSWD: {command}
"""


def sudoers(uid: int) -> str:
    """Return a whole file for /etc/sudoers.d: the line for a user's number, which needs no quotes,
    and how to check, install and remove it."""
    return _FILE.format(uid=uid, command=" ".join(POWERMETRICS).replace(",", "\\,"))
