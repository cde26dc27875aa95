"""One diff of the changes of lines, which applies."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tfwatch.core import system_tool
from tfwatch.core.script_code import CodeEdit
from tfwatch.fix import patch
from tfwatch.fix.patch import ChangedFile, edited_text, make_patch
from tfwatch.fix.user_file import NoPatchError, UserFile

LINE = "data = data.map(load).batch(32)  # slow"
SCRIPT = f"import tensorflow as tf\n\n{LINE}\nmodel.fit(data)\n"
AUTO = "tf.data.AUTOTUNE"
MAP = CodeEdit("workers", "train.py", 3, LINE, 20, 20, ", num_parallel_calls={}", AUTO)
CACHE = CodeEdit("cache", "train.py", 3, LINE, 21, 21, ".cache()", AUTO)
END = CodeEdit("prefetch", "train.py", 3, LINE, 31, 31, ".prefetch({})", AUTO)
VALUES = {"workers": "auto", "cache": "on", "prefetch": "4"}


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(text: str = SCRIPT, name: str = "train.py") -> UserFile:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text.encode())
    return UserFile.read(name, sys.maxsize)


def changed(file: UserFile) -> ChangedFile:
    return ChangedFile(file, edited_text(file, [END, MAP, CACHE], VALUES))


def test_changes_of_one_line_are_merged_and_the_rest_of_it_stays() -> None:
    new = f"data = data.map(load, num_parallel_calls={AUTO}).cache().batch(32).prefetch(4)  # slow"
    diff = make_patch([changed(script())]).diff.decode()

    assert diff == (
        "--- a/train.py\n+++ b/train.py\n@@ -1,4 +1,4 @@\n import tensorflow as tf\n \n"
        f"-{LINE}\n+{new}\n model.fit(data)\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT,
        SCRIPT.rstrip("\n"),
        SCRIPT.replace("\n", "\r\n"),
        "\ufeff" + SCRIPT,
        SCRIPT + "a = '\x0c\u2028'\n",
        SCRIPT.removesuffix("\nmodel.fit(data)\n"),
    ],
)
@pytest.mark.skipif(not shutil.which("git"), reason="git applies the patch")
def test_git_applies_a_patch(text: str) -> None:
    made = make_patch([changed(script(text))])
    Path("fix.diff").write_bytes(made.diff)
    subprocess.run(["git", "apply", "--check", "fix.diff"], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)

    assert made.checked == "git apply"
    assert Path("train.py").read_bytes() == made.files[0].file.encoded(made.files[0].text)
    assert b".prefetch(4)" in Path("train.py").read_bytes()


def test_files_outside_the_working_folder_are_named_from_the_folder_of_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = [changed(script(name=name)) for name in ("code/train.py", "code/data.py")]
    Path("here").mkdir()
    monkeypatch.chdir("here")
    made = make_patch(files)

    assert made.folder == (tmp_path / "code").resolve()
    assert [line for line in made.diff.splitlines() if line.startswith(b"+++")] == [
        b"+++ b/train.py",
        b"+++ b/data.py",
    ]


def test_a_patch_writes_all_of_its_files_and_none_where_one_changed() -> None:
    made = make_patch([changed(script(name=name)) for name in ("train.py", "data.py")])
    Path("data.py").write_text("other = 1\n")
    with pytest.raises(ValueError, match=r"data\.py changed"):
        made.write()
    assert Path("train.py").read_text() == SCRIPT

    Path("data.py").write_text(SCRIPT)
    made.write()
    assert ".prefetch(4)" in Path("train.py").read_text()
    assert ".prefetch(4)" in Path("data.py").read_text()


def test_a_diff_that_gives_another_file_is_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "_lines", lambda data: [b"other\n", data])
    with pytest.raises(NoPatchError, match="to a copy"):
        make_patch([changed(script())])


def test_without_git_and_patch_it_says_that_nothing_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = system_tool.Result(failure="No such file or directory")
    monkeypatch.setattr(system_tool, "run", lambda words, timeout_s: missing)
    assert make_patch([changed(script())]).checked == ""


def test_a_line_that_is_another_one_than_ran_has_no_patch() -> None:
    with pytest.raises(NoPatchError, match=r"train\.py:3 is another line"):
        edited_text(script(f"\n{SCRIPT}"), [END], VALUES)


def test_a_change_that_gives_no_python_has_no_patch() -> None:
    broken = CodeEdit("prefetch", "train.py", 3, LINE, 31, 31, ").prefetch({}", AUTO)
    with pytest.raises(NoPatchError, match=r"is no Python"):
        edited_text(script(), [broken], VALUES)


def test_no_change_is_no_patch() -> None:
    with pytest.raises(NoPatchError, match="no line changes"):
        make_patch([ChangedFile(script(), SCRIPT)])
