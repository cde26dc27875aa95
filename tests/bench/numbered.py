"""Trials that go by a number, in processes of their own.

    python -m tests.bench.PROGRAM [COUNT] [--first N] [--slots 2] [--first-core N] [--results FILE]

A trial that ends its process, or hangs, is a failure with its number. Each result is a line of JSON
in the file at once: a program that was stopped goes on where the file ends.
"""

import argparse
import faulthandler
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import psutil

from tests.bench.runner import Rows, add_slots, is_stopped, make_parser, run_jobs, run_python

#: A process that has more memory ends after its trial, and a new one goes on; none gets the most.
_MANY_BYTES, _MOST_BYTES = 3 * 2**30, 64 * 2**30


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
) -> int:
    """Run the trials that the command line names; return the exit code, 1 where one failed.

    module: the program's own. make_trial: returns the function of a trial; called in the processes
    of trials alone. count: the usual number. each: trials of a process. most_s: seconds of a trial.
    """
    parser = make_parser(sys.modules[make_trial.__module__].__doc__)
    parser.add_argument("count", nargs="?", type=int, default=count, help=f"trials ({count})")
    parser.add_argument("--first", type=int, default=0, help="the first number (0)")
    add_slots(parser, 2)
    parser.add_argument("--results", type=Path, help="a file that is gone on with")
    parser.add_argument("--in-process", nargs="*", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process is not None:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.RLIM_INFINITY))
        _run_here(make_trial(), options.in_process, most_s, Rows(options.results))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = Rows(options.results or Path(folder, "results.jsonl"))
        numbers = range(options.first, options.first + options.count)
        left = _without_result(results, numbers)
        chunks = [left[at : at + each] for at in range(0, len(left), each)]
        run_jobs(options, [partial(_run_chunk, module, results, chunk) for chunk in chunks])
        return _report(results, numbers)


def _without_result(results: Rows, numbers: Sequence[int]) -> list[int]:
    done = {row["number"] for row in results.read()}
    return [number for number in numbers if number not in done]


def _run_chunk(module: str, results: Rows, numbers: list[int], cores: str) -> None:
    """Run trials, in more than one process where one ends before its last trial."""
    while numbers:
        words = ["--results", str(results.path.resolve()), "--in-process", *map(str, numbers)]
        done = run_python("-m", module, *words, cores=cores)
        if is_stopped():
            return
        left = _without_result(results, numbers)
        if done.returncode:
            # Where all are done, the process failed at its end.
            failed, left = (left or numbers[-1:])[0], left[1:]
            why = f"exit code {done.returncode}: {done.stderr[-3000:]}"
            results.add(asdict(Result(failed, why)))
        numbers = left


def _run_here(
    trial: Callable[[int], Result], numbers: Sequence[int], most_s: int, results: Rows
) -> None:
    """Run trials in this process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for number in numbers:
        faulthandler.dump_traceback_later(most_s, exit=True)
        began_s = time.perf_counter()
        row = asdict(trial(number))
        results.add({**row, "took_s": round(time.perf_counter() - began_s, 2)})
        if psutil.Process().memory_info().rss > _MANY_BYTES:
            return
    faulthandler.cancel_dump_traceback_later()


def _report(results: Rows, numbers: range) -> int:
    """Print the failures and sums of some numbers; return 1 where one failed or is missing."""
    rows = [Result(**row) for row in results.read()]
    rows = [row for row in rows if row.number in numbers]
    failed = [row for row in rows if row.failure]
    for row in failed:
        print(f"{row.number}: {row.failure}")
    counts: Counter[str] = sum((Counter(row.counts) for row in rows), Counter())
    done, took_s = len({row.number for row in rows}), sum(row.took_s for row in rows)
    print(
        f"{done} of {len(numbers)} trials, {len(failed)} failed, {took_s:.0f} s in all",
        dict(counts),
    )
    return int(bool(failed) or done < len(numbers))
