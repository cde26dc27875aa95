"""The known lines of TensorFlow's log: their meaning, and the ones that matter. No text raises an
error."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The start of a line is enough to identify it; lines of Keras' progress bar are long.
_LOOKED_AT = 1000
#: absl's prefix holds seconds since 1970, `I0000 00:00:1795263242.021949`; older lines hold the
#: local time.
_ABSL = re.compile(r"[IWEF]\d{4} \d\d:\d\d:(\d{10}(?:\.\d{1,9})?)", re.ASCII)
_DATED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}): [IWEF]", re.ASCII)
_FILLING = re.compile(r"Filling up shuffle buffer[^:\n]{0,60}: (\d{1,15}) of (\d{1,15})", re.ASCII)
_FILLED = "Shuffle buffer filled"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a line in one sentence; `harmless` where no action is needed. name: short and
    stable."""

    name: str
    harmless: bool
    text: str


@dataclass(frozen=True, slots=True)
class LogFinding:
    """A meaning and its number of lines. wall_s: time of the first line, seconds since 1970; None
    where unknown."""

    meaning: Meaning
    count: int
    wall_s: float | None


#: Parts that a line has to contain, all of them.
_Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogSummary:
    """A sentence on one or several findings. wall_s: as in `LogFinding`."""

    text: str
    harmless: bool
    wall_s: float | None


def _important(name: str, text: str, *lines: str | _Parts) -> tuple[Meaning, list[_Parts]]:
    return Meaning(name, False, text), [
        (line,) if isinstance(line, str) else line for line in lines
    ]


def _harmless(name: str, text: str, *lines: str | _Parts) -> tuple[Meaning, list[_Parts]]:
    return Meaning(name, True, text), [(line,) if isinstance(line, str) else line for line in lines]


#: The first match counts. Texts are those of TensorFlow 2.18 to 2.21, Keras 3.8 to 3.15 and
#: tensorflow-metal 1.2.
_TABLE = (
    _harmless(
        "tensorrt",
        "TensorRT is not installed; training does not use it",
        "Could not find TensorRT",
        "TF-TRT Warning",
        "dynamic library 'libnvinfer",
    ),
    _important(
        "no gpu",
        "no NVIDIA GPU was found, so the CPU trains; if there is one: tfwatch doctor",
        "Could not find cuda drivers",
        "failed call to cuInit",
        "no CUDA-capable device is detected",
        "dynamic library 'libcuda.so",
        "kernel driver does not appear to be running",
    ),
    _important(
        "gpu libraries",
        "CUDA libraries are missing, so the GPU is not used: pip install 'tensorflow[and-cuda]'",
        "Cannot dlopen some GPU libraries",
        "Skipping registering GPU devices",
        "dynamic library 'libcu",
        "dynamic library 'libnv",
    ),
    _important(
        "plugin failed",
        "the GPU's plugin does not fit this TensorFlow and did not load: tfwatch doctor",
        ("tensorflow-plugins", "ymbol not found"),
        ("tensorflow-plugins", "Library not loaded"),
        ("libmetal_plugin", "ymbol not found"),
        "Library not loaded: @rpath/_pywrap_tensorflow_internal",
    ),
    _important(
        "cpu fallback",
        "operations without a GPU kernel run on the CPU, and their data is copied there and back",
        "no supported kernel for GPU devices",
        "Failed to place the graph without changing the devices",
        "falling back to CPU",
        "fallback to CPU",
    ),
    _important(
        "retracing",
        "a function is traced repeatedly: pass tensors of the same shapes, not Python numbers",
        "triggered tf.function retracing",
    ),
    _important(
        "memory nearly full",
        "the GPU's memory is nearly full: no failure yet, a smaller batch may be faster",
        ("ran out of memory trying to allocate", "not a failure"),
        "Garbage collection: deallocate free memory regions",
    ),
    _important(
        "out of memory",
        "memory ran out: use a smaller batch or a smaller model",
        ("Allocator (", "ran out of memory trying to allocate"),
        "OOM when allocating tensor",
        "RESOURCE_EXHAUSTED: Out of memory",
    ),
    _important(
        "large allocation",
        "one allocation takes more than a tenth of the free memory",
        "exceeds 10% of free system memory",
    ),
    _important(
        "shuffle fill",
        "training waits while the shuffle buffer fills; it fills again in every epoch",
        "Filling up shuffle buffer",
        _FILLED,
    ),
    _important(
        "data ended",
        "the data ended before steps_per_epoch: add .repeat(), or ask for fewer steps",
        "input ran out of data; interrupting training",
    ),
    _important(
        "cache dropped",
        "a cache was discarded because it was not read to its end: call take() before cache()",
        "did not fully read the dataset being cached",
    ),
    _important(
        "layout",
        "TensorFlow could not choose a layout for the images: results are correct, steps may be"
        " slower",
        "layout failed: ",
    ),
    _harmless(
        "pruner", "one graph optimization was skipped", "model_pruner failed: ", "remapper failed: "
    ),
    _harmless(
        "onednn",
        "oneDNN is on: the last digits of sums may differ",
        "oneDNN custom operations are on",
    ),
    _harmless(
        "instructions",
        "the CPU instructions that TensorFlow was built for",
        "TensorFlow binary is optimized",
        "To enable the following instructions",
        "To enable them in other operations",
    ),
    _harmless(
        "numa",
        "the memory nearest to the GPU is unknown; normal on Macs and virtual machines",
        "Could not identify NUMA node",
        "NUMA node read from SysFS had negative value",
    ),
    _harmless(
        "plugin optimizer",
        "the GPU's plugin works",
        ("Plugin optimizer for device_type", "is enabled"),
    ),
    _harmless(
        "registered twice",
        "two parts of TensorFlow register the same library",
        ("Unable to register cu", "factory"),
        "computation placer already registered",
    ),
    _harmless(
        "gpu",
        "TensorFlow uses the GPU",
        ("Created device /", "GPU:"),
        ("Created TensorFlow device (/", "GPU:"),
        "Metal device set to",
        "metal_device.cc",
        "Loaded cuDNN version",
    ),
    _harmless(
        "tf32", "matrix products use TF32: fast, with fewer digits", "TensorFloat-32 will be used"
    ),
    _harmless(
        "xla",
        "XLA compiles parts of the model",
        ("XLA service", "initialized"),
        "Compiled cluster using XLA",
    ),
    _harmless(
        "no model",
        "tf.data has no stage figures for a pipeline without autotuning",
        "Cannot find this iterator's analytical model",
    ),
    _harmless("end of data", "a data set reached its end", "OUT_OF_RANGE: End of sequence"),
    _harmless(
        "cpu frequency",
        "the CPU's clock rate is unknown; normal on Macs",
        "Failed to get CPU frequency",
    ),
    _harmless(
        "shuffle ignored",
        "Keras leaves shuffling to the data set",
        "`shuffle=True` was passed, but will be ignored",
    ),
    _harmless(
        "generator",
        "the memory of a Python generator is freed early",
        "Memory patch applied: M_TRIM_THRESHOLD",
    ),
    _harmless(
        "stderr", "early log lines go to stderr", "All log messages before absl::InitializeLog"
    ),
)


@lru_cache(maxsize=4096)
def meaning_of(line: str) -> Meaning | None:
    """Return the meaning of a line; None where it is unknown."""
    line = line[:_LOOKED_AT]
    for meaning, known in _TABLE:
        for parts in known:
            if parts[0] in line and all(part in line for part in parts[1:]):
                return meaning
    return None


def find_meanings(lines: Iterable[str]) -> list[LogFinding]:
    """Return the findings of these lines, each once, in the order of their first lines."""
    log = LogFollower()
    log.take(lines)
    return list(log.findings)


def summarise_log(findings: Sequence[LogFinding]) -> list[LogSummary]:
    """Return one sentence for all harmless findings, and one for each of the others."""
    important = [one for one in findings if not one.meaning.harmless]
    harmless = [one for one in findings if one.meaning.harmless]
    sentences = [LogSummary(one.meaning.text, False, one.wall_s) for one in important]
    if harmless:
        number = (
            f"{len(harmless)}"
            f" {'more ' if important else ''}message{'' if len(harmless) == 1 else 's'}"
        )
        text = f"TensorFlow logged {number}, {'all ' if len(harmless) > 1 else ''}harmless"
        first = next((one.wall_s for one in harmless if one.wall_s is not None), None)
        sentences.insert(0, LogSummary(text, True, first))
    return sentences


class LogFollower:
    """The findings of a log so far; takes the lines as they come.

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
        counts = {one.meaning.name: one for one in self.findings}
        for line in lines:
            self._lines += 1
            self._wall_s = wall_s(line) or self._wall_s
            if (meaning := meaning_of(line)) is None:
                continue
            known = counts.get(meaning.name, LogFinding(meaning, 0, self._wall_s))
            counts[meaning.name] = replace(known, count=known.count + 1)
            if meaning.name == "shuffle fill":
                self.shuffle = _filling(line)
        self.findings = tuple(counts.values())


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


def _filling(line: str) -> tuple[int, int] | None:
    """Return the elements in the shuffle buffer and its size; None where the line reports it as
    full."""
    counts = _FILLING.search(line)
    return (int(counts[1]), int(counts[2])) if counts else None
