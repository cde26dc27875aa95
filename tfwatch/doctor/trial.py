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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The first import after an installation reads 1 to 2 GB from a cold disk.
LIMIT_S = 120.0
#: The part of the output and of the log that is kept: its end.
_LOG_BYTES = 4 * 2**20
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
    #: The one it ended in: import, devices, training or exit.
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
    def trained(self) -> list[Mapping[str, Any]]:
        """The training on each device: `device`, `placed`, `first_ms`, `step_ms` and `moves`, or
        `error`."""
        return list(self.results.get("training", {}).get("trained", []))

    @property
    def xla_error(self) -> str:
        """The error of XLA on a GPU of CUDA; empty where it compiles, or there is none."""
        return str(self.results.get("training", {}).get("xla_error", ""))

    @property
    def missing_libraries(self) -> list[str]:
        """The libraries that TensorFlow could not load, in its order."""
        return list(dict.fromkeys(_MISSING_LIBRARY.findall(self.log_text)))

    @property
    def build(self) -> Mapping[str, str]:
        """TensorFlow's build information, e.g. its CUDA version."""
        return dict(self.results.get("import", {}).get("build", {}))


SKIPPED = Trial("skipped")


def try_tensorflow() -> Trial:
    """Try the TensorFlow of this Python."""
    return run_program("", LIMIT_S)


def run_program(argument: str, limit_s: float) -> Trial:
    """Run `tfwatch.checks.trial_program` with this argument in a process of its own."""
    root = str(Path(__file__).parents[2])
    return run_trial([sys.executable, "-c", _PROGRAM, root, argument], limit_s)


def run_trial(command: Sequence[str], limit_s: float = LIMIT_S) -> Trial:
    """Run a program with the output format of `tfwatch.checks.trial_program`; kill it at the time
    limit."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        try:
            # close_fds as in core/system_tool.py: a training may run in this process.
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, **_VARIABLES},
                close_fds=False,
            )
        except OSError as error:
            return Trial("not started", log_text=error.strerror or str(error), limit_s=limit_s)
        exit_code = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                exit_code = process.wait(limit_s)
        finally:
            _end(process)
        return _conclude(exit_code, limit_s, _last_text(out), _last_text(log))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process; one that waits in a driver cannot be killed and is left behind."""
    with contextlib.suppress(OSError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)


def _last_text(file: IO[bytes]) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), _LOG_BYTES, max(0, size - _LOG_BYTES)).decode(errors="replace")


def _conclude(exit_code: int | None, limit_s: float, out: str, log_text: str) -> Trial:
    """Return the result of a trial from its output, a JSON object a line."""
    stage, results = "import", dict[str, dict[str, Any]]()
    for line in out.splitlines():
        with contextlib.suppress(ValueError, TypeError):
            values = dict(json.loads(line))
            stage = str(values.get("begin", stage))
            if "end" in values:
                results[str(values.pop("end"))] = values
    has_ended = "all" in results
    is_complete = exit_code == 0 and has_ended
    return Trial(
        outcome="completed" if is_complete else "timed out" if exit_code is None else "died",
        stage="" if is_complete else "exit" if has_ended else stage,
        exit_code=exit_code,
        limit_s=limit_s,
        results=results,
        log_text=log_text,
    )
