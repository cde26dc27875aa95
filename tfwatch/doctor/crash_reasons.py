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
_NO_KERNELS = "this TensorFlow has no kernels for this GPU's architecture"
_BUILT_FOR_IT = (
    "use a TensorFlow that is built for it: NVIDIA's container nvcr.io/nvidia/tensorflow, or a"
    " newer release; until then CUDA_VISIBLE_DEVICES=-1 trains on the CPU"
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
        f"{_NO_KERNELS}: the driver cannot compile them from PTX",
        _BUILT_FOR_IT,
    ),
    (  # releases up to 2.20 with compute capability 12.0 (RTX 50, Blackwell)
        r"not built with CUDA kernel binaries compatible with compute capability (\d{1,3}\.\d)",
        f"{_NO_KERNELS} (compute capability {{}}): each one is compiled at first, for 30 minutes",
        _BUILT_FOR_IT,
    ),
)


def explain_cuda(trial: Trial) -> tuple[str, str] | None:
    """Return the fault and its remedy; None where none is known."""
    errors = [str(product.get("error", "")) for product in trial.products]
    xla_error = str(trial.results.get("products", {}).get("xla_error", ""))
    text = "\n".join([trial.log_text, *errors, xla_error])
    for pattern, fault, todo in _CUDA_FAULTS:
        if found := re.search(pattern, text):
            return fault.format(*found.groups()), todo
    return None


_REINSTALL = "install TensorFlow and tfwatch in a fresh virtual environment"
_ARM = (
    "on an Apple chip install an arm64 Python (this one may run under Rosetta 2); in a virtual"
    " machine pass the host's processor through (QEMU: -cpu host); elsewhere build TensorFlow"
    " for it"
)
_PAIR = f"install a pair that works: {METAL_PAIR}"
#: How a driver's and a CUDA library's names begin.
_DRIVER_LIBRARY = r"lib(?:cuda|nvidia-)[\w.-]{0,40}\.so"
_CUDA_LIBRARY = r"lib(?:cu|nv|nccl)[\w.-]{1,40}\.so"
#: Messages of a library or of the loader, with the remedy; the first one that matches counts.
_KNOWN = (
    (
        (
            r"(?:The TensorFlow library )?was compiled to use [A-Z0-9_., ]{1,200}"
            r" instructions[^\n]{0,100}"
        ),
        _ARM,
    ),
    (r"Library not loaded: \S{1,300}", _PAIR),
    (r"[Ss]ymbol not found[^\n]{1,300}", _PAIR),
    (
        r"A module that was compiled using NumPy 1\.x cannot be run in[^\n]{0,200}",
        "pip install 'numpy<2'",
    ),
    (
        r"version `GLIBC[^\n]{1,300}",
        "this system is older than TensorFlow's wheels: use a newer one, or a container",
    ),
    (
        rf"{_DRIVER_LIBRARY}\S{{0,20}}: cannot open shared object file[^\n]{{0,100}}",
        "install NVIDIA's driver",
    ),
    (rf"{_CUDA_LIBRARY}\S{{0,20}}: cannot open shared object file[^\n]{{0,100}}", AND_CUDA),
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
#: The last line of a Python traceback, and the line that faulthandler writes above the stack of a
#: fatal signal.
_ERROR = re.compile(
    r"(?m)^(?:[\w.]{1,100}(?:Error|Exception|Interrupt)\b[^\n]{0,400}|Fatal Python error:"
    r" [^\n]{1,200})"
)
_FRAME = re.compile(r'(?m)^  File "([^"<\n]{1,300})", line (\d+) in ([\w<>]{1,100})')
_STAGES = {
    "import": "import tensorflow",
    "devices": "listing the devices",
    "products": "a matrix product",
    "step": "a training step of a small network",
    "exit": "exiting Python",
}


def explain(trial: Trial) -> tuple[str, str]:
    """Return the failure of a trial that did not complete, with TensorFlow's own message, and the
    remedy."""
    stage = _STAGES.get(trial.stage, trial.stage)
    if trial.outcome == "not started":
        return (
            f"Python could not be started to check TensorFlow: {trial.log_text}",
            "check the memory and process limits",
        )
    if trial.outcome == "timed out":
        found = f"{stage} did not end within {trial.limit_s:g} s{_where(trial.log_text)}"
        return (
            found,
            (
                "run it by itself, twice (a first import reads 1 to 2 GB): python -X importtime -c"
                " 'import tensorflow'"
            ),
        )
    message, todo = explain_cuda(trial) or _find_message(trial.log_text)
    return (
        f"{stage} {_end(trial.exit_code)}{message and f': {message}'}",
        todo or _advice(trial.exit_code),
    )


def _find_message(log_text: str) -> tuple[str, str]:
    for pattern, todo in _KNOWN:
        # A traceback shows the line of code first, which may hold the same text.
        if found := list(re.finditer(pattern, log_text)):
            return found[-1][0].strip(), todo
    errors = _ERROR.findall(log_text)
    return (errors[-1], "") if errors else (_last_line(log_text), "")


def _last_line(log_text: str) -> str:
    lines = [line.strip() for line in log_text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _end(code: int | None) -> str:
    if code is None or code >= 0:
        return f"failed with exit code {code}"
    reason = _SIGNALS.get(-code, ("", ""))[0]
    return f"was ended by {name_of_signal(-code)}{reason and f' ({reason})'}"


def _advice(code: int | None) -> str:
    return _SIGNALS.get(-(code or 0), ("", _REINSTALL))[1]


def _where(log_text: str) -> str:
    """Return the innermost frame of the main thread's stack, which the child writes just before the
    time limit."""
    stack = log_text.rpartition("(most recent call first)")[2]
    found = _FRAME.search(stack)
    return (
        f"; it was in {found[3]} of {'/'.join(found[1].split('/')[-3:])}, line {found[2]}"
        if found
        else ""
    )
