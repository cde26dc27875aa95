"""`tfwatch` alone: what it offers, and what it gives to the command line."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_cli import _taken
from tests.pseudo import Pseudo
from tests.screens.canned import usual
from tfwatch import cli
from tfwatch.cli import dispatch
from tfwatch.commands import launch as room
from tfwatch.commands.factories import Factories
from tfwatch.core.clock import Clock
from tfwatch.core.refusals import NotTimed, Refusal
from tfwatch.doctor.quick_facts import GpuPresence
from tfwatch.report.document import as_json
from tfwatch.runs.reading.opened import open_run
from tfwatch.workloads.registry import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.screens.launcher_lists import Trainable


@pytest.mark.parametrize(
    "workload", room.trainables(GpuPresence()), ids=lambda workload: workload.name
)
def test_each_value_of_each_knob_is_taken_by_train(
    workload: Trainable, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = _taken(monkeypatch)
    monkeypatch.setattr(
        dispatch, "make_parser", cache(dispatch.make_parser)
    )  # 6 ms for each of 800 values
    for knob in (knob for knob in workload.knobs if not knob.refused):
        orders.clear()
        for value in knob.values:
            assert cli.main(["train", workload.name, *value.words]) == 0, knob.name
        assert [value.words == () for value in knob.values].index(True) == knob.start, knob.name
        assert len({repr(order.plan) for order in orders}) == len(knob.values), knob.name


def test_a_workload_has_the_knobs_that_it_takes() -> None:
    offered = room.trainables(GpuPresence())
    knobs = {one.name: [knob.name for knob in one.knobs if knob.name != "cache"] for one in offered}
    assert list(knobs) == list(WORKLOADS)
    learning = ["batch size", "optimizer", "learning rate", "seed", "length"]
    all_have = [*learning, "device", "mode", "precision", "steps per execution"]
    always = ["prefetch", "workers", "device prefetch"]
    assert knobs["generator"] == [*always, "fast pipeline", *all_have]
    assert knobs["cnn"] == [*always, "latency", "image size", "data", *all_have]


def _reasons(here: GpuPresence, workload: str) -> dict[str, str]:
    """By knob: the reason why it or a value is refused, or its note."""
    (one,) = (one for one in room.trainables(here) if one.name == workload)
    reasons = {
        knob.name: [
            f"{value.shown}: {one.reason}" for value in knob.values for one in value.constraints
        ]
        for knob in one.knobs
    }
    return {
        knob.name: knob.refused or "; ".join(reasons[knob.name])
        for knob in one.knobs
        if knob.refused or reasons[knob.name]
    }


_NO_COPY = [
    f"{n}: {why}"
    for n in (1, 2, 4)
    for why in (Refusal.NO_DEVICE_MEMORY.words, NotTimed.IN_GRAPH.value)
]


@pytest.mark.parametrize(
    ("here", "workload", "said"),
    [
        pytest.param(
            GpuPresence(),
            "cnn",
            {"device prefetch": "; ".join(_NO_COPY), "precision": "mixed: slower on a CPU"},
            id="a GPU",
        ),
        pytest.param(
            GpuPresence("no GPU"),
            "cnn-loop",
            {
                "device": "gpu: no GPU",
                "precision": "mixed: slower on a CPU",
                "steps per execution": "its loop runs one step per iteration",
            },
            id="no GPU, and a loop written by hand",
        ),
        pytest.param(
            GpuPresence(is_metal=True),
            "array",
            {
                "mode": "jit: no XLA on Apple's GPUs",
                "precision": "mixed: slower on a CPU",
                "steps per execution": "train_on_batch runs one step",
            },
            id="an Apple GPU",
        ),
    ],
)
def test_a_value_that_cannot_apply_has_a_reason(
    here: GpuPresence, workload: str, said: dict[str, str]
) -> None:
    assert _reasons(here, workload) == said


def test_jit_is_open_on_a_mac_while_the_cpu_computes() -> None:
    (mode,) = (
        knob for knob in room.trainables(GpuPresence(is_metal=True))[2].knobs if knob.name == "mode"
    )
    (jit,) = (value for value in mode.values if value.shown == "jit")
    assert [
        one.applies({"device": device})
        for one in jit.constraints
        for device in ("auto", "cpu", "gpu")
    ] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        pytest.param("seed", " 42 ", ("--seed", "42"), id="seed"),
        pytest.param("learning rate", "5e-4", ("--learning-rate", "0.0005"), id="learning rate"),
        pytest.param("batch size", "48", ("--batch-size", "48"), id="batch size"),
    ],
)
def test_what_is_typed_is_taken_by_train(
    name: str, typed: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = _taken(monkeypatch)
    (knob,) = (knob for knob in room.trainables(GpuPresence())[2].knobs if knob.name == name)
    assert knob.read
    assert knob.read(typed).words == words
    assert cli.main(["train", "cnn", *words]) == 0
    assert getattr(orders[0].plan.settings, name.replace(" ", "_")) == float(typed)
    for wrong in ("", "x", "-1", "nan", "9" * 30):
        with pytest.raises(ValueError, match=r"number|learning rate"):
            knob.read(wrong)


def test_a_folder_of_images_is_typed(tmp_path: Path) -> None:
    (data,) = (knob for knob in room.trainables(GpuPresence())[2].knobs if knob.name == "data")
    assert data.read
    assert data.read(str(tmp_path)).words == ("--data", str(tmp_path))
    with pytest.raises(ValueError, match="there is no folder /nonexistent"):
        data.read("/nonexistent")
    with pytest.raises(ValueError, match="give a folder"):
        data.read("  ")


def test_a_script_of_ones_own_is_run_with_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("train.py", "two words.py"):
        (tmp_path / name).touch()
    script = str(tmp_path / "train.py")
    assert room.run_script("~/train.py --epochs 3 --name 'a b'") == (
        "run",
        script,
        "--epochs",
        "3",
        "--name",
        "a b",
    )
    assert room.run_script(" ~/two words.py ") == ("run", str(tmp_path / "two words.py"))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param("  ", "give the path of a script", id="none"),
        pytest.param(
            "/nonexistent/x.py", "/nonexistent/x.py cannot be run: No such file", id="no such file"
        ),
        pytest.param("'x.py", "No closing quotation", id="an open quotation"),
    ],
)
def test_a_script_that_is_not_there_is_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        room.run_script(line)


class _Chooses:
    """A launcher in which somebody has chosen at once."""

    def __init__(self, *words: str) -> None:
        self.words = words


def _played(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def show_app(make: Any) -> int:
        make()
        return code

    monkeypatch.setattr(room, "show_app", show_app)


@pytest.mark.parametrize(
    ("code", "chosen", "runs", "printed"),
    [
        pytest.param(
            0, ("train", "cnn", "--steps", "9"), True, "tfwatch train cnn --steps 9\n", id="chosen"
        ),
        pytest.param(
            0, ("run", "/a b.py"), True, "tfwatch run '/a b.py'\n", id="as a shell takes it"
        ),
        pytest.param(0, (), False, "", id="left"),
        pytest.param(143, ("train", "cnn"), False, "", id="ended by a signal"),
    ],
)
def test_what_is_chosen_is_printed_and_run(
    code: int,
    chosen: tuple[str, ...],
    runs: bool,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    _played(monkeypatch, code)

    def make(offer: object, **options: object) -> Any:
        return _Chooses(*chosen)

    became: list[Sequence[str]] = []
    factories = replace(Factories(), launcher=make, exec_command=became.append)

    assert room.launch(tmp_path, factories) == code
    assert became == ([chosen] if runs else [])
    assert capsys.readouterr() == ("", printed)


@pytest.mark.parametrize(("code", "then"), [(0, [()]), (1, [])], ids=["left", "failed"])
def test_after_a_replay_the_launcher_shows_again(
    code: int, then: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _played(monkeypatch, 0)
    words = ("replay", "2026-11-20T10-17-03_cnn")
    ran: list[Sequence[str]] = []
    became: list[Sequence[str]] = []

    def run_command(words: Sequence[str]) -> int:
        ran.append(words)
        return code

    def make(offer: object, **options: object) -> Any:
        return _Chooses(*words)

    factories = replace(
        Factories(), launcher=make, exec_command=became.append, run_command=run_command
    )

    assert room.launch(tmp_path, factories) == code
    assert (ran, became) == ([(*words, "--goes-back")], then)


@pytest.mark.terminal
def test_in_a_terminal_a_run_is_chosen_and_seen_again(tmp_path: Path) -> None:
    usual(tmp_path / "tfwatch" / "runs" / "2026-11-20T10-17-03_cnn").ended().writer.close()
    home = str(tmp_path)
    with Pseudo("-m", "tfwatch", XDG_STATE_HOME=home, XDG_CONFIG_HOME=home) as terminal:
        terminal.wait_for("finished")
        terminal.press("r")
        terminal.wait_for("tfwatch replay 2026-11-20T10-17-03_cnn")
        terminal.press("\r")
        terminal.wait_for("451 steps")
        terminal.wait_for("q back")
        assert "tfwatch replay 2026-11-20T10-17-03_cnn\r\n" in terminal.words
        terminal.output = b""
        terminal.press("q")
        terminal.wait_for("recent runs")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before


def test_without_a_terminal_it_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert capsys.readouterr().out.startswith("usage: tfwatch")


def test_runs_are_the_newest_first_with_what_became_of_them(tmp_path: Path) -> None:
    for name, cause in (
        ("2026-11-20T10-17-03_cnn", "finished"),
        ("2026-11-20T10-17-03_cnn-2", "stopped"),
    ):
        usual(tmp_path / name).ended(cause).writer.close()
    broken = tmp_path / "2026-11-20T10-17-03_cnn-3"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    manifest_wall_ns = usual(None).writer.manifest().origin_wall_ns
    clock = Clock(
        now_ns=lambda: 0, wall_ns=lambda: manifest_wall_ns + 720 * 10**9, thread_ns=lambda: 0
    )

    runs = list(room.past_runs(tmp_path, clock))

    assert [run.state for run in runs] == ["stopped", "finished"]
    # The older one's name is a part of the newer one's.
    assert [run.words for run in runs] == [
        "2026-11-20T10-17-03_cnn-2",
        str(tmp_path / "2026-11-20T10-17-03_cnn"),
    ]
    assert [(run.workload, run.age_s) for run in runs] == [("cnn", 720.0)] * 2
    assert runs[0].length.startswith("451 steps, ")
    assert runs[1].wait_share == pytest.approx(
        as_json(open_run(runs[1].words))["whole_run"]["data_wait_share"]
    )
    assert list(room.past_runs(tmp_path / "nowhere")) == []


def test_a_workload_starts_with_the_knobs_of_the_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("prefetch = 3\ncache = true")
    monkeypatch.setenv("TFWATCH_CONFIG", str(config))
    offered = {
        workload.name: {knob.name: knob for knob in workload.knobs}
        for workload in room.trainables(GpuPresence())
    }
    prefetch, cache = offered["cnn"]["prefetch"], offered["cnn"]["cache"]

    assert (prefetch.values[prefetch.start].shown, prefetch.values[prefetch.start].words) == (
        "3",
        (),
    )
    assert [(value.shown, value.words) for value in cache.values] == [
        ("off", ("--cache", "off")),
        ("on", ()),
    ]
    assert "cache" not in offered["dense"]
