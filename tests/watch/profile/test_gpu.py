"""The kernels of a GPU, and the time between them."""

from pathlib import Path

import pytest

from tests.watch.profile.gpu_planes import CONV, DENSE, GpuProfile
from tfwatch.core.events import LOOP
from tfwatch.judge.profile.step_parts import step_parts
from tfwatch.watch.profile.recorded import END

pytestmark = pytest.mark.tensorflow


def test_kernels_bear_the_paths_of_their_operations_and_all_of_them_count(tmp_path: Path) -> None:
    """Copies and what fills memory have no path."""
    made = GpuProfile().call(0, 100).kernel("implicit_convolve_sgemm", 10, 600, CONV)
    profile = made.kernel("MemcpyH2D", 700, 300).kernel("Memset", 1000, 20).read(tmp_path, steps=2)
    assert profile.on_gpu
    assert [(one.role, one.name, one.took_ms) for one in profile.operations] == [
        ("forward", "net_1/body_1/convolution", 0.3),
        ("copy", "", 0.15),
        ("other", "", 0.01),
    ]


def test_kernels_of_other_functions_are_other_operations(tmp_path: Path) -> None:
    """All that keeps the GPU busy is in a row."""
    made = GpuProfile().call(0, 100).kernel("sgemm", 10, 600, DENSE)
    profile = made.kernel("random", 700, 300, "RandomUniform:RandomUniform").read(tmp_path)
    assert [(one.role, one.took_ms) for one in profile.operations] == [
        ("forward", 0.6),
        ("other", 0.3),
    ]


def test_what_begins_after_the_last_step_does_not_count(tmp_path: Path) -> None:
    """TensorFlow records on until it is stopped."""
    made = GpuProfile().call(0, 100).kernel("sgemm", 10, 400, DENSE).call(500, 1, END)
    made.call(510, 100).kernel("sgemm", 520, 400, DENSE)
    assert [one.took_ms for one in made.read(tmp_path).operations] == [0.4]


def test_what_the_profiler_adds_beside_the_streams_does_not_count_again(tmp_path: Path) -> None:
    made = GpuProfile().kernel("sgemm", 0, 500, DENSE)
    for line in ("TensorFlow Ops", "Steps", "CUPTI overhead"):
        made.kernel("MatMul", 0, 500, DENSE, stream=line)
    profile = made.read(tmp_path)
    assert [one.took_ms for one in profile.operations] == [0.5]


def test_the_time_between_the_kernels_of_a_call_is_a_gap_and_that_between_calls_is_none(
    tmp_path: Path,
) -> None:
    """Two steps: 70 us idle in the first, 50 in the second; 810 us pass between them."""
    made = GpuProfile().call(0, 150).call(1000, 100)
    made.kernel("first", 50, 10, CONV).kernel("second", 100, 40, DENSE)
    made.kernel("MemcpyD2D", 150, 10).kernel("third", 180, 60, DENSE)
    made.kernel("MemcpyH2D", 500, 400)  # of the next batch, before its step
    made.kernel("first", 1050, 10, CONV).kernel("second", 1110, 40, DENSE)
    profile = made.read(tmp_path, steps=2)
    assert profile.gaps_ms == pytest.approx((40 + 10 + 20 + 50) / 1e3 / 2)


def test_the_gpu_does_not_idle_while_another_stream_works(tmp_path: Path) -> None:
    made = GpuProfile().call(0, 50).kernel("first", 10, 10, CONV).kernel("last", 90, 10, DENSE)
    made.kernel("MemcpyH2D", 15, 60, stream="Stream #20(MemcpyH2D)")
    assert made.read(tmp_path).gaps_ms == pytest.approx(0.015)


def test_gaps_are_unknown_where_no_call_is_recorded(tmp_path: Path) -> None:
    made = GpuProfile().call(0, 50, "FunctionRun").kernel("first", 10, 10, CONV)
    assert made.kernel("last", 90, 10, DENSE).read(tmp_path).gaps_ms is None


def test_gaps_are_a_row_and_the_busy_rows_sum_to_the_busy_time(tmp_path: Path) -> None:
    made = GpuProfile().call(0, 50)
    for at in range(20):
        made.kernel(f"kernel_{at}", 100 * at, 25, (CONV, DENSE, "")[at % 3])
    parts = step_parts(made.read(tmp_path))
    (gaps,) = [one for one in parts if one.role == "gaps"]
    assert gaps.name == "launch gaps"
    assert gaps.share == pytest.approx(0.74, abs=0.01)
    assert sum(one.took_ms for one in parts if one is not gaps) == pytest.approx(20 * 0.025)
    assert sum(one.share for one in parts) == pytest.approx(1.0)


def test_what_the_host_computes_while_the_gpu_idles_is_no_launch_gap(tmp_path: Path) -> None:
    """A `py_function` of 400 us between two kernels, and the launch of the second one."""
    made = GpuProfile().call(0, 50).kernel("first", 10, 40, CONV).kernel("last", 600, 40, DENSE)
    made.on_host("StatefulPartitionedCall/net_1/sort_1/EagerPyFunc:EagerPyFunc", 100, 400)
    profile = made.on_host(DENSE, 500, 150).read(tmp_path)
    longest = profile.operations[0]
    assert (longest.name, longest.op) == ("net_1/sort_1", "EagerPyFunc")
    assert [one.on_host for one in profile.operations] == [True, False, False]
    assert longest.took_ms == pytest.approx(0.4)
    assert profile.gaps_ms == pytest.approx(0.15)


def test_an_operation_of_the_host_may_copy_to_the_gpu_and_back(tmp_path: Path) -> None:
    path = "StatefulPartitionedCall/net_1/odd_1/EagerPyFunc"
    profile = (
        GpuProfile()
        .call(0, 2000)
        .kernel("sgemm", 10, 10, CONV)
        .on_host(f"{path}:EagerPyFunc", 30.0, 1000.0)
    )
    profile.kernel("MemcpyD2H", 31.0, 2.0, path).kernel("MemcpyH2D", 1028.0, 2.0, path)

    read = profile.kernel("gemm", 1030.0, 20.0, DENSE).read(tmp_path)

    assert {one.op: one.role for one in read.operations}["EagerPyFunc"] == "forward"
    assert {one.op: one.role for one in read.operations}["MemcpyD2H"] == "copy"
    assert read.gaps_ms == pytest.approx(0.01)


def test_the_time_between_the_kernels_of_a_loop_is_that_of_the_loop(tmp_path: Path) -> None:
    loop = "StatefulPartitionedCall/net_1/each_1/map/while"
    profile = GpuProfile().call(0, 2000).kernel("sgemm", 10, 10, CONV)
    for at_us in (100.0, 200.0, 300.0):
        profile.kernel("small", at_us, 10.0, f"{loop}/body/_11/net_1/each_1/map/while/Mul:Mul")

    read = profile.kernel("gemm", 400.0, 20.0, DENSE).read(tmp_path)

    of_loop = next(one for one in read.operations if one.op == LOOP)
    assert (of_loop.role, of_loop.in_loop) == ("forward", True)
    assert of_loop.took_ms == pytest.approx(0.08 + 2 * 0.09)
    assert read.gaps_ms == pytest.approx(0.09)


def test_what_the_host_computes_beside_the_kernels_takes_no_time_of_the_step(
    tmp_path: Path,
) -> None:
    made = GpuProfile().call(0, 50).kernel("first", 10, 500, CONV).kernel("last", 510, 40, DENSE)
    profile = made.on_host("StatefulPartitionedCall/words/Find:Find", 20, 300).read(tmp_path)
    assert [one.op for one in profile.operations] == ["first", "last"]


def test_the_input_pipeline_is_no_part_of_a_step_while_the_gpu_idles(tmp_path: Path) -> None:
    made = GpuProfile().call(0, 50).kernel("first", 10, 40, CONV).kernel("last", 600, 40, DENSE)
    made.on_host("Iterator::ParallelMapV2", 90, 420)
    path = "StatefulPartitionedCall/net_1/flip_1/Reverse:Reverse"
    assert made.on_host(path, 100, 400).read(tmp_path).gaps_ms == pytest.approx(0.55)


def test_collective_operations_are_a_row(tmp_path: Path) -> None:
    made = GpuProfile().call(0, 50).kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 90)
    path = "StatefulPartitionedCall/adam/CollectiveReduceV2:CollectiveReduceV2"
    (row,) = made.kernel("Memcpy", 100, 10, path).read(tmp_path).operations
    assert row.role == "collective"
    assert row.took_ms == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("kernel", "is_float32"),
    [
        ("ampere_sgemm_128x64_nn", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", True),
        ("volta_scudnn_128x64_relu_interior_nn_v1", True),
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>(int, int)", True),
        ("void implicit_convolve_sgemm<__half, __half, 1024, 5, 5, 3, 3, 3, 1>(int)", False),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x64", False),
        ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu", False),
        ("volta_h884gemm_128x64_ldg8_nn", False),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn", False),
        ("void Eigen::internal::EigenMetaKernel<sum_op<float>>", False),
    ],
)
def test_a_kernel_in_float32_without_tensor_cores_is_known_by_its_name(
    tmp_path: Path, kernel: str, is_float32: bool
) -> None:
    profile = GpuProfile().kernel(kernel, 0, 500, DENSE).read(tmp_path)
    assert profile.float32_ms == (0.5 if is_float32 else 0.0)


def test_float32_that_was_chosen_beside_tensorfloat_leaves_none_idle(tmp_path: Path) -> None:
    made = GpuProfile().kernel("implicit_convolve_sgemm", 0, 500, CONV)
    profile = made.kernel("sm80_xmma_gemm_f32f32_tf32f32_f32_nn", 500, 20, DENSE).read(tmp_path)
    assert profile.float32_ms == 0.0


def test_a_gpu_without_tensor_cores_leaves_none_idle(tmp_path: Path) -> None:
    """A P100's compute capability is 6.0."""
    made = GpuProfile(capability=(6, 0)).kernel("maxwell_sgemm_128x64_nn", 0, 500, DENSE)
    assert made.read(tmp_path).float32_ms is None
