"""The workers of the tf.data service on the screen, in the summary and in `--json`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.schemas import errors
from tests.screens.canned import PREFETCHED, STARVING, Canned, Staged
from tests.screens.showing import shown
from tfwatch.cli import main
from tfwatch.core.events import FeedFound
from tfwatch.core.rows import Phase
from tfwatch.report.document import as_json
from tfwatch.report.html.templates import redaction_of
from tfwatch.report.text import as_text
from tfwatch.runs.library.labels import Labels
from tfwatch.runs.reading.opened import read_run

if TYPE_CHECKING:
    from tests.screens.showing import Shown

_MB = 2**20
SERVICE: tuple[Staged, ...] = (
    ("data_service", "DataService", 21.0, 1.0, math.nan, math.nan),
    ("batch(32)", "BatchV2", 0.6, 1.0, math.nan, math.nan),
    PREFETCHED,
)


def fed(
    folder: Path | None,
    workers: int,
    lost: int | None = None,
    missing: dict[str, str] | None = None,
) -> Canned:
    """A run that workers feed; the one at `lost` does not respond."""
    run = Canned(folder, knobs={"prefetch": "default"}).started()
    addresses = [f"box{n}.lan:41234" for n in range(workers)]
    run.event(FeedFound, dispatcher="trainer.lan:41233", workers=addresses, missing=missing or {})
    for _ in range(3):
        run.steps(40, STARVING).staged(*SERVICE).sample()
        for n in range(workers):
            figures = (math.nan, 0.0) if n == lost else (math.nan if missing else 0.9, 12.0 * _MB)
            run.writer.feed(round(run.at_s * 1e9), n, int(n == lost), *figures)
    return run.doing(Phase.WAIT, 0.01)


def pane(show: Shown) -> list[str]:
    """The rows of the pane, single-spaced."""
    return [" ".join(row.partition("││")[0].strip("│ ").split()) for row in show.rows]


async def test_a_large_screen_has_a_row_for_each_worker_and_a_small_one_their_sum() -> None:
    async with shown(fed(None, 4, lost=2), (200, 60)) as show:
        rows = pane(show)
        assert "cores elements/s received/s" in rows
        assert "4 workers 2.7 1 368 36 MB" in rows
        assert "box0.lan:41234 0.9 456 12 MB" in rows
        assert "box2.lan:41234 does not respond" in rows
        await show.resize((120, 40))
        assert "box2.lan:41234 does not respond" in pane(show)
        assert "3 others 2.7 1 368 36 MB" in pane(show)
        await show.resize((80, 24))
        await show.press("2")
        assert any(
            row.startswith("4 workers, box2.lan:41234 lost: 2.7 cores, ") for row in pane(show)
        )


async def test_a_stall_names_the_lost_process() -> None:
    run = fed(None, 2, lost=1)
    run.pass_s(20.0).doing(Phase.WAIT, 20.0)
    async with shown(run, (120, 40)) as show:
        assert "waits for the tf.data service: 2 workers, box1.lan:41234 lost." in show.words


async def test_a_figure_that_is_not_known_is_not_available_with_its_reason() -> None:
    async with shown(
        fed(None, 2, missing={"cores": "its process is not one of this machine"}), (200, 60)
    ) as show:
        assert "box1.lan:41234 n/a 684 12 MB" in pane(show)
        assert "cores n/a: its process is not one of this machine" in pane(show)


def test_the_summary_and_json_have_the_workers(tmp_path: Path) -> None:
    canned = fed(None, 2, lost=1).ended()
    canned.writer.flush()
    run = read_run(canned.writer, canned.clock)
    document = as_json(run)
    assert errors("run", document) == []
    assert document["feed_workers"][0] == {
        "address": "box0.lan:41234",
        "lost": False,
        "cores": pytest.approx(0.9),
        "bytes_s": 12.0 * _MB,
        "elements_s": pytest.approx(32 / 23.4e-3, rel=1e-3),
    }
    lost, text = document["feed_workers"][1], as_text(run, tmp_path)
    assert (lost["lost"], lost["cores"], lost["elements_s"]) == (True, None, 0.0)
    assert (
        "fed by 2 workers, box1.lan:41234 lost: 0.9 cores, 1 368 elements/s, 12 MB/s; elements"
        in text
    )


def test_an_explanation_has_the_number_of_workers_with_its_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fed(tmp_path / "run", 2).ended().writer.close()
    assert main(["explain", str(tmp_path / "run")]) == 0
    text = capsys.readouterr().out
    assert "feed workers 4 (4 to 5)" in text
    assert main(["explain", "--json", str(tmp_path / "run")]) == 0
    assert errors("explain", json.loads(capsys.readouterr().out)) == []


def test_a_redacted_page_leaves_out_the_machines_of_the_workers() -> None:
    canned = fed(None, 2)
    canned.writer.flush()
    run = read_run(canned.writer, canned.clock)
    found = redaction_of(run, Labels(), Path("/home/ada"), {"cnn"}).text(
        "the worker at box1.lan:41234 of trainer.lan"
    )
    assert found == "the worker at [host]:41234 of [host]"


def test_the_advice_for_a_run_that_workers_feed_is_more_of_them() -> None:
    canned = fed(None, 2)
    canned.writer.flush()
    found = as_json(read_run(canned.writer, canned.clock))
    assert found["finding"]["advice"].startswith(
        "more workers of the tf.data service: 4 (4 to 5) in place of 2"
    )
    assert found["pipeline"]["bottleneck"]["sentence"].startswith(
        "data_service waits for workers of the tf.data service"
    )
