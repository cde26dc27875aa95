"""Each situation that slows TensorFlow down, or keeps it from starting, is reported with its remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.doctor.machines import (
    CPU,
    CUDA_BUILD,
    GB,
    H100,
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
from tfwatch.doctor.check import Status
from tfwatch.doctor.checkup import CHECKS, run_checks
from tfwatch.doctor.facts import (
    Cores,
    DiskSpeed,
    Facts,
    Interpreter,
    Machine,
    Nvidia,
    RunsFolder,
    Terminal,
)
from tfwatch.doctor.packages import METAL_PAIR, Installed
from tfwatch.doctor.quick_facts import machine_line
from tfwatch.doctor.trial import SKIPPED, LogFacts, Trial
from tfwatch.sensors.protocol import Available, Unavailable

if TYPE_CHECKING:
    from typing import Any


@pytest.mark.parametrize(
    "facts", [linux(), with_gpu(), mac(), Facts()], ids=["linux", "gpu", "mac", "nothing"]
)
def test_every_check_runs_once_and_has_a_text(facts: Facts) -> None:
    checks = run_checks(facts)

    assert len({check.id for check in checks}) == len(CHECKS) == len(checks)
    assert all(check.found for check in checks)
    assert all(check.todo for check in checks if check.status in (Status.FAIL, Status.WARN))


@pytest.mark.parametrize("facts", [linux(), with_gpu(), mac()], ids=["linux", "gpu", "mac"])
def test_a_working_machine_has_no_problem(facts: Facts) -> None:
    assert find_problems(facts) == {}


def test_failures_come_first_and_inapplicable_checks_last() -> None:
    order = [
        check.status
        for check in run_checks(mac("2.20.0", "1.2.0", trial=stopped("import", exit_code=1)))
    ]

    assert order == sorted(order, key=list(Status).index)
    assert order[0] is Status.FAIL
    assert order[-1] is Status.NA


# -- Python and packages --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "id", "status", "words", "todo"),
    [
        pytest.param(
            mac(arch="x86_64", interpreter=Interpreter(is_translated=True, is_arm64=True)),
            *("rosetta", "fail", "Intel Python under Rosetta 2", "arm64 Python"),
            id="Rosetta",
        ),
        pytest.param(
            mac(arch="x86_64", interpreter=Interpreter(is_translated=None, is_arm64=False)),
            *("rosetta", "warn", "an Intel Mac", "Apple chip or on Linux"),
            id="Intel Mac",
        ),
        pytest.param(
            mac(arch="x86_64", interpreter=Interpreter()),
            *("rosetta", "warn", "does not report", "arm64 Python"),
            id="a Mac that does not say",
        ),
        pytest.param(
            mac("2.20.0", "1.2.0", trial=stopped("import", exit_code=1)),
            "versions",
            "fail",
            "does not load with TensorFlow 2.20.0",
            METAL_PAIR,
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
            mac("2.16.2", "1.1.0"),
            "versions",
            "warn",
            "TensorFlow 2.16.2 is older",
            METAL_PAIR,
            id="2.16",
        ),
        pytest.param(
            mac(
                "2.16.2",
                "",
                arch="x86_64",
                interpreter=Interpreter(is_translated=None, is_arm64=False),
            ),
            *("versions", "warn", "2.16.2 is older", "see rosetta"),
            id="an Intel Mac's newest",
        ),
        pytest.param(
            linux(
                installed=Installed("linux", "x86_64"),
                trial=SKIPPED,
                nvidia=Nvidia("580.1", True, True),
            ),
            *("versions", "fail", "TensorFlow is not installed", "tensorflow[and-cuda]"),
            id="no TensorFlow beside an NVIDIA card",
        ),
        pytest.param(
            mac(metal=""), "versions", "warn", "metal is not installed", METAL_PAIR, id="no Metal"
        ),
        pytest.param(
            mac("2.21.0", "", python=(3, 13)),
            "python",
            "warn",
            "tensorflow-metal has no wheel",
            "Python 3.12",
            id="3.13",
        ),
        pytest.param(
            linux(interpreter=Interpreter((3, 15, 0))),
            "python",
            "fail",
            "knows no TensorFlow wheel",
            "3.11 or 3.12",
            id="too new",
        ),
        pytest.param(
            linux(interpreter=Interpreter(bits=32)),
            "python",
            "fail",
            "needs 64",
            "64-bit",
            id="32 bit",
        ),
        pytest.param(
            linux(installed=Installed("linux", "x86_64"), trial=SKIPPED),
            *("versions", "fail", "TensorFlow is not installed", "pip install tensorflow"),
            id="no TensorFlow",
        ),
        pytest.param(
            linux(providers=("tensorflow 2.21.0", "tensorflow-cpu 2.18.0")),
            *("versions", "warn", "tensorflow 2.21.0, tensorflow-cpu 2.18.0", "uninstall"),
            id="two at once",
        ),
        pytest.param(
            linux(backend="jax"),
            "keras",
            "warn",
            "backend is jax",
            "KERAS_BACKEND=tensorflow",
            id="jax",
        ),
        pytest.param(
            linux(environ={"TF_USE_LEGACY_KERAS": "1"}),
            "keras",
            "warn",
            "Keras 2",
            "unset",
            id="legacy Keras",
        ),
        pytest.param(
            linux(environ={"TF_ENABLE_ONEDNN_OPTS": "0"}),
            "onednn",
            "warn",
            "turns oneDNN operations off",
            "unset",
            id="oneDNN off",
        ),
        pytest.param(
            linux(interpreter=Interpreter(instructions=frozenset({"sse2"}))),
            *("avx", "fail", "no AVX", "-cpu host"),
            id="no AVX",
        ),
        pytest.param(
            linux(interpreter=Interpreter(instructions=frozenset({"avx"}))),
            *("avx", "warn", "AVX without AVX2", "virtual machine"),
            id="AVX alone",
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
        pytest.param(
            mac("2.21.0", "", python=(3, 13), trial=trial(CPU, METAL)), id="no tensorflow-metal"
        ),
        pytest.param(mac("2.20.0", "1.2.0"), id="a pair that is not known to load"),
        pytest.param(mac("2.18.0", "1.1.0"), id="a tensorflow-metal that is too old"),
    ],
)
def test_a_gpu_that_the_trial_sees_working_is_never_called_unused(facts: Facts) -> None:
    assert find_problems(facts) == {}
    assert machine_line(facts).endswith("GPU ok")
    assert not [
        check
        for check in run_checks(facts)
        if "not installed" in check.found or "not load" in check.found
    ]


_ROSETTA = mac(
    "2.16.2",
    "",
    arch="x86_64",
    interpreter=Interpreter(is_translated=True, is_arm64=True, instructions=frozenset({"sse4.2"})),
)


def test_under_rosetta_there_is_one_remedy() -> None:
    died = replace(
        _ROSETTA,
        trial=stopped("import", exit_code=-6, log_text="was compiled to use AVX instructions"),
    )
    for facts in (_ROSETTA, died):
        todos = {
            check.todo for check in run_checks(facts) if check.status in (Status.FAIL, Status.WARN)
        }

        assert todos - {"see rosetta"} == {found(facts, "rosetta")[2]}
        assert found(facts, "avx")[0] == "n/a"
    assert "aborts" not in found(_ROSETTA, "rosetta")[1]
    assert "TensorFlow aborts" in found(died, "rosetta")[1]


def test_another_distribution_of_tensorflow_is_named() -> None:
    assert (
        "installed by tensorflow-cpu 2.18.0"
        in found(linux(providers=("tensorflow-cpu 2.18.0",)), "versions")[1]
    )


def test_the_neural_engine_is_mentioned_on_macs_only() -> None:
    assert "does not use the Neural Engine" in found(mac(), "neural-engine")[1]
    assert sum("Neural" in check.found for check in run_checks(mac())) == 1
    assert found(linux(), "neural-engine")[0] == "n/a"


# -- the trial of TensorFlow -----------------------------------------------------------------------------


def test_without_tensorflow_its_checks_do_not_apply() -> None:
    facts = linux(installed=Installed("linux", "x86_64"), trial=SKIPPED)

    assert {
        found(facts, id)[0]
        for id in ("import", "devices", "matmul", "training-step", "fallback", "onednn")
    } == {"n/a"}
    assert find_problems(facts) == {"versions": "fail"}


def test_a_failed_import_fails_one_check_and_the_others_name_it() -> None:
    facts = linux(
        trial=stopped("import", exit_code=-4, log_text="Fatal Python error: Illegal instruction\n")
    )

    assert find_problems(facts) == {"import": "fail"}
    assert "ended by SIGILL" in found(facts, "import")[1]
    assert found(facts, "matmul")[1].endswith("stopped at import")


@pytest.mark.parametrize(
    ("stage", "id"),
    [("devices", "devices"), ("products", "matmul"), ("step", "training-step")],
    ids=str,
)
def test_a_later_stage_fails_its_own_check(stage: str, id: str) -> None:
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
    status, text, _ = found(
        linux(trial=stopped("import", outcome="timed out", log_text=words, limit_s=120)), "import"
    )

    assert status == "fail"
    assert "did not end within 120 s" in text
    assert "tensorflow/python/pywrap_tensorflow.py, line 73" in text


def test_a_slow_import_is_a_warning() -> None:
    slow = trial(CPU)
    slow = replace(
        slow, results={**slow.results, "import": {**slow.results["import"], "took_s": 48.0}}
    )

    assert found(linux(trial=slow), "import")[0] == "warn"


def test_a_crash_at_exit_fails_the_import_check() -> None:
    facts = linux(trial=replace(trial(CPU), outcome="died", stage="exit", exit_code=-11))

    assert "the import works, but exiting Python was ended by SIGSEGV" in found(facts, "import")[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"right": False}, "WRONG result", id="wrong"),
        pytest.param({"placed": "CPU:0"}, "GPU:0 requested, but CPU:0 computed", id="elsewhere"),
        pytest.param(
            {"error": "InternalError: no kernel image"}, "GPU:0 failed: InternalError", id="raises"
        ),
    ],
)
def test_a_failed_product_on_a_gpu_is_reported(changes: dict[str, Any], words: str) -> None:
    good = trial(CPU, H100)
    products = {"products": [product("CPU:0"), product("GPU:0", **changes)], "side": 1024}
    status, text, todo = found(
        with_gpu(trial=replace(good, results={**good.results, "products": products})), "matmul"
    )

    assert status == "fail"
    assert words in text
    assert "CPU:0 8.0 ms" in text
    assert "driver" in todo


def test_a_loss_that_is_not_a_number_fails() -> None:
    good = trial(CPU)
    step = {"compile_ms": 1.0, "step_ms": 1.0, "finite": False}

    assert (
        found(linux(trial=replace(good, results={**good.results, "step": step})), "training-step")[
            0
        ]
        == "fail"
    )


_LOSSES = [2.8, 2.6, 2.3]
_EQUAL = {"CPU:0": _LOSSES, "GPU:0": _LOSSES}


@pytest.mark.parametrize(
    ("losses", "status", "words"),
    [
        pytest.param([2.8, 2.59, 2.31], "ok", "with the CPU's losses", id="rounding"),
        pytest.param(
            [2.8, 2.6], "fail", "ends after 2 steps, and after 3 on the CPU", id="it breaks off"
        ),
        pytest.param(
            [2.8, 2.81, 2.9], "fail", "its loss is 2.81 at step 2, and 2.6 on the CPU", id="parts"
        ),
        pytest.param([2.8, 2.6, float("nan")], "fail", "nan at step 3", id="not a number"),
        pytest.param([0.0, 0.0, 0.0], "fail", "at step 1", id="nothing is computed"),
    ],
)
def test_a_device_that_trains_wrongly_fails_where_its_losses_part(
    losses: list[float], status: str, words: str
) -> None:
    good = trial(CPU, METAL)
    step = {**good.results["step"], "losses": {"CPU:0": _LOSSES, "GPU:0": losses}}
    got = found(mac(trial=replace(good, results={**good.results, "step": step})), "training-step")

    assert got[0] == status
    assert words in got[1]
    assert status == "ok" or "--device cpu" in got[2]


@pytest.mark.parametrize(
    ("compared", "words"),
    [
        ({"losses": {"CPU:0": _LOSSES}}, "its weights are on the CPU"),
        (
            {
                "losses": {"CPU:0": _LOSSES, "GPU:0": _LOSSES},
                "moves": {"gamma": 1.0, "kernel": 0.1},
            },
            "gamma moves otherwise",
        ),
        (
            {"losses": {"CPU:0": _LOSSES, "GPU:0": _LOSSES}, "moves": {"gamma": float("nan")}},
            "gamma moves otherwise",
        ),
    ],
)
def test_equal_losses_are_not_enough(compared: dict[str, Any], words: str) -> None:
    good = trial(CPU, METAL)
    step = {**good.results["step"], **compared}
    got = found(mac(trial=replace(good, results={**good.results, "step": step})), "training-step")

    assert got[0] == "fail"
    assert words in got[1]


def test_operations_that_fall_back_are_named_except_housekeeping() -> None:
    log = LogFacts(on_cpu=("Prod", "Range", "StatelessRandomUniformV2"), placed=57)
    status, text, _ = found(mac(trial=trial(CPU, METAL, log=log)), "fallback")

    assert status == "warn"
    assert "1 of 57 kinds" in text
    assert text.endswith("StatelessRandomUniformV2")
    assert (
        found(mac(trial=trial(CPU, METAL, log=LogFacts(on_cpu=("Prod",), placed=57))), "fallback")[
            0
        ]
        == "ok"
    )
    assert found(mac(trial=trial(CPU, METAL, log=LogFacts())), "fallback")[0] == "n/a"


# -- GPUs -----------------------------------------------------------------------------------------


def test_a_metal_gpu_has_the_name_of_the_chip() -> None:
    assert found(mac(), "devices")[1] == "CPU:0, GPU:0 (Apple M2 Pro)"
    assert found(with_gpu(), "devices")[1] == "CPU:0, GPU:0 (NVIDIA H100 80GB HBM3)"


_BLIND = trial(CPU, build=CUDA_BUILD)
_DRIVER = Nvidia("580.159.04", has_card=True, has_device_files=True)


@pytest.mark.parametrize(
    ("facts", "expected", "words"),
    [
        pytest.param(
            linux(
                trial=trial(
                    CPU, build=CUDA_BUILD, log=LogFacts(missing_libraries=("libcudnn.so.9",))
                ),
                nvidia=_DRIVER,
            ),
            {"devices": "fail", "cuda": "fail"},
            "could not load libcudnn.so.9",
            id="a library is missing",
        ),
        pytest.param(
            linux(
                trial=trial(
                    CPU, build=CUDA_BUILD, log=LogFacts(missing_libraries=("libcuda.so.1",))
                ),
                nvidia=_DRIVER,
            ),
            {"devices": "fail", "cuda": "fail"},
            "could not load libcuda.so.1",
            id="the driver's library is missing",
        ),
        pytest.param(
            linux(trial=trial(CPU, build={"is_cuda_build": "False"}), nvidia=_DRIVER),
            {"devices": "fail", "cuda": "fail"},
            "built without CUDA",
            id="tensorflow-cpu",
        ),
        pytest.param(
            linux(trial=_BLIND, nvidia=replace(_DRIVER, driver="470.82.01")),
            {"devices": "fail", "cuda": "fail"},
            "older than CUDA 12.5.1 needs",
            id="an old driver",
        ),
        pytest.param(
            linux(trial=_BLIND, nvidia=_DRIVER),
            {"devices": "fail", "cuda": "fail"},
            "but TensorFlow sees no GPU",
            id="for no known reason",
        ),
        pytest.param(
            linux(trial=_BLIND, nvidia=Nvidia("580.159.04", has_card=True)),
            {"devices": "warn", "cuda": "warn"},
            "this container has no access to the GPU",
            id="a container without its GPU",
        ),
        pytest.param(
            linux(trial=_BLIND, nvidia=Nvidia(has_card=True)),
            {"devices": "warn", "cuda": "warn"},
            "no NVIDIA driver",
            id="a card without a driver",
        ),
        pytest.param(
            linux(trial=_BLIND, nvidia=replace(_DRIVER, hidden="-1")),
            {"devices": "warn"},
            "loaded its libraries",
            id="hidden",
        ),
    ],
)
def test_a_gpu_that_tensorflow_misses_is_explained(
    facts: Facts, expected: dict[str, str], words: str
) -> None:
    assert find_problems(facts) == expected
    assert words in found(facts, "cuda")[1]


@pytest.mark.parametrize(
    ("library", "todo"),
    [
        ("libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES"),
        ("libnvidia-ml.so.1", "NVIDIA_DRIVER_CAPABILITIES"),
        ("libcudnn.so.9", "tensorflow[and-cuda]"),
    ],
)
def test_the_remedy_for_a_missing_library_names_its_source(library: str, todo: str) -> None:
    log = LogFacts(missing_libraries=(library,))

    assert (
        todo in found(linux(trial=trial(CPU, build=CUDA_BUILD, log=log), nvidia=_DRIVER), "cuda")[2]
    )


def test_a_mac_whose_plug_in_shows_no_gpu_fails() -> None:
    assert find_problems(mac(trial=trial(CPU))) == {"devices": "fail"}
    assert (
        "though tensorflow-metal 1.2.0 is installed" in found(mac(trial=trial(CPU)), "devices")[1]
    )


def test_a_gpu_of_another_plug_in_needs_no_cuda() -> None:
    gpu = {"name": "GPU:0", "kind": "GPU", "model": "another maker's"}
    facts = with_gpu(trial=trial(CPU, gpu, build={"is_cuda_build": "False"}))

    assert find_problems(facts) == {}
    assert "a plug-in provides the GPU" in found(facts, "cuda")[1]


_PTX = (
    "W0000 gpu_device.cc:2433] TensorFlow was not built with CUDA kernel binaries compatible with compute capability "
    "12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer.\n"
)
_REFUSED_PTX = "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'"
_CUDNN = (
    "E0000 cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.  CuDNN library "
    "needs to have matching major version and equal or higher minor version.\n"
)
_LIBDEVICE = "INTERNAL: libdevice not found at ./libdevice.10.bc"


@pytest.mark.parametrize(
    ("log_text", "error", "status", "words", "todo"),
    [
        pytest.param(
            _PTX,
            "",
            "warn",
            "(compute capability 12.0): each one is compiled",
            "nvcr.io",
            id="Blackwell, compiled",
        ),
        pytest.param(
            _PTX,
            _REFUSED_PTX,
            "fail",
            "the driver cannot compile them from PTX",
            "nvcr.io",
            id="Blackwell, refused",
        ),
        pytest.param(
            "",
            "no kernel image is available for execution",
            "fail",
            "has no kernels",
            "nvcr.io",
            id="old",
        ),
        pytest.param(
            _CUDNN,
            "FAILED_PRECONDITION: DNN library initialization failed.",
            *(
                "fail",
                "loaded cuDNN 9.1.0, but it is built for 9.3.0",
                "'nvidia-cudnn-cu12>=9.3.0,<10'",
            ),
            id="cuDNN",
        ),
        pytest.param(
            "",
            _LIBDEVICE,
            "fail",
            "does not find CUDA's libdevice.10.bc",
            "xla_gpu_cuda_data_dir",
            id="XLA",
        ),
    ],
)
def test_a_known_fault_of_cuda_has_a_sentence_and_a_remedy(
    log_text: str, error: str, status: str, words: str, todo: str
) -> None:
    good = trial(CPU, H100, build=CUDA_BUILD)
    changes: dict[str, Any] = {"error": error} if error else {}
    products = {"products": [product("CPU:0"), product("GPU:0", **changes)], "side": 1024}
    facts = with_gpu(
        trial=replace(good, results={**good.results, "products": products}, log_text=log_text)
    )
    got = found(facts, "cuda")

    assert got[0] == status
    assert words in got[1]
    assert todo in got[2]
    if error:
        assert words in found(facts, "matmul")[1]
        assert todo in found(facts, "matmul")[2]


def test_a_known_fault_of_cuda_explains_a_training_step_that_dies() -> None:
    dead = stopped(
        "step",
        exit_code=1,
        log_text=f"{_CUDNN}tensorflow.python.framework.errors_impl.Error: DNN\n",
    )
    status, text, todo = found(with_gpu(trial=dead), "training-step")

    assert (status, "built for 9.3.0" in text) == ("fail", True)
    assert "nvidia-cudnn-cu12>=9.3.0,<10" in todo


def test_a_missing_libdevice_fails_where_only_xla_needs_it() -> None:
    good = trial(CPU, H100, build=CUDA_BUILD)
    products = {**good.results["products"], "xla_error": _LIBDEVICE}

    facts = with_gpu(trial=replace(good, results={**good.results, "products": products}))
    assert found(facts, "cuda")[0] == "fail"
    assert "libdevice" in found(facts, "cuda")[1]


def test_what_xla_cannot_compile_fails_the_cuda_check() -> None:
    good = trial(CPU, H100, build=CUDA_BUILD)
    products = {**good.results["products"], "xla_error": "InternalError: ptxas is missing"}
    facts = with_gpu(trial=replace(good, results={**good.results, "products": products}))

    assert found(facts, "cuda")[0] == "fail"
    assert (
        "XLA cannot compile for the GPU: InternalError: ptxas is missing" in found(facts, "cuda")[1]
    )


def test_a_missing_tensorrt_library_is_no_problem() -> None:
    log = LogFacts(missing_libraries=("libnvinfer.so.8",), placed=57)

    assert find_problems(with_gpu(trial=trial(CPU, H100, build=CUDA_BUILD, log=log))) == {}


# -- the machine ----------------------------------------------------------------------------------


def _machine(**figures: float) -> Machine:
    return Machine(
        16 * GB, swap_total_bytes=8 * GB, figures={"memory_available_bytes": 9 * GB, **figures}
    )


@pytest.mark.parametrize(
    ("facts", "id", "status", "words"),
    [
        pytest.param(
            linux(machine=_machine(memory_available_bytes=GB)),
            "memory",
            "warn",
            "1.0 GB of",
            id="little memory",
        ),
        pytest.param(
            linux(machine=replace(_machine(), allowed_bytes=4 * GB)),
            "memory",
            "ok",
            "a container's limit",
            id="limited",
        ),
        pytest.param(
            linux(machine=Machine(16 * GB)),
            "memory",
            "n/a",
            "does not report",
            id="memory not known",
        ),
        pytest.param(
            linux(machine=_machine(swap_used_bytes=5 * GB)),
            "swap",
            "warn",
            "5.0 GB of 8.0 GB",
            id="swapped",
        ),
        pytest.param(
            linux(machine=_machine(swap_used_bytes=GB)),
            "swap",
            "ok",
            "1.0 GB of 8.0 GB",
            id="some swap",
        ),
        pytest.param(
            linux(machine=_machine(swap_used_bytes=GB, swap_in_bytes_s=60e6)),
            "swap",
            "warn",
            "60 MB/s",
            id="swapping",
        ),
        pytest.param(
            linux(machine=_machine(memory_stalled=0.2)),
            "memory-pressure",
            "warn",
            "20 % of",
            id="stalled",
        ),
        pytest.param(
            mac(machine=_machine(memory_level=2)),
            "memory-pressure",
            "warn",
            "critical",
            id="critical",
        ),
        pytest.param(
            linux(machine=replace(_machine(), gaps={"pressure": Unavailable("no PSI", "psi=1")})),
            *("memory-pressure", "n/a", "no PSI"),
            id="no pressure",
        ),
        pytest.param(mac(machine=_machine(thermal_level=3)), "thermal", "warn", "heavy", id="hot"),
        pytest.param(mac(machine=_machine(thermal_level=0)), "thermal", "ok", "nominal", id="cool"),
        pytest.param(
            mac(machine=_machine(on_mains=0)), "thermal", "warn", "on battery", id="on battery"
        ),
        pytest.param(
            linux(cores=Cores(64, 64, 2.0)), "cores", "warn", "quota allows 2", id="a quota"
        ),
        pytest.param(
            linux(cores=Cores(64, 4)), "cores", "ok", "4 of 64 cores", id="bound to cores"
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 20e6, 1.0, 12, 1.0)),
            "disk",
            "warn",
            "20 MB/s",
            id="a slow disk",
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 20e6, 1.0, 12, 1.0, 0.97)),
            *("disk", "n/a", "97 % of the cores were in use"),
            id="a slow read on a busy machine",
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 20e6, 1.0, 12, 1.0, 0.3)),
            "disk",
            "warn",
            "20 MB/s",
            id="a slow disk, idle cores",
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 20e6, 1.0, 8000, 1.0)),
            "disk",
            "ok",
            "8 000 files/s",
            id="many small files",
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 64e6, 0.1, None, 0.0)),
            "disk",
            "ok",
            "100 % of it from memory",
            id="from memory",
        ),
        pytest.param(
            linux(disk=DiskSpeed("/n", 64e6, 0.1)),
            "disk",
            "ok",
            "may come from memory",
            id="a Mac's disk",
        ),
        pytest.param(
            linux(disk=Unavailable("too little space", "make room")),
            "disk",
            "n/a",
            "too little",
            id="no disk",
        ),
    ],
)
def test_checks_of_the_machine(facts: Facts, id: str, status: str, words: str) -> None:
    got = found(facts, id)

    assert got[0] == status
    assert words in got[1]


# -- what tfwatch needs ---------------------------------------------------------------------------

_SMALL = Terminal(40, 10, (60, 18), 0, has_unicode=False, kind="xterm")


@pytest.mark.parametrize(
    ("facts", "id", "status", "words"),
    [
        pytest.param(
            linux(terminal=_SMALL), "terminal", "warn", "40x10, no colours, no Unicode", id="small"
        ),
        pytest.param(
            linux(terminal=replace(_SMALL, kind="dumb")),
            "terminal",
            "warn",
            "cannot show the screen",
            id="dumb",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/runs", "Read-only file system")),
            "runs-folder",
            "fail",
            "Read-only",
            id="read-only",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/runs", "No space left on device")),
            "runs-folder",
            "fail",
            "No space",
            id="full",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/runs", free_bytes=1e6)),
            "runs-folder",
            "warn",
            "0.0 GB free",
            id="nearly",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/r", is_there=False)),
            "runs-folder",
            "ok",
            "first run",
            id="no run yet",
        ),
        pytest.param(
            linux(runs=RunsFolder("~/r", is_there=False, free_bytes=1e6)),
            *("runs-folder", "warn", "created by the first run, 0.0 GB free"),
            id="the first run on a nearly full disk",
        ),
        pytest.param(
            linux(
                runs=RunsFolder(
                    "/home/a/runs", hangs="10 s; it is on /home (nfs4 from server:/home)"
                )
            ),
            *("runs-folder", "fail", "within 10 s; it is on /home (nfs4 from server:/home)"),
            id="a home folder that hangs",
        ),
        pytest.param(mac(), "powermetrics", "n/a", "sudo has no rule", id="a password is needed"),
        pytest.param(
            mac(powermetrics=Available()), "powermetrics", "ok", "permitted", id="permitted"
        ),
        pytest.param(
            with_gpu(
                gpu_counters=(
                    "NVML",
                    Unavailable("nvidia-ml-py is not installed", "pip install nvidia-ml-py"),
                )
            ),
            *("gpu-counters", "warn", "nvidia-ml-py is not installed"),
            id="no NVML",
        ),
    ],
)
def test_checks_of_what_tfwatch_needs(facts: Facts, id: str, status: str, words: str) -> None:
    got = found(facts, id)

    assert got[0] == status
    assert words in got[1]


def test_a_trial_that_cannot_be_started_fails() -> None:
    facts = linux(trial=Trial("not started", log_text="Cannot allocate memory"))

    assert find_problems(facts) == {"import": "fail"}
    assert "Cannot allocate memory" in found(facts, "import")[1]
