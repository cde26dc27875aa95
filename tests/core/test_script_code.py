"""Changes of a script's lines: together in one text, and checked where a run folder is read."""

import json
from dataclasses import replace

import pytest

from tests.runs.folders import make_manifest
from tfwatch.core.script_code import CodeEdit, edited_lines
from tfwatch.runs.format import Manifest, NotARunError

LINE = "data = data.map(f).batch(2)"
MAP = CodeEdit(
    "workers", "train.py", 9, LINE, 17, 17, ", num_parallel_calls={}", "tf.data.AUTOTUNE"
)
END = CodeEdit("prefetch", "train.py", 9, LINE, 27, 27, ".prefetch({})", "tf.data.AUTOTUNE")


def test_knobs_of_one_line_change_it_together() -> None:
    values = {"workers": "auto", "prefetch": "4"}
    changed = "data = data.map(f, num_parallel_calls=tf.data.AUTOTUNE).batch(2).prefetch(4)"
    assert edited_lines((MAP, END), values) == f"# train.py:9  in place of: {LINE}\n{changed}"


def test_changes_that_share_a_line_of_several_are_one() -> None:
    text = "data = data.map(\n    f\n).batch(2)"
    lines = replace(MAP, text=text, start=7, end=len(text), new="data.map(f, {}).batch(2)")
    end = replace(END, line=11, text=").batch(2)", start=10, end=10)
    found = edited_lines((lines, end), {"workers": "4", "prefetch": "4"})
    changed = "data = data.map(f, 4).batch(2).prefetch(4)"
    assert found == f"# train.py:9-11  in place of: data = data.map( ... ).batch(2)\n{changed}"


@pytest.mark.parametrize("value", ["off", "default"])
def test_a_value_that_no_line_sets_changes_none(value: str) -> None:
    assert not edited_lines((MAP,), {"workers": value})


def test_a_line_with_control_characters_is_left_out() -> None:
    assert not edited_lines((replace(MAP, text=LINE + "\x1b[2J"),), {"workers": "4"})


def test_a_manifest_keeps_the_edits() -> None:
    manifest = make_manifest(code=(MAP, END))
    assert Manifest.decode(manifest.encode()).code == (MAP, END)


@pytest.mark.parametrize("damage", [{"start": 28}, {"end": -1}, {"line": "9"}])
def test_a_damaged_edit_is_no_manifest(damage: dict[str, object]) -> None:
    values = json.loads(make_manifest(code=(MAP,)).encode())
    values["code"][0] |= damage
    with pytest.raises(NotARunError):
        Manifest.decode(json.dumps(values))
