"""A training in another process is found, shown with its keys, and its pipeline switched from a
shell."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.commands import Done, typed
from tests.judge.profiles import PROFILE
from tests.runs.begun import begin_run
from tests.runs.requested import SentRequests
from tests.screens.canned import Canned, usual
from tests.screens.showing import shown
from tfwatch.app import TfwatchApp
from tfwatch.cli import replay as module
from tfwatch.cli.named_runs import find_training
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import PipelineSwitched, StepProfiled, StopRefused, SwitchFailed
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.control import Control, RequestTaker
from tfwatch.runs.format import REQUESTS, Embedding, ModelFacts
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.requests import RequestSender, SwitchRequest
from tfwatch.runs.writer import RunWriter
from tfwatch.screens.overlays import Leave, Question


@dataclass
class Training:
    """A training of this process that takes requests every millisecond. fails: every switch
    fails."""

    writer: RunWriter
    control: Control = field(default_factory=Control)
    fails: bool = False

    def obey(self, done: threading.Event) -> None:
        while not done.wait(0.001):
            for request in self.control.take(7):
                self._switch(request)

    def _switch(self, request: SwitchRequest) -> None:
        old, new = getattr(self.control.knobs, request.knob), request.value
        self.control.knobs = self.control.knobs.with_value(request.knob, request.value)
        if self.fails:
            self.writer.event(
                SwitchFailed(self.writer.now_ns(), request.knob, "no memory", old, new, 7, old)
            )
        else:
            self.writer.event(
                PipelineSwitched(
                    self.writer.now_ns(), request.knob, old, new, 7, 9, 1.0, request.by
                )
            )


@contextmanager
def training(runs_dir: Path, *, missing: str = "", **options: Any) -> Iterator[Training]:
    """Write a run that takes requests for prefetch and the cache. missing: why there is no
    profile."""
    knobs = {"prefetch": "off", "workers": "off", "cache": "off"}
    fixed = {"workers": "its map keeps a state"}
    writer, _ = begin_run(
        runs_dir, "cnn", switchable=["prefetch", "cache"], knobs=knobs, fixed=fixed
    )
    one, done = Training(writer, **options), threading.Event()

    def profile(_by: str) -> None:
        if missing:
            writer.event(StepProfiled(writer.now_ns(), 9, 3, 5.0, 8.0, missing=missing))
        else:
            writer.event(msgspec.structs.replace(PROFILE, at_ns=writer.now_ns()))

    writer.take_requests = RequestTaker(writer, one.control, profile).look
    obeying = threading.Thread(target=one.obey, args=(done,))
    obeying.start()
    try:
        yield one
    finally:
        done.set()
        obeying.join(10)
        writer.end("finished")
        writer.close()


# -- set -------------------------------------------------------------------------------------------


def set_in(folder: Path, *words: str) -> Done:
    return typed("set", *words, "--runs-dir", folder)


def test_set_waits_until_the_switch_is_in_effect(tmp_path: Path) -> None:
    with training(tmp_path) as one:
        done = set_in(tmp_path, "cnn", "prefetch=4")
        assert done == (0, "prefetch off → 4 from step 9 on\n", "")
        assert one.control.knobs.prefetch == "4"
        one.writer.flush()

        assert set_in(tmp_path, "prefetch=4") == (0, "prefetch is 4 already\n", "")


def test_set_trace_waits_for_the_step_by_layer(tmp_path: Path) -> None:
    with training(tmp_path):
        code, out, _ = set_in(tmp_path, "cnn", "prefetch=4", "trace")
    assert code == 0
    first, second, *_ = out.splitlines()
    assert first == "prefetch off → 4 from step 9 on"
    assert second == "  5.0 ms  50 %  body/conv2d (Conv2D), backward 4.0 ms, train.py:41 in call"


def test_set_trace_prints_the_facts_of_the_model_where_no_kernel_is_recorded(
    tmp_path: Path,
) -> None:
    facts = ModelFacts("Adam", largest_embedding=Embedding("items", 50, 3))
    with training(tmp_path, missing="no kernels") as one:
        one.writer.describe(model=facts)
        code, out, _ = set_in(tmp_path, "cnn", "trace")
    assert code == 1
    assert out.splitlines() == [
        "no profile: no kernels",
        "Adam updates all rows of items (50 x 3) in each step",
    ]


def test_set_reports_a_request_for_a_later_epoch(tmp_path: Path) -> None:
    with training(tmp_path):
        code, out, _ = set_in(tmp_path, "cnn", "prefetch=2", "cache=on")
    assert code == 0
    assert out.splitlines() == [
        "prefetch off → 2 from step 9 on",
        "requested: cache off → on, in effect with a later epoch",
    ]


def test_a_switch_that_fails_is_code_1(tmp_path: Path) -> None:
    with training(tmp_path, fails=True):
        done = set_in(tmp_path, "prefetch=auto")
    assert done == (1, "prefetch auto failed: no memory\n", "")


def test_a_switch_that_is_not_in_effect_in_time_is_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.cli.set._LONGEST_S", 0)
    with training(tmp_path) as one:
        one.control.take = lambda steps: []  # type: ignore[method-assign]
        done = set_in(tmp_path, "prefetch=4")
    assert done == (1, "prefetch 4 is requested, and has no answer yet\n", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cnn"], "set needs a setting: tfwatch set RUN KNOB=VALUE, e.g. prefetch=4"),
        (["cnn", "prefetch"], "'prefetch' is not a setting: give KNOB=VALUE, e.g. prefetch=4"),
        (
            ["prefetch=x"],
            "'x' is not a setting: give off, default, auto or a number from 1 to 1024",
        ),
        (["depth=4"], "'depth' is not a knob: choose prefetch, workers"),
        (
            ["prefetch=4", "workers=4", "trace"],
            "does not switch workers: its map keeps a state",
        ),
    ],
)
def test_what_cannot_be_set_is_a_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    with training(tmp_path) as one:
        code, _, error = set_in(tmp_path, *words)
        assert one.writer.folder
        assert not (one.writer.folder / REQUESTS).exists()
    assert code == 2
    assert error.startswith("tfwatch: ")
    assert sentence in error
    assert error.count("\n") == 1


# -- the training that is meant --------------------------------------------------------------------


def test_the_newest_running_one_is_found(tmp_path: Path) -> None:
    usual(tmp_path / "2026-01-01T00-00-00_old").ended().writer.close()
    with training(tmp_path) as one:
        usual(tmp_path / "2099-01-01T00-00-00_over").ended().writer.close()
        for wanted in (None, "cnn"):
            assert find_training(wanted, tmp_path) == one.writer.folder


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (None, "no training runs on this machine now, among the runs in "),
        ("over", "over is over: tfwatch replay "),
        ("cnn", "no run 'cnn' in "),
    ],
)
def test_a_training_that_is_not_there_is_a_sentence(
    wanted: str | None, sentence: str, tmp_path: Path
) -> None:
    usual(tmp_path / "over").ended().writer.close()
    words = [wanted] if wanted else []
    done = typed("attach", *words, "--runs-dir", tmp_path)
    assert done.code == 2
    assert done.err.startswith(f"tfwatch: {sentence}")


def refusal_of(folder: Path, **manifest: Any) -> str:
    """Return why a running run with this manifest is not attached to."""
    run = usual(folder)
    run.writer.describe(**manifest)
    run.writer.flush()
    with pytest.raises(BadInputError) as error:
        find_training(str(folder), folder.parent)
    run.writer.close()
    return str(error.value)


def test_a_run_that_takes_no_requests_is_a_sentence(tmp_path: Path) -> None:
    replay = f"; tfwatch replay {tmp_path}"
    elsewhere = {"boot_id": "another" + boot_id(), "machine": {"host": "gpu-7"}}
    assert refusal_of(tmp_path / "a", **elsewhere).startswith(
        f"a trains on gpu-7: attach there{replay}/a follows it"
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b").chmod(0o777)
    assert refusal_of(tmp_path / "b").startswith(
        f"b: the run takes no requests: others may write to its folder{replay}/b"
    )


def test_without_a_terminal_the_other_ways_are_named(tmp_path: Path) -> None:
    with training(tmp_path):
        done = typed("attach", "--runs-dir", tmp_path)
    assert done.code == 2
    assert "use tfwatch set, or tfwatch report --json" in done.err


def test_the_screen_gets_the_trainings_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_with: list[tuple[Any, ...]] = []

    def show(*found: Any, **attached: Any) -> int:
        shown_with.append((*found, attached["runs"]))
        return 0

    monkeypatch.setattr(module, "show_run", show)
    monkeypatch.setattr(module, "why_no_screen", lambda _: "")
    with training(tmp_path) as one:
        assert typed("attach", "--runs-dir", tmp_path).code == 0
        *_, control, runs = shown_with[0]
        assert runs.folder == one.writer.folder
        assert isinstance(control, RequestSender)


# -- the screen ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_q_asks_with_leaving_first(tmp_path: Path, size: tuple[int, int]) -> None:
    async with shown(usual(tmp_path), size, is_attached=True) as show:
        assert "ATTACHED" in show.rows[0]
        await show.press("q")
        assert isinstance(show.app.screen, Question)
        assert "the training goes on where it runs" in show.text
        await show.press("d")
        assert show.app.return_value is Leave.DETACH
        assert show.control is not None
        assert not show.control.stop.is_set()


class FoundRuns:
    """The runs that the test has begun."""

    def __init__(self) -> None:
        self.waiting: list[Path] = []

    def take(self) -> list[Path]:
        waiting, self.waiting = self.waiting, []
        return waiting


def attached_to_a_process(folder: Path) -> tuple[TfwatchApp, Canned, FoundRuns]:
    """Return the app attached to a process, with the first run of it."""
    found = FoundRuns()
    runs = ScriptRuns(found.take)
    runs._calls.patience_s = None
    first = usual(folder / "first")
    first.writer.flush()
    found.waiting = [folder / "first"]
    reader = runs.next_reader()
    assert reader
    return (
        TfwatchApp(reader, SentRequests(), clock=first.clock, is_attached=True, runs=runs),
        first,
        found,
    )


async def test_quitting_with_a_fit_does_not_wait_for_the_end_of_the_next_one(
    tmp_path: Path,
) -> None:
    app, first, found = attached_to_a_process(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        app.live.frame()
        await pilot.press("q", "y")
        first.ended("stopped").writer.close()
        usual(tmp_path / "second").writer.flush()
        found.waiting = [tmp_path / "second"]
        app.frame()
        await pilot.pause()
        assert app.return_value is Leave.STOP


async def test_a_refused_stop_is_reported_and_the_screen_stays(tmp_path: Path) -> None:
    requests, run = SentRequests(), usual(tmp_path)
    app = TfwatchApp(run.reader(), requests, clock=run.clock, is_attached=True)
    async with app.run_test(size=(120, 40)) as pilot:
        app.live.frame()
        await pilot.press("q", "y")
        assert requests.is_stopping
        assert app.live.stopping
        run.event(StopRefused, reason="no fit runs at the moment")
        run.writer.flush()
        app.live.frame()
        await pilot.pause()
        assert not app.live.stopping
        assert not requests.is_stopping
        assert [one.message for one in app._notifications] == [
            "not stopped: no fit runs at the moment"
        ]
        run.ended("finished")
        run.writer.flush()
        app.live.frame()
        assert app.return_value is None, "it did not leave with the run's end"
