"""Trials that go by a number, in processes of their own.

    python -m tests.bench.PROGRAM [COUNT] [--first N] [--processes N] [--cores FIRST]
        [--results FILE]

A trial that ends its process, or hangs, is a failure with its number. Each result is a line of JSON
in the file at once: a program that was stopped goes on where the file ends.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: A process that has more memory ends after its trial, and a new one goes on; none gets the most.
_MANY_BYTES, _MOST_BYTES = 3 * 2**30, 64 * 2**30
#: Seconds that a process has to end on request.
_PATIENCE_S = 5


@dataclass(frozen=True)
class Result:
    """The result of a trial. failure: empty where nothing failed. counts: what is summed up over
    all trials."""

    number: int
    failure: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    took_s: float = 0.0


def run_trials(
    module: str,
    make_trial: Callable[[], Callable[[int], Result]],
    *,
    count: int,
    each: int,
    most_s: int,
    argv: Sequence[str] | None = None,
) -> int:
    """Run the trials that the command line names; return the exit code, 1 where one failed.

    module: the program's own. make_trial: returns the function of a trial; called in the processes
    of trials alone. count: the usual number. each: trials of a process. most_s: seconds of a trial.
    """
    parser = argparse.ArgumentParser(description=(sys.modules[make_trial.__module__].__doc__ or ""))
    parser.add_argument("count", nargs="?", type=int, default=count, help=f"trials ({count})")
    parser.add_argument("--first", type=int, default=0, help="the first number (0)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (2)")
    parser.add_argument("--cores", type=int, help="each two processes get two cores from this one")
    parser.add_argument("--results", type=Path, help="a file that is gone on with")
    parser.add_argument("--in-process", nargs="*", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.in_process is not None:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.RLIM_INFINITY))
        _run_in_process(make_trial(), options.in_process, most_s)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = Results(options.results or Path(folder, "results.jsonl"))
        numbers = range(options.first, options.first + options.count)
        Trials(module, results, options.processes, options.cores).run(numbers, each)
        return results.report(numbers)


# -- the file -------------------------------------------------------------------------------------


class Results:
    """Results in a file, a line each."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:  # the last line of a program that was killed may be torn
            if file.tell():
                file.write(b"\n")

    def add(self, result: Result) -> None:
        """Append a result."""
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def read(self) -> Iterator[Result]:
        """Yield what the file holds."""
        for line in self._path.read_text().splitlines():
            with suppress(ValueError, TypeError):
                yield Result(**json.loads(line))

    def report(self, numbers: range) -> int:
        """Print the failures and sums of some numbers; return 1 where one failed or is missing."""
        results = [one for one in self.read() if one.number in numbers]
        counts: Counter[str] = sum((Counter(one.counts) for one in results), Counter())
        failed = [one for one in results if one.failure]
        for one in failed:
            print(f"{one.number}: {one.failure}")
        done = len({one.number for one in results})
        took = f"{sum(one.took_s for one in results):.0f} s in all"
        print(f"{done} of {len(numbers)} trials, {len(failed)} failed, {took}", dict(counts))
        return int(bool(failed) or done < len(numbers))


# -- the processes --------------------------------------------------------------------------------


class Trials:
    """Runs trials in several processes at a time."""

    def __init__(self, module: str, results: Results, processes: int, cores: int | None) -> None:
        self._module, self._results, self._processes = module, results, processes
        self._slots: SimpleQueue[list[str]] = SimpleQueue()
        for slot in range(processes):
            first = (cores or 0) + slot // 2 * 2
            pinned = ["taskset", "-c", f"{first}-{first + 1}"]
            self._slots.put([] if cores is None else pinned)
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def run(self, numbers: Iterable[int], each: int) -> None:
        """Run all but those that have a result."""
        done = {one.number for one in self._results.read()}
        left = [number for number in numbers if number not in done]
        chunks = [left[at : at + each] for at in range(0, len(left), each)]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        with ThreadPoolExecutor(self._processes) as pool:
            try:
                for _ in pool.map(self._run_chunk, chunks):
                    pass
            finally:
                self._stop()

    def _stop(self) -> None:
        self._is_stopped = True
        running = [*self._running]
        for process in running:
            process.terminate()
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_PATIENCE_S)
            process.kill()

    def _run_chunk(self, numbers: list[int]) -> None:
        pinned = self._slots.get()
        while numbers and not self._is_stopped:
            numbers = self._run_process(pinned, numbers)
        self._slots.put(pinned)

    def _run_process(self, pinned: list[str], numbers: list[int]) -> list[int]:
        """Run trials in a process; return the numbers that are left."""
        command = [*pinned, sys.executable, "-m", self._module, "--in-process", *map(str, numbers)]
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            self._running.add(process)
            assert process.stdout
            for line in process.stdout:
                self._results.add(result := Result(**json.loads(line)))
                numbers = numbers[numbers.index(result.number) + 1 :]
            code = process.wait()
            self._running.remove(process)
            if code and not self._is_stopped:
                # Where all are done, the process failed at its end.
                number, numbers = (numbers or [result.number])[0], numbers[1:]
                self._results.add(Result(number, f"exit code {code}: {_end_of(log)}"))
        return numbers


def _end_of(log: IO[str]) -> str:
    log.seek(0)
    return log.read()[-3000:]


def _run_in_process(trial: Callable[[int], Result], numbers: list[int], most_s: int) -> None:
    """Run trials here, and write a line for each."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what a trial prints
        for number in numbers:
            faulthandler.dump_traceback_later(most_s, exit=True)
            began_s = time.perf_counter()
            result: dict[str, Any] = asdict(trial(number))
            result["took_s"] = round(time.perf_counter() - began_s, 2)
            out.write(json.dumps(result) + "\n")
            out.flush()
            if _memory_bytes() > _MANY_BYTES:
                return
    faulthandler.cancel_dump_traceback_later()


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
