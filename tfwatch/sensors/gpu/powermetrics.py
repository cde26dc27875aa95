"""An Apple GPU, its CPU and its Neural Engine through macOS' powermetrics, which only root may run.

The parser of property lists also reads damaged ones. `sudoers` returns the line that permits
tfwatch's command.
"""

from __future__ import annotations

import math
import os
import plistlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.parsers.expat import ExpatError

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.system_tool import run
from tfwatch.sensors.protocol import (
    Availability,
    Available,
    FullReading,
    GpuIdentity,
    SensorError,
    Unavailable,
)
from tfwatch.sensors.tool_readers import ToolStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_BEGIN_TAG = re.compile(rb"<\?xml|<plist")
#: plistlib's parser reads an unfinished token again every 2 KB: 4 MiB of one take 7 s.
_LONGEST_TOKEN = 2**16
_TOKEN = re.compile(
    rb"<(?:key>([^<]{0,200})</key>"
    rb"|(integer|real|string)>([^<]{0,400})</(?:integer|real|string)>"
    rb"|(/?)(dict|array)>"
    rb"|(?:dict|array|true|false|string)\s?/>)"
)


def read(document: bytes) -> dict[str, Any]:
    """Return a document's outermost dict, from the standard library or else the readable parts of a
    damaged one.

    Empty where there is none. Never raises.
    """
    document = document.strip(b"\0 \t\r\n")
    is_intact = _BEGIN_TAG.match(document) and max(map(len, document.split(b"<"))) <= _LONGEST_TOKEN
    try:
        root = (
            plistlib.loads(document, fmt=plistlib.FMT_XML)
            if is_intact
            else _parse_damaged(document)
        )
    except (ExpatError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        root = _parse_damaged(document)
    return root if isinstance(root, dict) else {}


def _parse_damaged(document: bytes) -> dict[str, Any]:
    """Return the keys of a property list that is cut off or damaged, without unreadable values."""
    root: dict[str, Any] | None = None
    open_: list[dict[str, Any] | list[Any]] = []
    keys: list[str | None] = []
    for token in _TOKEN.finditer(document):
        key, kind, text, closes, container = token.groups()
        if key is not None and keys:
            keys[-1] = key.decode("utf-8", "replace")
        elif container is not None and closes:
            if open_:
                open_.pop()
                keys.pop()
        elif container is not None:
            new: dict[str, Any] | list[Any] = {} if container == b"dict" else []
            _put(open_, keys, new)
            root = new if root is None and isinstance(new, dict) else root
            open_.append(new)
            keys.append(None)
        else:
            _put(open_, keys, _value(kind, text))
    return root or {}


def _put(open_: list[dict[str, Any] | list[Any]], keys: list[str | None], value: Any) -> None:
    """Put a value into the innermost container, under the last key."""
    if not open_:
        return
    container, key = open_[-1], keys[-1]
    if isinstance(container, list):
        container.append(value)
    elif key is not None:
        keys[-1] = None
        if value is not None:
            container[key] = value


def _value(kind: bytes | None, text: bytes | None) -> Any:
    if kind is None or text is None:
        return None
    try:
        return text.decode("utf-8", "replace") if kind == b"string" else float(text)
    except ValueError:
        return None


PERIOD_S = 1.0
#: The tool ends by itself after an hour, even without a reader: root's process cannot be killed
#: from here.
DOCUMENTS = 3600
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
#: The delay of a document after which the stream counts as dead, seconds.
_PATIENCE_S = 4.0
_REFUSED = re.compile(
    r"superuser|password is required|not allowed|may not run|not in the sudoers|no tty",
    re.IGNORECASE,
)
_PERMIT = "tfwatch doctor --sudoers prints the line that permits powermetrics"


def documents(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the complete plist documents of powermetrics' output.

    A NUL precedes every document but the first; a document without a beginning or an end is left
    out. The iterator ends with the stream, and after 4 MiB without the end of a document. A stream
    without `read1` must return the available bytes from `read`.
    """
    read = getattr(stream, "read1", stream.read)
    buffer = bytearray()
    searched = 0
    while len(buffer) <= _MAX_BYTES:
        end = buffer.find(_END, max(searched - len(_END), 0))
        if end < 0:
            searched = len(buffer)
            piece = read(2**16)
            if not piece:
                return
            buffer += piece
            continue
        end, searched = end + len(_END), 0
        whole = bytes(buffer[:end])
        del buffer[:end]
        begins = [match.start() for match in re.finditer(rb"<\?xml", whole)] or _first_begin(whole)
        if begins:
            yield whole[begins[-1] :]


def _first_begin(whole: bytes) -> list[int]:
    match = _BEGIN.search(whole)
    return [match.start()] if match else []


def parse(document: bytes) -> FullReading:
    """Parse the figures of one document; None for missing or implausible ones. Never raises.

    Watts are the processor's energy (mJ) over `elapsed_ns`, not over the requested interval. The
    energy in the GPU part covers another window, up to 22 % longer or shorter, whose length no
    field reports. Activity is 1 - `idle_ratio`, never from `elapsed_ns`, which differs on some
    chips; without it, the share of time in any state. `freq_hz` is MHz in spite of its name
    (powermetrics' own text output prints the same number as MHz).
    """
    root = read(document[:_MAX_BYTES])
    gpu = _part(root, "gpu")
    processor = _part(root, "processor")
    states = _states(gpu)
    elapsed_ns = _number(root.get("elapsed_ns"), 1e6, 1e14)
    word = root.get("thermal_pressure")
    word = word.strip()[:40] or None if isinstance(word, str) else None
    level = LEVELS.get(word.lower()) if word else None
    return FullReading(
        busy=_busy(gpu, states),
        freq_mhz=_frequency(gpu, states),
        power_w=_watts("gpu", elapsed_ns, processor),
        cpu_power_w=_watts("cpu", elapsed_ns, processor),
        thermal_level=None if level is None else float(level),
        limited_by=f"thermal pressure {word}" if level is not None and level >= _HEAVY else "",
    )


@dataclass(frozen=True, slots=True)
class _State:
    """A frequency of the GPU, and the time at it: as a share and in nanoseconds."""

    mhz: float
    ratio: float
    used_ns: float


def _states(gpu: Mapping[str, Any]) -> list[_State]:
    """Return the GPU's states, unsorted, and some twice."""
    listed = gpu.get("dvfm_states")
    states = []
    for state in listed if isinstance(listed, list) else []:
        if not isinstance(state, dict) or not (mhz := _number(state.get("freq"), 0, 1e5)):
            continue
        ratio = _number(state.get("used_ratio"), 0, 1.01)
        used_ns = _number(state.get("used_ns"), 0, 1e18)
        states.append(
            _State(
                mhz, math.nan if ratio is None else ratio, math.nan if used_ns is None else used_ns
            )
        )
    return states


def _busy(gpu: Mapping[str, Any], states: Sequence[_State]) -> float | None:
    """Return the activity; None where there is no `idle_ratio` and no time in any state: NaN is 0
    of 0 ns."""
    idle = _number(gpu.get("idle_ratio"), -0.01, 1.01)
    if idle is not None:
        return min(max(1 - idle, 0.0), 1.0)
    used_ns = sum(state.used_ns for state in states)
    idle_ns = _number(gpu.get("idle_ns"), 0, 1e18)
    if idle_ns is not None and used_ns > 0:
        return used_ns / (used_ns + idle_ns)
    return _number(sum(state.ratio for state in states), 0, 1) or None


def _frequency(gpu: Mapping[str, Any], states: Sequence[_State]) -> float | None:
    """Return MHz: as reported, or the mean over the time in each state. A later release may really
    print Hz."""
    reported = _number(gpu.get("freq_hz"), 0, 1e11)
    if reported is not None:
        return reported / 1e6 if reported >= 1e5 else reported
    used = sum(state.ratio for state in states)
    return sum(state.mhz * state.ratio for state in states) / used if used > 0 else None


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
    """Return a dict of the document, or the first of a list of them; empty where there is none."""
    part = root.get(name)
    if isinstance(part, list):
        part = next((item for item in part if isinstance(item, dict)), None)
    return part if isinstance(part, dict) else {}


# -- the sensor -----------------------------------------------------------------------------------


class PowermetricsSource:
    """powermetrics, as root or through a sudoers rule. It prints a document a second while it is
    read."""

    name = "powermetrics"
    period_s = PERIOD_S

    def __init__(self, clock: Clock = SYSTEM, command: Sequence[str] | None = None) -> None:
        self._clock = clock
        as_root = os.name == "posix" and os.geteuid() == 0
        self._command = tuple(command or (COMMAND if as_root else (*SUDO, *COMMAND)))
        self._stream: ToolStream | None = None
        self._documents: Iterator[bytes] = iter(())
        self._first: FullReading | None = None
        self._newest = FullReading()
        self._has_more = False

    def available(self) -> Availability:
        """Return `Unavailable` on other systems, and without permission: sudo then fails
        immediately, without a prompt.

        Raises:
            SensorError: powermetrics starts, and prints nothing readable.
        """
        if not all(Path(word).exists() for word in self._command if word.startswith("/")):
            return Unavailable(
                "powermetrics is a tool of macOS", "--gpu-sensor auto selects this system's sources"
            )
        try:
            self._begin()
            self._first = self._next()
        except SensorError as error:
            self.close()
            if _REFUSED.search(str(error)):
                return Unavailable(
                    "powermetrics runs as root only, and sudo has no rule for it", _PERMIT
                )
            raise
        return Available()

    def read(self) -> FullReading:
        """Return the next document's figures; wait for it, `_PATIENCE_S` at most."""
        first, self._first = self._first, None
        self._newest = first or self._next_or_restart()
        return self._newest

    def _next_or_restart(self) -> FullReading:
        """Return the next document's figures; powermetrics ends after `DOCUMENTS` and is started
        again."""
        try:
            return self._next()
        except SensorError:
            stream = self._stream
            if not (self._has_more and stream and stream.has_succeeded):
                raise
            self._begin()
            return self._next()

    def identity(self) -> GpuIdentity:
        """Return the chip's name, and the memory that its GPU shares."""
        result = run(("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"), 0.5)
        return GpuIdentity(
            result.out.strip()[:80] or "Apple GPU", psutil.virtual_memory().total, unified=True
        )

    def gaps(self) -> Mapping[str, Unavailable]:
        """Return the figures that powermetrics does not print, or not in a form that can be
        read."""
        elsewhere = Unavailable(
            "powermetrics does not report it", "--gpu-sensor auto reads ioreg too"
        )
        nowhere = Unavailable("no tool of macOS reports it", "")
        unread = Unavailable("powermetrics prints none that can be read", "")
        gaps = {
            name: unread
            for name in ("busy", "power_w", "freq_mhz")
            if getattr(self._newest, name) is None
        }
        return {
            **gaps,
            "memory_bytes": elsewhere,
            "process_busy": elsewhere,
            "temperature_c": nowhere,
        }

    def close(self) -> None:
        """Close its pipes: powermetrics ends when it prints next."""
        stream, self._stream = self._stream, None
        self._first, self._has_more = None, False
        if stream:
            stream.close()

    def follow(self, gpus: Sequence[str]) -> None:
        """Do nothing: a Mac has one GPU."""

    def cancel(self) -> None:
        """End the wait for a document."""
        if self._stream:
            self._stream.cancel()

    def _begin(self) -> None:
        self.close()
        try:
            self._stream = ToolStream(self._command, self._clock)
        except SensorError as error:
            raise SensorError(f"powermetrics: {error}") from error
        self._documents = documents(self._stream)  # type: ignore[arg-type]

    def _next(self) -> FullReading:
        stream = self._stream
        if stream is None:
            raise SensorError("powermetrics does not run")
        stream.wait_until(self._clock.now_ns() + round(_PATIENCE_S * 1e9))
        try:
            for document in self._documents:
                self._has_more = True
                reading = parse(document)
                if reading.busy is not None or reading.power_w is not None:
                    return reading
        except SensorError as error:
            raise SensorError(f"powermetrics: {error}") from error
        raise SensorError(f"powermetrics: {stream.why_ended()}")


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
