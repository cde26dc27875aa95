"""What the benchmarks share: their arguments, rows in a file, children on cores of their own,
rounds of arms in turn, and tables.

A program with slots runs `--slots` children at a time. With `--first-core` each has two cores, from
that one on; without it they share all cores.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any, TypeVar

from tests.pseudo import PATH
from tests.pseudo import ROOT as ROOT

T = TypeVar("T")
#: Seconds that a child has to end on request, before it is killed.
_PATIENCE_S = 5


def make_parser(page: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of a program."""
    return argparse.ArgumentParser(
        description=page, formatter_class=argparse.RawDescriptionHelpFormatter
    )


# -- rows -----------------------------------------------------------------------------------------


class Rows:
    """The rows of a file, a JSON object a line, to which threads and processes append more."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:  # the last line of a program that was killed may be torn
            if file.tell():
                file.write(b"\n")

    def read(self) -> list[dict[str, Any]]:
        """Return the whole rows."""
        rows = []
        for line in self.path.read_text().splitlines():
            with suppress(ValueError):
                rows.append(json.loads(line))
        return rows

    def has(self, **values: Any) -> bool:
        """Return whether a row has these values."""
        return any(
            values.items() <= {key: row.get(key) for key in values}.items() for row in self.read()
        )

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        with self._lock, self.path.open("a") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def print_head(*columns: str) -> None:
    """Print the head of a Markdown table."""
    print_row(*columns)
    print_row(*["---"] * len(columns))


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def figure(value: float | None, form: str) -> str:
    """Return a figure as text; one that is missing is n/a."""
    return "n/a" if value is None or math.isnan(value) else format(value, form)


def spread_text(values: Sequence[float]) -> str:
    """Return the median of some figures, and their range."""
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else "n/a"


def in_turns(rounds: int, arms: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Yield each arm once a round, forwards and backwards in turn, with the number of the round."""
    for number in range(rounds):
        for arm in arms if number % 2 else reversed(arms):
            yield number, arm


# -- children -------------------------------------------------------------------------------------

_children: set[subprocess.Popen[str]] = set()
_is_stopped = threading.Event()


def run_python(
    *words: str | Path,
    cwd: Path = ROOT,
    cores: str = "",
    longest_s: float | None = None,
    typed: str = "",
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end; then what it began ends too.

    cores: empty for all. typed: its standard input. environ: variables beside those of this
    process.

    Raises:
        subprocess.TimeoutExpired: it took longer than longest_s.
    """
    pinned = ["taskset", "-c", cores] if cores else []
    usual = {"PYTHONPATH": PATH, "TF_CPP_MIN_LOG_LEVEL": "1"}
    child = subprocess.Popen(
        [*pinned, sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **usual, **(environ or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _children.add(child)
    try:
        output, errors = child.communicate(typed, timeout=longest_s)
    finally:
        _signal(child, signal.SIGKILL)
        child.wait()
        _children.remove(child)
    return subprocess.CompletedProcess(child.args, child.returncode, output, errors)


def run_tfwatch(*words: str | Path, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run `tfwatch`, as `run_python` does.

    Raises:
        subprocess.SubprocessError: it failed, or took too long.
    """
    done = run_python("-m", "tfwatch", *words, **given)
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
    done.check_returncode()
    return done


def _signal(child: subprocess.Popen[str], signum: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signum)


def add_slots(parser: argparse.ArgumentParser, slots: int = 1) -> None:
    """Add the options of a program with slots."""
    parser.add_argument("--slots", type=int, default=slots, help=f"children at a time ({slots})")
    parser.add_argument("--first-core", type=int, help="each slot gets two cores from this one on")


def run_jobs(options: argparse.Namespace, jobs: Iterable[Callable[[str], None]]) -> None:
    """Run jobs in slots, each with the cores of its slot; a stop ends all children."""
    free: SimpleQueue[str] = SimpleQueue()
    for slot in range(options.slots):
        core = (options.first_core or 0) + 2 * slot
        free.put("" if options.first_core is None else f"{core},{core + 1}")

    def run(job: Callable[[str], None]) -> None:
        cores = free.get()
        try:
            if not _is_stopped.is_set():
                job(cores)
        finally:
            free.put(cores)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ThreadPoolExecutor(options.slots) as pool:
        try:
            for _ in pool.map(run, jobs):
                pass
        except BaseException:
            _is_stopped.set()
            _end_children()
            raise


def _end_children() -> None:
    """Ask all children to end, and kill those that do not."""
    children = [*_children]
    for child in children:
        _signal(child, signal.SIGTERM)
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_PATIENCE_S)
        _signal(child, signal.SIGKILL)


def is_stopped() -> bool:
    """Return whether children ended because the program was stopped."""
    return _is_stopped.is_set()
