"""Kernels that compute in float32 without the tensor cores of a GPU that has them, by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Products and convolutions in single precision by cuBLAS, cuDNN and CUTLASS; and what stands in
#: the name of a kernel that uses tensor cores or another precision, as in
#: `cutlass_80_tensorop_s1688gemm_128x128_nn`.
_FLOAT32 = re.compile(r"sgemm|scudnn|simt_s")
_OTHER = re.compile(r"tensorop|tf32|bf16|half|fp16|s1688|s16816|s884|h884|h1688|h16816|hmma")
#: The first compute capability with tensor cores, that of a V100.
_LEAST = 7


def has_tensor_cores(plane: Any) -> bool:
    """Return whether the compute capability in a GPU's plane has tensor cores; False where it is
    not known."""
    names = {key: one.name for key, one in plane.stat_metadata.items()}
    major = (one for one in plane.stats if names.get(one.metadata_id) == "compute_cap_major")
    return any(max(one.uint64_value, one.int64_value) >= _LEAST for one in major)


def idle_tensor_cores_ps(kernels: Iterable[tuple[str, int]]) -> int:
    """Return the time of kernels that compute products in float32 without tensor cores.

    kernels: the name and the picoseconds of each. None count where others use TensorFloat-32:
    there TensorFlow tries both, and keeps float32 where it is faster.
    """
    plain_ps, uses_tf32 = 0, False
    for name, ps in kernels:
        uses_tf32 = uses_tf32 or "tf32" in name
        plain_ps += ps if _FLOAT32.search(name) and not _OTHER.search(name) else 0
    return 0 if uses_tf32 else plain_ps
