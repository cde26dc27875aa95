"""The lines of a notebook: a code suggestion names the cell by its prompt, and the line as its user
sees it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tfwatch.core.script_code import edited_lines
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline
from tfwatch.watch.script.patches import patch_stages

pytestmark = pytest.mark.tensorflow

IMPORT = "import tensorflow as tf"
PIPELINE = "\n\ndata = tf.data.Dataset.range(40)\ndata = data.map(abs)\ndata = data.batch(4)"
SUGGESTED = (
    "# In [2], line 4  in place of: data = data.map(abs)\ndata = data.map(abs,"
    " num_parallel_calls=tf.data.AUTOTUNE)"
)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[InteractiveShell]:
    config = Config(
        {"HistoryManager": {"enabled": False}, "ProfileDir": {"location": str(tmp_path)}}
    )
    yield InteractiveShell.instance(config=config)
    InteractiveShell.clear_instance()


@pytest.fixture
def run_cells(shell: Any) -> Iterator[Callable[..., str]]:
    """Return a function that runs cells, and returns the lines of code for parallel calls of the
    maps of `data`."""

    def run(*cells: str) -> str:
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()
        script = ScriptPipeline()
        script.read(iter(shell.user_ns["data"]))
        return edited_lines(script.edits, {"workers": "auto"})

    patches = patch_stages(tensorflow)
    yield run
    patches.close()


def test_a_line_is_named_by_its_cell_and_its_number_in_it(run_cells: Callable[..., str]) -> None:
    assert run_cells(IMPORT, PIPELINE) == SUGGESTED


def test_a_cell_that_ran_again_has_its_newest_number(run_cells: Callable[..., str]) -> None:
    assert "In [3], line 4" in run_cells(IMPORT, "1", PIPELINE)


@pytest.mark.parametrize("name", ["notebook", "terminal"])
def test_a_kernel_names_the_files_of_cells_in_its_own_way(
    name: str, shell: Any, run_cells: Callable[..., str]
) -> None:
    if (
        name == "notebook"
    ):  # as ipykernel: by the cell's text alone, so that it is the same file when it runs again
        shell.compile.get_code_name = lambda raw, _code, _number: (
            f"/tmp/ipykernel_1/{abs(hash(raw))}.py"
        )
    assert run_cells(
        PIPELINE.replace("tf.", "__import__('tensorflow')."), IMPORT, PIPELINE
    ).startswith("# In [3]")
    assert run_cells(PIPELINE).startswith("# In [4]")


def test_a_cell_magic_moves_the_lines(run_cells: Callable[..., str]) -> None:
    assert run_cells(IMPORT, f"%%capture\n{PIPELINE}").startswith("# In [2], line 5")


def test_a_module_imported_under_another_name_keeps_it(run_cells: Callable[..., str]) -> None:
    cells = ("import tensorflow as flow", PIPELINE.replace("tf.", "flow."))
    assert run_cells(*cells).endswith("num_parallel_calls=flow.data.AUTOTUNE)")
