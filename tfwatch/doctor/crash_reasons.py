"""The reason why the TensorFlow check failed, from TensorFlow's last output: CUDA, a package, the
processor."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from tfwatch.core.errors import name_of_signal
from tfwatch.doctor.packages import AND_CUDA, METAL_PAIR

if TYPE_CHECKING:
    from tfwatch.doctor.trial import Trial

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
_ARM = (
    "on an Apple chip install an arm64 Python (this one may run under Rosetta 2); in a virtual"
    " machine pass the host's processor through (QEMU: -cpu host); elsewhere build TensorFlow"
    " for it"
)
#: Messages of a library or of the loader, with the remedy; the first one that matches counts.
_KNOWN = (
    (
        r"(?:The TensorFlow library )?was compiled to use [A-Z0-9_., ]{1,200} instructions.{0,100}",
        _ARM,
    ),
    (
        r"(?:Library not loaded: \S|[Ss]ymbol not found)[^\n]{1,300}",
        f"install a pair that works: {METAL_PAIR}",
    ),
    (
        r"A module that was compiled using NumPy 1\.x cannot be run in[^\n]{0,200}",
        "pip install 'numpy<2'",
    ),
    (r"lib(?:cu|nv|nccl)\S{1,60}: cannot open shared object file[^\n]{0,100}", AND_CUDA),
    (
        r"(?m)^[^\n]{0,100}(?:out of memory|OOM when allocating)[^\n]{0,200}",
        "free the device's memory: another program holds it",
    ),
)
_SIGNALS: dict[int, tuple[str, str]] = {
    signal.SIGILL: ("the processor lacks an instruction that TensorFlow was built for", _ARM),
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
