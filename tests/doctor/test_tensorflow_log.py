"""The facts in TensorFlow's log. The lines are those of TensorFlow 2.21 on Linux."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfwatch.doctor.trial import LogFacts, fell_back, read_log

_BEGIN, _END = "<begin>", "<end>"
_TIME = "I0000 00:00:1795261743.298289    9855"
_IMPORT = f"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
{_TIME} port.cc:153] oneDNN custom operations are on. You may see slightly different numerical results
{_TIME} cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU instructions
To enable the following instructions: AVX2 AVX512F FMA, in other operations, rebuild TensorFlow
{_TIME} dso_loader.cc:144] Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open
{_TIME} dso_loader.cc:144] Could not load dynamic library 'libcudnn.so.9'; dlerror: libcudnn.so.9: cannot open
{_TIME} dso_loader.cc:144] Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open
"""  # noqa: E501


def placed(kind: str, device: str = "GPU") -> str:
    return (
        f"{_TIME} placer.cc:162] a/{kind}_1: ({kind}):"
        f" /job:localhost/replica:0/task:0/device:{device}:0\n"
    )


def executed(kind: str, device: str = "GPU") -> str:
    return (
        f"{_TIME} execute.cc:1775] Executing op {kind} in device"
        f" /job:localhost/replica:0/task:0/device:{device}:0\n"
    )


def read(step: str, before: str = "") -> LogFacts:
    return read_log(f"{before}{_BEGIN}\n{step}{_END}\n", _BEGIN, _END)


def test_the_lines_of_an_import() -> None:
    facts = read("", before=_IMPORT)

    assert facts.missing_libraries == ("libcuda.so.1", "libcudnn.so.9")


def test_the_lines_of_a_driver_without_cudas_libraries() -> None:
    libraries = (
        "libcudnn.so.9",
        "libcudart.so.12",
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcufft.so.11",
    )
    lines = (
        f"{_TIME} dso_loader.cc:144] Could not load dynamic library '{name}'; dlerror: {name}:"
        " cannot open shared object file: No such file or directory\n"
        for name in (*libraries, "libcudnn.so.9")
    )

    assert read_log("".join(lines), _BEGIN, _END).missing_libraries == libraries


def test_an_empty_log_has_no_facts() -> None:
    assert read_log("", _BEGIN, _END) == LogFacts()


def test_an_operation_fell_back_where_none_of_its_kind_is_on_the_gpu() -> None:
    facts = read(
        placed("Mul") + placed("Mul", "CPU") + placed("LSTM", "CPU") + executed("Unique", "CPU")
    )

    assert facts.on_cpu == ("LSTM", "Unique")
    assert fell_back(facts) == ("LSTM", "Unique")
    assert facts.placed == 3


def test_operations_of_the_cpu_by_design_do_not_fall_back() -> None:
    facts = read(
        "".join(placed(kind, "CPU") for kind in ("_Arg", "_Retval", "Prod", "Range", "NoOp"))
    )

    assert fell_back(facts) == ()


def test_functions_do_not_count_as_operations() -> None:
    assert read(executed("__inference_one_step_1285", "CPU")).placed == 0


def test_placements_outside_the_step_do_not_count() -> None:
    assert read("", before=placed("MatMul", "CPU")).placed == 0


@pytest.mark.parametrize("missing", [_BEGIN, _END])
def test_an_incomplete_step_is_read_to_its_end(missing: str) -> None:
    text = f"{_BEGIN}\n{placed('Mul')}{_END}\n".replace(f"{missing}\n", "")

    assert read_log(text, _BEGIN, _END).placed == (1 if missing == _END else 0)


@given(st.text(alphabet="(): /job:device:GPU0aX\n'.,<begin>", max_size=300))
def test_no_text_raises(text: str) -> None:
    facts = read_log(f"{_BEGIN}\n{text}", _BEGIN, _END)

    assert facts.placed >= len(facts.on_cpu)
