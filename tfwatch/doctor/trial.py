"""A trial of TensorFlow in a separate process with a time limit.

The process may hang or die without harm to this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


#: The first import after an installation reads 1 to 2 GB from a cold disk.
LIMIT_S = 120.0
#: The part of the log that is kept: its end.
_LOG_BYTES = 4 * 2**20
_RESULT_BYTES = 2**20
#: A program that has closed its output ends within this time.
_EXIT_S = 10.0
#: `-c` puts the working folder first in `sys.path`; without it, a `random.py` there is not
#: imported.
_PROGRAM = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + sys.argv[1:2]; "
    "from tfwatch.checks.trial_program import main; main(sys.argv[2])"
)
#: TensorFlow logs missing libraries only with these, and takes no more GPU memory
#: than it needs.
_VARIABLES = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "dso_loader=1",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
_MISSING_LIBRARY = re.compile(r"Could not load dynamic library '([^'\n]{1,200})'")


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial."""

    #: `completed`, `died`, `timed out` (killed after `limit_s`), `not started` or `skipped`.
    outcome: str
    #: The one it ended in: import, devices, products, step or exit.
    stage: str = ""
    #: Negative for a signal.
    exit_code: int | None = None
    limit_s: float = LIMIT_S
    #: The values of each stage that ended.
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Its stderr, or the end of it; for `not started` and `skipped` the reason.
    log_text: str = ""

    @property
    def devices(self) -> list[Mapping[str, str]]:
        """`name`, `kind` and, for a GPU, `model` of each device; empty where the trial did not
        reach that stage."""
        return list(self.results.get("devices", {}).get("devices", []))

    @property
    def gpus(self) -> list[Mapping[str, str]]:
        """The GPUs among the devices."""
        return [device for device in self.devices if device.get("kind") == "GPU"]

    @property
    def products(self) -> list[Mapping[str, Any]]:
        """The matrix product of each device: `device`, `placed`, `took_ms` and `right`, or
        `error`."""
        return list(self.results.get("products", {}).get("products", []))

    @property
    def missing_libraries(self) -> list[str]:
        """The libraries that TensorFlow could not load, in its order."""
        return list(dict.fromkeys(_MISSING_LIBRARY.findall(self.log_text)))

    @property
    def build(self) -> Mapping[str, str]:
        """TensorFlow's build information, e.g. its CUDA version."""
        return dict(self.results.get("import", {}).get("build", {}))


SKIPPED = Trial("skipped")


def try_tensorflow(notify: Callable[[str], None], limit_s: float = LIMIT_S) -> Trial:
    """Try the TensorFlow of this Python; `notify` gets the name of each stage as it begins."""
    return run_program(f"{limit_s * 0.95:.1f}", notify, limit_s)


def run_program(argument: str, notify: Callable[[str], None], limit_s: float) -> Trial:
    """Run `tfwatch.checks.trial_program` with this argument in a process of its own."""
    root = str(Path(__file__).parents[2])
    return run_trial([sys.executable, "-c", _PROGRAM, root, argument], notify, limit_s)


def run_trial(
    command: Sequence[str],
    notify: Callable[[str], None],
    limit_s: float = LIMIT_S,
) -> Trial:
    """Run a program with the output format of `tfwatch.checks.trial_program`; kill it at the time
    limit."""
    output = _Output(notify)
    with tempfile.TemporaryFile() as log:
        try:
            # close_fds as in core/system_tool.py: a training may run in this process.
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **_VARIABLES},
                close_fds=False,
            )
        except OSError as error:
            return Trial("not started", log_text=error.strerror or str(error), limit_s=limit_s)
        try:
            exit_code = output.read(process, limit_s)
        finally:
            _end(process)
        log_text = os.pread(log.fileno(), _LOG_BYTES, max(0, _size(log) - _LOG_BYTES))
    return output.conclude(exit_code, limit_s, log_text.decode(errors="replace"))


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


class _Output:
    """Reads the child's stdout, one JSON object a line."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._stage = "import"
        self._results: dict[str, Mapping[str, Any]] = {}

    def read(self, process: subprocess.Popen[bytes], limit_s: float) -> int | None:
        """Read until the child ends; return its exit code, None at the time limit.

        A thread reads: a child that waits in a driver, or a process that it left behind, keeps the
        pipe open.
        """
        reader = threading.Thread(
            target=self._read, args=(process.stdout,), name="tfwatch-trial", daemon=True
        )
        reader.start()
        reader.join(limit_s)
        if reader.is_alive():
            return None
        try:
            return process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            return None

    def conclude(self, exit_code: int | None, limit_s: float, log_text: str) -> Trial:
        """Return the result of the trial."""
        is_complete = exit_code == 0 and "all" in self._results
        return Trial(
            outcome="completed" if is_complete else "timed out" if exit_code is None else "died",
            stage="" if is_complete else "exit" if "all" in self._results else self._stage,
            exit_code=exit_code,
            limit_s=limit_s,
            results=self._results,
            log_text=log_text,
        )

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(_RESULT_BYTES):
                with contextlib.suppress(ValueError, TypeError):
                    self._keep(dict(json.loads(line)))

    def _keep(self, values: dict[str, Any]) -> None:
        if "begin" in values:
            self._stage = str(values["begin"])
            self._notify(self._stage)
        elif "end" in values:
            self._results[str(values.pop("end"))] = values


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process; one that waits in a driver cannot be killed and is left behind."""
    with contextlib.suppress(OSError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
