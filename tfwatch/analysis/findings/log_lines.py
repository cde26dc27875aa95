"""What lines of TensorFlow's log mean, and which of them matter. Text in, findings out; nothing raises on any text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A line's beginning says what it is: Keras' progress bar may go on for long.
_LOOKED_AT = 1000
#: absl's prefix holds seconds since 1970, `I0000 00:00:1795263242.021949`; older lines hold the local time.
_ABSL = re.compile(r"[IWEF]\d{4} \d\d:\d\d:(\d{10}(?:\.\d{1,9})?)", re.ASCII)
_DATED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}): [IWEF]", re.ASCII)
_FILLING = re.compile(r"Filling up shuffle buffer[^:\n]{0,60}: (\d{1,15}) of (\d{1,15})", re.ASCII)
_FILLED = "Shuffle buffer filled"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a line says, one sentence; `harmless` where nobody has to do anything. name: short and for good."""

    name: str
    harmless: bool
    text: str


@dataclass(frozen=True, slots=True)
class LogFinding:
    """A meaning and how often it was said. wall_s: when first, seconds since 1970; None where no line says."""

    meaning: Meaning
    count: int
    wall_s: float | None


#: Parts of a line, all of which it has to hold.
_Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogSummary:
    """A sentence on what was said. wall_s: as in `LogFinding`."""

    text: str
    harmless: bool
    wall_s: float | None


def _matters(name: str, text: str, *lines: str | _Parts) -> tuple[Meaning, list[_Parts]]:
    return Meaning(name, False, text), [(line,) if isinstance(line, str) else line for line in lines]


def _harmless(name: str, text: str, *lines: str | _Parts) -> tuple[Meaning, list[_Parts]]:
    return Meaning(name, True, text), [(line,) if isinstance(line, str) else line for line in lines]


#: The first that fits counts. Texts are those of TensorFlow 2.18 to 2.21, Keras 3.8 to 3.15 and tensorflow-metal 1.2.
_TABLE = (
    _harmless(
        "tensorrt",
        "TensorRT is not installed; training does not use it",
        "Could not find TensorRT",
        "TF-TRT Warning",
        "dynamic library 'libnvinfer",
    ),
    _matters(
        "no gpu",
        "no NVIDIA GPU was found, so the CPU trains; if there is one: tfwatch doctor",
        "Could not find cuda drivers",
        "failed call to cuInit",
        "no CUDA-capable device is detected",
        "dynamic library 'libcuda.so",
        "kernel driver does not appear to be running",
    ),
    _matters(
        "gpu libraries",
        "CUDA libraries are missing, so the GPU is not used: pip install 'tensorflow[and-cuda]'",
        "Cannot dlopen some GPU libraries",
        "Skipping registering GPU devices",
        "dynamic library 'libcu",
        "dynamic library 'libnv",
    ),
    _matters(
        "plugin failed",
        "the GPU's plugin does not fit this TensorFlow and did not load: tfwatch doctor",
        ("tensorflow-plugins", "ymbol not found"),
        ("tensorflow-plugins", "Library not loaded"),
        ("libmetal_plugin", "ymbol not found"),
        "Library not loaded: @rpath/_pywrap_tensorflow_internal",
    ),
    _matters(
        "cpu fallback",
        "operations that the GPU cannot do run on the CPU, and their data goes there and back",
        "no supported kernel for GPU devices",
        "Failed to place the graph without changing the devices",
        "falling back to CPU",
        "fallback to CPU",
    ),
    _matters(
        "slow rnn",
        "a recurrent layer runs without its fast cuDNN kernel: default activations and no recurrent dropout bring it",
        "will not use cuDNN kernels since",
    ),
    _matters(
        "retracing",
        "a function is traced again and again: give it tensors of the same shapes, not Python numbers",
        "triggered tf.function retracing",
    ),
    _matters(
        "memory nearly full",
        "the GPU's memory is nearly full: no failure yet, a smaller batch may be faster",
        ("ran out of memory trying to allocate", "not a failure"),
        "Garbage collection: deallocate free memory regions",
    ),
    _matters(
        "out of memory",
        "memory was not enough: a smaller batch, or a smaller model",
        ("Allocator (", "ran out of memory trying to allocate"),
        "OOM when allocating tensor",
        "RESOURCE_EXHAUSTED: Out of memory",
    ),
    _matters(
        "large allocation",
        "one piece of data takes over a tenth of the free memory",
        "exceeds 10% of free system memory",
    ),
    _matters(
        "shuffle fill",
        "training waits while the shuffle buffer fills; every epoch does this again",
        "Filling up shuffle buffer",
        _FILLED,
    ),
    _matters(
        "data ended",
        "the data ended before steps_per_epoch: add .repeat(), or ask for fewer steps",
        "input ran out of data; interrupting training",
    ),
    _matters(
        "cache dropped",
        "a cache was thrown away because it was not read to its end: take() before cache()",
        "did not fully read the dataset being cached",
    ),
    _matters(
        "layout",
        "TensorFlow could not choose a layout for the images: results are right, speed may suffer",
        "layout failed: ",
    ),
    _harmless("pruner", "one tidying of the graph was left out", "model_pruner failed: ", "remapper failed: "),
    _harmless("onednn", "oneDNN is on: the last digits of sums may differ", "oneDNN custom operations are on"),
    _harmless(
        "instructions",
        "which of the processor's instructions TensorFlow was built for",
        "TensorFlow binary is optimized",
        "To enable the following instructions",
        "To enable them in other operations",
    ),
    _harmless(
        "numa",
        "asked which memory is near to the GPU; Macs and virtual machines have no answer",
        "Could not identify NUMA node",
        "NUMA node read from SysFS had negative value",
    ),
    _harmless("plugin optimizer", "the GPU's plugin works", ("Plugin optimizer for device_type", "is enabled")),
    _harmless(
        "registered twice",
        "two parts of TensorFlow bring the same library",
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
    _harmless("tf32", "matrix products use TF32: fast, with fewer digits", "TensorFloat-32 will be used"),
    _harmless("xla", "XLA compiles parts of the model", ("XLA service", "initialized"), "Compiled cluster using XLA"),
    _harmless(
        "no model",
        "tf.data keeps no figures of a pipeline whose autotuning is off",
        "Cannot find this iterator's analytical model",
    ),
    _harmless("end of data", "how a data set says that it is at its end", "OUT_OF_RANGE: End of sequence"),
    _harmless(
        "cpu frequency", "asked for the processor's clock, which Macs do not tell", "Failed to get CPU frequency"
    ),
    _harmless(
        "shuffle ignored", "Keras leaves shuffling to the data set", "`shuffle=True` was passed, but will be ignored"
    ),
    _harmless(
        "generator", "the memory of a Python generator is given back early", "Memory patch applied: M_TRIM_THRESHOLD"
    ),
    _harmless("stderr", "where these lines go", "All log messages before absl::InitializeLog"),
)


@lru_cache(maxsize=4096)
def meaning_of(line: str) -> Meaning | None:
    """What a line means; None where it is not one of those known."""
    line = line[:_LOOKED_AT]
    for meaning, known in _TABLE:
        for parts in known:
            if parts[0] in line and all(part in line for part in parts[1:]):
                return meaning
    return None


def find_meanings(lines: Iterable[str]) -> list[LogFinding]:
    """What these lines say, each thing once, in the order in which it was said first."""
    heard = LogFollower()
    heard.take(lines)
    return list(heard.findings)


def summarise_log(findings: Sequence[LogFinding]) -> list[LogSummary]:
    """One sentence for all that is harmless, and one for each thing that matters."""
    matter = [one for one in findings if not one.meaning.harmless]
    harmless = [one for one in findings if one.meaning.harmless]
    sentences = [LogSummary(one.meaning.text, False, one.wall_s) for one in matter]
    if harmless:
        number = f"{len(harmless)} {'more ' if matter else ''}thing{'' if len(harmless) == 1 else 's'}"
        text = f"TensorFlow said {number}, {'all ' if len(harmless) > 1 else ''}harmless"
        first = next((one.wall_s for one in harmless if one.wall_s is not None), None)
        sentences.insert(0, LogSummary(text, True, first))
    return sentences


class LogFollower:
    """What a log has said so far; fed with the lines as they come.

    said: oldest first. shuffle: elements in the shuffle buffer and its size, while it fills.
    """

    def __init__(self) -> None:
        self.findings: tuple[LogFinding, ...] = ()
        self.shuffle: tuple[int, int] | None = None
        self._wall_s: float | None = None
        self._lines = 0

    def follow(self, head: Sequence[str], tail: Sequence[str], total: int) -> None:
        """Take what is new of a log of `total` lines, of which the first and the last ones are at hand."""
        if total == self._lines:
            return
        self.take(head[self._lines :])
        missed = max(self._lines, total - len(tail)) - (total - len(tail))
        self.take(tail[missed:])
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
    """When a line was written, seconds since 1970; None where it does not say."""
    if found := _ABSL.match(line):
        return float(found[1])
    if found := _DATED.match(line):
        try:
            return datetime.fromisoformat(found[1]).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    return None


def _filling(line: str) -> tuple[int, int] | None:
    """How full the shuffle buffer is; None where the line says that it is full."""
    found = _FILLING.search(line)
    return (int(found[1]), int(found[2])) if found else None
