"""Opening, judging, checking and explaining a group of many ranks with long runs: time, and memory.

python -m tests.bench.group [--ranks 64] [--steps 1000000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from tests.bench.memory import make_run
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.report.group_report import group_text
from tfwatch.runs.groups.group_file import GroupFile, folder_of_rank, write_group_file
from tfwatch.runs.groups.reading import open_group


def make_group(folder: Path, ranks: int, steps: int) -> None:
    """Write the folders of a group whose ranks are alike."""
    write_group_file(folder, GroupFile("bench", "TF_CONFIG", 0.0, 0, ranks))
    for rank in range(ranks):
        place = folder_of_rank(folder, rank)
        place.mkdir()
        make_run(place, steps, 5)


def peak_mb() -> float:
    """Return the most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="opening a group")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if not options.folder:
            make_group(folder, options.ranks, options.steps)
            print(
                f"{options.ranks} ranks of {options.steps} steps are made: {peak_mb():.0f} MB",
                flush=True,
            )
            return_code = measure_in_child(folder)
            for words in (
                ("check", str(folder), "--max-step-ms", "100000"),
                ("explain", str(folder)),
            ):
                measure_command(words)
            raise SystemExit(return_code)
        for _ in range(3):
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            text = group_text(JudgedGroup(open_group(folder)))
            took_s, took_cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
            print(
                f"judged in {took_s:.2f} s, {took_cpu_s:.2f} s of CPU; at most {peak_mb():.0f} MB in all"
            )
        print("\n".join(text.split("\n")[:6]))


def measure_in_child(folder: Path) -> int:
    """Measure in a process of its own: making the runs takes memory too."""
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "-m", "tests.bench.group", "--folder", str(folder)], check=False
    ).returncode


def measure_command(words: tuple[str, ...]) -> None:
    """Print the CPU time and the memory of a command."""
    import os
    import subprocess
    import sys

    child = subprocess.Popen([sys.executable, "-m", "tfwatch", *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    code, cpu_s = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
    print(
        f"tfwatch {words[0]}: exit code {code}, {cpu_s:.1f} s of CPU, {used.ru_maxrss / 1e3:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
