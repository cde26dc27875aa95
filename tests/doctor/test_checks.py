"""Each situation that slows TensorFlow down, or keeps it from starting, has a row with its
remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.doctor.machines import (
    CPU,
    CUDA_BUILD,
    GB,
    H100,
    IMPORTED,
    METAL,
    find_problems,
    found,
    linux,
    mac,
    product,
    stopped,
    trial,
    with_gpu,
)
from tfwatch.doctor.checks import Check, Status, counted, judge, worst
from tfwatch.doctor.facts import Cores, DiskSpeed, Facts, Memory, RunsFolder
from tfwatch.doctor.packages import METAL_PAIR, Installed
from tfwatch.doctor.quick_facts import Interpreter, Nvidia
from tfwatch.doctor.trial import SKIPPED, Trial
from tfwatch.sensors.sensor import Unavailable

_WORKING = [linux(), with_gpu(), mac()]


@pytest.mark.parametrize(
    "facts", [*_WORKING, Facts()], ids=["linux", "gpu", "mac", "nothing known"]
)
def test_every_row_has_a_name_of_its_own_and_a_text(facts: Facts) -> None:
    checks = judge(facts).checks

    assert len({check.id for check in checks}) == len(checks)
    assert all(check.found for check in checks)
    assert all(check.todo for check in checks if check.status in (Status.FAIL, Status.WARN))


@pytest.mark.parametrize("facts", _WORKING, ids=["linux", "gpu", "mac"])
def test_a_working_machine_has_no_problem(facts: Facts) -> None:
    assert find_problems(facts) == {}


def test_what_does_not_concern_this_machine_has_no_row() -> None:
    text = " ".join(f"{check.id} {check.found}" for check in judge(linux()).checks)

    assert "Mac" not in text
    assert "gpu-activity" not in text
    assert "gpu-activity" in [check.id for check in judge(with_gpu()).checks]


def test_failures_come_first_and_inapplicable_checks_last() -> None:
    facts = mac("2.20.0", trial=stopped("import", exit_code=1), disk=Unavailable("none", ""))
    order = [check.status for check in judge(facts).checks]

    assert order == sorted(order, key=list(Status).index)
    assert (order[0], order[-1]) == (Status.FAIL, Status.NA)
    assert worst(judge(facts).checks) is Status.FAIL
    assert counted(judge(facts).checks) == "2 failed, 0 warnings, 5 ok, 1 n/a"


def test_control_characters_are_removed_from_texts() -> None:
    check = Check("x", Status.OK, "a\x1b[31m\nb\t c\x07", "\u202ed" + "e" * 5000)

    assert check.found == "a [31m b c"
    assert len(check.todo) < 1000


# -- Python and packages --------------------------------------------------------------------------

_NO_TENSORFLOW = linux(installed=Installed("linux", "x86_64"), trial=SKIPPED)
_ROSETTA = mac("2.16.2", "", "x86_64", interpreter=Interpreter(is_rosetta=True))


@pytest.mark.parametrize(
    ("facts", "id", "status", "words", "todo"),
    [
        pytest.param(_ROSETTA, "python", "fail", "under Rosetta 2", "arm64 Python", id="Rosetta"),
        pytest.param(
            replace(_ROSETTA, interpreter=Interpreter(is_rosetta=False)),
            *("python", "warn", "an Intel Mac", "Apple chip or on Linux"),
            id="Intel Mac",
        ),
        pytest.param(
            mac("2.20.0", "1.2.0", trial=stopped("import", exit_code=1)),
            *("versions", "fail", "does not load with TensorFlow 2.20.0", METAL_PAIR),
            id="2.20 and 1.2",
        ),
        pytest.param(
            mac("2.19.1", "1.1.0", trial=stopped("import", exit_code=1)),
            *("versions", "fail", "1.1.0 does not load", METAL_PAIR),
            id="2.19 and 1.1",
        ),
        pytest.param(
            mac("2.20.0", "1.2.0", trial=trial(CPU)),
            *("devices", "fail", "although tensorflow-metal 1.2.0 is installed", METAL_PAIR),
            id="a pair that loads and shows no GPU",
        ),
        pytest.param(
            mac(metal=""), "versions", "warn", "metal is not installed", METAL_PAIR, id="no Metal"
        ),
        pytest.param(
            replace(_NO_TENSORFLOW, nvidia=Nvidia("580.1", True, True)),
            *("versions", "fail", "TensorFlow is not installed", "tensorflow[and-cuda]"),
            id="no TensorFlow beside an NVIDIA card",
        ),
        pytest.param(
            _NO_TENSORFLOW,
            *("versions", "fail", "TensorFlow is not installed", "pip install tensorflow"),
            id="no TensorFlow",
        ),
        pytest.param(
            linux(interpreter=Interpreter((3, 15, 0))),
            *("python", "fail", "knows no TensorFlow wheel", "3.11 or 3.12"),
            id="too new",
        ),
    ],
)
def test_a_wrong_installation_is_reported_with_a_remedy(
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


def test_a_failed_import_under_rosetta_points_to_the_one_remedy() -> None:
    died = replace(_ROSETTA, trial=stopped("import", exit_code=-6, log_text="use AVX"))

    assert found(died, "import")[2] == "see python"


# -- the trial of TensorFlow ----------------------------------------------------------------------


def test_without_tensorflow_there_is_no_row_of_its_trial() -> None:
    assert find_problems(_NO_TENSORFLOW) == {"versions": "fail"}
    ids = {check.id for check in judge(_NO_TENSORFLOW).checks}
    assert not ids & {"import", "devices", "training"}


def test_beside_a_training_the_skipped_trial_is_one_row() -> None:
    facts = linux(trial=Trial("skipped", log_text="skipped while a training runs"))

    assert found(facts, "import")[:2] == ("n/a", "skipped while a training runs")
    assert "devices" not in {check.id for check in judge(facts).checks}


@pytest.mark.parametrize(
    ("stage", "id"),
    [("import", "import"), ("devices", "devices"), ("products", "training"), ("step", "training")],
)
def test_a_stage_that_dies_fails_one_row(stage: str, id: str) -> None:
    facts = linux(trial=stopped(stage, exit_code=-11))

    assert find_problems(facts) == {id: "fail"}
    assert "SIGSEGV" in found(facts, id)[1]


def test_a_hanging_import_is_reported_with_its_innermost_frame() -> None:
    words = (
        "Timeout (0:01:54)!\nThread 0x00007f (most recent call first):\n"
        '  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed\n'
        '  File "/v/site-packages/tensorflow/python/pywrap_tensorflow.py", line 73 in <module>\n'
        '  File "/v/site-packages/tensorflow/python/eager/context.py", line 7 in wait\n'
    )
    hangs = stopped("import", outcome="timed out", log_text=words, limit_s=120)
    status, text, _ = found(linux(trial=hangs), "import")

    assert status == "fail"
    assert "did not end within 120 s" in text
    assert "tensorflow/python/pywrap_tensorflow.py, line 73" in text


def test_a_trial_that_cannot_be_started_fails() -> None:
    facts = linux(trial=Trial("not started", log_text="Cannot allocate memory"))

    assert find_problems(facts) == {"import": "fail"}
    assert "Cannot allocate memory" in found(facts, "import")[1]


def test_a_slow_import_is_a_warning() -> None:
    slow = trial(CPU)
    slow = replace(slow, results={**slow.results, "import": {**IMPORTED, "took_s": 48.0}})

    assert found(linux(trial=slow), "import")[0] == "warn"


def test_a_crash_at_exit_fails() -> None:
    facts = linux(trial=replace(trial(CPU), outcome="died", stage="exit", exit_code=-11))

    assert "exiting Python was ended by SIGSEGV" in found(facts, "training")[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"right": False}, "WRONG result", id="wrong"),
        pytest.param({"placed": "CPU:0"}, "GPU:0 requested, but CPU:0 computed", id="elsewhere"),
        pytest.param({"error": "InternalError: odd"}, "GPU:0 failed: InternalError", id="raises"),
    ],
)
def test_a_failed_product_on_a_gpu_is_reported(changes: dict[str, Any], words: str) -> None:
    products = {"products": [product("CPU:0"), product("GPU:0", **changes)]}
    status, text, todo = found(with_gpu(trial=trial(CPU, H100, products=products)), "training")

    assert status == "fail"
    assert words in text
    assert "CPU:0 8.0 ms" in text
    assert "driver" in todo


@pytest.mark.parametrize(
    ("step", "status", "words"),
    [
        pytest.param({"finite": False}, "fail", "its loss is not a number", id="nan"),
        pytest.param({"moves": {"kernel": 0.08}}, "ok", "as the CPU does", id="rounding"),
        pytest.param(
            {"moves": {"gamma": 1.0, "kernel": 0.1}}, "fail", "gamma moves otherwise", id="parts"
        ),
        pytest.param(
            {"moves": {"kernel": float("nan")}}, "fail", "kernel moves otherwise", id="no number"
        ),
    ],
)
def test_a_device_that_trains_wrongly_fails_where_it_parts_from_the_cpu(
    step: dict[str, Any], status: str, words: str
) -> None:
    got = found(mac(trial=trial(CPU, METAL, step=step)), "training")

    assert got[0] == status
    assert words in got[1]


# -- GPUs -----------------------------------------------------------------------------------------


def test_a_metal_gpu_has_the_name_of_the_chip() -> None:
    assert found(mac(), "devices")[1] == "CPU:0, GPU:0 (Apple M2 Pro)"
    assert found(with_gpu(), "devices")[1] == "CPU:0, GPU:0 (NVIDIA H100 80GB HBM3)"


_DRIVER = Nvidia("580.159.04", has_card=True, has_device_files=True)


def _blind(*libraries: str, build: dict[str, str] = CUDA_BUILD, **nvidia: Any) -> Facts:
    """Return a machine with a driver and a card, on which TensorFlow sees no GPU."""
    lines = "".join(f"Could not load dynamic library '{name}'; dlerror: x\n" for name in libraries)
    return linux(
        trial=trial(CPU, build=build, log_text=2 * lines), nvidia=replace(_DRIVER, **nvidia)
    )


@pytest.mark.parametrize(
    ("facts", "status", "words", "todo"),
    [
        pytest.param(
            _blind("libcudnn.so.9"),
            *("fail", "could not load libcudnn.so.9", "tensorflow[and-cuda]"),
            id="a library is missing",
        ),
        pytest.param(
            _blind("libcuda.so.1"),
            *("fail", "could not load libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES"),
            id="the driver's library is missing",
        ),
        pytest.param(
            _blind(build={"is_cuda_build": "False"}),
            *("fail", "built without CUDA", "tensorflow[and-cuda]"),
            id="tensorflow-cpu",
        ),
        pytest.param(
            _blind(driver="470.82.01"),
            *("fail", "older than CUDA 12.5.1 needs", "driver 525.60 or later"),
            id="an old driver",
        ),
        pytest.param(
            _blind("libnvinfer.so.8"), "fail", "it sees no GPU", "nvidia-smi", id="unknown reason"
        ),
        pytest.param(
            _blind(has_device_files=False),
            *("warn", "this container has no access to the GPU", "--gpus all"),
            id="a container without its GPU",
        ),
        pytest.param(
            _blind(driver="", has_device_files=False),
            *("warn", "there is an NVIDIA card but no driver", "install NVIDIA's driver"),
            id="a card without a driver",
        ),
        pytest.param(
            _blind(hidden="-1"),
            *("warn", "CUDA_VISIBLE_DEVICES=-1 hides every GPU", "unset"),
            id="hidden",
        ),
    ],
)
def test_a_gpu_that_tensorflow_misses_is_explained(
    facts: Facts, status: str, words: str, todo: str
) -> None:
    got = found(replace(facts, gpu_sensor=("", None)), "devices")

    assert got[0] == status
    assert words in got[1]
    assert todo in got[2]


def test_a_gpu_of_another_plug_in_needs_no_cuda() -> None:
    gpu = {"name": "GPU:0", "kind": "GPU", "model": "another maker's"}

    assert find_problems(with_gpu(trial=trial(CPU, gpu, build={"is_cuda_build": "False"}))) == {}


_PTX = (
    "W0000 gpu_device.cc:2433] TensorFlow was not built with CUDA kernel binaries compatible with "
    "compute capability 12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 "
    "minutes or longer.\n"
)
_REFUSED_PTX = "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'"
_CUDNN = (
    "E0000 cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with:"
    " 9.3.0.  CuDNN library needs to have matching major version and equal or higher minor"
    " version.\n"
)
_LIBDEVICE = "INTERNAL: libdevice not found at ./libdevice.10.bc"


@pytest.mark.parametrize(
    ("log_text", "error", "status", "words", "todo"),
    [
        pytest.param(
            _PTX,
            *("", "warn", "(compute capability 12.0): each one is compiled", "nvcr.io"),
            id="Blackwell, compiled",
        ),
        pytest.param(
            _PTX,
            *(_REFUSED_PTX, "fail", "the driver cannot compile them from PTX", "nvcr.io"),
            id="Blackwell, refused",
        ),
        pytest.param(
            *("", "no kernel image is available for execution"),
            *("fail", "has no kernels", "nvcr.io"),
            id="old",
        ),
        pytest.param(
            *(_CUDNN, "FAILED_PRECONDITION: DNN library initialization failed.", "fail"),
            "loaded cuDNN 9.1.0, but it is built for 9.3.0",
            "unset LD_LIBRARY_PATH",
            id="cuDNN",
        ),
        pytest.param(
            *("", _LIBDEVICE, "fail", "does not find CUDA's libdevice.10.bc"),
            "xla_gpu_cuda_data_dir",
            id="XLA",
        ),
    ],
)
def test_a_known_fault_of_cuda_has_a_sentence_and_a_remedy(
    log_text: str, error: str, status: str, words: str, todo: str
) -> None:
    changes: dict[str, Any] = {"error": error} if error else {}
    products = {"products": [product("CPU:0"), product("GPU:0", **changes)]}
    seen = trial(CPU, H100, build=CUDA_BUILD, log_text=log_text, products=products)
    for id in ("devices", "training") if error else ("devices",):
        got = found(with_gpu(trial=seen), id)

        assert got[0] == status
        assert words in got[1]
        assert todo in got[2]


def test_a_known_fault_of_cuda_explains_a_training_step_that_dies() -> None:
    dead = stopped("step", exit_code=1, log_text=f"{_CUDNN}errors_impl.Error: DNN\n")
    status, text, todo = found(with_gpu(trial=dead), "training")

    assert (status, "built for 9.3.0" in text) == ("fail", True)
    assert "unset LD_LIBRARY_PATH" in todo


@pytest.mark.parametrize(
    ("error", "words"),
    [(_LIBDEVICE, "libdevice"), ("InternalError: ptxas is missing", "ptxas is missing")],
)
def test_what_only_xla_misses_fails(error: str, words: str) -> None:
    facts = with_gpu(trial=trial(CPU, H100, build=CUDA_BUILD, products={"xla_error": error}))

    assert found(facts, "devices")[0] == "fail"
    assert words in found(facts, "devices")[1]


# -- the machine ----------------------------------------------------------------------------------

_SLOW = DiskSpeed("/n", 20e6, 1.0, 12)


@pytest.mark.parametrize(
    ("facts", "id", "status", "words"),
    [
        pytest.param(
            linux(memory=Memory(GB, 24 * GB)), "memory", "warn", "1.0 GB of", id="little memory"
        ),
        pytest.param(
            linux(memory=Memory(3 * GB, 4 * GB, is_container=True)),
            *("memory", "ok", "a container's limit"),
            id="limited",
        ),
        pytest.param(
            linux(memory=Memory(9 * GB, 16 * GB, swapped_bytes=5 * GB)),
            *("memory", "warn", "5.0 GB are swapped"),
            id="swapped",
        ),
        pytest.param(
            linux(cores=Cores(64, 64, 2.0)), "cores", "warn", "quota allows 2", id="a quota"
        ),
        pytest.param(
            linux(cores=Cores(64, 4, 4.0)), "cores", "ok", "4 of 64 cores", id="bound to cores"
        ),
        pytest.param(
            linux(cores=Cores(2, 2, busy=1.6)),
            *("cores", "warn", "other programs use 1.6 of 2 cores"),
            id="an overloaded machine",
        ),
        pytest.param(linux(disk=_SLOW), "disk", "warn", "20 MB/s", id="a slow disk"),
        pytest.param(
            linux(disk=_SLOW, cores=Cores(2, 2, busy=1.9)),
            *("disk", "n/a", "other programs were busy"),
            id="a slow read on a busy machine",
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 20e6, 1.0, 8000)),
            *("disk", "ok", "8 000 files/s"),
            id="many small files",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/runs", "Read-only file system")),
            *("runs-folder", "fail", "Read-only"),
            id="read-only",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/runs", free_bytes=1e6)),
            *("runs-folder", "warn", "0.0 GB free"),
            id="nearly full",
        ),
        pytest.param(
            linux(runs=Unavailable("the folder of the runs did not answer within 10 s", "")),
            *("runs-folder", "fail", "did not answer within 10 s"),
            id="a folder that hangs",
        ),
        pytest.param(mac(), "gpu-activity", "ok", "read through ioreg", id="a Mac"),
        pytest.param(
            with_gpu(gpu_sensor=("nvml", Unavailable("nvidia-ml-py is missing", "pip"))),
            *("gpu-activity", "warn", "nvidia-ml-py is missing"),
            id="no NVML",
        ),
        pytest.param(
            with_gpu(gpu_sensor=("nvml", None)),
            *("gpu-activity", "ok", "read through nvml"),
            id="NVML",
        ),
    ],
)
def test_checks_of_the_machine(facts: Facts, id: str, status: str, words: str) -> None:
    got = found(facts, id)

    assert got[0] == status
    assert words in got[1]
