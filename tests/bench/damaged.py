"""Damage run folders at random, and read each with every command: no traceback, each read within
5 s and 1 GB.

A folder goes by its number. The options are those of `tests/bench/numbered.py`.
"""

import atexit
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import psutil
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.numbered import Result, run_trials
from tests.cli.commands import typed
from tests.report.hostile import hostile_run
from tests.screens.canned import usual
from tests.screens.states import failed, slow_callback, stalled, validating
from tests.test_foreign_runs import texts_of
from tfwatch.cli import set as set_command
from tfwatch.cli.serve import RunMetrics
from tfwatch.core.clock import SYSTEM
from tfwatch.judge.view import Follower
from tfwatch.report.metrics import ServedRuns
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.run import Run

LONGEST_S, MOST_BYTES = 5.0, 2**30
FILES = (layout.MANIFEST, *layout.STREAMS, layout.PULSES, layout.LOG, layout.REQUESTS)
#: The names of the two runs: a sound one, and the one that is damaged.
SOUND, DAMAGED = "2026-11-20T10-17-03_sound", "2026-11-21T10-17-03_damaged"


# -- the damage ------------------------------------------------------------------------------------


def flip_bits(path: Path, chance: random.Random) -> None:
    """Flip some bits."""
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 8, 100)) if data else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def rewrite(path: Path, chance: random.Random) -> None:
    """Cut the file, repeat it, or replace it by random bytes, by one byte alone, or by nothing."""
    data, size = path.read_bytes(), chance.choice((0, 1, 1000, 200_000))
    part = data[: chance.randrange(len(data) + 1)]
    other = chance.choice((chance.randbytes(size), b"\0" * size, b"\xff" * size))
    path.write_bytes(chance.choice((part, data * chance.choice((2, 3, 50)), other)))


def shuffle_parts(path: Path, chance: random.Random) -> None:
    """Put the rows, or the lines, in another order."""
    row = layout.TABLES.get(path.name)
    data = path.read_bytes()
    if row is None:
        parts = data.splitlines(keepends=True)
    else:
        size = row.itemsize
        parts = [data[at : at + size] for at in range(0, len(data), size)]
    chance.shuffle(parts)
    path.write_bytes(b"".join(parts))


NUMBERS = (0, 1, -1, 2**31, 2**53, 2**63, 2**64 - 1, 864 * 10**13 - 1, 10**9, 3600 * 10**9)
FLOATS = (0.0, -1.0, 1e-30, 1e9, 1e30, 1e300, float("nan"), float("inf"), -float("inf"))


def set_figure(path: Path, chance: random.Random) -> None:
    """Set a column of some rows, or a value of some lines, to a number out of bounds."""
    row = layout.TABLES.get(path.name)
    if row is None:
        _set_in_json(path, chance)
        return
    data = path.read_bytes()
    rows = np.frombuffer(data, row, len(data) // row.itemsize).copy()
    name = chance.choice(row.names or ())
    first = chance.randrange(len(rows)) if len(rows) else 0
    which = chance.choice((slice(-1, None), slice(first, first + 1), slice(first, None), slice(0)))
    kind = row[name].kind
    with np.errstate(all="ignore"):
        if kind == "f":
            rows[name][which] = chance.choice(FLOATS)
        elif kind == "u":
            rows[name][which] = chance.choice(NUMBERS) % 2 ** (8 * row[name].itemsize)
        else:
            rows[name][which] = chance.randbytes(40)
    path.write_bytes(rows.tobytes())


def _set_in_json(path: Path, chance: random.Random) -> None:
    lines = path.read_text(errors="replace").splitlines()
    if path.name == layout.MANIFEST:
        lines = ["".join(lines)]
    if not lines:
        return
    at = chance.randrange(len(lines))
    with suppress(ValueError):
        values = json.loads(lines[at])
        place = values
        while isinstance(place, dict) and place:
            name = chance.choice(sorted(place))
            if not isinstance(place[name], dict) or chance.random() < 0.3:
                place[name] = chance.choice(
                    (*NUMBERS, *FLOATS, None, "", "x" * 10**5, [], {}, [[]], True, 10**400)
                )
                break
            place = place[name]
        lines[at] = json.dumps(values)
    path.write_text("\n".join(lines) + "\n")


def nest(path: Path, chance: random.Random) -> None:
    """Append JSON that is nested too deeply."""
    deep = chance.choice(('{"a":', "[")) * chance.choice((100, 2000, 10**5))
    with path.open("a") as file:
        file.write(deep + "\n")


def grow(path: Path, chance: random.Random) -> None:
    """Make the file giant, of which nothing is on the disk, or sound rows at its end alone."""
    data, row = path.read_bytes(), layout.TABLES.get(path.name)
    size = row.itemsize if row else 1
    giant = chance.choice((2**31, 2**36, 2**42)) // size * size
    with path.open("r+b") as file:
        file.truncate(giant)
        file.seek(giant)
        file.write(chance.choice((b"", data)))


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size < 2**24


def borrow(path: Path, chance: random.Random) -> None:
    """Copy a file of a run to its place, mostly the same of another run."""
    name = chance.choice((path.name, path.name, chance.choice(FILES)))
    other = chance.choice(templates()) / name
    if other.is_file():
        path.write_bytes(other.read_bytes())


def replace(path: Path, chance: random.Random) -> None:
    """Remove the file, or put what is no file, or nobody's, in its place."""
    path.unlink()
    makers: tuple[Callable[[], object], ...] = (
        *(path.mkdir, lambda: os.mkfifo(path), lambda: path.touch(0)),
        *(lambda: path.symlink_to("/dev/zero"), lambda: path.symlink_to("/dev/tty")),
        *(lambda: path.symlink_to(path.name), lambda: path.symlink_to("/nowhere")),
    )
    chance.choice((*makers, *[path.exists] * 3))()


#: Each as often as it has ways.
DAMAGES = (
    *(flip_bits, shuffle_parts, nest, grow, borrow),
    *(rewrite, rewrite, rewrite, replace, replace),
    *[set_figure] * 5,
)


@cache
def templates() -> list[Path]:
    """Write the sound runs that are damaged."""
    folder = Path(tempfile.mkdtemp(prefix="damaged-templates-"))
    for number, write in enumerate((usual, stalled, slow_callback, failed, validating)):
        write(folder / str(number)).ended().writer.close()
    hostile_run(folder / "hostile")
    return sorted(folder.iterdir())


def damage(folder: Path, chance: random.Random) -> list[str]:
    """Damage one to four files of a run; return what was done."""
    done = []
    for _ in range(chance.choice((1, 1, 2, 4))):
        path = folder / chance.choice(FILES)
        if _is_small(path):
            how = chance.choice(DAMAGES)
            how(path, chance)
            done.append(f"{how.__name__} {path.name}")
    return done


# -- the readers -----------------------------------------------------------------------------------


def show(runs_dir: Path) -> None:
    """Read and judge the run as the live screen and a replay do, and make the texts of each
    pane."""
    with suppress(NotARunError):
        run, follower = Run(RunFolder(runs_dir / DAMAGED)), Follower(live=True)
        for _ in range(2):
            view = follower.follow(run.read(), [], None)
        for text in texts_of(view):
            assert text.isprintable(), text


def scrape(runs_dir: Path) -> None:
    """Read the metrics as Prometheus does."""
    text = generate_latest(RunMetrics(ServedRuns(runs_dir, SYSTEM))).decode()
    for family in text_string_to_metric_families(text):
        labels = [(one.name, *sorted(one.labels.items())) for one in family.samples]
        assert len(labels) == len(set(labels)), family.name


def command(*words: str) -> Callable[[Path], None]:
    """Return a command that reads a folder of runs."""

    def run(runs_dir: Path) -> None:
        first, *rest = (word.replace("RUNS", str(runs_dir)) for word in words)
        code, _, err = typed(first, "--runs-dir", runs_dir, *rest)
        assert "Traceback" not in err, err
        assert code in (0, 2) or first == "set", (code, err)
        assert code != 2 or err.startswith("tfwatch: "), err

    return run


READERS: dict[str, Callable[[Path], None]] = {
    "show": show,
    "scrape": scrape,
    "report --json": command("report", "--json", DAMAGED),
    "report --markdown": command("report", "--markdown", DAMAGED),
    "report": command("report", "-o", "RUNS/page.html", DAMAGED),
    "compare": command("compare", "--json", SOUND, DAMAGED),
    "compare back": command("compare", DAMAGED, SOUND),
    "runs": command("runs"),
    "runs --json": command("runs", "--json"),
    "set": command("set", DAMAGED, "prefetch=4"),
    "prune": command("runs", "prune", "--keep", "1", "--yes"),
}


def make_folder(number: int, runs_dir: Path) -> list[str]:
    """Damage the folder of a number; return what was done."""
    chance = random.Random(number)
    shutil.copytree(templates()[0], runs_dir / SOUND)
    shutil.copytree(chance.choice(templates()), runs_dir / DAMAGED)
    return damage(runs_dir / DAMAGED, chance)


def failures(runs_dir: Path) -> Iterator[str]:
    """Read a damaged folder in every way, and yield what failed."""
    for name, read in READERS.items():
        began_s = time.process_time()
        try:
            read(runs_dir)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            yield f"{name}: {traceback.format_exc()[-1000:]}"
        took_s = time.process_time() - began_s
        if took_s > LONGEST_S:
            yield f"{name}: {took_s:.1f} s"


def make_trial() -> Callable[[int], Result]:
    """Return the function of a trial."""
    set_command._LONGEST_S = 0  # nobody answers
    atexit.register(shutil.rmtree, templates()[0].parent)
    most = psutil.Process().memory_info().vms + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def try_number(number: int) -> Result:
        with tempfile.TemporaryDirectory(prefix="damaged-") as name:
            folder = Path(name)
            done = ", ".join(make_folder(number, folder))
            return Result(number, "\n".join(f"after {done}: {one}" for one in failures(folder)))

    return try_number


if __name__ == "__main__":
    sys.exit(run_trials("tests.bench.damaged", make_trial, count=5000, each=500, most_s=120))
