"""A trial of TensorFlow in a child process: a failure is explained from the child's log, and
nothing waits for it."""

import sys

import pytest

from tfwatch.doctor.trial import Trial, explain, run_trial

_IMPORTED = (
    'print(\'{"begin": "import"}\\n{"end": "import", "took_s": 2.0, "tensorflow": "2.19.1"}\','
    " flush=True)\n"
)
_WHOLE = _IMPORTED + 'print(\'{"end": "all", "most_bytes": 1}\', flush=True)\n'


def child(code: str, limit_s: float = 60.0) -> Trial:
    """Run a Python program as a trial."""
    program = f"import os, signal, sys, time\n{code}"
    return run_trial([sys.executable, "-c", program], limit_s)


@pytest.mark.parametrize(
    ("code", "words", "todo"),
    [
        pytest.param(
            "os.kill(os.getpid(), signal.SIGILL)",
            "ended by SIGILL (the processor lacks an instruction",
            "arm64 Python",
            id="illegal instruction",
        ),
        pytest.param(
            "sys.stderr.write('F0000 cpu_feature_guard.cc:32] The TensorFlow library was compiled"
            " to use AVX instructions, but these aren\\'t available on your machine.\\n');"
            " sys.stderr.flush(); os.abort()",
            "ended by SIGABRT: The TensorFlow library was compiled to use AVX instructions",
            "arm64 Python",
            id="AVX abort",
        ),
        pytest.param(
            "raise ImportError('dlopen(/v/libmetal_plugin.dylib, 0x6): Library not loaded: "
            "@rpath/_pywrap_tensorflow_internal.so\\n  Referenced from: /v/libmetal_plugin.dylib')",
            "1: Library not loaded: @rpath/_pywrap_tensorflow_internal.so",
            "a pair that works",
            id="missing dylib",
        ),
        pytest.param(
            "raise ImportError('libcublas.so.12: cannot open shared object file: No such file or"
            " directory')",
            "libcublas.so.12: cannot open shared object file",
            "fresh virtual environment",
            id="missing so",
        ),
        pytest.param(
            "raise RuntimeError('odd')",
            "RuntimeError: odd",
            "fresh virtual environment",
            id="anything else",
        ),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGKILL)",
            "the system or another process killed it",
            "free memory",
            id="out of memory",
        ),
    ],
)
def test_a_failed_child_is_explained_from_its_log(code: str, words: str, todo: str) -> None:
    trial = child(code)

    assert (trial.outcome, trial.stage) == ("died", "import")
    found, advice = explain(trial)
    assert found.startswith("import tensorflow ")
    assert words in found
    assert todo in advice


def test_results_before_a_crash_are_kept() -> None:
    trial = child(f'{_IMPORTED}print(\'{{"begin": "devices"}}\', flush=True); os.abort()')

    assert (trial.outcome, trial.stage) == ("died", "devices")
    assert trial.results["import"]["tensorflow"] == "2.19.1"


def test_a_crash_at_exit_is_reported_as_such() -> None:
    assert child(f"{_WHOLE}os.abort()").stage == "exit"


def test_a_hanging_child_is_killed() -> None:
    trial = child("time.sleep(600)", limit_s=1.0)

    assert (trial.outcome, trial.exit_code) == ("timed out", None)
    assert "did not end within 1 s" in explain(trial)[0]


def test_a_long_log_is_cut_to_its_end() -> None:
    trial = child(
        f"{_WHOLE}sys.stderr.write('x' * 79 + '\\n')\nfor _ in range(400000): sys.stderr.write('x'"
        " * 79 + '\\n')\nsys.stderr.write('the end')"
    )

    assert trial.outcome == "completed"
    assert len(trial.log_text) < 10 * 2**20
    assert trial.log_text.endswith("the end")


def test_a_child_that_reports_every_stage_is_complete_whatever_it_prints_beside() -> None:
    other = r"sys.stdout.buffer.write(b'{\n[1]\n\x00\xff\n'); sys.stdout.flush()"
    trial = child(f"{other}\n{_WHOLE}")

    assert (trial.outcome, trial.stage, trial.exit_code) == ("completed", "", 0)
    assert trial.results["import"]["took_s"] == 2.0


def test_a_program_that_cannot_be_started_is_reported() -> None:
    trial = run_trial(["/nonexistent/python"])

    assert trial.outcome == "not started"
    assert "No such file" in explain(trial)[0]


def test_a_child_gets_the_variables_of_the_trial_and_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    trial = child(
        "names = 'TF_CPP_MIN_LOG_LEVEL', 'TF_FORCE_GPU_ALLOW_GROWTH', 'CUDA_VISIBLE_DEVICES'\n"
        "sys.stderr.write(' '.join(os.environ[name] for name in names))"
    )

    assert trial.log_text == "0 true 1"
