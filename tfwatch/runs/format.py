"""The files of a run folder: their names, the manifest run.json, and the pulse.

`core.rows` and `core.events` define the contents of the other files.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import numpy as np
from msgspec import Meta

from tfwatch.core.bounds import (
    LATEST_NS,
    LATEST_WALL_NS,
    Bytes,
    ClockTime,
    CoreCount,
    Cores,
    Count,
    Knob,
    Milliseconds,
    ProcessId,
    StartTime,
    WallTime,
    Whole,
    encode_json,
)
from tfwatch.core.errors import quoted
from tfwatch.core.knobs import (
    LACKING,
    OFF,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    NotTimed,
    Refusal,
    check_value,
    epochs_until,
)
from tfwatch.core.rows import GPU, PROGRESS, PULSE, SAMPLE, STAGE, STEP, Phase
from tfwatch.core.script_code import CodeEdit
from tfwatch.core.temporary_files import new_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tfwatch.core.rows import Rows

#: Only the user can read a run, for any umask: log.txt may contain paths and arguments.
FILE_MODE, FOLDER_MODE = 0o600, 0o700


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents; existing folders do not change.

    Raises:
        OSError: the folder cannot be created.
    """
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(FOLDER_MODE, exist_ok=True)


def is_own(folder: Path) -> bool:
    """Return whether a folder is this user's, and no link: where others write, a name may be
    anybody's.

    Raises:
        OSError: there is none.
    """
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and belongs_to_user(status, folder.parent)


def belongs_to_user(status: os.stat_result, folder: Path) -> bool:
    """Return whether a file, or a folder, is this user's. folder: one on its disk."""
    with suppress(OSError):  # nothing can be created there
        return status.st_uid == os.geteuid() or status.st_uid == _owner_of_new_file(folder)
    return False


@cache
def _owner_of_new_file(folder: Path) -> int:
    """Return the owner that a disk shows for what this user creates, of a network disk another one
    than the user."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_uid


@contextmanager
def opened_folder(path: Path | str, place: int | None = None, flags: int = 0) -> Iterator[int]:
    """Within, the descriptor of a folder.

    place: the descriptor of the folder that a relative path begins in. flags: others to open it
    with, as `os.O_NOFOLLOW`.

    Raises:
        OSError: there is none.
    """
    flags |= os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(path, flags, dir_fd=place)
    try:
        yield folder
    finally:
        os.close(folder)


SCHEMA = 1
MANIFEST = "run.json"
#: In the folder of a group, which has a folder for each rank.
GROUP_FILE = "group.json"
STEPS = "steps.bin"
SAMPLES = "samples.bin"
PROGRESSES = "progress.bin"
EVENTS = "events.jsonl"
STAGES = "stages.bin"
GPUS = "gpus.bin"
PULSES = "pulse.bin"
LOG = "log.txt"
SOURCES = "sources.json"
REQUESTS = "requests.jsonl"
STREAM_TABLES = (STEPS, SAMPLES, PROGRESSES, STAGES, GPUS)
STREAMS = (*STREAM_TABLES, EVENTS)
#: The rows of the binary files.
TABLES = {
    STEPS: STEP,
    SAMPLES: SAMPLE,
    PROGRESSES: PROGRESS,
    STAGES: STAGE,
    GPUS: GPU,
    PULSES: PULSE,
}


class NotARunError(ValueError):
    """The folder is not a run that this tfwatch can read; the message is a sentence for the
    user."""


class Machine(TypedDict, total=False):
    """The machine; None: there is no limit."""

    host: str
    system: str
    cores: CoreCount
    memory_bytes: Bytes
    cores_allowed: Cores | None
    #: Types of 16 bits that TensorFlow computes with instructions of the CPU, `float16` and
    #: `bfloat16`; None: unknown.
    cpu_types: list[str] | None
    memory_limit_bytes: Bytes | None
    #: CUDA_VISIBLE_DEVICES hides all GPUs from the process.
    gpus_hidden: bool


#: Characters of a name of the model's, and layers of one kind.
LONGEST_NAME, MOST_LAYERS = 80, 64

_Name = Annotated[str, Meta(max_length=LONGEST_NAME)]


class Embedding(msgspec.Struct, frozen=True):
    """The table of an embedding layer."""

    name: _Name
    rows: Whole
    columns: Whole


class Layer(msgspec.Struct, frozen=True):
    """A layer of a model."""

    #: Its path in the model, e.g. `encoder/lstm`.
    name: _Name
    kind: _Name

    def has(self, name: str) -> bool:
        """Return whether a path is that of the layer, or of one in it."""
        return f"{name}/".startswith(f"{self.name}/")


class RecurrentLayer(Layer, frozen=True):
    """A recurrent layer that cuDNN cannot compute."""

    #: The arguments that rule cuDNN out, e.g. `recurrent_dropout=0.2`.
    against: Annotated[list[_Name], Meta(max_length=MOST_LAYERS)]


class ThresholdMetric(Layer, frozen=True):
    """A metric that compares each prediction with each of its thresholds: they are not evenly
    spaced."""

    thresholds: Count


class ModelFacts(msgspec.Struct, frozen=True):
    """A model as it was when the first `fit` of a run began."""

    #: The class of the optimizer; empty without one.
    optimizer: _Name = ""
    #: XLA compiles the step.
    jit_compile: bool = False
    #: The embedding layer with the most parameters; None without one.
    largest_embedding: Embedding | None = None
    #: The recurrent layers that cuDNN cannot compute on a GPU.
    without_cudnn: Annotated[list[RecurrentLayer], Meta(max_length=MOST_LAYERS)] = []
    #: The convolutions that compute in float16.
    float16_convolutions: Annotated[list[Layer], Meta(max_length=MOST_LAYERS)] = []
    #: The layers that preprocess images within the step.
    preprocessing: Annotated[list[Layer], Meta(max_length=MOST_LAYERS)] = []
    threshold_metrics: Annotated[list[ThresholdMetric], Meta(max_length=MOST_LAYERS)] = []


class Manifest(msgspec.Struct, frozen=True):
    """The contents of run.json: the training, its machine and its start."""

    run: str
    workload: str
    #: The clock origin on the monotonic clock, and the same moment since 1970.
    origin_ns: ClockTime
    origin_wall_ns: WallTime
    #: The writer's process, to distinguish a killed run from a running one.
    pid: ProcessId
    process_started_s: StartTime
    boot_id: str
    schema: int = SCHEMA
    #: The path of the user's script; empty where the process runs none.
    script: str = ""
    device: str = ""
    accelerated: bool = False
    knobs: dict[Knob, str] = {}
    switchable: list[str] = []
    #: Why a knob cannot be switched, by knob.
    fixed: dict[str, str] = {}
    #: The map or the `PyDataset` that draws other random numbers in parallel, and what it does;
    #: empty without one, and once the user accepts that.
    random_maps: str = ""
    #: Workers are switched once the user accepts it.
    workers_ask: bool = False
    #: Workers take effect with an epoch: of a `PyDataset`, of maps below a cache, or over a source
    #: that begins again.
    workers_from_epoch: bool = False
    #: The changes of the script's lines that set its knobs; empty where its code is not known.
    code: tuple[CodeEdit, ...] = ()
    #: The script's names of its `model` and its `dataset`, as in all its calls of `fit`.
    names: dict[str, str] = {}
    #: The threads of the pipeline's own pool (`private_threadpool_size`); None where TensorFlow has
    #: one a core.
    pipeline_threads: Count | None = None
    #: The `arguments` of a workload.
    settings: dict[str, str] = {}
    batch_size: Count | None = None
    batch_bytes: Bytes | None = None
    #: The bytes of a batch that a step copies to the device, by element type; empty where none is
    #: timed.
    copied_bytes: dict[str, Bytes] = {}
    #: The median of the first copies by a step; of a run without, that of as many bytes; of batches
    #: in pinned memory, that of the first one.
    copy_ms: Milliseconds | None = None
    #: The last batch was on the device before its step, by a prefetch to it.
    copied_ahead: bool = False
    #: Why the copy of a batch is not timed; empty where it is, or before the first step.
    copy_not_timed: str = ""
    epochs: Count | None = None
    steps_per_epoch: Count | None = None
    #: The steps of `--steps`, after which the training ends.
    steps_limit: Count | None = None
    #: The size of a cache of all examples; None where the pipeline has none.
    cache_bytes: Bytes | None = None
    #: The stage of a script's pipeline whose results a cache keeps; empty where it is not known.
    cache_after: str = ""
    #: The shuffle whose buffer is filled before the first batch of an epoch; empty where it is not
    #: known.
    filled_shuffle: str = ""
    #: The lowest map below it, where the shuffle can come before that; empty where it is not known.
    map_below_shuffle: str = ""
    #: Where a loop of the script's own stands, e.g. `train.py:22`; empty for a `fit`.
    loop: str = ""
    #: The kind of the data passed to `fit`: arrays, generator, PyDataset, tf.data; empty where it
    #: is not known.
    data: str = ""
    #: The class of a `PyDataset`, and the line of its `__getitem__`, `train.py:17`; empty where it
    #: is no code of the user's.
    batch_class: str = ""
    batch_place: str = ""
    #: The model at the first `fit`; None in a loop of the script's own, or where it is not known.
    model: ModelFacts | None = None
    #: The method that splits a step into its parts; empty before the first step.
    split: str = ""
    #: Why steps are not split.
    not_split: str = ""
    #: Steps run as Python, not as a graph, and their Python time is known.
    op_by_op: bool = False
    #: Calls of a loop of the script's own fetch batches inside their graph: their data wait is part
    #: of compute.
    fetches_in_calls: bool = False
    #: A loop over `train_on_batch` makes its batches between the calls, in the host time: no data
    #: wait is seen.
    makes_batches: bool = False
    #: The devices of the distribution strategy that trains, each with a part of every batch, e.g.
    #: `GPU:0`; empty without one.
    replicas: list[str] = []
    #: The name of the group's folder, empty where the process trains alone, and the process's
    #: number there.
    group: str = ""
    rank: Count | None = None
    #: The number of ranks, None where it is not known.
    group_size: Count | None = None
    versions: dict[str, str] = {}
    machine: Machine = {}
    #: The numpy layout (`dtype.descr`) of each binary file of this run.
    tables: dict[str, Any] = msgspec.field(
        default_factory=lambda: {name: columns_of(row) for name, row in TABLES.items()}
    )

    @property
    def copy_ahead_ms(self) -> float | None:
        """The copy of a batch, where batches are copied ahead of their steps; None where they are
        not."""
        return self.copy_ms if self.copied_ahead else None

    def copy_in_call_ms(self, knobs: Mapping[str, str]) -> float | None:
        """Return the copy of a batch from pinned memory, where the step's call makes it and no row
        has it; None where that is not so. knobs: the present ones; a pipeline without prefetch or
        workers keeps map and batch apart, and its batches in ordinary memory."""
        is_apart = OFF in (knobs.get(PREFETCH), knobs.get(WORKERS))
        is_in_call = self.copy_not_timed == NotTimed.PINNED.value and not is_apart
        return self.copy_ms if is_in_call else None

    @property
    def has_cudnn(self) -> bool:
        """True where a GPU other than a Mac's computes the steps."""
        return self.accelerated and not self.machine.get("system", "").startswith("macOS")

    @property
    def sees_data_wait(self) -> bool:
        """True where the fetch of a batch is seen: else the data wait is n/a, and no 0."""
        return not (self.fetches_in_calls or self.makes_batches)

    def why_not_switchable(self, knob: str) -> str:
        """Return the reason why the run does not switch a knob; empty where it does.

        A `fit` begins with `prefetch` alone: its pipeline is read within a second.
        """
        if not self.knobs:
            return Refusal.OWN_PIPELINE.words
        if knob in self.knobs and knob in self.switchable:
            return ""
        none = Refusal.UNREAD if knob in self.knobs else LACKING.get(knob, Refusal.NO_SUCH_KNOB)
        return self.fixed.get(knob) or none.words

    def needs_consent(self, knob: str) -> bool:
        """Return whether a knob is switched once the user accepts other random draws."""
        return knob in PY_DATASET_KNOBS and self.workers_ask

    def epochs_until(self, knob: str, value: str) -> int:
        """Return the number of epochs that must begin before a setting is in effect; 0: the next
        batch."""
        waits = knob == WORKERS and self.workers_from_epoch
        return int(waits) or epochs_until(knob, value)

    def encode(self) -> str:
        """Return the text of run.json."""
        return msgspec.json.format(encode_json(self), indent=1).decode()

    @staticmethod
    def decode(text: str) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: the text is not a manifest, or has another schema.
        """
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
            _check(manifest)
        except (ValueError, RecursionError) as error:
            raise NotARunError(f"its {MANIFEST} cannot be read: {quoted(error)}") from error
        return manifest


def _check(manifest: Manifest) -> None:
    """Raise a ValueError where a value is out of the bounds that the types do not say."""
    if manifest.schema != SCHEMA:
        raise ValueError(f"its schema is {manifest.schema}, this tfwatch reads {SCHEMA}")
    for knob, value in manifest.knobs.items():
        check_value(knob, value)
    for name, row in TABLES.items():
        if manifest.tables.get(name) != columns_of(row):
            raise ValueError(f"its {name} has other columns than those of this tfwatch")
    for edit in manifest.code:
        if not edit.start <= edit.end <= len(edit.text):
            raise ValueError(f"{edit.place} has no characters {edit.start} to {edit.end}")


def columns_of(row: np.dtype[np.void]) -> list[list[Any]]:
    """Return the name and the numpy type of each column of a row."""
    return [list(column) for column in row.descr]


def rows_of(name: str, data: bytes) -> Rows:
    """Return the whole rows of a part of a binary file, which begins with a row."""
    row = TABLES[name]
    return np.frombuffer(data, dtype=row, count=len(data) // row.itemsize)


def write_atomically(path: Path, text: str, place: int | None = None) -> None:
    """Replace a small file; a reader sees the old text or the new, never a part.

    place: the descriptor of the folder that a relative path begins in.

    Raises:
        OSError: the folder cannot be written.
    """
    part, flags = new_part(path)
    try:
        fd = os.open(part, flags, FILE_MODE, dir_fd=place)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path, src_dir_fd=place, dst_dir_fd=place)
    except OSError:
        with suppress(OSError):
            os.unlink(part, dir_fd=place)
        raise


def append_line(file: int, line: bytes) -> None:
    """Append a line with one write to an open file whose last one may be torn.

    Raises:
        OSError: it cannot be written.
    """
    size = os.fstat(file).st_size
    is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    line = b"\n" + line if is_torn else line
    if os.write(file, line) < len(line):
        raise OSError(errno.ENOSPC, "the disk is full")


@dataclass(frozen=True, slots=True)
class Pulse:
    """The training thread's phase and its start; times in ns since the clock origin (`wall_ns`:
    since 1970)."""

    now_ns: int
    wall_ns: int
    phase: Phase
    since_ns: int
    step: int
    epoch: int
    detail: str = ""
    #: Why the disk takes no rows; empty where it does.
    unrecorded: str = ""

    def encode(self, seq: int) -> bytes:
        """Return the row's bytes; `seq` differs between writes."""
        row = np.array(
            (
                seq,
                self.phase,
                self.now_ns,
                self.wall_ns,
                self.since_ns,
                self.step,
                self.epoch,
                _cut(self.detail, "detail"),
                _cut(self.unrecorded, "unrecorded"),
                seq,
            ),
            dtype=PULSE,
        )
        return row.tobytes()


def _cut(text: str, column: str) -> bytes:
    """Return as much of a text as its column of the pulse takes, without a character cut in two."""
    return text.encode(errors="replace")[: PULSE[column].itemsize].decode(errors="ignore").encode()


#: Rows are written with the pulse, at most so long before it: a process is killed between both.
_PULSE_LATE_NS = 60 * 10**9


def latest_row_ns(pulse: Pulse | None) -> int:
    """Return the time up to which a run with this pulse can have rows."""
    return min(pulse.now_ns + _PULSE_LATE_NS, LATEST_NS) if pulse else LATEST_NS


def decode_pulse(data: bytes) -> Pulse | None:
    """Return the pulse of a row's bytes; None where there is none yet or the row is torn."""
    if len(data) < PULSE.itemsize:
        return None
    row = rows_of(PULSES, data)[0]
    if row["seq"] != row["seq_end"] or int(row["phase"]) not in Phase._value2member_map_:
        return None
    if max(row["now_ns"], row["since_ns"]) > LATEST_NS or row["wall_ns"] > LATEST_WALL_NS:
        return None
    return Pulse(
        now_ns=int(row["now_ns"]),
        wall_ns=int(row["wall_ns"]),
        phase=Phase(int(row["phase"])),
        since_ns=int(min(row["since_ns"], row["now_ns"])),
        step=int(row["step"]),
        epoch=int(row["epoch"]),
        detail=bytes(row["detail"]).decode(errors="replace"),
        unrecorded=bytes(row["unrecorded"]).decode(errors="replace"),
    )
