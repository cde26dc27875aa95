"""The banner's advice fits whole into 80 columns."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.judge.situations import RUNNING, banner, changed, judged, losses, regime_of_split
from tests.runs.folders import make_manifest
from tfwatch.core.events import RunEnded, TrainingFailed
from tfwatch.core.rows import Phase
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.machine import MachineFigures
from tfwatch.judge.regime import Regime
from tfwatch.judge.stages import Stage, StageTable, find_bottleneck
from tfwatch.judge.steps.steady_steps import Verdict
from tfwatch.judge.steps.time_breakdown import TimeSpent
from tfwatch.screens.live.header import BannerPane

#: Cells of a row of the banner in a window of 80 columns.
WIDTH = 78
#: A machine whose memory is full.
FULL = MachineFigures(
    {"memory_used_bytes": 15e9, "memory_available_bytes": 1e8, "swap_used_bytes": 9e9}
)
SMALL = make_manifest(machine={"memory_bytes": 16e9})
HIGHLY, NOT = Verdict.HIGHLY, Verdict.NOT
MAP = Stage("map(batch)", "ParallelMapV2", 1.4, 2.0)
BURNS = StageTable(0, (MAP,), find_bottleneck((MAP,), 2.0, 2))
FILES = Stage("map(read_and_decode)", "Map files", 19.0)
STORAGE = StageTable(0, (FILES,), find_bottleneck((FILES,), 0.1, 2))
PYTHON = Stage("from_generator(examples)", "Generator python", 20.8)
LOCKED = StageTable(0, (PYTHON,), find_bottleneck((PYTHON,), 1.0, 2))
ALL_ON = {"prefetch": "4", "workers": "auto"}
KNOBS = ("prefetch", "workers")


def forecast_for(
    knob: str, value: str, ms: float, why: str = "the rest is compute", **changes: Any
) -> dict[str, Any]:
    """Make a forecast for a step of 23.4 ms, with a wide interval."""
    known = Forecast(knob, value, ms, ms * 0.5, ms * 1.4, why, 23.4)
    return {"forecasts": {(knob, value): changed(known, **changes)}}


def epoch(fills_shuffle: bool = False, **seconds: float) -> dict[str, Any]:
    return {
        "split": judged(0.2),
        "regime": Regime(
            spent=replace(TimeSpent(0, 250, compute_s=3.4), **seconds),  # type: ignore[arg-type]
            epochs=1,
            fills_shuffle=fills_shuffle,
        ),
    }


def last(**changes: Any) -> dict[str, Any]:
    """Make a finished run, with the finding of its last setting."""
    found = losses(changed(RUNNING, live=False, **changes))
    return {
        "ended": RunEnded(12_000_000_000_000, "finished", 5000),
        "waited_s": 5000.0,
        "last_losses": found,
    }


FINDINGS: list[Any] = [
    pytest.param(
        last(
            split=judged(),
            stages=LOCKED,
            **forecast_for("prefetch", "4", 11.7, "compute and data share the cores"),
        ),
        ".prefetch(4): 23.4 to about 11.7 ms (5.8 to 16.4), 2.0 x",
        id="ended, with a forecast",
    ),
    pytest.param(epoch(validation_s=2.0), "validation_freq=5", id="validation"),
    pytest.param(epoch(first_batch_s=2.0), ".repeat() with steps_per_epoch", id="first batch"),
    pytest.param(
        epoch(fills_shuffle=True, first_batch_s=2.0),
        "a smaller buffer",
        id="shuffle buffer",
    ),
    pytest.param(
        {"split": judged(0.0, 1.2, 0.1), "accelerated": True},
        "compile(steps_per_execution=8)",
        id="launching",
    ),
    pytest.param({"split": judged(0.0, 2.0), "op_by_op": True}, "run_eagerly", id="op by op"),
    pytest.param(
        {"split": judged(0.0, 2.0), "op_by_op": True, "loop": "train.py:22"},
        "@tf.function",
        id="op by op in a loop",
    ),
    pytest.param(
        {"split": judged(0.2, 13.6, 7.1)},
        "compile(steps_per_execution=8): about",
        id="host",
    ),
    pytest.param(
        {"phase": Phase.WAIT, "phase_s": 20.3, "asked": {"device_prefetch": "2"}},
        "Requested: device prefetch 2",
        id="asked",
    ),
    pytest.param(
        {"life": "killed", "machine": FULL, "manifest": SMALL},
        "out of memory is likely",
        id="killed",
    ),
    pytest.param({"life": "folder gone"}, "tfwatch replay opens it at its new place", id="gone"),
    pytest.param(
        {
            "failed": TrainingFailed(
                0, 412, "ValueError: no", 'File "a_rather_long_name_of_a_file.py", line 412'
            )
        },
        "5 shows the traceback",
        id="failed",
    ),
]


@pytest.mark.parametrize(("changes", "advice"), FINDINGS)
def test_the_banner_is_whole_at_80_columns(changes: dict[str, Any], advice: str) -> None:
    pane = BannerPane()
    pane.banner = found = banner(changed(RUNNING, **changes))
    first, sentence, line = pane.rows(WIDTH, 3)
    assert found.word in first.plain
    assert advice in line.plain
    assert max(first.cell_length, sentence.cell_length, line.cell_length) <= WIDTH


@pytest.mark.parametrize("given", SourceKind, ids=lambda given: given.name)
@pytest.mark.parametrize("live", [True, False], ids=["live", "read only"])
def test_advice_for_every_kind_of_data_is_whole_at_80_columns(
    given: SourceKind, live: bool
) -> None:
    pane = BannerPane()
    tables = (
        None,
        BURNS,
        STORAGE,
        LOCKED,
        *(changed(LOCKED, wait_cores=cores) for cores in (0.0, 1.0)),
    )
    situations = product(tables, (False, True), ({}, ALL_ON, {"prefetch": "off"}), ((), KNOBS))
    for stages, workers, knobs, switchable in situations:
        changes: dict[str, Any] = {
            "stages": stages,
            "origin": given,
            "knobs": {"workers": "4" if workers else "off", "multiprocessing": "off", **knobs},
            "switchable": switchable,
        }
        for split in (judged(), judged(0.2)):
            regime = (
                Regime(spent=TimeSpent(0, 250, compute_s=3.4, first_batch_s=2.0), epochs=1)
                if split.verdict is NOT
                else regime_of_split(split)
            )
            pane.banner = banner(changed(RUNNING, live=live, split=split, regime=regime, **changes))
            _, _, line = pane.rows(WIDTH, 3)
            assert 0 < line.cell_length <= WIDTH, line.plain


_CAUSE = "map(f) at src/train.py:26 runs serially: 53 ms/batch"


@pytest.mark.parametrize(
    ("width", "cause"),
    [
        (
            160,
            f"each step waits 9 ms for data: {_CAUSE}",
        ),
        (78, _CAUSE),
        (44, "map(f) at train.py:26 runs serially"),
    ],
)
def test_beside_a_remark_the_cause_is_kept_and_the_figures_go(width: int, cause: str) -> None:
    pane = BannerPane()
    pane.banner = Finding(
        "data-wait",
        "STARVING 40 %",
        f"each step waits 9 ms for data: {_CAUSE}",
        brief="each step waits 9 ms for data",
        remark="OTHER PROGRAMS USE 1.6 OF 2 CORES",
    )

    assert pane.rows(width, 3)[1].plain == cause


_LONG = "04_cheap_maps_before_the_batch.py"


@pytest.mark.parametrize(
    ("sentence", "brief", "where", "shown"),
    [
        (
            f"each example takes 76 us: 3 maps at {_LONG}:22, most of it for their calls",
            "each example takes 76 us",
            f"{_LONG}:22",
            f"3 maps at {_LONG}:22, most of it for their calls",
        ),
        (
            f"STARVING 75 %, each example takes 76 us: 3 maps at /cases/{_LONG}:22, by calls",
            "each example takes 76 us",
            f"/cases/{_LONG}:22",
            f"3 maps at /cases/{_LONG}:22, by calls",
        ),
        (
            f"17.7 s between 90 fits of 1 step: most of it is at {_LONG}:23, which calls predict",
            "",
            f"{_LONG}:23",
            f"{_LONG}:23, which calls predict",
        ),
    ],
)
def test_words_before_the_place_go_first(sentence: str, brief: str, where: str, shown: str) -> None:
    pane = BannerPane()
    remark = "OTHER PROGRAMS"
    pane.banner = Finding("loss", "LOST 40 %", sentence, brief=brief, remark=remark, where=where)

    assert pane.rows(WIDTH, 3)[1].plain == shown


_SLOW = "callback Slow takes 2:57, 30.9 ms/step"


@pytest.mark.parametrize(
    ("before", "after", "word", "remark"),
    [
        ("HOST-BOUND 84 %, ", "", "STOPPED", "after 100 235 steps in 1 h 4 min"),
        ("", "; it grows: 1.3 at first", "HOST-BOUND 84 %", "OTHER PROGRAMS USE 1.6 OF 2 CORES"),
    ],
    ids=["a run that is over", "beside other programs"],
)
def test_on_a_narrow_banner_the_loss_is_kept_and_its_place_goes(
    before: str, after: str, word: str, remark: str
) -> None:
    pane = BannerPane()
    sentence = f"{before}{_SLOW} (train.py:10 in on_train_batch_end){after}"
    pane.banner = Finding("callback", word, sentence, brief=_SLOW, remark=remark)

    assert pane.rows(WIDTH, 3)[1].plain == f"{before}{_SLOW}{after}"
