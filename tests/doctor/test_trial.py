"""A child that does anything but work: its end is told, in its own words, and nothing here waits for it."""

from __future__ import annotations

import json
import sys

import pytest

from tfwatch.doctor.crash_reasons import explain
from tfwatch.doctor.trial import Trial, run_trial

_IMPORTED = 'print(\'{"begin": "import"}\\n{"end": "import", "took_s": 2.0, "tensorflow": "2.19.1"}\', flush=True)\n'
_WHOLE = _IMPORTED + 'print(\'{"end": "all", "most_bytes": 1}\', flush=True)\n'


def child(code: str, limit_s: float = 60.0) -> Trial:
    """What comes of a Python program."""
    program = f"import os, signal, sys, time\n{code}"
    return run_trial([sys.executable, "-c", program], lambda _: None, limit_s)


def test_a_child_that_tells_all_is_whole() -> None:
    tried = child(f"{_WHOLE}sys.stderr.write('oneDNN custom operations are on\\n')")

    assert (tried.fate, tried.stage, tried.code) == ("whole", "", 0)
    assert tried.results["import"]["took_s"] == 2.0
    assert tried.log.onednn


def test_each_stage_is_told_as_it_begins() -> None:
    told: list[str] = []
    lines = "".join(f"print('{json.dumps({'begin': stage})}')\n" for stage in ("import", "devices", "step"))
    run_trial([sys.executable, "-c", lines], told.append)

    assert told == ["import", "devices", "step"]


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
            "sys.stderr.write('F0000 cpu_feature_guard.cc:32] The TensorFlow library was compiled to use AVX "
            "instructions, but these aren\\'t available on your machine.\\n'); sys.stderr.flush(); os.abort()",
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
            "raise ImportError('dlopen(x): symbol not found in flat namespace "
            "\\'__ZN3tsl8internal10LogMessageC1EPKcii\\'')",
            "symbol not found in flat namespace",
            "a pair that works",
            id="missing symbol",
        ),
        pytest.param(
            "raise ImportError('libcublas.so.12: cannot open shared object file: No such file or directory')",
            "libcublas.so.12: cannot open shared object file",
            "fresh virtual environment",
            id="missing so",
        ),
        pytest.param(
            "import no_such_module_at_all",
            "No module named 'no_such_module_at_all'",
            "what is named",
            id="missing module",
        ),
        pytest.param("raise RuntimeError('odd')", "RuntimeError: odd", "fresh virtual environment", id="anything else"),
        pytest.param("sys.exit(3)", "failed with exit code 3", "fresh virtual environment", id="without a word"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "killed from outside", "free memory", id="out of memory"),
    ],
)
def test_a_child_that_dies_is_told_in_its_own_words(code: str, words: str, todo: str) -> None:
    tried = child(code)

    assert (tried.fate, tried.stage) == ("died", "import")
    found, advice = explain(tried)
    assert found.startswith("import tensorflow ")
    assert words in found
    assert todo in advice


def test_what_it_told_before_it_died_is_kept() -> None:
    tried = child(f'{_IMPORTED}print(\'{{"begin": "devices"}}\', flush=True); os.abort()')

    assert (tried.fate, tried.stage) == ("died", "devices")
    assert tried.results["import"]["tensorflow"] == "2.19.1"


def test_a_child_that_dies_on_leaving_is_told_so() -> None:
    assert child(f"{_WHOLE}os.abort()").stage == "exit"


def test_a_child_that_hangs_is_killed_and_says_where_it_was() -> None:
    hang = "import faulthandler; faulthandler.dump_traceback_later(0.2)\ndef wait_for_a_driver(): time.sleep(600)\n"
    tried = child(f"{hang}wait_for_a_driver()", limit_s=2.0)

    assert (tried.fate, tried.code) == ("hung", None)
    assert "did not end within 2 s" in explain(tried)[0]


def test_a_child_that_leaves_another_behind_holds_nobody_up() -> None:
    tried = child(f"{_WHOLE}os.fork() or time.sleep(20)", limit_s=1.0)

    assert tried.fate == "hung"


def test_a_flood_of_words_is_cut_to_its_end() -> None:
    tried = child(
        f"{_WHOLE}sys.stderr.write('x' * 79 + '\\n')\nfor _ in range(400000): sys.stderr.write('x' * 79 + '\\n')\n"
        "sys.stderr.write('the end')"
    )

    assert tried.fate == "whole"
    assert len(tried.words) < 10 * 2**20
    assert tried.words.endswith("the end")


@pytest.mark.parametrize(
    "line", ["", "{", "[1]", "null", "[[]]", '{"end": 3}', '"begin"', "\\x00\\xff", "{" * 100_000], ids=str
)
def test_results_that_cannot_be_read_are_left_out(line: str) -> None:
    tried = child(f"sys.stdout.buffer.write(b'''{line}''' + b'\\n'); sys.stdout.flush()\n{_WHOLE}")

    assert tried.fate == "whole"
    assert tried.results["import"]["took_s"] == 2.0


def test_a_program_that_cannot_be_started() -> None:
    tried = run_trial(["/nonexistent/python"], lambda _: None)

    assert tried.fate == "failed"
    assert "No such file" in explain(tried)[0]


def test_a_child_hears_what_it_needs_and_keeps_what_the_user_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    tried = child(
        "names = 'TF_CPP_MIN_LOG_LEVEL', 'TF_FORCE_GPU_ALLOW_GROWTH', 'CUDA_VISIBLE_DEVICES'\n"
        "sys.stderr.write(' '.join(os.environ[name] for name in names))"
    )

    assert tried.words == "0 true 1"
