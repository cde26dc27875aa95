"""The changes of a script's own lines that put a batch before its maps: pasted, every element stays equal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.tfdata.script_code.pasted_lines import pasted
from tests.tfdata.script_code.test_source_edits import _noted, edits_of, run
from tfwatch.core.code_edits import edited_lines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tensorflow
__all__ = ["_noted"]

POSITIONS = pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="Python 3.10 does not tell several calls of a method in one line apart",
)
HEAD = """import tensorflow as tf
def half(x):
    return tf.cast(x, tf.float32) / 2.0
def pair(x):
    return {"x": x, "one": 1.0}, x * 2
def both(fields, label):
    return fields["x"] + fields["one"], label
def listed(x):
    return {"two": [x, x]}
def constants(x):
    return x, [1, 2]
def returned(x):
    return [x, -x]
data = tf.data.Dataset.range(11)
"""
ON = {"fast_pipeline": "on"}
VEC = "lambda *batch: tf.vectorized_map(lambda example: {}(*example), batch)"
HALF, PAIR, BOTH = (VEC.format(name) for name in ("half", "pair", "both"))
SCRIPTS = {
    "one line": ("data = data.map(half).batch(3)\n", f"data = data.batch(3).map({HALF})\n"),
    "list": ("data = data.map(returned).batch(3)\n", f"data = data.batch(3).map({VEC.format('returned')})\n"),
    "lines": (
        "data = data.map(half)\ndata = data.batch(3)\n",
        f"data = data.batch(3)\ndata = data.map({HALF})\n",
    ),
    "chain": (
        "data = (\n    data.map(half, 2)  # two\n    .shuffle(4, seed=1)\n    .batch(3, drop_remainder=True)\n)\n",
        f"data = (\n    data.shuffle(4, seed=1)  # two\n    .batch(3, drop_remainder=True)\n    .map({HALF}, 2)\n)\n",
    ),
    "calls of several lines": (
        "data = data.map(\n    half,\n    num_parallel_calls=2,  # two\n).batch(\n    3\n)\n",
        f"data = data.batch(\n    3\n).map(\n    {HALF},\n    num_parallel_calls=2,  # two\n)\n",
    ),
    "backslashes": (
        "data = data \\\n    .map(lambda x:\n        half(x)) \\\n    .batch(3)\n",
        "data = data \\\n    .batch(3) \\\n    .map({})\n".format(VEC.format("(lambda x:\n        half(x))")),
    ),
    "several maps": (
        "data = data.map(half).map(map_func=pair).map(both).batch(3)\n",
        f"data = data.batch(3).map({HALF}).map(map_func={PAIR}).map({BOTH})\n",
    ),
    "lambda": (
        "example = tf.constant(3.0)\ndata = data.map(half).map(lambda é: é * example).batch(3).prefetch(1)\n",
        "example = tf.constant(3.0)\ndata = data.batch(3).map({}).map({}).prefetch(1)\n".format(
            HALF, VEC.replace("example", "example_").format("(lambda é: é * example)")
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=POSITIONS) if name in ("several maps", "lambda") else name
        for name in SCRIPTS
    ],
)
def test_pasted_lines_put_the_batch_first_and_change_no_element(name: str, tmp_path: Path) -> None:
    body, wanted = SCRIPTS[name]
    data = run(tmp_path / "train.py", HEAD + body)
    text = pasted(HEAD + body, edited_lines(edits_of(data), ON))
    assert text == HEAD + wanted
    before, after = run(tmp_path / "before.py", HEAD + body), run(tmp_path / "after.py", text)
    assert before.element_spec == after.element_spec
    assert [*map(str, before)] == [*map(str, after)]


@POSITIONS
def test_workers_and_prefetch_are_set_in_the_same_lines(tmp_path: Path) -> None:
    body = "data = data.map(half, 2).map(pair).batch(3)\n"
    edits = edits_of(run(tmp_path / "train.py", HEAD + body))
    text = pasted(HEAD + body, edited_lines(edits, ON | {"workers": "auto", "prefetch": "4"}))
    calls = f"{HALF}, tf.data.AUTOTUNE).map({PAIR}, num_parallel_calls=tf.data.AUTOTUNE)"
    assert text == f"{HEAD}data = data.batch(3).map({calls}.prefetch(4)\n"
    assert [*map(str, run(tmp_path / "after.py", text))] == [
        *map(str, run(tmp_path / "b.py", HEAD + body))
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "data = data.map(half)\nsize = 3\ndata = data.batch(size)\n", id="a line between"
        ),
        pytest.param("mapped = data.map(half)\ndata = mapped.batch(3)\n", id="another name"),
        pytest.param(
            "for f in (half, half):\n    data = data.map(f)\ndata = data.batch(3)\n",
            id="one line, two maps",
        ),
        pytest.param("data = data.map(listed).batch(3)\n", id="a list is one tensor"),
        pytest.param(
            "data = data.map(constants).batch(3)\n", id="a list of constants is one tensor"
        ),
        pytest.param("data = data.map(*[half]).batch(3)\n", id="unpacked"),
    ],
)
def test_calls_that_cannot_change_places_have_no_line(body: str, tmp_path: Path) -> None:
    edits = edits_of(run(tmp_path / "train.py", HEAD + body))
    assert not [edit for edit in edits if edit.knob == "fast_pipeline"]
