"""Each situation that slows TensorFlow down, or keeps it from starting, has a row with its
remedy."""

from dataclasses import replace
from typing import Any

import pytest

from tests.doctor.machines import (
    CPU,
    CUDA_BUILD,
    DRIVER,
    GB,
    H100,
    METAL,
    find_problems,
    found,
    linux,
    mac,
    stopped,
    trial,
    with_gpu,
)
from tfwatch.doctor.checks import Check, Status, counted, judge, worst
from tfwatch.doctor.facts import Facts, Nvidia
from tfwatch.doctor.packages import METAL_PAIR, Installed
from tfwatch.doctor.trial import Trial


@pytest.mark.parametrize("facts", [linux(), with_gpu(), mac()], ids=["linux", "gpu", "mac"])
def test_a_working_machine_has_no_problem_and_rows_with_a_text(facts: Facts) -> None:
    checks = judge(facts).checks

    assert find_problems(facts) == {}
    assert len({check.id for check in checks}) == len(checks)
    assert all(check.found for check in checks)


def test_failures_come_first_and_each_problem_has_a_remedy() -> None:
    facts = mac("2.20.0", trial=stopped("import", exit_code=1))
    checks = judge(facts).checks
    order = [check.status for check in checks]

    assert order == sorted(order, key=list(Status).index)
    assert worst(checks) is Status.FAIL
    assert counted(checks) == "1 failed, 0 warnings, 4 ok"
    assert all(check.todo for check in checks if check.status in (Status.FAIL, Status.WARN))


def test_control_characters_are_removed_from_texts() -> None:
    check = Check("x", Status.OK, "a\x1b[31m\nb\t c\x07", "\u202ed" + "e" * 5000)

    assert check.found == "a [31m b c"
    assert len(check.todo) < 1000


# -- problems -------------------------------------------------------------------------------------


def _blind(*libraries: str, build: dict[str, str] = CUDA_BUILD, **nvidia: Any) -> Facts:
    """Return a machine with a driver and a card, on which TensorFlow sees no GPU."""
    lines = "".join(f"Could not load dynamic library '{name}'; dlerror: x\n" for name in libraries)
    return linux(
        trial=trial(CPU, build=build, log_text=2 * lines), nvidia=replace(DRIVER, **nvidia)
    )


_PTX = (
    "W0000 gpu_device.cc:2433] TensorFlow was not built with CUDA kernel binaries compatible with "
    "compute capability 12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 "
    "minutes or longer.\n"
)
_CUDNN = (
    "E0000 cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with:"
    " 9.3.0.  CuDNN library needs to have matching major version and equal or higher minor"
    " version.\n"
)


_NO_TENSORFLOW = linux(installed=Installed("linux", "x86_64"), trial=Trial("skipped"))


@pytest.mark.parametrize(
    ("facts", "id", "status", "words", "todo"),
    [
        pytest.param(
            mac("2.16.2", "", "x86_64"),
            *("python", "fail", "an Intel Python", "arm64 Python"),
            id="Rosetta, or an Intel Mac",
        ),
        pytest.param(
            mac("2.20.0", trial=stopped("import", exit_code=1)),
            *("tensorflow", "fail", "does not load with TensorFlow 2.20.0", METAL_PAIR),
            id="2.20 and 1.2",
        ),
        pytest.param(
            mac("2.20.0", trial=trial(CPU)),
            *("devices", "fail", "although tensorflow-metal 1.2.0 is installed", METAL_PAIR),
            id="a pair that loads and shows no GPU",
        ),
        pytest.param(
            mac(metal=""), "tensorflow", "warn", "metal is not installed", METAL_PAIR, id="no Metal"
        ),
        pytest.param(
            replace(_NO_TENSORFLOW, nvidia=DRIVER),
            *("tensorflow", "fail", "TensorFlow is not installed", "tensorflow[and-cuda]"),
            id="no TensorFlow beside an NVIDIA card",
        ),
        pytest.param(
            _NO_TENSORFLOW,
            *("tensorflow", "fail", "TensorFlow is not installed", "pip install tensorflow"),
            id="no TensorFlow",
        ),
        pytest.param(
            linux(installed=Installed("linux", "x86_64", (3, 15, 0), {"tensorflow": "2.21"})),
            *("python", "fail", "knows no TensorFlow wheel", "3.11 or 3.12"),
            id="too new",
        ),
        pytest.param(
            _blind("libcudnn.so.9"),
            *("devices", "fail", "could not load libcudnn.so.9", "tensorflow[and-cuda]"),
            id="a library is missing",
        ),
        pytest.param(
            _blind("libcuda.so.1"),
            *("devices", "fail", "could not load libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES"),
            id="the driver's library is missing",
        ),
        pytest.param(
            _blind(build={"is_cuda_build": "False"}),
            *("devices", "fail", "built without CUDA", "tensorflow[and-cuda]"),
            id="tensorflow-cpu",
        ),
        pytest.param(
            _blind("libnvinfer.so.8"),
            *("devices", "fail", "it sees no GPU", "CUDA 12 needs driver 525.60"),
            id="unknown reason",
        ),
        pytest.param(
            _blind(has_device_files=False),
            *("devices", "warn", "this container has no access to the GPU", "--gpus all"),
            id="a container without its GPU",
        ),
        pytest.param(
            _blind(driver="", has_device_files=False),
            *(
                "devices",
                "warn",
                "there is an NVIDIA card but no driver",
                "install NVIDIA's driver",
            ),
            id="a card without a driver",
        ),
        pytest.param(
            _blind(hidden="-1"),
            *("devices", "warn", "CUDA_VISIBLE_DEVICES=-1 hides every GPU", "unset"),
            id="hidden",
        ),
        pytest.param(
            with_gpu(trial=trial(CPU, H100, log_text=_PTX)),
            *("training", "warn", "(compute capability 12.0): each one is compiled", "nvcr.io"),
            id="Blackwell, compiled",
        ),
        pytest.param(
            with_gpu(
                trial=trial(CPU, H100, log_text=_PTX, error="failed with 'CUDA_ERROR_INVALID_PTX'")
            ),
            *("training", "fail", "the driver cannot compile them from PTX", "nvcr.io"),
            id="Blackwell, refused",
        ),
        pytest.param(
            with_gpu(
                trial=trial(CPU, H100, log_text=_CUDNN, error="DNN library initialization failed.")
            ),
            *(
                "training",
                "fail",
                "loaded cuDNN 9.1.0, but it is built for 9.3.0",
                "unset LD_LIBRARY_PATH",
            ),
            id="cuDNN",
        ),
        pytest.param(
            with_gpu(
                trial=trial(
                    CPU, H100, xla_error="INTERNAL: libdevice not found at ./libdevice.10.bc"
                )
            ),
            *("training", "fail", "does not find CUDA's libdevice.10.bc", "xla_gpu_cuda_data_dir"),
            id="XLA",
        ),
        pytest.param(
            with_gpu(trial=stopped("training", exit_code=1, log_text=f"{_CUDNN}x.Error: DNN\n")),
            *("training", "fail", "built for 9.3.0", "unset LD_LIBRARY_PATH"),
            id="a training that dies",
        ),
    ],
)
def test_a_problem_has_a_row_with_its_remedy(
    facts: Facts, id: str, status: str, words: str, todo: str
) -> None:
    got = found(facts, id)

    assert got[0] == status
    assert words in got[1]
    assert todo in got[2]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(mac("2.21.0", "", trial=trial(CPU, METAL)), id="no tensorflow-metal"),
        pytest.param(mac("2.20.0", "1.2.0"), id="a pair that is not known to load"),
    ],
)
def test_a_gpu_that_the_trial_sees_working_is_never_called_unused(facts: Facts) -> None:
    assert find_problems(facts) == {}


# -- the trial of TensorFlow ----------------------------------------------------------------------


def test_without_tensorflow_there_is_no_row_of_its_trial() -> None:
    assert find_problems(_NO_TENSORFLOW) == {"tensorflow": "fail"}
    ids = {check.id for check in judge(_NO_TENSORFLOW).checks}
    assert not ids & {"devices", "training"}


def test_beside_a_training_the_skipped_trial_is_one_row() -> None:
    facts = linux(trial=Trial("skipped", log_text="skipped while a training runs"))

    status, text, _ = found(facts, "tensorflow")
    assert (status, text) == (
        "n/a",
        "TensorFlow 2.21.0, Keras 3.15.1: skipped while a training runs",
    )
    assert "devices" not in {check.id for check in judge(facts).checks}


@pytest.mark.parametrize(
    ("stage", "id"), [("import", "tensorflow"), ("devices", "devices"), ("training", "training")]
)
def test_a_stage_that_dies_fails_one_row(stage: str, id: str) -> None:
    facts = linux(trial=stopped(stage, exit_code=-11))

    assert find_problems(facts) == {id: "fail"}
    assert "SIGSEGV" in found(facts, id)[1]


@pytest.mark.parametrize(
    ("failed", "id", "words"),
    [
        (stopped("import", "timed out", limit_s=120), "tensorflow", "did not end within 120 s"),
        (
            Trial("not started", log_text="Cannot allocate memory"),
            *("tensorflow", "Cannot allocate memory"),
        ),
        (
            replace(trial(CPU), outcome="died", stage="exit", exit_code=-11),
            *("training", "exiting Python was ended by SIGSEGV"),
        ),
    ],
)
def test_a_trial_that_ends_otherwise_fails_too(failed: Trial, id: str, words: str) -> None:
    assert find_problems(linux(trial=failed)) == {id: "fail"}
    assert words in found(linux(trial=failed), id)[1]


@pytest.mark.parametrize(
    ("gpu", "status", "words"),
    [
        pytest.param({"losses": [2.9, 1.2]}, "ok", "GPU:0 (first step 611", id="learns"),
        pytest.param(
            {"losses": [2.9, 2.88]},
            *("fail", "GPU:0 does not learn: the loss goes from 2.9 to 2.88"),
            id="stands still",
        ),
        pytest.param({"losses": [2.9, float("nan")]}, "fail", "from 2.9 to nan", id="no number"),
        pytest.param(
            {"placed": "CPU:0"}, "fail", "GPU:0 requested, but CPU:0 computed", id="elsewhere"
        ),
        pytest.param(
            {"error": "InternalError: odd"}, "fail", "GPU:0 failed: InternalError", id="raises"
        ),
        pytest.param(
            {"xla_error": "InternalError: ptxas is missing"}, "fail", "ptxas is missing", id="XLA"
        ),
    ],
)
def test_a_device_has_to_learn(gpu: dict[str, Any], status: str, words: str) -> None:
    got = found(with_gpu(trial=trial(CPU, H100, **gpu)), "training")

    assert got[0] == status
    assert words in got[1]
    assert "CPU:0 (first step 611" in got[1]
    assert ("driver" in got[2]) == (status == "fail")


# -- GPUs -----------------------------------------------------------------------------------------


def test_a_metal_gpu_has_the_name_of_the_chip() -> None:
    assert found(mac(), "devices")[1] == "CPU:0, GPU:0 (Apple M2 Pro)"
    assert found(with_gpu(), "devices")[1] == "CPU:0, GPU:0 (NVIDIA H100 80GB HBM3)"


# -- the machine ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "id", "status", "words"),
    [
        pytest.param({"free_bytes": GB}, "memory", "warn", "1.0 GB of", id="little memory"),
        pytest.param(
            {"is_container": True}, "memory", "ok", "a container's limit", id="a container"
        ),
        pytest.param({"core_quota": 1.0}, "cores", "warn", "quota allows 1", id="a quota"),
        pytest.param({"cores": 64}, "cores", "ok", "2 of 64 cores", id="bound to cores"),
        pytest.param(
            {"busy_cores": 1.6},
            *("cores", "warn", "other programs use 1.6 of 2 cores"),
            id="an overloaded machine",
        ),
        pytest.param(
            {"runs_problem": "Read-only file system"}, "disk", "fail", "Read-only", id="read-only"
        ),
        pytest.param({"disk_free_bytes": 1e6}, "disk", "warn", "1.0 MB free", id="nearly full"),
        pytest.param({"nvidia": Nvidia()}, "devices", "ok", "CPU:0", id="no GPU, and none needed"),
    ],
)
def test_checks_of_the_machine(changes: dict[str, Any], id: str, status: str, words: str) -> None:
    got = found(linux(**changes), id)

    assert got[0] == status
    assert words in got[1]
