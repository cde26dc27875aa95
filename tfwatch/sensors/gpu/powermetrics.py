"""Watts and clocks of an Apple chip through macOS' powermetrics, which only root may run.

`sudoers` returns the line that permits tfwatch's command.
"""

from __future__ import annotations

import contextlib
import math
import os
import plistlib
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.parsers.expat import ExpatError

from tfwatch.core.system_tool import start
from tfwatch.sensors.sensor import GpuReading, GpuSource, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: plistlib's parser reads an unfinished token again every 2 KB: 4 MiB of one take 7 s.
_LONGEST_TOKEN = 2**16


def read(document: bytes) -> dict[str, Any]:
    """Return a document's outermost dict; empty where it is damaged. Never raises."""
    document = document.strip(b"\0 \t\r\n")
    if max(map(len, document.split(b"<"))) > _LONGEST_TOKEN:
        return {}
    try:
        root = plistlib.loads(document, fmt=plistlib.FMT_XML)
    except (ExpatError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return {}
    return root if isinstance(root, dict) else {}


PERIOD_S = 1.0
#: The tool ends by itself after a day, even without a reader: root's process cannot be killed from
#: here.
DOCUMENTS = 86_400
#: The command that a sudoers line permits. Short flags: macOS 12 renamed the long ones.
COMMAND = (
    "/usr/bin/powermetrics",
    *("-s", "cpu_power,gpu_power,thermal", "-f", "plist"),
    *("-i", str(round(PERIOD_S * 1000)), "-n", str(DOCUMENTS)),
)
SUDO = ("/usr/bin/sudo", "-n")
#: `thermal_level` of `core.rows.SAMPLE` by the words of all releases; the worst three are critical.
LEVELS = {
    "nominal": 0,
    "light": 1,
    "moderate": 2,
    "heavy": 3,
    "critical": 4,
    "trapping": 4,
    "sleeping": 4,
}
_HEAVY = 3
#: A document of an M1 has 29 KB, the largest chips have five times as many cores, and other
#: samplers print more.
_MAX_BYTES = 2**22
_END = b"</plist>"
_BEGIN = re.compile(rb"<\?xml|<plist")
_REFUSED = re.compile(
    r"superuser|password is required|not allowed|may not run|not in the sudoers|no tty",
    re.IGNORECASE,
)
#: The time that a killed tool has to end, seconds.
_END_S = 0.2
_PERMIT = "tfwatch doctor --sudoers prints the line that permits powermetrics"


def documents(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the complete plist documents of powermetrics' output.

    A NUL precedes every document but the first; a document without a beginning or an end is left
    out.

    Raises:
        SensorError: the stream ended, or 4 MiB had no end of a document; the message is the first
        line of the rest.
    """
    read = getattr(stream, "read1", stream.read)
    rest = b""
    while len(rest) <= _MAX_BYTES and (piece := read(2**16)):
        *whole, rest = (rest + piece).split(_END)
        for text in whole:
            begin = max(text.rfind(b"<?xml"), 0)
            if match := _BEGIN.search(text, begin):
                yield text[match.start() :] + _END
    line = rest.decode(errors="replace").strip("\0 \n").split("\n")[0][:200]
    raise SensorError(f"powermetrics ended: {line}" if line else "powermetrics ended")


def parse(document: bytes) -> GpuReading:
    """Parse the figures of one document; None for missing or implausible ones. Never raises.

    Watts are the processor's energy (mJ) over `elapsed_ns`, not over the requested interval. The
    energy in the GPU part covers another window, up to 22 % longer or shorter, whose length no
    field reports. Activity is 1 - `idle_ratio`, never from `elapsed_ns`, which differs on some
    chips. `freq_hz` is MHz in spite of its name (powermetrics' own text output prints the same
    number as MHz).
    """
    root = read(document[:_MAX_BYTES])
    gpu = _part(root, "gpu")
    processor = _part(root, "processor")
    elapsed_ns = _number(root.get("elapsed_ns"), 1e6, 1e14)
    word = root.get("thermal_pressure")
    word = word.strip()[:40] if isinstance(word, str) else ""
    level = LEVELS.get(word.lower())
    figures = {
        "gpu_busy": _busy(gpu),
        "gpu_freq_mhz": _frequency(gpu),
        "gpu_power_w": _watts("gpu", elapsed_ns, processor),
        "cpu_power_w": _watts("cpu", elapsed_ns, processor),
        "thermal_level": level,
    }
    is_limited = level is not None and level >= _HEAVY
    return GpuReading(figures, f"thermal pressure {word}" if is_limited else "")


def _busy(gpu: Mapping[str, Any]) -> float | None:
    idle = _number(gpu.get("idle_ratio"), -0.01, 1.01)
    return None if idle is None else min(max(1 - idle, 0.0), 1.0)


def _frequency(gpu: Mapping[str, Any]) -> float | None:
    """Return MHz. A later release may really print Hz."""
    reported = _number(gpu.get("freq_hz"), 0, 1e11)
    return reported / 1e6 if reported is not None and reported >= 1e5 else reported


def _watts(what: str, elapsed_ns: float | None, processor: Mapping[str, Any]) -> float | None:
    """Return watts: energy in mJ over the time, else `..._power` in mW."""
    millijoules = _number(processor.get(f"{what}_energy"), 0, 1e15)
    if elapsed_ns is not None and millijoules is not None:
        return _number(millijoules * 1e6 / elapsed_ns, 0, 1e4)
    milliwatts = _number(processor.get(f"{what}_power"), 0, 1e7)
    return None if milliwatts is None else milliwatts / 1e3


def _number(value: Any, least: float, most: float) -> float | None:
    """Return a number between two bounds; None for NaN, other types and numbers outside."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and least <= value <= most else None


def _part(root: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a dict of the document; empty where there is none."""
    part = root.get(name)
    return part if isinstance(part, dict) else {}


# -- the sensor -----------------------------------------------------------------------------------


class PowermetricsSource(GpuSource):
    """powermetrics, as root or through a sudoers rule. It prints a document a second while it is
    read."""

    name = missing_name = "powermetrics"
    period_s = PERIOD_S

    def __init__(self, command: Sequence[str] | None = None) -> None:
        as_root = os.name == "posix" and os.geteuid() == 0
        self._command = tuple(command or (COMMAND if as_root else (*SUDO, *COMMAND)))
        self._process: subprocess.Popen[bytes] | None = None
        self._documents: Iterator[bytes] = iter(())

    def why_unavailable(self) -> Unavailable | None:
        """Without permission sudo fails immediately, without a prompt.

        Raises:
            SensorError: powermetrics starts, and prints nothing readable.
        """
        if not all(Path(word).exists() for word in self._command if word.startswith("/")):
            return Unavailable("powermetrics is a tool of macOS")
        self.close()
        try:
            self._start()
            self._next()
        except SensorError as error:
            self.close()
            if _REFUSED.search(str(error)):
                return Unavailable(
                    "powermetrics runs as root only, and sudo has no rule for it", _PERMIT
                )
            raise
        return None

    def read(self) -> Sequence[GpuReading]:
        """Return the next document's figures; wait for it."""
        return [self._next()]

    def close(self) -> None:
        """Close its pipe: powermetrics, which as root's cannot be killed, ends when it prints
        next."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdout
        process.stdout.close()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait(_END_S)

    def _start(self) -> None:
        try:
            self._process = start(self._command)
        except OSError as error:
            raise SensorError(f"powermetrics: {error.strerror or error}") from error
        assert self._process.stdout
        self._documents = documents(self._process.stdout)  # type: ignore[arg-type]

    def _next(self) -> GpuReading:
        if self._process is None:
            raise SensorError("powermetrics does not run")
        readings = map(parse, self._documents)
        return next(one for one in readings if {"gpu_busy", "gpu_power_w"} & {*_known(one.figures)})


def _known(figures: Mapping[str, float | None]) -> list[str]:
    return [column for column, value in figures.items() if value is not None]


#: Characters with a meaning of their own in a command's arguments (sudoers manual, "Other special
#: characters").
_SPECIAL = re.compile(r"([,:=\\*?\[\]!])")
#: A name in capitals would be an alias, and other names need quotes: the user's number replaces
#: them.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,63}")
_FILE = """\
# Lets {user} run one command as root without a password, so that tfwatch shows watts and clocks of
# this Mac's GPU. The line below pins the whole command. Never permit /usr/bin/powermetrics alone,
# as is often advised: with its option -o, any program of yours could then write any file as root.
#
# Check and install it (tfwatch writes no file itself):
#   tfwatch doctor --sudoers > tfwatch.sudoers
#   visudo -cf tfwatch.sudoers
#   sudo install -o root -g wheel -m 0440 tfwatch.sudoers /etc/sudoers.d/tfwatch
# Check that it is permitted:
#   sudo -n -l {command}
# Remove it:
#   sudo rm /etc/sudoers.d/tfwatch
{line}
"""


def sudoers(user: str, uid: int) -> str:
    """Return a whole file for /etc/sudoers.d: the line for a user, and how to check, install and
    remove it."""
    who = user if _NAME.fullmatch(user) else f"#{uid}"
    return _FILE.format(user=who, command=" ".join(COMMAND), line=line(who))


def line(who: str) -> str:
    """Return the line alone, without its line end."""
    return f"{who} ALL=(root) NOPASSWD: {' '.join(map(_escape, COMMAND))}"


def _escape(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)
