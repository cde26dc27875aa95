"""The workloads: plain scripts, which run by themselves and as `tfwatch train` runs them."""

import ast
import importlib
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Launch, announce_in
from tfwatch.watch.script.import_hook import ImportHook
from tfwatch.workloads import as_main, list_workloads, script_of

#: Arguments with which a workload trains a few steps; those of a loop of its own, which `steps`
#: does not end, too.
SMALL = {
    "arrays": ("--epochs", "1", "--batch-size", "100"),
    "cifar10": ("--eager",),
    "cnn": ("--image-size", "16", "--storage-latency", "1"),
    "cnn-loop": ("--epochs", "1", "--batch-size", "100"),
    "conv": ("--mixed-precision",),
    "dense": ("--jit", "--seed", "1"),
    "generator": ("--steps-per-execution", "2"),
    "large-images": ("--batch-size", "2"),
    "matmul": ("--size", "32", "--optimizer", "sgd"),
    "timeseries": (),
    "transfer": ("--batch-size", "4"),
}
STEPS = 4
#: Three batches of the two loops.
IMAGES = 300


def test_there_are_eleven_and_each_has_a_line() -> None:
    known = list_workloads()
    assert set(known) == set(SMALL)
    assert all(20 < len(line) < 110 for line in known.values())
    assert known["cnn-loop"].endswith("shows tf.function's gain")


@pytest.mark.parametrize("name", SMALL)
def test_a_script_runs_bare_and_imports_nothing_of_tfwatch(name: str) -> None:
    text = script_of(name).read_text()
    imports = [
        one for one in ast.walk(ast.parse(text)) if isinstance(one, (ast.Import, ast.ImportFrom))
    ]
    assert "tfwatch" not in {word.name for one in imports for word in one.names}
    words = [sys.executable, str(script_of(name)), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "--learning-rate" in done.stdout
    assert done.stderr == ""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with two classes of images."""
    import tensorflow as tf

    home = tmp_path_factory.mktemp("cache")
    for name in ("one", "two"):
        (home / "tfwatch" / "jpeg-files" / name).mkdir(parents=True)
        for number in range(12):
            image = tf.random.stateless_uniform((24, 24, 3), (1, number), 0, 255, tf.int32)
            data = tf.io.encode_jpeg(tf.cast(image, tf.uint8)).numpy()
            (home / "tfwatch" / "jpeg-files" / name / f"{number}.jpg").write_bytes(data)
    return home


@pytest.fixture
def _few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep 60 000 images, and a convolution's gigabytes for batches of them, out of the tests."""
    with as_main([str(script_of("arrays"))]):
        data = importlib.import_module("workload_setup")
    patterns = data.patterns
    monkeypatch.setattr(
        data, "patterns", lambda count, *rest, **seed: patterns(min(count, IMAGES), *rest, **seed)
    )


def run_watched(words: list[str], launch: Launch) -> None:
    """Run a script in this process, which has TensorFlow already, as its own child would."""
    from tfwatch.watch.fit.fit_runs import complete_runs

    hook = ImportHook(launch.runs_dir)
    hook.install()
    announce_in("", launch=launch)
    try:
        with as_main(words):
            runpy.run_path(words[0], run_name="__main__")
    finally:
        hook.uninstall()
        complete_runs()
        announce_in("")


@pytest.mark.tensorflow
@pytest.mark.usefixtures("_few_images")
@pytest.mark.parametrize("name", SMALL)
def test_a_workload_trains_and_is_recorded(
    name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    arguments = " ".join(SMALL[name])
    launch = Launch(str(tmp_path / "runs"), STEPS, settings={"arguments": arguments})
    run_watched([str(script_of(name)), *SMALL[name]], launch)

    (folder,) = list_runs(tmp_path / "runs")
    run = open_run(folder)
    assert run.manifest.workload == script_of(name).stem
    assert run.manifest.settings.get("arguments", "") == arguments
    assert run.ended
    assert (run.ended.cause, 3 <= run.ended.steps <= STEPS) == ("finished", True)
    assert len(run.steps) == run.ended.steps
