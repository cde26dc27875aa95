"""The changes of a script's own lines: applied to it, they set its calls, and every element stays
equal."""

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow

from tests.tfdata.pasted_lines import pasted
from tfwatch.core.script_code import CodeEdit, edited_lines
from tfwatch.tfdata.code_edits import find_fit_call, names_in_fit
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline
from tfwatch.watch.script.patches import patch_stages

pytestmark = pytest.mark.tensorflow

HEAD = (
    "import tensorflow as tf\ndef triple(x):\n    return x * 3\ndata = tf.data.Dataset.range(40)\n"
)
BOTH = {"workers": "auto", "prefetch": "4"}


@pytest.fixture(autouse=True)
def _noted() -> Iterator[None]:
    """Note the calls as under `tfwatch run`."""
    patches = patch_stages(tensorflow)
    yield
    patches.close()


def run(path: Path, source: str) -> Any:
    """Run a script and return its data set."""
    path.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    return names["data"]


def edits_of(data: Any) -> tuple[CodeEdit, ...]:
    script = ScriptPipeline()
    script.read(iter(data))
    linecache.clearcache()
    return script.edits


#: A script, and the same with both knobs' changes; PARALLEL stands for the argument of autotuning.
SCRIPTS = {
    "lines": (
        "data = data.map(triple)\ndata = data.batch(3)\n",
        "data = data.map(triple, PARALLEL)\ndata = data.batch(3).prefetch(4)",
    ),
    "one line": (
        "data = data.map(triple).batch(3)\n",
        "data = data.map(triple, PARALLEL).batch(3).prefetch(4)",
    ),
    "chain": (
        (
            "data = (\n    data.take(9)\n    .map(lambda x: ('é', x))\n    .batch(3)  # three\n"
            "    .prefetch(1)\n)\n"
        ),
        (
            "data = (\n    data.take(9)\n    .map(lambda x: ('é', x), PARALLEL)\n"
            "    .batch(3)  # three\n    .prefetch(4)\n)"
        ),
    ),
    "trailing comma": (
        "data = data.map(\n    triple,  # three times\n).batch(3)\n",
        "data = data.map(\n    triple,  # three times\n    PARALLEL,\n).batch(3).prefetch(4)",
    ),
    "backslashes": (
        "data = data \\\n    .map(triple) \\\n    .batch(3)\n",
        "data = data \\\n    .map(triple, PARALLEL) \\\n    .batch(3).prefetch(4)",
    ),
    "arguments on lines": (
        "data = data.map(\n    triple,\n    num_parallel_calls=1,\n).batch(\n    3\n)\n",
        "data = data.map(\n    triple,\n    PARALLEL,\n).batch(\n    3\n).prefetch(4)",
    ),
    "a value of two lines": (
        "data = data.map(triple, num_parallel_calls=2 if data\n    else 3).batch(3)\n",
        "data = data.map(triple, PARALLEL).batch(3).prefetch(4)",
    ),
    "given": (
        "é = 2; data = data.map(triple, é).map(abs, num_parallel_calls=None).prefetch(é)\n",
        "é = 2; data = data.map(triple, tf.data.AUTOTUNE).map(abs, PARALLEL).prefetch(4)",
    ),
    "keywords in a chain": (
        (
            "data = (data.map(abs)\n    .map(triple, num_parallel_calls=2)\n"
            "    .batch(3, drop_remainder=True))\n"
        ),
        (
            "data = (data.map(abs, PARALLEL)\n    .map(triple, PARALLEL)\n"
            "    .batch(3, drop_remainder=True).prefetch(4))"
        ),
    ),
    "parentheses": (
        "data = (data).map((triple)).batch((3))\n",
        "data = (data).map((triple), PARALLEL).batch((3)).prefetch(4)",
    ),
    "a loop": (
        "for f in (abs, triple):\n    data = data.map(f)\ndata = data.prefetch(1)\n",
        "for f in (abs, triple):\n    data = data.map(f, PARALLEL)\ndata = data.prefetch(4)",
    ),
}
PARALLEL = "num_parallel_calls=tf.data.AUTOTUNE"


@pytest.mark.parametrize("name", SCRIPTS)
def test_pasted_lines_set_the_calls_and_change_no_element(name: str, tmp_path: Path) -> None:
    body, wanted = SCRIPTS[name]
    wanted = wanted.replace("PARALLEL", PARALLEL)
    data = run(tmp_path / "train.py", HEAD + body)
    text = pasted(HEAD + body, edited_lines(edits_of(data), BOTH))
    assert text == HEAD + wanted.rstrip("\n") + "\n"
    before, after = run(tmp_path / "before.py", HEAD + body), run(tmp_path / "after.py", text)
    assert [*map(str, before)] == [*map(str, after)]
    assert type(after).__name__ == "_PrefetchDataset"


CACHED = {
    "lines": (
        "data = data.map(triple)\ndata = data.skip(9).batch(3)\n",
        "data = data.map(triple).cache()\n",
    ),
    "below take": (
        "data = data.map(triple)\ndata = data.take(9).batch(3)\n",
        "data = data.take(9).cache().batch(3)",
    ),
    "unknown length": (
        "data = data.filter(lambda x: x > 3)\ndata = data.map(tf.as_string)\n",
        "data = data.map(tf.as_string).cache().prefetch(4)",
    ),
    "last": (
        "data = data.batch(4, True).map(triple)\n",
        "data = data.batch(4, True).map(triple).cache().prefetch(4)",
    ),
    "one line": (
        "data = data.map(triple, 2).take(9)\n",
        "data = data.map(triple, 2).take(9).cache().prefetch(4)",
    ),
}


@pytest.mark.parametrize("name", CACHED)
def test_a_pasted_cache_follows_the_map_whose_results_are_kept(name: str, tmp_path: Path) -> None:
    body, wanted = CACHED[name]
    data = run(tmp_path / "train.py", HEAD + body)
    text = pasted(HEAD + body, edited_lines(edits_of(data), {"cache": "on", "prefetch": "4"}))
    assert wanted in text
    before, after = run(tmp_path / "before.py", HEAD + body), run(tmp_path / "after.py", text)
    assert [*map(str, before)] == [*map(str, after)] == [*map(str, after)]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "data = data.map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64, seed=1))\n",
            id="random",
        ),
        pytest.param("data = data.shuffle(9, seed=1).map(triple)\n", id="over a shuffle"),
        pytest.param(
            "data = data.map(triple).shuffle(9, seed=1).take(5)\n", id="it would never be full"
        ),
        pytest.param("data = data.repeat().map(triple)\n", id="endless"),
        pytest.param(
            "data = data.cache().filter(lambda x: x > 3).map(triple)\n", id="another cache"
        ),
    ],
)
def test_a_cache_that_would_change_elements_or_never_serve_has_no_line(
    body: str, tmp_path: Path
) -> None:
    assert "cache" not in knobs_of(run(tmp_path / "train.py", HEAD + body))


def knobs_of(data: Any) -> list[str]:
    return [edit.knob for edit in edits_of(data)]


def test_a_script_without_a_name_for_tensorflow_gets_the_value_of_autotune(tmp_path: Path) -> None:
    data = run(
        tmp_path / "train.py",
        "from tensorflow.data import Dataset\ndata = Dataset.range(4).map(abs)\n",
    )
    assert ".map(abs, num_parallel_calls=-1)" in edited_lines(edits_of(data), {"workers": "auto"})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("how = {}\ndata = data.map(triple, **how)\n", id="the argument may be in how"),
        pytest.param(
            "def add(data, f):\n    return data.map(f)\ndata = add(add(data, lambda x: x +"
            " tf.random.uniform([], 0, 9, tf.int64, seed=1)), triple)\n",
            id="the line makes a random map too",
        ),
        pytest.param("data = getattr(data, 'map')(triple)\n", id="no call of map"),
    ],
)
def test_a_line_that_would_do_something_else_is_not_offered(body: str, tmp_path: Path) -> None:
    assert "workers" not in knobs_of(run(tmp_path / "train.py", HEAD + body))


def test_a_prefetch_is_not_added_to_a_line_that_makes_several_stages(tmp_path: Path) -> None:
    body = "for f in (triple, triple):\n    data = data.map(f)\n"
    assert knobs_of(run(tmp_path / "train.py", HEAD + body)) == ["workers"]


def test_a_file_that_changed_since_it_ran_has_no_lines(tmp_path: Path) -> None:
    data = run(tmp_path / "train.py", HEAD + "data = data.map(triple)\n")
    (tmp_path / "train.py").write_text(HEAD + "# a line more\ndata = data.map(triple)\n")
    assert not knobs_of(data)


def test_a_stage_of_a_library_has_no_line(tmp_path: Path) -> None:
    source = (
        HEAD
        + "from tensorflow.python.data.ops import map_op\ndata = map_op._map_v2(data, triple)\n"
    )
    assert not knobs_of(run(tmp_path / "train.py", source))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("net.fit(train, epochs=3)", {"model": "net", "dataset": "train"}),
        ("self.net.fit(x=self.rows)", {"model": "self.net", "dataset": "self.rows"}),
        ("net.fit(train.batch(2))", {"model": "net"}),
        ("make().fit(*given)", {}),
        ("net.fit()", {"model": "net"}),
    ],
)
def test_the_names_are_those_in_the_call_of_fit(
    call: str, names: dict[str, str], tmp_path: Path
) -> None:
    script, found = tmp_path / "train.py", []

    class Net:
        def fit(self, *_given: Any, **_more: Any) -> None:
            if call := find_fit_call(sys._getframe(1)):
                found.append(names_in_fit(call))

    self, train, given = SimpleNamespace(net=Net(), rows=[]), SimpleNamespace(batch=abs), ()
    script.write_text(f"net = self.net\n{call}\n")
    known = {"self": self, "train": train, "given": given, "make": Net}
    exec(compile(script.read_text(), script, "exec"), known)
    assert found == [names if sys.version_info >= (3, 11) else {}]
