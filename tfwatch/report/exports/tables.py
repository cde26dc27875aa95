"""A run as CSV or Parquet files, one a table. A missing figure is an empty cell, or null."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.errors import printable
from tfwatch.report.exports.recording import TABLES, filled
from tfwatch.runs import format as layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from tfwatch.core.rows import Rows
    from tfwatch.report.exports.recording import Recording, Text

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
