"""One run has one finding: on the screen that follows it, on the screen of its end, in the summary
and in `--json`."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.screens.canned import COMPUTE_BOUND, MODERATE, STAGES, STARVING, Canned, Split, usual
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.judged_run import EndedRunJudge, JudgedRun
from tfwatch.judge.view import Follower, RunView

GPU = {"device": "GPU:0 Apple M2 Pro", "accelerated": True}
#: So many steps are judged on a live screen, as the whole of a last setting.
FEW = 240


def steady(split: Split, **changes: Any) -> Canned:
    return Canned(None, **changes).started().steps(FEW, split)


def staged(**changes: Any) -> Canned:
    run = Canned(None, **changes).started()
    for _ in range(3):
        run.steps(FEW // 3, STARVING).staged(*STAGES).sample()
    return run


def switched(old: str, new: str, before: Split, after: Split, **changes: Any) -> Canned:
    run = Canned(
        None,
        knobs={"prefetch": old, "workers": "off"},
        switchable=["prefetch", "workers"],
        **changes,
    )
    run.started().steps(150, before).switched("prefetch", old, new)
    return run.steps(1, after, int(Flag.SWITCH)).steps(FEW, after)


def called_back() -> Canned:
    run = Canned(None).started()
    for _ in range(FEW):
        run.steps(1, (0.2, 13.0, 18.0)).event(
            facts.Paused, cause="callback", took_ms=17.0, detail="CSVLogger"
        )
    return run


def short_epochs() -> Canned:
    run = Canned(None)
    for _ in range(4):
        run.begin_epoch().steps(1, (22.0, 13.0, 0.8), int(Flag.EPOCH_START)).steps(
            50, COMPUTE_BOUND
        ).pass_s(2.0)
        run.event(facts.ValidationEnded, epoch=run.epoch, took_ms=2000.0)
        run.event(facts.EpochEnded, epoch=run.epoch, step=run.step, metrics={"loss": 1.0}).pass_s(
            0.001
        )
    return (
        run.begin_epoch()
        .steps(1, (22.0, 13.0, 0.8), int(Flag.EPOCH_START))
        .steps(FEW, COMPUTE_BOUND)
    )


def generator() -> Canned:
    run = Canned(None, knobs={}, switchable=[]).started()
    return run.staged(
        ("from_generator", f"Generator {SourceKind.GENERATOR.value}", 9.0, 1.0, 0.0, 0.0)
    ).steps(FEW, STARVING)


RUNS: list[Any] = [
    pytest.param(lambda: steady(STARVING), id="starving on a CPU"),
    pytest.param(lambda: steady(STARVING, **GPU), id="starving on a GPU"),
    pytest.param(lambda: steady(MODERATE), id="moderately"),
    pytest.param(lambda: steady(COMPUTE_BOUND, **GPU), id="compute-bound"),
    pytest.param(lambda: steady(COMPUTE_BOUND, op_by_op=True), id="op by op"),
    pytest.param(lambda: steady(STARVING, knobs={}, switchable=[]), id="no knobs"),
    pytest.param(staged, id="stages are read"),
    pytest.param(lambda: staged(**GPU), id="stages are read beside a GPU"),
    pytest.param(lambda: switched("off", "4", STARVING, COMPUTE_BOUND), id="prefetch turned on"),
    pytest.param(lambda: switched("4", "off", COMPUTE_BOUND, STARVING), id="prefetch turned off"),
    pytest.param(
        lambda: switched("4", "off", COMPUTE_BOUND, STARVING, **GPU),
        id="prefetch turned off beside a GPU",
    ),
    pytest.param(called_back, id="a callback"),
    pytest.param(short_epochs, id="between epochs"),
    pytest.param(generator, id="a generator"),
    pytest.param(lambda: usual(None).steps(FEW, COMPUTE_BOUND), id="an epoch and a switch"),
]


def words(found: Finding) -> tuple[str, str, str, str]:
    return found.word, found.sentence, found.advice, found.code


def followed(run: Canned, *, to_the_end: bool = False) -> RunView:
    """The newest view of a read-only screen."""
    reader = run.reader()
    follower = Follower(live=False)
    if to_the_end:
        ended = EndedRunJudge()
        ended(reader.read())
        assert ended._thread
        ended._thread.join()
        follower = Follower(live=False, judge_ended=ended)
    return follower.follow(reader.read(), (), None)


@pytest.mark.parametrize("make", RUNS)
def test_a_run_that_is_followed_has_the_finding_of_its_summary(make: Callable[[], Canned]) -> None:
    run = make().doing(Phase.COMPUTE, 0.001)
    judged = JudgedRun(run.reader().read())

    view = followed(run)

    assert words(view.finding) == words(judged.losses[0])
    assert view.situation.split
    assert judged.split
    assert view.situation.split.verdict is judged.split.verdict


@pytest.mark.parametrize("make", RUNS)
def test_a_run_that_is_over_has_the_finding_of_its_summary_beside_its_end(
    make: Callable[[], Canned],
) -> None:
    run = make().ended()
    word, sentence, advice, edit = words(JudgedRun(run.reader().read()).losses[0])

    view = followed(run, to_the_end=True)

    assert words(view.finding) == ("FINISHED", f"{word}, {sentence}", advice, edit)
