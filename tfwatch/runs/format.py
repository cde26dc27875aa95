"""The files of a run folder: their names, the manifest run.json, and the pulse.

`core.rows` and `core.events` define the contents of the other files.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.knobs import KNOBS, as_value
from tfwatch.core.older_formats import translate_manifest
from tfwatch.core.rows import PROGRESS, PULSE, SAMPLE, STAGE, STEP, Phase
from tfwatch.core.validation import known_fields

if TYPE_CHECKING:
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


SCHEMA = 1
MANIFEST = "run.json"
STEPS = "steps.bin"
SAMPLES = "samples.bin"
PROGRESSES = "progress.bin"
EVENTS = "events.jsonl"
STAGES = "stages.bin"
PULSES = "pulse.bin"
LOG = "log.txt"
STREAMS = (STEPS, SAMPLES, PROGRESSES, STAGES, EVENTS)
#: The largest plausible row, bytes.
_MAX_ROW_BYTES = 4096
TABLES = {STEPS: STEP, SAMPLES: SAMPLE, PROGRESSES: PROGRESS, STAGES: STAGE, PULSES: PULSE}


class NotARunError(ValueError):
    """The folder is not a run that this tfwatch can read; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of run.json: the training, its machine and its start.

    origin_ns: the clock origin on the monotonic clock; origin_wall_ns: the same moment, since 1970.
    pid, process_started_s, boot_id: the writer's process, to distinguish a killed run from a running one.
    cache_bytes: the size of a cache of all examples; None where the pipeline has none.
    split: the method that splits a step into its parts; empty before the first step.
    not_split: why steps are not split. op_by_op: steps run as Python, not as a graph, and their Python time is known.
    after: the run that was restarted as this one: its name where it is in the same folder, else its path; or empty.
    tables: the numpy layout (`dtype.descr`) of each binary file of this run.
    """

    run: str
    workload: str
    origin_ns: int
    origin_wall_ns: int
    pid: int
    process_started_s: float
    boot_id: str
    schema: int = SCHEMA
    device: str = ""
    accelerated: bool = False
    knobs: dict[str, str] = field(default_factory=dict)
    switchable: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    batch_bytes: int | None = None
    epochs: int | None = None
    steps_per_epoch: int | None = None
    metric: str = ""
    cache_bytes: int | None = None
    split: str = ""
    not_split: str = ""
    op_by_op: bool = False
    after: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=lambda: {n: t.descr for n, t in TABLES.items()})

    @property
    def fast_form(self) -> str:
        """The name of the workload's fast pipeline; empty where it has none."""
        return str(self.settings.get("fast_form") or "")

    @property
    def memory_limit(self) -> float | None:
        """The bytes that buffers may add to those of the start, set by the user; None: no limit."""
        limit = self.settings.get("memory_limit_bytes")
        return float(limit) if isinstance(limit, int | float) else None

    @property
    def title(self) -> str:
        """The workload and its unusual settings: `cnn, eager, mixed_float16`."""
        asked = self.settings
        mode, steps = asked.get("mode"), asked.get("steps_per_execution")
        words = [
            str(mode) if mode in ("eager", "jit") else "",
            "mixed_float16" if asked.get("mixed_precision") is True else "",
            f"steps_per_execution={steps}" if isinstance(steps, int) and steps > 1 else "",
        ]
        return ", ".join([self.workload, *filter(None, words)])

    def encode(self) -> str:
        """Return the text of run.json."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def decode(text: str) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: the text is not a manifest, or has another schema.
        """
        try:
            values = json.loads(text)
            schema = values["schema"]
            if schema != SCHEMA:
                raise NotARunError(f"its schema is {schema}, this tfwatch reads {SCHEMA}")
            manifest = Manifest(**known_fields(Manifest, translate_manifest(values)))
            for knob in manifest.knobs.keys() & KNOBS:
                as_value(knob, manifest.knobs[knob])
            for name in TABLES:
                manifest.layout(name)
        except NotARunError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NotARunError(f"its {MANIFEST} cannot be read: {error}") from error
        return manifest

    def layout(self, name: str) -> np.dtype[np.void]:
        """Return the row type of a binary file of this run; `convert_rows` adds the columns that samples lack.

        Runs of the first versions have no stages.bin; it reads as a file without rows.

        Raises:
            NotARunError: a required column is missing.
        """
        described = self.tables.get(name, STAGE.descr) if name == STAGES else self.tables[name]
        layout = np.dtype([(str(column), str(kind)) for column, kind in described])
        needed = TABLES[name]
        lacking = [column for column in needed.names or () if not _has(layout, name, column)]
        if lacking or layout.hasobject or layout.itemsize > _MAX_ROW_BYTES:
            raise NotARunError(f"{name} lacks {', '.join(lacking) or 'plain columns'}")
        return layout


def _has(layout: np.dtype[np.void], name: str, column: str) -> bool:
    """Return whether a table has a column or may lack it: a sample needs only its time."""
    if column in (layout.names or ()):
        return layout[column].kind == TABLES[name][column].kind
    return name == SAMPLES and column != "at_ns"


def convert_rows(name: str, rows: Rows) -> Rows:
    """Return rows in the layout of `TABLES`: the same array, or a copy with NaN in the columns that samples lack."""
    wanted = TABLES[name]
    if rows.dtype == wanted:
        return rows
    filled = np.empty(len(rows), dtype=wanted)
    for column in wanted.names or ():
        filled[column] = rows[column] if column in (rows.dtype.names or ()) else math.nan
    filled.flags.writeable = False
    return filled


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file; a reader sees the old text or the new, never a part.

    Raises:
        OSError: the folder cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


#: The latest plausible time, in the year 2262.
_LATEST_NS = 2**63


@dataclass(frozen=True, slots=True)
class Pulse:
    """The training thread's phase and its start; times in ns since the clock origin (`wall_ns`: since 1970)."""

    now_ns: int
    wall_ns: int
    phase: Phase
    since_ns: int
    step: int
    epoch: int
    detail: str = ""

    def encode(self, seq: int) -> bytes:
        """Return the row's bytes; `seq` differs between writes."""
        detail = self.detail.encode(errors="replace")[: PULSE["detail"].itemsize]
        detail = detail.decode(errors="ignore").encode()  # without a character cut in two
        row = np.array(
            (seq, self.phase, self.now_ns, self.wall_ns, self.since_ns, self.step, self.epoch, detail, seq),
            dtype=PULSE,
        )
        return row.tobytes()


def decode_pulse(data: bytes, layout: np.dtype[np.void]) -> Pulse | None:
    """Return the pulse of a row's bytes; None where there is none yet or the row is torn."""
    if len(data) < layout.itemsize:
        return None
    row = np.frombuffer(data[: layout.itemsize], dtype=layout)[0]
    if row["seq"] != row["seq_end"] or int(row["phase"]) not in Phase._value2member_map_:
        return None
    if max(int(row[name]) for name in ("now_ns", "wall_ns", "since_ns")) >= _LATEST_NS:
        return None
    return Pulse(
        now_ns=int(row["now_ns"]),
        wall_ns=int(row["wall_ns"]),
        phase=Phase(int(row["phase"])),
        since_ns=int(row["since_ns"]),
        step=int(row["step"]),
        epoch=int(row["epoch"]),
        detail=bytes(row["detail"]).decode(errors="replace"),
    )
