"""The command line: help is quick, and bad input is one sentence and exit code 2."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.commands import exit_code, trainings_asked, typed
from tests.runs.requested import planned
from tfwatch import __version__, cli
from tfwatch.cli.dispatch import make_parser
from tfwatch.cli.parsers import COMMANDS, RUNS_ACTIONS
from tfwatch.tuner.autopilot import Autopilot
from tfwatch.tuner.experiment import Experiment
from tfwatch.workloads import as_main, script_of

NO_SCRIPT = "run needs a script: tfwatch run SCRIPT [ARGS], or tfwatch run -m MODULE [ARGS]"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["trian"], "no command 'trian': did you mean train?", id="command"),
        pytest.param(
            ["zzz"],
            "no command 'zzz': there are run, train, ab, fix, bench, replay, report, compare,"
            " attach, set, runs, doctor, serve",
            id="unlike any command",
        ),
        pytest.param(["--"], "COMMAND is missing: tfwatch --help", id="no command"),
        pytest.param(["train"], "WORKLOAD is missing, as in: tfwatch train cnn", id="no workload"),
        pytest.param(["train", "cmn"], "no workload 'cmn': did you mean cnn?", id="workload"),
        pytest.param(
            ["train", "lstm"],
            "no workload 'lstm': `tfwatch train --help` lists them",
            id="unlike any workload",
        ),
        pytest.param(
            ["train", "own folder/own.py", "--steps", "9"],
            "train takes a workload; run your own script with: tfwatch run 'own folder/own.py'",
            id="train of a script",
        ),
        pytest.param(
            ["run", "--stps", "9", "own.py"], "unrecognized arguments: --stps", id="option"
        ),
        pytest.param(
            ["bench", "--sises=9"], "unrecognized arguments: --sises=9", id="option=value"
        ),
        pytest.param(
            ["replay", "--theme", "red"],
            "--theme: 'red' is not a theme: there are dark, light",
            id="theme",
        ),
        pytest.param(["train", "cnn", "--steps"], "--steps: expected one argument", id="no value"),
        pytest.param(
            ["train", "cnn", "--steps", "0"],
            "--steps: '0' is not a whole number from 1 to 1000000000",
            id="no number",
        ),
        pytest.param(
            ["train", "cnn", "--notify-command", "/no x"],
            "--notify-command: there is no program /no",
            id="no program",
        ),
        pytest.param(
            ["train", "cnn", "--switch", "prefetch=4"],
            "--switch: 'prefetch=4' is not a switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4",
            id="switch",
        ),
        pytest.param(
            ["train", "cnn", "--switch", "9:depth=4"],
            "--switch: 'depth' is not a knob: choose prefetch, workers, cache, pinned,"
            " device-prefetch or multiprocessing",
            id="knob",
        ),
        pytest.param(
            ["run", "/\x1b[31m\nx"],
            "/ [31m x cannot be run: No such file or directory",
            id="control",
        ),
        pytest.param(
            ["run", "."],
            ". cannot be run: it is neither a file nor a folder with a __main__.py",
            id="folder",
        ),
        *(
            pytest.param(["run", "--headless", *words], NO_SCRIPT, id=f"no script: {words}")
            for words in ([], ["-m"], ["--"])
        ),
        pytest.param(
            ["ab", "--knob", "prefetch=off,4"],
            "ab --knob KNOB=A,B needs a script: tfwatch ab --knob KNOB=A,B SCRIPT [ARGS], or"
            " tfwatch ab --knob KNOB=A,B -m MODULE [ARGS]",
            id="no script of an A/B test",
        ),
        pytest.param(
            ["--trian"], "unrecognized arguments: --trian", id="an option in place of a command"
        ),
        pytest.param(
            ["replay", "--runs-dir", "/nonexistent"], "no runs yet in /nonexistent", id="no runs"
        ),
        pytest.param(
            ["replay", "--runs-dir", "/nonexistent", ""],
            "no run '' in /nonexistent: tfwatch runs lists them",
            id="no name",
        ),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str) -> None:
    assert typed(*words) == (2, "", f"tfwatch: {sentence}\n")


def test_a_folder_that_is_no_run_is_bad_input(tmp_path: Path) -> None:
    from tests.runs.begun import begin_run

    writer, _ = begin_run(tmp_path, "cnn")
    writer.close()
    folder = writer.folder
    assert folder
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**manifest, "schema": 99}))
    why = "its run.json cannot be read: its schema is 99, this tfwatch reads 1"
    assert typed("replay", folder) == (2, "", f"tfwatch: {folder}: {why}\n")


def test_runs_that_cannot_be_read_are_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    why = f"tfwatch: {tmp_path} cannot be read: Permission denied\n"
    assert typed("replay", "--runs-dir", tmp_path) == (2, "", why)


@pytest.mark.parametrize("words", [["runs"], ["runs", "prune", "--keep", "1"], ["report"]])
def test_a_file_in_place_of_the_folder_of_runs_is_no_folder_without_runs(
    words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    why = f"tfwatch: {tmp_path / 'file'} cannot be read: Not a directory\n"
    assert typed(*words, "--runs-dir", tmp_path / "file") == (2, "", why)


NO_HOME = "could not determine the home directory, set an absolute HOME or XDG variable"


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def user_state_dir(*_: object, **__: object) -> str:
        raise RuntimeError(NO_HOME)

    monkeypatch.setattr("platformdirs.user_state_dir", user_state_dir)


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("words", [["replay"], ["ab", "--knob", "prefetch=off,4", "cnn"]])
def test_a_user_without_a_home_gets_a_sentence(words: list[str]) -> None:
    assert typed(*words) == (2, "", f"tfwatch: {NO_HOME}\n")


@pytest.mark.usefixtures("homeless")
def test_a_script_of_a_user_without_a_home_runs_unrecorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, begun = tmp_path / "train.py", list[list[str]]()
    script.touch()

    def execvp(program: str, words: list[str]) -> None:
        begun.append([program, *words])
        raise SystemExit  # the process is the script's

    monkeypatch.setattr(os, "execvp", execvp)
    with pytest.raises(SystemExit):
        cli.main(["run", "--python", "other", str(script), "--epochs", "3"])

    assert [words[:2] + words[-3:] for words in begun] == [
        ["other", "other", str(script), "--epochs", "3"]
    ]
    assert " ".join(capsys.readouterr().err.split()) == f"tfwatch: nothing is recorded: {NO_HOME}"


def test_a_run_needs_a_terminal_to_be_replayed_on(tmp_path: Path) -> None:
    from tests.runs.begun import begin_run

    writer, _ = begin_run(tmp_path, "cnn")
    writer.close()
    why = "tfwatch: stdout is not a terminal: use tfwatch report\n"
    assert typed("replay", "--runs-dir", tmp_path) == (2, "", why)


def test_every_option_of_a_training_is_passed_on_and_the_others_are_the_workloads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = trainings_asked(monkeypatch)
    words = (
        f"train cnn --steps 7 --runs-dir {tmp_path}/runs --theme light --switch 1:prefetch=off"
        " --batch-size 8 --switch 2:workers=auto --autopilot --allow random-draws"
        " --eager --json"
    )
    assert exit_code(*words.split()) == 0
    (options,) = asked
    assert options.script == [str(script_of("cnn")), "--batch-size", "8", "--eager"]
    switches = (planned(1, "prefetch", "off"), planned(2, "workers", "auto"))
    assert options.switches == tuple(replace(one, random_draws=True) for one in switches)
    assert (options.steps, options.theme) == (7, "light")
    assert options.job == Autopilot(random_draws=True)
    assert (options.is_workload, options.headless, options.as_json) == (True, True, True)
    assert options.runs_dir == tmp_path / "runs"


def test_a_script_has_the_same_options_before_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = trainings_asked(monkeypatch)
    words = "run --steps 7 --switch 1:prefetch=2 own.py --steps 9"
    assert exit_code(*words.split()) == 0
    (options,) = asked
    assert (options.script, options.steps) == (["own.py", "--steps", "9"], 7)
    assert (options.switches, options.is_workload) == ((planned(1, "prefetch", "2"),), False)


def test_the_help_of_a_workload_ends_with_its_own_arguments() -> None:
    code, text, _ = typed("train", "cnn", "--help")
    assert code == 0
    assert "--autopilot" in text
    assert "--storage-latency MS" in text[text.index("arguments of cnn:") :]
    assert "arguments of" not in typed("train", "--help").out


def test_a_bad_argument_of_a_workload_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(script_of("cnn")), "--batch-size", "x"]
    with as_main(words), pytest.raises(SystemExit, match="2"):
        runpy.run_path(words[0], run_name="__main__")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["--help"], ["train", "--help"], ["train", "cnn", "--help"], ["train", "cnn", "--steps", "x"]],
)
def test_help_and_bad_values_load_nothing_heavy(words: list[str]) -> None:
    script = """
import json, sys
from tfwatch import cli
try:
    cli.main(sys.argv[1:])
except SystemExit:
    pass
sys.stderr.write("\\n" + json.dumps([name for name in sys.modules if "." not in name]))
"""
    result = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(result.stderr.splitlines()[-1]))
    assert loaded.isdisjoint({"tensorflow", "keras", "textual", "rich", "numpy", "psutil"})


def test_it_runs_as_a_module() -> None:
    words = [sys.executable, "-m", "tfwatch", "--version"]
    result = subprocess.run(
        words, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert result.stdout == f"tfwatch {__version__}\n"


def test_ctrl_c_before_a_command_has_begun_ends_it_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("tfwatch.cli.script.run.run", interrupted)
    assert typed("train", "cnn") == (130, "", "")


def test_a_dumb_terminal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda _fd: True)
    monkeypatch.setenv("TERM", "dumb")
    why = "tfwatch: a terminal of type dumb (TERM) cannot show the screen: use --headless\n"
    assert typed("train", "cnn") == (2, "", why)


def test_the_themes_are_those_of_the_screens() -> None:
    from tfwatch.cli import options
    from tfwatch.screens import themes

    assert tuple(themes.THEMES) == options.THEMES


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "--knob prefetch=off",
            "'prefetch=off': an A/B test compares two different settings, e.g. prefetch=off,4",
        ),
        (
            "--knob prefetch=4,04",
            "'prefetch=4,04': an A/B test compares two different settings, e.g. prefetch=off,4",
        ),
        (
            "--knob prefetch",
            "'prefetch' has no settings: give KNOB=VALUE,VALUE, e.g. prefetch=off,4",
        ),
        (
            "--knob cache=off,on",
            "cache takes effect with an epoch: an A/B test needs a knob that switches live",
        ),
        (
            "--knob workers=1,many",
            "'many' is not a setting: give off, default, auto or a number from 1 to 1024",
        ),
    ],
)
def test_a_knob_without_an_ab_test_is_refused_in_a_sentence(words: str, sentence: str) -> None:
    assert typed("ab", *words.split(), "cnn") == (2, "", f"tfwatch: --knob: {sentence}\n")


def test_an_ab_test_of_a_workload_or_a_script_ends_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = trainings_asked(monkeypatch)
    assert (
        exit_code("ab", "--knob", "prefetch=2,off", "--budget", "90", "--json", "cnn", "--eager")
        == 0
    )
    assert exit_code("ab", "--knob", "prefetch=off,4", "own.py") == 0
    workload, script = asked
    assert workload.job == Experiment("prefetch", ("2", "off"), 90, ends=True)
    assert workload.script == [str(script_of("cnn")), "--eager"]
    assert (workload.is_workload, workload.headless, workload.as_json) == (True, True, True)
    assert script.job == Experiment("prefetch", ("off", "4"), ends=True)
    assert (script.script, script.is_workload, script.headless) == (["own.py"], False, True)


EXAMPLES = {f"tfwatch {name}": command.example for name, command in COMMANDS.items()} | {
    f"tfwatch runs {name}": command.example for name, command in RUNS_ACTIONS.items()
}


@pytest.mark.parametrize(
    ("command", "example"), [(name, example) for name, example in EXAMPLES.items() if example]
)
def test_the_example_for_a_missing_argument_is_one_that_its_command_takes(
    command: str, example: str
) -> None:
    words = command.split()[1:]

    assert make_parser().parse_args([*words, *example.split()]).run
    assert typed(*words).err.endswith(f" is missing, as in: {command} {example}\n")
