"""The user's own file is checked without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.workloads.files import EXAMPLE, IMPORTS, LIVE, MODEL, ONCE
from tfwatch import cli
from tfwatch.workloads import registry
from tfwatch.workloads.user import file
from tfwatch.workloads.user.errors import ErrorLocator, name_error
from tfwatch.workloads.workload import BadInputError, RaisedError, Settings

if TYPE_CHECKING:
    from collections.abc import Callable


NO_WORKLOADS = {
    "syntax": ("def model():\n  return (", "own.py:2: '(' was never closed"),
    "return outside": ("x = 1\nreturn 5", "own.py:2: 'return' outside function"),
    "no text": ("\0", "own.py"),
    "empty": ("", "own.py has no function model()"),
    "no data": ("def model(): ...", "own.py has no function dataset(knobs), nor source() and pipeline(source, knobs)"),
    "source alone": (
        "def model(): ...\ndef source(): ...",
        "own.py has source() and no function pipeline(source, knobs)",
    ),
    "pipeline alone": (
        "def model(): ...\ndef pipeline(source, knobs): ...",
        "own.py has pipeline(source, knobs) and no function source()",
    ),
    "both": (
        "from x import model, dataset, pipeline",
        "own.py has both dataset(knobs) and pipeline(source, knobs): keep one",
    ),
    "too few": ("def model(): ...\n\ndef dataset(): ...", "own.py:3: dataset is called as dataset(knobs)"),
    "too many": ("def model(size): ...\ndef dataset(knobs): ...", "own.py:1: model is called as model()"),
    "by name": ("def model(*, size): ...\ndef dataset(knobs): ...", "own.py:1: model is called as model()"),
}


@pytest.mark.parametrize(("text", "sentence"), NO_WORKLOADS.values(), ids=NO_WORKLOADS)
def test_a_file_that_is_not_a_workload_is_refused_before_the_start(
    text: str, sentence: str, written: Callable[[str], str]
) -> None:
    with pytest.raises(BadInputError) as raised:
        registry.settle(written(text), {})
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)


NO_FILES = {
    "near": ("won.py", "there is no file won.py: did you mean own.py?"),
    "no folder": ("/nonexistent/x.py", "there is no file /nonexistent/x.py"),
    "folder": ("folder.py", "folder.py is a folder: give a Python file"),
    "null byte": ("x\0.py", r"'x\x00.py' cannot be read: embedded null byte"),
    "a workload's name": ("cmn", "no workload 'cmn': did you mean cnn?"),
}


@pytest.mark.parametrize(("name", "sentence"), NO_FILES.values(), ids=NO_FILES)
def test_a_path_that_is_not_a_file_is_refused(name: str, sentence: str, written: Callable[[str], str]) -> None:
    written("")
    Path("folder.py").mkdir()
    with pytest.raises(BadInputError) as raised:
        registry.find(name)
    assert str(raised.value) == sentence


def test_functions_may_be_imported_and_have_optional_arguments(written: Callable[[str], str]) -> None:
    assert registry.find(written("from models import *")).only
    assert registry.find(written("from models import model\ndataset = print")).is_built_once
    entry = registry.find(written("def model(size=3): ...\nif True:\n    def dataset(*args): ..."))
    assert (entry.is_built_once, entry.fast, entry.reads_files) == (True, "", False)


@pytest.mark.parametrize(
    ("in_fetch", "sentence"),
    [
        (False, "own.py:12: a step of model(): ValueError: no"),
        (True, "own.py:8: a batch of dataset(): ValueError: no"),
    ],
)
def test_an_error_names_the_function_that_failed(in_fetch: bool, sentence: str, written: Callable[[str], str]) -> None:
    places = ErrorLocator(file.read(written(ONCE)))
    assert places.explain(RaisedError(ValueError("no"), in_fetch)) == sentence


def test_the_file_has_the_knobs_that_it_uses(written: Callable[[str], str]) -> None:
    entry = registry.find(written(IMPORTS + EXAMPLE + LIVE + MODEL))
    assert (entry.is_built_once, entry.fast) == (False, "fast pipeline")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(ONCE, "own", id="the file's"),
        pytest.param(f'{ONCE}\nNAME = "flowers, big/small"', "flowers__big_small", id="set"),
        pytest.param(f'{ONCE}\nNAME = ".."', "own", id="dots"),
    ],
)
def test_a_run_has_the_name_that_the_file_sets(text: str, name: str, written: Callable[[str], str]) -> None:
    assert registry.title(written(text)) == name


def test_a_file_takes_few_settings(written: Callable[[str], str]) -> None:
    name = written(ONCE)
    assert registry.settle(name, {"steps": 5, "seed": 1, "data": None}) == Settings(epochs=1, steps=5, seed=1)
    for setting, value in (("batch_size", 8), ("image_size", 32), ("data", Path("x")), ("weights", "none")):
        with pytest.raises(BadInputError, match=f"^own.py takes no --{setting.replace('_', '-')}(:|$)"):
            registry.settle(name, {setting: value})


REFUSED = {
    "train own.py --batch-size 8": "own.py takes no --batch-size: dataset(knobs) makes the batches",
    "train own.py --optimizer sgd": "own.py takes no --optimizer: model() compiles with its own optimizer",
    "train own.py --image-size 32": "own.py takes no --image-size",
    "train own.py --fast-pipeline": "own.py takes no fast-pipeline: it has no fast pipeline",
    "train own.py --storage-latency 5": "own.py takes no storage-latency: it reads no files while it trains",
    "train own.py --switch 9:workers=2": "own.py takes switches of prefetch only, for its dataset() is built once",
    "bench own.py": "own.py is a file: bench times the workloads that `tfwatch workloads` lists",
}


@pytest.mark.parametrize(("command", "sentence"), REFUSED.items(), ids=REFUSED)
def test_a_setting_that_a_file_does_not_take_is_refused_in_a_sentence(
    command: str, sentence: str, written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    written(ONCE)
    assert cli.main(command.split()) == 2
    assert capsys.readouterr() == ("", f"tfwatch: {sentence}\n")


def test_an_error_without_a_message_is_named_once() -> None:
    assert [name_error(error) for error in (OSError(), ValueError("no"), KeyError("KeyError: 1"))] == [
        "OSError",
        "ValueError: no",
        "KeyError: 'KeyError: 1'",
    ]


def test_an_assertion_of_tensorflow_is_its_message_alone() -> None:
    asserted = "Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true. Summarized data: "
    error = ValueError(f"{asserted}b'No files matched pattern: photos/*/*.jpg'")

    assert name_error(error) == "ValueError: No files matched pattern: photos/*/*.jpg"
