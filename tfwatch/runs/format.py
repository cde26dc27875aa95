"""Names and layout of a run folder. See `core.rows` and `core.events` for what stands in its files."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.fields import known_fields
from tfwatch.core.knobs import KNOBS, as_value
from tfwatch.core.older import translated_manifest
from tfwatch.core.rows import PROGRESS, PULSE, SAMPLE, STAGE, STEP
from tfwatch.runs.private import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Rows

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
#: Bytes of a row that no table comes near.
_WIDEST = 4096
TABLES = {STEPS: STEP, SAMPLES: SAMPLE, PROGRESSES: PROGRESS, STAGES: STAGE, PULSES: PULSE}


class NotARunError(ValueError):
    """The folder is no run of a schema that this tfwatch reads; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """run.json: what ran, where, since when.

    origin_ns: the clock origin on the monotonic clock; origin_wall_ns: the same moment since 1970.
    pid, process_started_s, boot_id: the writer's process, to tell a killed run from a running one.
    cache_bytes: what a cache of all examples takes; None where the pipeline has none.
    split: how the parts of a step were told apart, in words; empty before the first step.
    not_split: why they were not. op_by_op: the steps run as Python, not as a graph, and what that takes is known.
    after: the run that was restarted as this one: its name where it lies beside this one, else its folder; or empty.
    tables: the numpy layout (`dtype.descr`) of each binary file as this run wrote it.
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
        """What the fast form of the workload's pipeline is called; empty where it has one form alone."""
        return str(self.settings.get("fast_form") or "")

    @property
    def memory_limit(self) -> float | None:
        """Bytes that the user lets buffers take, beside what they take at the start; None where there is no limit."""
        limit = self.settings.get("memory_limit_bytes")
        return float(limit) if isinstance(limit, int | float) else None

    @property
    def title(self) -> str:
        """The workload, and how its steps are computed where that is not as usual: `cnn, eager, mixed_float16`."""
        asked = self.settings
        mode, steps = asked.get("mode"), asked.get("steps_per_execution")
        words = [
            str(mode) if mode in ("eager", "jit") else "",
            "mixed_float16" if asked.get("mixed_precision") is True else "",
            f"steps_per_execution={steps}" if isinstance(steps, int) and steps > 1 else "",
        ]
        return ", ".join([self.workload, *filter(None, words)])

    def encode(self) -> str:
        """The text of run.json."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def decode(text: str) -> Manifest:
        """Read run.json.

        Raises:
            NotARunError: it is not a manifest, or one of another schema.
        """
        try:
            values = json.loads(text)
            schema = values["schema"]
            if schema != SCHEMA:
                raise NotARunError(f"its schema is {schema}, this tfwatch reads {SCHEMA}")
            manifest = Manifest(**known_fields(Manifest, translated_manifest(values)))
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
        """The row type of one binary file, as this run wrote it; `completed` adds what samples lack.

        A run of before there were stages has no such file, which reads as one without rows.

        Raises:
            NotARunError: a field that this tfwatch needs is missing.
        """
        described = self.tables.get(name, STAGE.descr) if name == STAGES else self.tables[name]
        layout = np.dtype([(str(column), str(kind)) for column, kind in described])
        needed = TABLES[name]
        lacking = [column for column in needed.names or () if not _has(layout, name, column)]
        if lacking or layout.hasobject or layout.itemsize > _WIDEST:
            raise NotARunError(f"{name} lacks {', '.join(lacking) or 'plain columns'}")
        return layout


def _has(layout: np.dtype[np.void], name: str, column: str) -> bool:
    """Whether a table has a column, or may lack it: of a sample all but its time may be missing."""
    if column in (layout.names or ()):
        return layout[column].kind == TABLES[name][column].kind
    return name == SAMPLES and column != "at_ns"


def completed(name: str, rows: Rows) -> Rows:
    """Rows of `TABLES`: the same array, or a copy of another version's, in which samples have NaN for what it lacks."""
    wanted = TABLES[name]
    if rows.dtype == wanted:
        return rows
    filled = np.empty(len(rows), dtype=wanted)
    for column in wanted.names or ():
        filled[column] = rows[column] if column in (rows.dtype.names or ()) else math.nan
    filled.flags.writeable = False
    return filled


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file so that a reader sees the old text or the new, never a part.

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
