"""`tfwatch report`: where it writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import Done, typed
from tests.screens.canned import usual
from tfwatch.report.run_facts import as_json
from tfwatch.runs.run import open_run

OLD, NEW = "2026-11-19T10-17-03_cnn", "2026-11-20T10-17-03_cnn"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of two runs."""
    for name in (OLD, NEW):
        run = usual(tmp_path / "runs" / name, run=name)
        run.ended().writer.close()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "runs"


def report(runs: Path, *words: str) -> Done:
    return typed("report", *words, "--runs-dir", runs)


@pytest.mark.parametrize(
    ("words", "name"),
    [([], NEW), (["latest"], NEW), ([OLD], OLD), (["11-19"], OLD)],
    ids=["default", "latest", "name", "part"],
)
def test_the_page_is_named_after_its_run(runs: Path, words: list[str], name: str) -> None:
    assert report(runs, *words) == (0, f"tfwatch-{name}.html\n", "")
    (page,) = (runs.parent / "here").iterdir()
    assert page.name == f"tfwatch-{name}.html"
    assert page.read_text(encoding="utf-8").endswith("</html>\n")


def test_a_page_goes_to_a_file_or_to_standard_output(runs: Path) -> None:
    assert report(runs, "-o", "page.html").code == 0
    done = report(runs, "-o", "-")

    page = (runs.parent / "here" / "page.html").read_text(encoding="utf-8")
    assert done == (0, page, "")


def test_json_is_the_object_of_the_folder(runs: Path) -> None:
    code, out, _ = report(runs, "--json")

    assert code == 0
    assert json.loads(out) == as_json(open_run(runs / NEW))


def test_markdown_goes_to_standard_output(runs: Path) -> None:
    code, out, _ = report(runs, "--markdown")

    assert code == 0
    assert out.startswith("### cnn on CPU, 2 cores finished: ")
    assert list((runs.parent / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "none/page.html"], "none/page.html cannot be written: No such file or directory"),
        (["-o", "."], ". cannot be written: Is a directory"),
    ],
    ids=["folder", "a folder"],
)
def test_bad_input_is_one_sentence(runs: Path, words: list[str], sentence: str) -> None:
    assert report(runs, *words) == (2, "", f"tfwatch: {sentence}\n")


def test_a_page_that_fails_leaves_the_old_one(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = runs.parent / "here" / "page.html"
    page.write_text("old", encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.replace", _fail)

    assert report(runs, "-o", "page.html").code == 2
    assert page.read_text(encoding="utf-8") == "old"
    assert [one.name for one in page.parent.iterdir()] == ["page.html"]


def _fail(*_: object) -> None:
    raise OSError(28, "No space left on device")
