"""A child process that writes a run of 1000 rows a second until it is stopped or killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run

_WRITE = """
import sys, time
from pathlib import Path
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import Phase
from tests.runs.begun import begin_run

writer, lost = begin_run(Path(sys.argv[1]), "cnn")
print(writer.folder, flush=True)
step = 0
while not Path(sys.argv[2]).exists():
    step += 1
    start_ns = writer.now_ns()
    writer.status = (Phase.COMPUTE, start_ns, step, 0, "")
    writer.progress.append((step, step, 0, step, 1.0))
    writer.sample(start_ns, {"cpu_cores": 1.0})
    writer.step(start_ns, step, 0, 0, 0.1, 0.2, 0.8, 0.1)
    time.sleep(0.001)
writer.event(RunEnded(writer.now_ns(), "finished", step))
writer.close()
"""
_REPOSITORY = Path(__file__).parents[2]


class Child:
    """A writing process, its folder and a reader of the folder."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, stop: Path) -> None:
        self.process = process
        self.folder = folder
        self.reader = Run(RunFolder(folder))
        self._stop = stop

    def has_rows(self, count: int = 300) -> bool:
        return self.reader.read().steps_total >= count

    def signal(self, number: signal.Signals) -> int:
        """Send a signal; return its time in nanoseconds on the run's clock."""
        at_ns = time.perf_counter_ns() - self.reader.read().manifest.origin_ns
        self.process.send_signal(number)
        return at_ns

    def finish(self) -> None:
        self._stop.touch()
        self.process.wait(timeout=20)


@contextmanager
def writing_child(tmp_path: Path) -> Iterator[Child]:
    """Start a child, and kill it at the end."""
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", _WRITE, str(tmp_path / "runs"), str(stop)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY) as process:
        try:
            assert process.stdout
            child = Child(process, Path(process.stdout.readline().strip()), stop)
            wait_until(child.has_rows)
            yield child
        finally:
            for number in (signal.SIGKILL, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    process.send_signal(number)
            process.wait(timeout=20)


def wait_until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Check a condition every 10 ms until it is true; fail after `timeout_s`."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"{condition} did not come to hold in {timeout_s} s"
        time.sleep(0.01)
