"""The command line: help is quick, and bad input is one sentence and exit code 2."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfwatch import __version__, cli
from tfwatch.cli.dispatch import EXAMPLES, make_parser
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Experiment, Scheduled
from tfwatch.training.request import Plan, TrainRequest
from tfwatch.workloads.workload import Settings


def _taken(monkeypatch: pytest.MonkeyPatch) -> list[TrainRequest]:
    """The orders that are given from here on, none of them carried out."""
    orders: list[TrainRequest] = []

    def train(order: TrainRequest) -> int:
        orders.append(order)
        return 0

    monkeypatch.setattr("tfwatch.commands.training.train.train", train)
    return orders


def run(*words: str) -> int:
    """The exit code, whether it is returned or raised by argparse."""
    try:
        return cli.main(words)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["trian"], "no command 'trian': did you mean train?", id="command"),
        pytest.param(
            ["zzz"],
            "no command 'zzz': there are run, train, ab, workloads, bench, replay, report, compare, check, "
            "export, attach, set, runs, doctor, selftest, serve, config, completion",
            id="unlike any command",
        ),
        pytest.param(["--"], "COMMAND is missing: tfwatch --help", id="no command"),
        pytest.param(["train"], "WORKLOAD is missing, as in: tfwatch train cnn", id="no workload"),
        pytest.param(["train", "cmn"], "no workload 'cmn': did you mean cnn?", id="workload"),
        pytest.param(
            ["train", "lstm"],
            "no workload 'lstm': `tfwatch workloads` lists them",
            id="unlike any workload",
        ),
        *(
            pytest.param(
                [command, "own folder/own.py", "--steps", "9"],
                f"{command} takes a workload; run your own script with: tfwatch run 'own folder/own.py'",
                id=f"{command} of a script",
            )
            for command in ("train", "ab")
        ),
        pytest.param(
            ["bench", "cnn", "own.py"],
            "bench takes a workload; run your own script with: tfwatch run own.py",
            id="bench of a script",
        ),
        pytest.param(
            ["train", "cnn", "--zzz"], "unrecognized arguments: --zzz", id="unlike any option"
        ),
        pytest.param(
            ["train", "cnn", "--fast"],
            "unrecognized arguments: --fast: did you mean --fast-pipeline?",
            id="half an option",
        ),
        pytest.param(
            ["train", "--stps", "9"],
            "unrecognized arguments: --stps: did you mean --steps?",
            id="option",
        ),
        pytest.param(
            ["train", "cnn", "--stps=9"],
            "unrecognized arguments: --stps=9: did you mean --steps?",
            id="option=value",
        ),
        pytest.param(["train", "cnn", "--steps"], "--steps: expected one argument", id="no value"),
        pytest.param(
            ["train", "cnn", "--prefetch", "-1"],
            "--prefetch: '-1' is not a setting: give off, default, auto or a number from 1 to 1024",
            id="prefetch",
        ),
        pytest.param(
            ["train", "cnn", "--workers", "0"],
            "--workers: 0 is not a setting: give off, default, auto or a number from 1 to 1024",
            id="workers",
        ),
        pytest.param(
            ["train", "cnn", "--device-prefetch", "auto"],
            "--device-prefetch: 'auto' is not a prefetch to the device: give off or a number from 1 to 1024",
            id="device prefetch",
        ),
        pytest.param(
            ["train", "cnn", "--storage-latency", "nan"],
            "--storage-latency: 'nan' is not a latency: give milliseconds from 0 to 60000",
            id="latency",
        ),
        pytest.param(
            ["train", "cnn", "--batch-size", "0"],
            "--batch-size: '0' is not a whole number from 1 to 10000000",
            id="batch size",
        ),
        pytest.param(
            ["train", "cnn", "--image-size", "1e3"],
            "--image-size: '1e3' is not a whole number from 16 to 65536",
            id="image size",
        ),
        pytest.param(
            ["train", "cnn", "--seed", "99999999999999999999"],
            "--seed: '99999999999999999999' is not a whole number from 0 to 4294967295",
            id="seed",
        ),
        pytest.param(
            ["train", "cnn", "--epochs", "2", "--steps", "9"],
            "--steps: not allowed with argument --epochs",
            id="epochs and steps",
        ),
        pytest.param(
            ["train", "cnn", "--eager", "--jit"],
            "--jit: not allowed with argument --eager",
            id="eager and jit",
        ),
        pytest.param(
            ["train", "cnn", "--optimizer", "adma"],
            "--optimizer: 'adma' is not an optimizer: "
            "there are adam, adamw, sgd, rmsprop, adagrad, adamax, nadam, lion",
            id="optimizer",
        ),
        pytest.param(
            ["train", "cnn", "--learning-rate", "nan"],
            "--learning-rate: 'nan' is no learning rate: give a number above 0, up to 1000",
            id="learning rate",
        ),
        pytest.param(
            ["train", "cnn", "--steps-per-execution", "0"],
            "--steps-per-execution: '0' is not a whole number from 1 to 10000",
            id="steps per execution",
        ),
        pytest.param(
            ["train", "cnn", "--device", "tpu"],
            "--device: invalid choice: 'tpu' (choose from 'auto', 'cpu', 'gpu')",
            id="device",
        ),
        pytest.param(
            ["train", "cnn", "--gpu-sensor", "cuda"],
            "--gpu-sensor: 'cuda' is no GPU sensor: there are auto, powermetrics, ioreg, nvml, none",
            id="GPU sensor",
        ),
        pytest.param(
            ["train", "cnn", "--switch", "prefetch=4"],
            "--switch: 'prefetch=4' is not a switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4",
            id="switch",
        ),
        pytest.param(
            ["train", "cnn", "--switch", "9:depth=4"],
            "--switch: 'depth' is not a knob: choose prefetch, workers, storage-latency, fast-pipeline, cache, shuffle "
            "or device-prefetch",
            id="knob",
        ),
        pytest.param(
            ["train", "cnn", "--headless", "--data", "/nonexistent"],
            "there is no folder /nonexistent",
            id="data",
        ),
        pytest.param(
            ["train", "cnn", "--headless", "--data", "~nobody-of-this-name/x"],
            "there is no folder ~nobody-of-this-name/x",
            id="data of an unknown user",
        ),
        pytest.param(
            ["train", "cnn", "--headless", "--data", ""], "--data: give a path", id="an empty path"
        ),
        pytest.param(
            ["train", "cnn", "--headless", "--data", "/\x1b[31m\nx"],
            "there is no folder / [31m x",
            id="control",
        ),
        pytest.param(
            ["train", "cnn", "\x1b]0;x\x07"],
            "unrecognized arguments:  ]0;x ",
            id="control in a word",
        ),
        pytest.param(
            ["--trian"], "unrecognized arguments: --trian", id="an option in place of a command"
        ),
        pytest.param(
            ["train", "cnn"], "stdout is not a terminal: use --headless", id="no terminal"
        ),
        pytest.param(
            ["replay", "--runs-dir", "/nonexistent"], "no runs yet in /nonexistent", id="no runs"
        ),
        pytest.param(
            ["replay", "--runs-dir", "/nonexistent", ""],
            "no run '' in /nonexistent: tfwatch runs lists them",
            id="no name",
        ),
        pytest.param(
            ["replay", "--runs-dir", "/nonexistent", "x"],
            "no run 'x' in /nonexistent: tfwatch runs lists them",
            id="no such run",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert capsys.readouterr() == ("", f"tfwatch: {sentence}\n")


def test_a_folder_that_is_no_run_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text('{"schema": 99}')
    assert run("replay", str(tmp_path)) == 2
    assert (
        capsys.readouterr().err == f"tfwatch: {tmp_path}: its schema is 99, this tfwatch reads 1\n"
    )


def test_runs_that_cannot_be_read_are_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    assert run("replay", "--runs-dir", str(tmp_path)) == 2
    assert capsys.readouterr().err == f"tfwatch: {tmp_path} cannot be read: Permission denied\n"


@pytest.mark.parametrize("kept", ["state", "config", "cache"])
def test_a_user_without_a_home_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: str
) -> None:
    def homeless(*_: object, **__: object) -> str:
        raise RuntimeError(
            "could not determine the home directory, set an absolute HOME or XDG variable"
        )

    monkeypatch.setattr(f"platformdirs.user_{kept}_dir", homeless)
    assert cli.main(["replay"]) == 2
    assert capsys.readouterr().err == (
        "tfwatch: could not determine the home directory, set an absolute HOME or XDG variable\n"
    )


def test_a_run_needs_a_terminal_to_be_replayed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tfwatch.runs.create import begin_run

    writer, _ = begin_run(tmp_path, "cnn")
    writer.close()
    assert run("replay", "--runs-dir", str(tmp_path)) == 2
    assert capsys.readouterr().err == "tfwatch: stdout is not a terminal: use tfwatch report\n"


def test_every_option_reaches_the_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    orders = _taken(monkeypatch)
    words = (
        "train cnn --prefetch auto --workers 3 --storage-latency 20 --batch-size 8 --image-size 32 --steps 7 --seed 5 "
        f"--data {tmp_path} --runs-dir {tmp_path}/runs --theme light --switch 1:prefetch=off --switch 2:workers=auto "
        "--gpu-sensor ioreg --device cpu --eager --mixed-precision --steps-per-execution 4 --optimizer SGD "
        "--learning-rate 1e-2 --device-prefetch 3"
    )
    assert run(*words.split(), "--json") == 0
    computing: Any = {
        "mode": "eager",
        "mixed_precision": True,
        "steps_per_execution": 4,
        "learning_rate": 0.01,
    }
    settings = Settings(
        batch_size=8,
        image_size=32,
        steps=7,
        seed=5,
        data=tmp_path,
        device="cpu",
        optimizer="sgd",
        **computing,
    )
    switches = (Scheduled(1, "prefetch", "off"), Scheduled(2, "workers", "auto"))
    plan = Plan("cnn", settings, Knobs("auto", 3, 20.0, device_prefetch=3), switches)
    assert orders == [
        TrainRequest(
            plan, tmp_path / "runs", headless=True, as_json=True, theme="light", gpu_sensor="ioreg"
        )
    ]


def test_by_default_nothing_works_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = _taken(monkeypatch)
    assert run("train", "cnn") == 0
    assert orders[0].plan == Plan("cnn", Settings(), Knobs("off", "off", 0.0))
    assert (orders[0].headless, orders[0].as_json, orders[0].theme) == (False, False, None)


def test_without_a_command_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "train a workload and watch it live" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(option) == 0
    assert capsys.readouterr().out == f"tfwatch {__version__}\n"


COMMANDS = ("train", "ab", "workloads", "bench", "replay", "doctor", "selftest")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_commands_help_begins_with_its_line_in_the_list_and_keeps_the_case_of_names(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--help") == 0
    (line,) = re.findall(
        rf"^ +{command} +(\S.*(?:\n {{20,}}.*)*)", capsys.readouterr().out, re.MULTILINE
    )
    summary = " ".join(line.split())
    assert run(command, "--help") == 0
    text = " ".join(capsys.readouterr().out.split())

    assert summary[0].upper() + summary[1:] in text
    assert not re.findall(r"\b(?:[GC]pus?|Xla|Json|Jpegs?|Tensorflow|Mnist)\b", text)


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        pytest.param("train", set(), id="no workload"),
        pytest.param("train cnn", {"size", "weights", "fast-pipeline"}, id="cnn"),
        pytest.param(
            "train matmul",
            {"data", "image-size", "weights", "storage-latency", "cache"},
            id="matmul",
        ),
        pytest.param(
            "ab array",
            {
                "data",
                "image-size",
                "size",
                "weights",
                "storage-latency",
                "cache",
                "steps-per-execution",
            },
            id="array",
        ),
    ],
)
def test_a_workloads_help_leaves_out_what_only_others_take(
    words: str, hidden: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words.split(), "--help") == 0
    text = capsys.readouterr().out
    of_some = (
        "data",
        "image-size",
        "size",
        "weights",
        "fast-pipeline",
        "storage-latency",
        "cache",
        "steps-per-execution",
    )

    assert {
        option for option in of_some if not re.search(rf"^ +--{option}\b(?!-)", text, re.MULTILINE)
    } == hidden


def test_a_folder_without_a_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("replay", "--runs-dir", "/nonexistent", ".") == 2
    assert capsys.readouterr().err == (
        f"tfwatch: no run '.' in /nonexistent, and the folder {tmp_path} is not a run: it has no run.json\n"
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["train", "cnn", "--prefetch", "x"]]
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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: TrainRequest) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("tfwatch.commands.training.train.train", interrupted)
    assert cli.main(["train", "cnn"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_dumb_terminal_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _fd: True)
    monkeypatch.setenv("TERM", "dumb")
    assert run("train", "cnn") == 2
    assert (
        capsys.readouterr().err
        == "tfwatch: a terminal of type dumb (TERM) cannot show the screen: use --headless\n"
    )


def test_the_themes_are_those_of_the_screens() -> None:
    from tfwatch.cli import options
    from tfwatch.screens import themes

    assert tuple(themes.THEMES) == options.THEMES


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "--knob prefetch=off",
            "'prefetch=off' has one setting: an A/B test compares two or more, e.g. prefetch=off,4",
        ),
        (
            "--knob prefetch=4,04",
            "'prefetch=4,04' repeats a setting: an A/B test compares different ones",
        ),
        (
            "--knob depth=1,2",
            "'depth' is not a knob: choose prefetch, workers, storage-latency, fast-pipeline or device-prefetch",
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
def test_a_knob_without_an_ab_test_is_refused_in_a_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ab", "cnn", *words.split()) == 2
    assert capsys.readouterr().err == f"tfwatch: --knob: {sentence}\n"


def test_a_knob_that_a_workload_does_not_have_is_no_experiment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("ab", "dense", "--knob", "storage-latency=0,5") == 2
    assert (
        capsys.readouterr().err
        == "tfwatch: dense takes no storage-latency: it reads no files while it trains\n"
    )


def test_an_experiment_is_ordered_with_its_budget_and_ends_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders: list[TrainRequest] = []

    def taken(order: TrainRequest, *_: object) -> int:
        orders.append(order)
        return 0

    monkeypatch.setattr("tfwatch.commands.training.train.train", taken)
    assert (
        run(
            *[
                "ab",
                "cnn",
                "--knob",
                "prefetch=2,off",
                "--workers",
                "3",
                "--steps",
                "90",
                "--seed",
                "5",
                "--json",
            ]
        )
        == 0
    )
    assert run("ab", "cnn", "--knob", "prefetch=off,2,4", "--epochs", "3") == 0
    assert orders[0].experiment == Experiment("prefetch", (2, "off"), 90, 5, ends=True)
    assert orders[0].plan.knobs == Knobs(prefetch=2, workers=3)
    assert (orders[0].headless, orders[0].as_json, (orders[0].plan.settings.steps or 0) > 90) == (
        True,
        True,
        True,
    )
    assert orders[1].experiment == Experiment("prefetch", ("off", 2, 4), None, 0)
    assert (orders[1].plan.settings.epochs, orders[1].plan.settings.steps) == (3, None)


@pytest.mark.parametrize(("command", "example"), sorted(EXAMPLES.items()))
def test_the_example_for_a_missing_argument_is_one_that_its_command_takes(
    command: str, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.split()[1:]

    assert make_parser().parse_args([*words, *example.split()]).run
    with pytest.raises(SystemExit):
        cli.main(words)

    assert capsys.readouterr().err.endswith(f" is missing, as in: {command} {example}\n")
