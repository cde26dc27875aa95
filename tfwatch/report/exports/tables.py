"""The record of a run as tables, read in chunks, and as CSV or Parquet; a missing figure is an
empty cell or null."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tfwatch.core.errors import printable
from tfwatch.core.events import EpochEnded, StagesFound
from tfwatch.core.rows import clean_rows, plausible_rows
from tfwatch.report.facts import finite
from tfwatch.runs import format as layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from numpy.typing import NDArray

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.folder import RunFolder
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot


def filled(template: str, *columns: NDArray[np.generic]) -> str:
    """Return the template once for each row, with the values of the columns in place of its `%`
    fields."""
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for at, column in enumerate(columns):
        table[:, at] = column.tolist()
    return (template * len(table)) % tuple(table.ravel().tolist())


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


@dataclass(frozen=True, slots=True)
class Text:
    """A table with text: its columns, and its rows."""

    columns: tuple[str, ...]
    rows: list[tuple[int | float | str, ...]]


class Recording:
    """The record of a run, or of the time from the first to the last of `steps`."""

    def __init__(
        self, source: RunFolder, run: Snapshot, steps: tuple[int, int] | None = None
    ) -> None:
        self.manifest: Manifest = run.manifest
        self._source = source
        self._run = run
        self._steps = steps
        self._begin_ns, self._end_ns = self._window()

    @property
    def events(self) -> list[Event]:
        """The events, in the order of writing. Those that name the stages are kept also from before
        the window."""
        return [
            one
            for one in self._run.events
            if isinstance(one, StagesFound) or self._is_in_window(one.at_ns)
        ]

    def rows(self, table: str) -> Iterator[Rows]:
        """Yield the sound rows of one of `TABLES`, in their order."""
        if table == "steps":
            yield from self._step_rows()
            return
        for rows in self._read(TABLES[table], None):
            kept = clean_rows(rows)
            kept = kept[(kept["at_ns"] >= self._begin_ns) & (kept["at_ns"] <= self._end_ns)]
            if len(kept):
                yield kept

    def texts(self) -> dict[str, Text]:
        """Return the tables with text: the metrics of the epochs, the names of the stages, the
        events."""
        return {
            "epochs": self._epochs(),
            "stage_names": self._stage_names(),
            "events": self._events(),
        }

    def _epochs(self) -> Text:
        rows: list[tuple[int | float | str, ...]] = [
            (event.epoch, event.step, event.at_ns, name, value)
            for event in self.events
            if isinstance(event, EpochEnded)
            for name, value in event.metrics.items()
        ]
        return Text(("epoch", "last_step", "at_ns", "metric", "value"), rows)

    def _stage_names(self) -> Text:
        rows: list[tuple[int | float | str, ...]] = [
            (event.pipeline, number, name, kind)
            for event in self.events
            if isinstance(event, StagesFound)
            for number, (name, kind) in enumerate(zip(event.names, event.kinds, strict=False))
        ]
        return Text(("pipeline", "stage", "name", "kind"), rows)

    def _events(self) -> Text:
        return Text(
            ("at_ns", "event", "fields"),
            [
                (event.at_ns, type(event).__name__, json.dumps(fields_of(event)))
                for event in self.events
            ],
        )

    def _read(self, name: str, steps: tuple[int, int] | None) -> Iterator[Rows]:
        """Yield the rows of a file. steps: its first and last row, counted from 1."""
        row = layout.TABLES[name]
        offset, end = (
            ((steps[0] - 1) * row.itemsize, steps[1] * row.itemsize) if steps else (0, None)
        )
        while True:
            most = (
                _CHUNK * row.itemsize if end is None else min(_CHUNK * row.itemsize, end - offset)
            )
            data = self._source.read(name, offset, most)
            count = len(data) // row.itemsize
            if not count:
                return
            offset += count * row.itemsize
            yield layout.rows_of(name, data)

    def _window(self) -> tuple[float, float]:
        """Return the time of the steps, nanoseconds since the clock origin."""
        if self._steps is None:
            return 0.0, float("inf")
        begin_ns, end_ns = float("inf"), 0.0
        for rows in self._step_rows():
            begin_ns = min(begin_ns, float(rows["start_ns"][0]))
            last = rows[-1]
            took_ms = float(last["wait_ms"]) + float(last["compute_ms"]) + float(last["host_ms"])
            end_ns = max(end_ns, float(last["start_ns"]) + took_ms * 1e6)
        return begin_ns, end_ns

    def _step_rows(self) -> Iterator[Rows]:
        yield from filter(len, map(plausible_rows, self._read(layout.STEPS, self._steps)))

    def _is_in_window(self, at_ns: int) -> bool:
        return self._begin_ns <= at_ns <= self._end_ns


def fields_of(event: Event) -> dict[str, object]:
    """Return the fields of an event but its time; a number that is not finite is None."""
    values: dict[str, object] = finite(
        {
            name: value
            for name, value in msgspec.to_builtins(event).items()
            if name not in ("event", "at_ns")
        }
    )
    return values


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


def _columns(row: np.dtype[np.void]) -> list[str]:
    return [name for name in row.names or () if name != "pad"]


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


def write_parquet(recording: Recording, create: Callable[[str], IO[bytes]]) -> None:
    """Write the tables of a run. create: opens the file of this name.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table, source in TABLES.items():
        columns = pa.table(_parquet_columns(pa, np.empty(0, dtype=layout.TABLES[source])))
        with create(f"{table}.parquet") as file, pq.ParquetWriter(file, columns.schema) as writer:
            for rows in recording.rows(table):
                writer.write_table(pa.table(_parquet_columns(pa, rows)))
    for name, text in recording.texts().items():
        values = zip(*text.rows, strict=True) if text.rows else ([] for _ in text.columns)
        with create(f"{name}.parquet") as file:
            pq.write_table(
                pa.table(
                    {
                        key: _parquet_text(pa, one)
                        for key, one in zip(text.columns, values, strict=True)
                    }
                ),
                file,
            )


def _parquet_columns(pa: Any, rows: Rows) -> dict[str, Any]:
    return {name: pa.array(rows[name], from_pandas=True) for name in _columns(rows.dtype)}


def _parquet_text(pa: Any, values: Any) -> Any:
    clean = (
        one.encode("utf-8", "replace").decode() if isinstance(one, str) else one for one in values
    )
    return pa.array(list(clean), from_pandas=True)
