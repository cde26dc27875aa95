"""The known lines of TensorFlow's log that matter, with their meaning. No text raises an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.runs.format import Machine

#: The start of a line is enough to identify it; lines of Keras' progress bar are long.
_LOOKED_AT = 1000
#: absl's prefix holds seconds since 1970, `I0000 00:00:1795263242.021949`; older lines hold the
#: local time.
_ABSL = re.compile(r"[IWEF]\d{4} \d\d:\d\d:(\d{10}(?:\.\d{1,9})?)", re.ASCII)
_DATED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}): [IWEF]", re.ASCII)
_FILLING = re.compile(r"Filling up shuffle buffer[^:\n]{0,60}: (\d{1,15}) of (\d{1,15})", re.ASCII)
#: Parts that a line has to contain, all of them.
_Parts: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogFinding:
    """The meaning of a line in one sentence. name: short and stable. wall_s: the time of its first
    line, seconds since 1970; None where unknown."""

    name: str
    text: str
    wall_s: float | None = None


#: The name of the line on a machine without a GPU.
NO_GPU = "no gpu"
#: The texts of TensorFlow 2.18 to 2.21, Keras 3.8 to 3.15 and tensorflow-metal 1.2, by the name of
#: their meaning, with the sentence.
_MATTER: dict[str, tuple[str, tuple[str | _Parts, ...]]] = {
    NO_GPU: (
        "no NVIDIA GPU was found, so the CPU trains; if there is one: tfwatch doctor",
        (
            "Could not find cuda drivers",
            "failed call to cuInit",
            "no CUDA-capable device is detected",
            "dynamic library 'libcuda.so",
            "kernel driver does not appear to be running",
        ),
    ),
    "gpu libraries": (
        "CUDA libraries are missing: no GPU is used; pip install 'tensorflow[and-cuda]'",
        (
            "Cannot dlopen some GPU libraries",
            "Skipping registering GPU devices",
            "dynamic library 'libcu",
            # Not `libnvinfer`: TensorRT is not needed.
            "dynamic library 'libnvrtc",
            "dynamic library 'libnvJitLink",
        ),
    ),
    "plugin failed": (
        "the GPU's plugin does not fit this TensorFlow and did not load: tfwatch doctor",
        (
            ("tensorflow-plugins", "ymbol not found"),
            ("tensorflow-plugins", "Library not loaded"),
            ("libmetal_plugin", "ymbol not found"),
            "Library not loaded: @rpath/_pywrap_tensorflow_internal",
        ),
    ),
    "cpu fallback": (
        "operations without a GPU kernel run on the CPU; their data is copied there and back",
        (
            "no supported kernel for GPU devices",
            "Failed to place the graph without changing the devices",
            "falling back to CPU",
            "fallback to CPU",
        ),
    ),
    "retracing": (
        "a function is traced repeatedly: pass tensors of the same shapes, not Python numbers",
        ("triggered tf.function retracing",),
    ),
    "memory nearly full": (
        "the GPU's memory is nearly full: no failure yet, a smaller batch may be faster",
        (
            ("ran out of memory trying to allocate", "not a failure"),
            "Garbage collection: deallocate free memory regions",
        ),
    ),
    "out of memory": (
        "memory ran out: use a smaller batch or a smaller model",
        (
            ("Allocator (", "ran out of memory trying to allocate"),
            "OOM when allocating tensor",
            "RESOURCE_EXHAUSTED: Out of memory",
        ),
    ),
    "shuffle fill": (
        "training waits while the shuffle buffer fills; it fills again in every epoch",
        (
            "Filling up shuffle buffer",
            "Shuffle buffer filled",
        ),
    ),
    "data ended": (
        "the data ended: with steps_per_epoch add .repeat() or ask for fewer, else all is well",
        ("input ran out of data; interrupting training",),
    ),
    "cache dropped": (
        "a cache was discarded because it was not read to its end: call take() before cache()",
        ("did not fully read the dataset being cached",),
    ),
}
#: The first match counts.
_KNOWN: tuple[tuple[LogFinding, _Parts], ...] = tuple(
    (LogFinding(name, text), (line,) if isinstance(line, str) else line)
    for name, (text, lines) in _MATTER.items()
    for line in lines
)


@lru_cache(maxsize=4096)
def meaning_of(line: str) -> LogFinding | None:
    """Return the meaning of a line; None where it is unknown."""
    line = line[:_LOOKED_AT]
    found = (meaning for meaning, parts in _KNOWN if all(part in line for part in parts))
    return next(found, None)


def find_meanings(lines: Iterable[str]) -> tuple[LogFinding, ...]:
    """Return the meanings that matter of these lines, each once, in the order of their first
    lines."""
    log = LogFollower()
    log.take(lines)
    return log.findings


def that_matter(found: Sequence[LogFinding], machine: Machine) -> tuple[LogFinding, ...]:
    """Return the meanings that matter on a machine: not that no GPU was found, where the user hides
    all of them."""
    is_hidden = machine.get("gpus_hidden", False)
    return tuple(one for one in found if not (is_hidden and one.name == NO_GPU))


class LogFollower:
    """The meanings of a log so far that matter; takes the lines as they come.

    findings: oldest first. shuffle: elements in the shuffle buffer and its size, while it fills.
    """

    def __init__(self) -> None:
        self.findings: tuple[LogFinding, ...] = ()
        self.shuffle: tuple[int, int] | None = None
        self._wall_s: float | None = None
        self._lines = 0

    def follow(self, head: Sequence[str], tail: Sequence[str], total: int) -> None:
        """Take the new lines of a log of `total` lines, given its first and its last lines."""
        if total == self._lines:
            return
        self.take(head[self._lines :])
        first_new = max(self._lines, total - len(tail)) - (total - len(tail))
        self.take(tail[first_new:])
        self._lines = total

    def take(self, lines: Iterable[str]) -> None:
        """Take lines in their order."""
        for line in lines:
            self._lines += 1
            self._wall_s = wall_s(line) or self._wall_s
            meaning = meaning_of(line)
            if meaning:
                self._note(meaning, line)

    def _note(self, meaning: LogFinding, line: str) -> None:
        if meaning.name not in [one.name for one in self.findings]:
            self.findings = (*self.findings, replace(meaning, wall_s=self._wall_s))
        if meaning.name == "shuffle fill":
            counts = _FILLING.search(line)
            self.shuffle = (int(counts[1]), int(counts[2])) if counts else None


def wall_s(line: str) -> float | None:
    """Return the time of a line, seconds since 1970; None where it has none."""
    if stamp := _ABSL.match(line):
        return float(stamp[1])
    if stamp := _DATED.match(line):
        try:
            return datetime.fromisoformat(stamp[1]).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    return None
