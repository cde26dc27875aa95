"""Faults of a CUDA installation that TensorFlow's log or a GPU's error shows, each with its remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.doctor.trial import Trial

_VERSION = r"(\d{1,3}(?:\.\d{1,3}){1,2})"
_CUDNN = re.compile(rf"Loaded runtime CuDNN library: {_VERSION} but source was compiled with: {_VERSION}")
_UNSET = "and unset LD_LIBRARY_PATH where it names another cuDNN"
_LIBDEVICE = re.compile(r"libdevice not found at|[Cc]an't find libdevice|libdevice\.10\.bc")
_NO_LIBDEVICE = "XLA does not find CUDA's libdevice.10.bc, so what it compiles does not run on the GPU"
_GET_LIBDEVICE = (
    "pip install 'tensorflow[and-cuda]', which has it, or export XLA_FLAGS=--xla_gpu_cuda_data_dir=DIR with the folder "
    "of CUDA that has nvvm/libdevice in it"
)
#: Releases up to 2.20 have no kernels for compute capability 12.0 (RTX 50, Blackwell).
_ARCHITECTURE = re.compile(r"not built with CUDA kernel binaries compatible with compute capability (\d{1,3}\.\d)")
_NO_KERNEL = re.compile(r"CUDA_ERROR_INVALID_PTX|CUDA_ERROR_NO_BINARY_FOR_GPU|no kernel image is available")
_FROM_PTX = "each one is compiled from PTX at its first use, which can take 30 minutes"
_BUILT_FOR_IT = (
    "use a TensorFlow that is built for it: NVIDIA's container nvcr.io/nvidia/tensorflow, or a newer release; until "
    "then CUDA_VISIBLE_DEVICES=-1 trains on the CPU"
)


def explain_cuda(trial: Trial) -> tuple[str, str] | None:
    """Return the fault and its remedy; None where none is known."""
    errors = [str(product.get("error", "")) for product in trial.products]
    text = "\n".join([trial.log_text, *errors, str(trial.results.get("products", {}).get("xla_error", ""))])
    if found := _CUDNN.search(text):
        return _explain_cudnn(loaded=found[1], built=found[2], cuda=trial.build.get("cuda_version", ""))
    if _LIBDEVICE.search(text):
        return _NO_LIBDEVICE, _GET_LIBDEVICE
    architecture, fails = _ARCHITECTURE.search(text), _NO_KERNEL.search(text)
    if architecture or fails:
        capability = f" (compute capability {architecture[1]})" if architecture else ""
        how = "the driver cannot compile them from PTX" if fails else _FROM_PTX
        return f"this TensorFlow has no kernels for this GPU's architecture{capability}: {how}", _BUILT_FOR_IT
    return None


def _explain_cudnn(loaded: str, built: str, cuda: str) -> tuple[str, str]:
    package = f"nvidia-cudnn-cu{cuda.partition('.')[0] or '12'}"
    later = int(built.partition(".")[0]) + 1
    todo = f"pip install -U '{package}>={built},<{later}', {_UNSET}"
    return f"TensorFlow loaded cuDNN {loaded}, but it is built for {built}", todo
