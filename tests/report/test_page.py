"""The page of a run: valid, harmless, with the judged figures."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.profiles import PROFILE
from tests.judge.step_rows import make_steps
from tests.report.hostile import HOSTILE, hostile_run
from tests.report.pages import assert_harmless, columns_of, page_of, rows_of, text_of
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run
from tests.runs.folders import FakeClock
from tests.screens.canned import STAGES, STARVING, Canned, usual
from tests.screens.states import failed, starting
from tfwatch.core.events import EpochEnded, EpochStarted, Event, RunEnded
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.page import _basis
from tfwatch.report.run_facts import judged_json
from tfwatch.report.sections import MOST_STALLS
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot


def opened(run: Canned, folder: Path) -> Snapshot:
    run.ended().writer.close()
    return open_run(folder, run.clock)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return hostile_run(tmp_path_factory.mktemp("hostile") / "run")


def test_hostile_text_stays_text(hostile: Snapshot) -> None:
    page = page_of(hostile)

    assert_harmless(page)
    assert HOSTILE[-1000:] not in page, "a name of any length is cut"


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = page_of(opened(usual(tmp_path), tmp_path))

    assert not re.search(r"https?:|url\(|@import|<script|<link|<img|<iframe", page)
    assert "default-src 'none'" in page


def test_the_page_says_what_the_run_was_judged_to_be(tmp_path: Path) -> None:
    run = open_written(
        tmp_path / "run", switched_run(), *SWITCH, FINISHED, accelerated=True, device="GPU"
    )
    findings = JudgedRun(run).findings

    text = text_of(page_of(run))

    for finding in findings:
        assert finding.word in text
        assert finding.sentence[1:] in text
        assert finding.advice in text
        assert " ".join(finding.code.split()) in text
    assert findings


def test_the_chart_stacks_the_parts_of_the_steps_of_each_column(tmp_path: Path) -> None:
    rows = make_steps(np.repeat([5.0, 15.0], [50, 50]), compute=10.0, host=5.0)
    run = open_written(tmp_path / "run", rows, RunEnded(2_500_000_000, "finished", 100))

    page = page_of(run)

    # Steps of 20 ms for 1 s, then of 30 ms; the chart reaches 30 ms.
    heights = [re.findall(r"height:([\d.]+)%", column) for column in columns_of(page)]
    assert heights[0] == ["33.3", "16.7", "16.7"]
    assert heights[-2] == ["33.3", "16.7", "50.0"]
    assert "each column is the mean of the steps of 0.2 s" in text_of(page)


def test_stalls_switches_and_epochs_are_marked_on_the_chart(tmp_path: Path) -> None:
    rows = switched_run()
    rows["wait_ms"][60] = 3000.0
    epochs = [EpochStarted(n * 10**9, n, 30, None) for n in range(30)]
    run = open_written(tmp_path / "run", rows, *epochs, *SWITCH, FINISHED)

    page = page_of(run)

    marks = re.findall(
        r'<span class="(\w+)" style="left:([\d.]+)%" title="[^"]*">(\w+)</span>', page
    )
    kinds = [(kind, label) for kind, _, label in marks]
    assert kinds[:2] == [("stall", "S"), ("switch", "p")]
    numbers = [label for kind, label in kinds if kind == "epoch"]
    assert numbers == [str(1 + 3 * n) for n in range(10)], "many epochs: each third has its number"
    assert all(0 <= float(at) <= 100 for _, at, _ in marks)


def test_the_time_that_is_lost_comes_first_then_what_is_proved_then_what_may_help(
    tmp_path: Path,
) -> None:
    rows = switched_run()
    rows["wait_ms"][100:] = 5.0
    ended = RunEnded(5 * 10**9, "finished", 200)
    events = EpochStarted(0, 0, 1, 200), *SWITCH, ended
    run = open_written(tmp_path / "run", rows, *events, knobs={"prefetch": "off"})

    text = text_of(page_of(run))

    lost = re.search(r"[\d.]+ s of [\d.]+ s avoidable since the last switch, \d+ %", text)
    assert lost
    parts = [
        lost[0],
        "PROVED FASTER IN THIS RUN Prefetch off → 4",
        ".prefetch(4)",
        "each step waits 5.0",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("changes", "basis"),
    [
        pytest.param({}, "Next", id="a look"),
        pytest.param({"code": "code"}, "To try, not measured in this run", id="lines"),
        pytest.param(
            {"forecast": Forecast("prefetch", "4", 5, 5, 5, "", 9, measured=True)},
            "Next, by a measurement of this run",
            id="a setting that the run had",
        ),
    ],
)
def test_an_advice_says_what_it_rests_on(changes: dict[str, Any], basis: str) -> None:
    assert _basis(Finding("x", "X", "it", "do it", **changes)) == basis


def test_a_run_that_proves_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    page = page_of(opened(Canned(tmp_path).started().steps(120, STARVING), tmp_path))

    assert "PROVED" not in page


def test_what_is_no_loss_is_a_note_below_the_losses(tmp_path: Path) -> None:
    run = Canned(tmp_path).started().steps(120, STARVING)
    run.log.write_text("W tensorflow/x.cc:64] Could not load dynamic library 'libcuda.so.1'\n")

    page = page_of(opened(run, tmp_path))

    assert re.search(r'<p class="aside"><b>TENSORFLOW</b>', page)
    assert "TENSORFLOW" not in "".join(re.findall(r'<p class="word">.*?</p>', page))


def test_a_profile_is_a_table_of_the_layers_here_and_in_json(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", switched_run(), PROFILE, FINISHED)
    (row,) = [row for row in rows_of(page_of(run)) if row[:2] == ["layer", "body/conv2d"]]
    assert row[2:7] == ["Conv2D", "5.0 ms", "4.0 ms", "50 %", "Conv2DBackpropFilter"]
    parts = judged_json(JudgedRun(run))["profile"]["parts"]
    assert [one["name"] for one in parts[:2]] == ["body/conv2d", "auc"]
    assert parts[0]["place"] == "train.py:41 in call"


def test_the_bottleneck_is_named(tmp_path: Path) -> None:
    run = (
        Canned(tmp_path)
        .started()
        .steps(120, STARVING)
        .staged(*STAGES)
        .steps(100, STARVING)
        .staged(*STAGES)
    )
    found = opened(run, tmp_path)
    table = JudgedRun(found).pipeline
    assert table
    assert table.bottleneck

    page = page_of(found)

    assert f"Bottleneck: {table.bottleneck.sentence}" in text_of(page)
    assert any(row[0] == "map(decode)" and row[1] for row in rows_of(page))


def test_a_run_without_steps_says_so(tmp_path: Path) -> None:
    run = starting(tmp_path)
    run.ended("stopped").writer.close()

    page = page_of(open_run(tmp_path, run.clock))

    assert "NOT ENOUGH DATA" in text_of(page)
    assert "Step time over the whole run" not in text_of(page)


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    run = failed(tmp_path)
    run.writer.close()

    assert "failed at step 451: ValueError: [bold]Tensor" in text_of(
        page_of(open_run(tmp_path, run.clock))
    )


def test_a_figure_that_is_missing_has_its_reason(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", make_steps(np.full(60, 5.0)), FINISHED, accelerated=True)

    text = text_of(page_of(run))

    assert "gpu busy" not in text
    assert "Input pipeline n/a: no stage of it was read" in text


def test_epochs_have_their_time_and_their_metrics(tmp_path: Path) -> None:
    epoch = EpochEnded(2 * 10**9, 0, 60, {"loss": 1.0, "val_loss": 0.123456})
    run = open_written(tmp_path / "run", make_steps(np.full(60, 5.0)), epoch, FINISHED)

    cells = rows_of(page_of(run))

    (head,) = (row for row in cells if row[0] == "epoch")
    assert head[-2:] == ["loss", "val_loss"]
    assert ["1", "0.1235"] in [row[-2:] for row in cells]


def test_a_long_run_makes_a_small_page(tmp_path: Path) -> None:
    count = 100_000
    rows = make_steps(
        np.full(count, 5.0), compute=np.random.default_rng(1).normal(20.0, 1.0, count)
    )
    rows["wait_ms"][::5000] = 9000.0
    rows["flags"][::200] = 4
    began: list[Event] = [
        EpochStarted(int(ns), n, 500, 200) for n, ns in enumerate(rows["start_ns"][::200])
    ]
    over = [
        EpochEnded(one.at_ns + 10**9, one.epoch, 1, {"loss": 1.0, "val_loss": 1.1})
        for one in began
        if isinstance(one, EpochStarted)
    ]
    run = open_written(tmp_path / "run", rows[:0], *began, *over, FINISHED, clock=FakeClock(4000))
    rows.tofile(tmp_path / "run" / "steps.bin")
    run = open_run(tmp_path / "run")

    page = page_of(run)

    assert len(page.encode()) < 800_000
    assert sum("epoch start" in row for row in rows_of(page)) == MOST_STALLS
