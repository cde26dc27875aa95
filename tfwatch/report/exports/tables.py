"""The record of a run as tables, read in chunks, and as CSV or Parquet; a missing figure is an
empty cell or null."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from tfwatch.core.errors import printable
from tfwatch.core.events import EpochEnded, StagesFound
from tfwatch.core.rows import clean_rows, plausible_rows, step_ms
from tfwatch.report.facts import finite
from tfwatch.runs import format as layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from numpy.typing import NDArray

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.folder import RunFolder
    from tfwatch.runs.snapshot import Snapshot

#: Rows of a chunk: 2.4 MB of steps.
_CHUNK = 65_536
#: The tables of numbers, each with its file in the run folder; `runs.format.TABLES` has their
#: columns.
TABLES = {
    "steps": layout.STEPS,
    "samples": layout.SAMPLES,
    "progress": layout.PROGRESSES,
    "stages": layout.STAGES,
    "gpus": layout.GPUS,
}
#: The figures of the machine by the column of `core.rows.SAMPLE`, with the factor to their unit.
SENSORS = {
    "gpu_busy": ("GPU busy, %", 100.0),
    "gpu_process_busy": ("GPU busy with this training, %", 100.0),
    "gpu_power_w": ("GPU power, W", 1.0),
    "gpu_memory_bytes": ("GPU memory, MB", 2.0**-20),
    "cpu_cores": ("CPU cores in use", 1.0),
    "process_cores": ("CPU cores of the training", 1.0),
    "process_bytes": ("memory of the process, MB", 2.0**-20),
    "memory_used_bytes": ("memory in use, MB", 2.0**-20),
}
_Cells: TypeAlias = "tuple[int | float | str, ...]"


@dataclass(frozen=True, slots=True)
class Text:
    """A table with text: its columns, and its rows."""

    columns: tuple[str, ...]
    rows: list[_Cells]


class Recording:
    """The record of a run, or of the time from the first to the last of `steps`."""

    def __init__(
        self, source: RunFolder, run: Snapshot, steps: tuple[int, int] | None = None
    ) -> None:
        self.manifest = run.manifest
        self._source = source
        self._run = run
        self._steps = slice(steps[0] - 1, steps[1]) if steps else slice(None)
        self._begin_ns, self._end_ns = self._window() if steps else (0.0, np.inf)

    def _window(self) -> tuple[float, float]:
        """Return the time of the steps, nanoseconds since the clock origin."""
        rows = plausible_rows(self._source.rows(layout.STEPS)[self._steps])
        if not len(rows):
            return 0.0, 0.0
        return float(rows["start_ns"][0]), float(rows["start_ns"][-1] + step_ms(rows[-1:])[0] * 1e6)

    @property
    def events(self) -> list[Event]:
        """The events, in the order of writing. Those that name the stages are kept also from before
        the window."""
        return [
            one
            for one in self._run.events
            if isinstance(one, StagesFound) or self._begin_ns <= one.at_ns <= self._end_ns
        ]

    def rows(self, table: str) -> Iterator[Rows]:
        """Yield the sound rows of one of `TABLES`, in their order."""
        rows = self._source.rows(TABLES[table])
        rows = rows[self._steps] if table == "steps" else rows
        for first in range(0, len(rows), _CHUNK):
            kept = self._sound(table, rows[first : first + _CHUNK])
            if len(kept):
                yield kept

    def _sound(self, table: str, rows: Rows) -> Rows:
        if table == "steps":
            return plausible_rows(rows)
        kept = clean_rows(rows)
        kept = kept[(kept["at_ns"] >= self._begin_ns) & (kept["at_ns"] <= self._end_ns)]
        return kept

    def texts(self) -> dict[str, Text]:
        """Return the tables with text: the metrics of the epochs, the names of the stages, the
        events."""
        epochs: list[_Cells] = [
            (event.epoch, event.step, event.at_ns, name, value)
            for event in self.events
            if isinstance(event, EpochEnded)
            for name, value in event.metrics.items()
        ]
        stages: list[_Cells] = [
            (event.pipeline, number, name, kind)
            for event in self.events
            if isinstance(event, StagesFound)
            for number, (name, kind) in enumerate(zip(event.names, event.kinds, strict=False))
        ]
        events: list[_Cells] = [
            (event.at_ns, type(event).__name__, json.dumps(fields_of(event)))
            for event in self.events
        ]
        return {
            "epochs": Text(("epoch", "last_step", "at_ns", "metric", "value"), epochs),
            "stage_names": Text(("pipeline", "stage", "name", "kind"), stages),
            "events": Text(("at_ns", "event", "fields"), events),
        }


def fields_of(event: Event) -> dict[str, object]:
    """Return the fields of an event but its time; a number that is not finite is None."""
    values: dict[str, object] = finite(msgspec.to_builtins(event))
    return {name: value for name, value in values.items() if name not in ("event", "at_ns")}


def valid_text(text: str) -> str:
    """Return a text that UTF-8 can hold: a half of a surrogate pair is no character, and stops a
    reader."""
    return text.encode("utf-8", "replace").decode()


def filled(template: str, *columns: NDArray[np.generic]) -> str:
    """Return the template once for each row, with the values of the columns in place of its `%`
    fields."""
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for at, column in enumerate(columns):
        table[:, at] = column.tolist()
    return (template * len(table)) % tuple(table.ravel().tolist())


def _columns(row: np.dtype[np.void]) -> list[str]:
    return [name for name in row.names or () if name != "pad"]


# -- CSV -------------------------------------------------------------------------------------------

#: A cell that begins so is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@")
#: Digits that give a number back exactly, by its type.
_DIGITS = {"<f4": "%.9g", "<f8": "%.17g"}


def write_csv(recording: Recording, create: Callable[[str], IO[bytes]]) -> None:
    """Write the tables of a run. create: opens the file of this name."""
    for table, source in TABLES.items():
        with create(f"{table}.csv") as file:
            file.write(f"{','.join(_columns(layout.TABLES[source]))}\n".encode())
            for rows in recording.rows(table):
                file.write(_lines(rows).encode())
    for name, text in recording.texts().items():
        with create(f"{name}.csv") as file:
            file.write(_csv_text(text).encode("utf-8", "replace"))


def _lines(rows: Rows) -> str:
    names = _columns(rows.dtype)
    template = ",".join(_DIGITS.get(rows.dtype[name].str, "%d") for name in names) + "\n"
    # All cells are numbers, so these letters are those of a missing figure.
    return filled(template, *(rows[name] for name in names)).replace("nan", "")


def _csv_text(table: Text) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return out.getvalue()


def _cell(value: float | str) -> float | str:
    if not isinstance(value, str):
        return value if value == value else ""
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


# -- Parquet ---------------------------------------------------------------------------------------


def write_parquet(recording: Recording, create: Callable[[str], IO[bytes]]) -> None:
    """Write the tables of a run. create: opens the file of this name.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table, source in TABLES.items():
        schema = _arrow_table(pa, np.empty(0, dtype=layout.TABLES[source])).schema
        with create(f"{table}.parquet") as file, pq.ParquetWriter(file, schema) as writer:
            for rows in recording.rows(table):
                writer.write_table(_arrow_table(pa, rows))
    for name, text in recording.texts().items():
        values = list(zip(*text.rows, strict=True)) or [()] * len(text.columns)
        columns = zip(text.columns, values, strict=True)
        arrays = {key: pa.array(list(map(_valid, column))) for key, column in columns}
        with create(f"{name}.parquet") as file:
            pq.write_table(pa.table(arrays), file)


def _arrow_table(pa: Any, rows: Rows) -> Any:
    return pa.table({name: pa.array(rows[name], from_pandas=True) for name in _columns(rows.dtype)})


def _valid(value: float | str) -> float | str | None:
    return valid_text(value) if isinstance(value, str) else value if value == value else None
