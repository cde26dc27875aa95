"""The readings of the NVML sensor against those of nvidia-smi in the same seconds, on a loaded GPU.

python -m tests.bench.nvml [--seconds 10] [--load "python3 train.py"] [--json FILE]

The load runs as a child, in this process' session, and is ended afterwards. Process share is read for the load's own
process number. With --json the rows and the summary are written as JSON. Run on a machine with an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.sensors.gpu.nvml import Source, own_pids
from tfwatch.sensors.protocol import FullReading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The column of nvidia-smi, and the field of a reading that it is compared with, in nvidia-smi's unit.
COLUMNS = {
    "utilization.gpu": ("busy", 100.0),
    "power.draw": ("power_w", 1.0),
    "memory.used": ("memory_bytes", 1 / 2**20),
    "temperature.gpu": ("temperature_c", 1.0),
    "clocks.sm": ("freq_mhz", 1.0),
}


@dataclass
class LineReader:
    """The lines of a program that prints forever, each with its time in seconds."""

    argv: list[str]
    lines: deque[tuple[float, str]] = field(default_factory=deque)

    def __enter__(self) -> LineReader:
        self._process = subprocess.Popen(
            self.argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(3)
        self._process.terminate()
        self._process.wait(10)
        self._thread.join(5)

    def _follow(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.lines.append((time.monotonic(), line.strip()))


@dataclass
class SensorReader:
    """The sensor's readings with their times in seconds, and their cost."""

    readings: list[tuple[float, FullReading]] = field(default_factory=list)
    cpu_s: float = 0.0
    wall_ms: list[float] = field(default_factory=list)

    def take(self, source: Source, seconds: float) -> None:
        end = time.monotonic() + seconds
        begin_cpu = time.thread_time()
        due = time.monotonic()
        while due < end:
            time.sleep(max(due - time.monotonic(), 0))
            begin = time.monotonic()
            self.readings.append((begin, source.read()))
            self.wall_ms.append((time.monotonic() - begin) * 1e3)
            due += source.period_s
        self.cpu_s = time.thread_time() - begin_cpu


def main() -> None:
    """Load the GPU, read it, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--warm", type=float, default=20.0, help="seconds before the load counts as started"
    )
    parser.add_argument("--load", default="", help="a command that keeps the GPU busy")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        load = stack.enter_context(_loaded(args.load, args.warm))
        compared = _compare(args.seconds, load)
    if args.json:
        args.json.write_text(json.dumps(compared, indent=1))


@contextlib.contextmanager
def _loaded(command: str, warm_s: float) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run the load and yield its process after the warm-up; None without a load."""
    if not command:
        yield None
        return
    process = subprocess.Popen(
        shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        time.sleep(warm_s)
        if process.poll() is not None:
            sys.exit(f"the load ended with {process.returncode}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _compare(seconds: float, load: subprocess.Popen[bytes] | None) -> dict[str, object]:
    source = Source(pid=load.pid if load else None)
    began = time.monotonic()
    answer = source.available()
    print(f"available in {(time.monotonic() - began) * 1e3:.0f} ms: {answer}")
    if isinstance(answer, Unavailable):
        sys.exit(1)
    source.read()
    print(source.identity())
    taken = SensorReader()
    query = [
        "nvidia-smi",
        f"--query-gpu={','.join(COLUMNS)}",
        "--format=csv,noheader,nounits",
        "-lms",
        "500",
        "-i",
        "0",
    ]
    with (
        LineReader(query) as smi,
        LineReader(
            ["nvidia-smi", "pmon", "-s", "um", "-d", "1", "-c", str(int(seconds)), "-i", "0"]
        ) as pmon,
    ):
        time.sleep(1.5)
        taken.take(source, seconds)
    apps = _output(
        ["nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader"]
    )
    rows = side_by_side(taken.readings, list(smi.lines))
    _print_rows(rows)
    summary = summarise(rows)
    for name, figures in summary.items():
        print(f"{name:16} {'  '.join(f'{key} {value:.2f}' for key, value in figures.items())}")
    shares = [reading.process_busy for _, reading in taken.readings]
    print("process share:", [None if share is None else round(share, 2) for share in shares[::4]])
    print(
        f"asked for process {load.pid if load else 'this'}, known as {sorted(own_pids(load.pid if load else 0))}"
    )
    print("compute apps:", apps or "none listed")
    print("pmon:", *[line for _, line in list(pmon.lines)[:8]], sep="\n  ")
    print("gaps:", dict(source.gaps()))
    limits = sorted({reading.limited_by for _, reading in taken.readings})
    print("limited by:", limits)
    cost = 100 * taken.cpu_s / seconds
    print(
        f"a read: {statistics.median(taken.wall_ms):.2f} ms (most {max(taken.wall_ms):.2f}), "
        f"{1e3 * taken.cpu_s / len(taken.wall_ms):.2f} ms of CPU; {cost:.2f} % of a core at {1 / source.period_s:g} Hz"
    )
    source.close()
    return {
        "rows": rows,
        "summary": summary,
        "process_share": shares,
        "last": asdict(taken.readings[-1][1]),
        "gaps": {name: asdict(gap) for name, gap in source.gaps().items()},
        "percent_of_a_core": cost,
    }


def side_by_side(
    readings: list[tuple[float, FullReading]], lines: list[tuple[float, str]]
) -> list[dict[str, tuple[float, float]]]:
    """Return the figures of both for each line of nvidia-smi; the sensor's are means over the second around it."""
    rows = []
    for at, line in lines:
        cells = next(csv.reader(io.StringIO(line)), [])
        near = [reading for taken_at, reading in readings if abs(taken_at - at) <= 0.5]
        if len(cells) != len(COLUMNS) or not near:
            continue
        row = {}
        for cell, (name, factor) in zip(cells, COLUMNS.values(), strict=True):
            ours = [
                value * factor for reading in near if (value := getattr(reading, name)) is not None
            ]
            with contextlib.suppress(ValueError):
                row[name] = (float(cell), statistics.fmean(ours) if ours else float("nan"))
        rows.append(row)
    return rows


def summarise(rows: list[dict[str, tuple[float, float]]]) -> dict[str, dict[str, float]]:
    """Return for each figure the means of both, and the median and the largest difference."""
    summary = {}
    for name, _ in COLUMNS.values():
        pairs = [row[name] for row in rows if name in row]
        if not pairs:
            continue
        apart = [abs(theirs - ours) for theirs, ours in pairs]
        summary[name] = {
            "nvidia-smi": statistics.fmean(theirs for theirs, _ in pairs),
            "tfwatch": statistics.fmean(ours for _, ours in pairs),
            "apart": statistics.median(apart),
            "most": max(apart),
        }
    return summary


def _print_rows(rows: list[dict[str, tuple[float, float]]]) -> None:
    names = [name for name, _ in COLUMNS.values()]
    print("nvidia-smi / tfwatch:", "  ".join(names))
    for row in rows:
        print(
            "  ".join(
                f"{row[name][0]:.0f} / {row[name][1]:.1f}" if name in row else "n/a"
                for name in names
            )
        )


def _output(argv: list[str]) -> str:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=20, check=False
    ).stdout.strip()


if __name__ == "__main__":
    main()
