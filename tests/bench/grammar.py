"""Pipelines drawn at random, with and without live switches: whether each element is equal.

    python -m tests.bench.grammar [COUNT] [--first SEED] [--processes N]

Prints the pipelines of the seeds whose elements differ, and how many a switch of each knob took
effect in. Exits with 1 where one differs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

#: Seeds of a process; the most seconds of one.
_CHUNK, _MOST_S = 200, 300


def main() -> int:
    """Run the trials; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=200, help="the number of seeds (200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--processes", type=int, default=2, help="0: in this process (2)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    if not options.processes:
        print(json.dumps(_compare(seeds)))
        return 0
    chunks = [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]
    found: Counter[str] = Counter()
    with ThreadPoolExecutor(options.processes) as pool:
        for counts in pool.map(_in_process, chunks):
            found += counts
    print(dict(found))
    return 1 if found["differ"] else 0


def _compare(seeds: range) -> Counter[str]:
    """Print the seeds that differ; return the number of those in which a switch of each knob took
    effect."""
    from tests.tfdata import grammar

    found: Counter[str] = Counter()
    for seed in seeds:
        faulthandler.dump_traceback_later(_MOST_S, exit=True)
        print(seed, file=sys.stderr, flush=True)
        trial = grammar.draw(seed)
        why, switched = grammar.difference(trial)
        found += Counter({"seeds": 1, **dict.fromkeys(switched.switched, 1)})
        if why:
            found["differ"] += 1
            print(f"{trial}\n    {why}\n    {switched.refused}", flush=True)
    return found


def _in_process(seeds: range) -> Counter[str]:
    """Compare in a process of its own: the functions that TensorFlow traces stay in its memory."""
    command = [sys.executable, "-m", "tests.bench.grammar", str(len(seeds))]
    command += ["--first", str(seeds[0]), "--processes", "0"]
    found, line = Counter[str](differ=1), ""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
        if process.wait() == 0:
            return Counter(json.loads(line))
        log.seek(0)
        print(f"code {process.returncode}: {log.read()[-3000:]}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
