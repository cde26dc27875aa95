"""A trial of TensorFlow in a separate process with a time limit, and the reason why one failed.

The process may hang or die without harm to this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tfwatch.core.errors import name_of_signal
from tfwatch.doctor.packages import AND_CUDA, METAL_PAIR

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
    "from tfwatch.doctor.trial_program import main; main(sys.argv[2])"
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
        """The training on each device: `device`, `placed`, `losses`, `first_ms` and `step_ms`, or
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


def run_program(argument: str, limit_s: float) -> Trial:
    """Run `tfwatch.doctor.trial_program` with this argument in a process of its own."""
    root = str(Path(__file__).parents[2])
    return run_trial([sys.executable, "-c", _PROGRAM, root, argument], limit_s)


def run_trial(command: Sequence[str], limit_s: float = LIMIT_S) -> Trial:
    """Run a program with the output format of `tfwatch.doctor.trial_program`; kill it at the time
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
            _kill(process)
        return _conclude(exit_code, limit_s, _last_text(out), _last_text(log))


def _kill(process: subprocess.Popen[bytes]) -> None:
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


# -- the reason of a failure, from TensorFlow's last output ----------------------------------------

_VERSION = r"(\d{1,3}(?:\.\d{1,3}){1,2})"
_BUILT_FOR_IT = (
    "use a TensorFlow that is built for this GPU: NVIDIA's container nvcr.io/nvidia/tensorflow, or"
    " a newer release; until then CUDA_VISIBLE_DEVICES=-1 trains on the CPU"
)
#: Messages of CUDA, the fault in words with what the message names, and the remedy; the first one
#: that matches counts.
_CUDA_FAULTS = (
    (
        rf"Loaded runtime CuDNN library: {_VERSION} but source was compiled with: {_VERSION}",
        "TensorFlow loaded cuDNN {}, but it is built for {}",
        f"{AND_CUDA}; unset LD_LIBRARY_PATH where it names another cuDNN",
    ),
    (
        r"libdevice not found at|[Cc]an't find libdevice|libdevice\.10\.bc",
        "XLA does not find CUDA's libdevice.10.bc, so what it compiles does not run on the GPU",
        f"{AND_CUDA}, or export XLA_FLAGS=--xla_gpu_cuda_data_dir=DIR with CUDA's nvvm in DIR",
    ),
    (
        r"CUDA_ERROR_INVALID_PTX|CUDA_ERROR_NO_BINARY_FOR_GPU|no kernel image is available",
        "this TensorFlow has no kernels for this GPU, and the driver cannot compile them from PTX",
        _BUILT_FOR_IT,
    ),
    (  # releases up to 2.20 with compute capability 12.0 (RTX 50, Blackwell)
        r"not built with CUDA kernel binaries compatible with compute capability (\d{1,3}\.\d)",
        (
            "this TensorFlow has no kernels for this GPU (compute capability {}): each one is"
            " compiled at first, for 30 minutes"
        ),
        _BUILT_FOR_IT,
    ),
)
_OTHER_PROCESSOR = (
    "on an Apple chip install an arm64 Python; in a virtual machine pass the host's processor"
    " through (QEMU: -cpu host); elsewhere build TensorFlow for it"
)
#: Messages of a library or of the loader, with the remedy; the first one that matches counts.
_KNOWN = (
    (
        r"(?:The TensorFlow library )?was compiled to use [A-Z0-9_., ]{1,200} instructions.{0,100}",
        _OTHER_PROCESSOR,
    ),
    (
        r"(?:Library not loaded: \S|[Ss]ymbol not found)[^\n]{1,300}",
        f"install a pair that works: {METAL_PAIR}",
    ),
    (r"lib(?:cu|nv|nccl)\S{1,60}: cannot open shared object file[^\n]{0,100}", AND_CUDA),
    (
        r"(?m)^[^\n]{0,100}(?:out of memory|OOM when allocating)[^\n]{0,200}",
        "free the device's memory: another program holds it",
    ),
)
_SIGNALS: dict[int, tuple[str, str]] = {
    signal.SIGILL: (
        "the processor lacks an instruction that TensorFlow was built for",
        _OTHER_PROCESSOR,
    ),
    signal.SIGKILL: (
        "the system or another process killed it, most often because memory ran out",
        "free memory, or raise the container's limit",
    ),
}
_REINSTALL = "install TensorFlow and tfwatch in a fresh virtual environment"
#: The last line of a Python traceback, and the line that faulthandler writes above the stack of a
#: fatal signal.
_ERROR = re.compile(
    r"(?m)^(?:[\w.]{1,100}(?:Error|Exception|Interrupt)\b[^\n]{0,400}|Fatal Python error:"
    r" [^\n]{1,200})"
)
_STAGES = {
    "import": "import tensorflow",
    "devices": "listing the devices",
    "training": "training a small network",
    "exit": "exiting Python",
}


def explain_cuda(trial: Trial) -> tuple[str, str] | None:
    """Return the fault and its remedy; None where none is known."""
    errors = [str(one.get("error", "")) for one in trial.trained]
    text = "\n".join([trial.log_text, *errors, trial.xla_error])
    for pattern, fault, todo in _CUDA_FAULTS:
        if found := re.search(pattern, text):
            return fault.format(*found.groups()), todo
    return None


def explain(trial: Trial) -> tuple[str, str]:
    """Return the failure of a trial that did not complete, with TensorFlow's own message, and the
    remedy."""
    stage = _STAGES.get(trial.stage, trial.stage)
    if trial.outcome == "not started":
        found = f"Python could not be started to check TensorFlow: {trial.log_text}"
        return found, "check the memory and process limits"
    if trial.outcome == "timed out":
        todo = (
            "run it by itself, twice (a first import reads 1 to 2 GB): python -X importtime -c"
            " 'import tensorflow'"
        )
        return f"{stage} did not end within {trial.limit_s:g} s", todo
    message, todo = explain_cuda(trial) or _find_message(trial.log_text)
    end, why = _end(trial.exit_code)
    return f"{stage} {end}{message and f': {message}'}", todo or why


def _find_message(log_text: str) -> tuple[str, str]:
    for pattern, todo in _KNOWN:
        # A traceback shows the line of code first, which may hold the same text.
        if found := list(re.finditer(pattern, log_text)):
            return found[-1][0].strip(), todo
    lines = _ERROR.findall(log_text) or [line.strip() for line in log_text.splitlines()]
    return next((line[:300] for line in reversed(lines) if line), ""), ""


def _end(code: int | None) -> tuple[str, str]:
    """Return the end of a process in words, and its remedy."""
    if code is None or code >= 0:
        return f"failed with exit code {code}", _REINSTALL
    why, todo = _SIGNALS.get(-code, ("", _REINSTALL))
    return f"was ended by {name_of_signal(-code)}{why and f' ({why})'}", todo
