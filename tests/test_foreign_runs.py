"""Run folders from anywhere: whatever their events and their manifest hold, the run is judged,
shown and reported."""

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from msgspec.structs import fields
from textual.geometry import Size

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, write_run
from tests.screens.showing import header_of, pipeline_of
from tfwatch.core import events as facts
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import Phase
from tfwatch.judge.event_rows import EventCollector, EventRows
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.view import Follower, RunView
from tfwatch.report.run_facts import as_json
from tfwatch.report.text import as_text
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import Manifest, NotARunError, Pulse
from tfwatch.runs.run import Run, open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.screens.live.knobs import KnobsPane, knob_rows
from tfwatch.screens.live.lists import log_lines
from tfwatch.screens.live.machine import readings
from tfwatch.screens.live.timeline import picture
from tfwatch.screens.live.timeline.lanes import labels_in_view
from tfwatch.screens.live.timeline.step_bars import next_top
from tfwatch.screens.live.timeline.window import View, Zoom, bars_in_view, span_words

SECOND = 10**9
CHANGE = {"knob": "prefetch", "old": "off", "new": "4"}
HOSTILE_TEXT = "[bold]x[/nope] \x1b]0;title\x07\x1b[2J\r\n\x00\u202e " + "long " * 40
NUMBERS: list[Any] = [10**400, -(10**400), 2**64, 2**63, 2**53, 10**18, 10**15, 10**12, 4 * 10**9]
NUMBERS += [65536, 1, 0, -1, 1e308, -1e308, 1e18, 1e9, 1e-300, -0.5, 0.0, 0.5]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
TEXTS = ["", "4", "off", "NaN", HOSTILE_TEXT, HOSTILE_TEXT * 100, "half a pair \ud800"]
LISTS: list[Any] = [[], [[]], ["off"], ["off", "off"], ["4", HOSTILE_TEXT], [1], [None], [""] * 300]
LISTS += [[CHANGE], [CHANGE, {"knob": 1}], [{"knob": "", "old": "", "new": ""}]]
TABLES: list[Any] = [{}, {"loss": 10**400}, {"off": -1.0}, {"off": float("nan")}, {"": ""}]
TABLES += [{"4": 1e308, "": 0.0}, {"prefetch": "[b]"}, {"x": {}}]
VALUES: list[Any] = [None, True, False, *NUMBERS, *TEXTS, *LISTS, *TABLES]

#: An event of each kind, in the order of a run.
EVENTS: tuple[facts.Event, ...] = (
    facts.SensorMissing(1, "GPU", "no GPU in this machine", "none is needed"),
    facts.GpusFound(1, {"GPU:0": "H100"}, {"GPU:0": 80 * 2**30}),
    facts.GpuFound(1, "nvml", "H100", 80 * 2**30, False),
    facts.StagesFound(1, 0, ["map(read)", "batch"], ["Map", "BatchV2"]),
    facts.Noted(2, "A/B test ended: no", True),
    facts.RecordingLost(2, "disk full", 1),
    facts.RecordingResumed(3),
    facts.Slept(4, 60_000.0),
    facts.EpochStarted(5, 0, 3, 60),
    facts.TrainableIgnored(6, ["stem"], ["head"]),
    facts.Paused(SECOND, "swap", 12.0, "30 MB"),
    facts.Paused(SECOND, "thermal limit", 900.0),
    facts.StallLocated(SECOND, 40, "map(read)", SECOND // 2, "feed.py:41 in rows", "generator"),
    facts.Traced(SECOND, 3, 40.0, "input 0: shape (8, 31) -> (8, 47)", 2, 90.0),
    facts.CodeSampled(
        SECOND, 40.0, [facts.CodeSample("HOST", "Save", "save", "train.py:4 in f", 9)]
    ),
    facts.StepProfiled(SECOND, 42, 3, 30.0, 90.0),
    facts.LossDiverged(SECOND, 42, "NaN", 41),
    facts.ValidationEnded(SECOND, 0, 90.0),
    facts.EpochEnded(SECOND + 1, 0, 60, {"loss": 1.31}),
    facts.EpochStarted(SECOND + 2, 1, 3, 60),
    facts.RandomDrawsAllowed(SECOND + 3, 60, "key", "map(flip) draws random numbers"),
    facts.SwitchAsked(SECOND + 3, "prefetch", "off", "4", 60, "key"),
    facts.PipelineSwitched(SECOND + 4, "prefetch", "off", "4", 60, 61, 21.0, "key"),
    facts.SwitchFailed(SECOND + 5, "workers", "no map", "off", "4", 61, "off"),
    facts.ExperimentBegan(SECOND + 6, "workers", ("off", "4"), 61, 500),
    facts.ExperimentBlock(SECOND + 7, 1, "off", 8, 23.0, 1.2, 1.1, 1.3),
    facts.ExperimentEnded(
        *(SECOND + 8, "workers", ("off", "4"), 61, 90, "clear", "faster", 2, 16, "4"),
        *(1.68, 1.61, 1.74, {"off": 23.4, "4": 13.9}, "no"),
    ),
    facts.AutopilotBegan(SECOND + 9, 90),
    facts.MoveMade(
        SECOND + 10,
        91,
        (KnobChange("prefetch", "off", "4"), KnobChange("cache", "off", "on")),
        9.0,
    ),
    facts.MoveJudged(
        SECOND + 11, 99, (KnobChange("prefetch", "off", "4"),), 23.4, 9.2, 8, True, "gain"
    ),
    facts.AutopilotEnded(SECOND + 12, 99, "user", "asked", 9, 23.4, 9.2, {"prefetch": "4"}),
    facts.StopRefused(SECOND + 13, "no"),
    facts.TunerLost(SECOND + 13, 99),
    facts.WatchFailed(SECOND + 14, "ValueError: no"),
    facts.TrainingFailed(SECOND + 15, 99, "ValueError: no", "File 'a.py'\nValueError: no"),
    facts.RunEnded(2 * SECOND, "failed", 100, "ValueError: no", "WAIT", SECOND),
)
FIELDS = [(number, field.name) for number, event in enumerate(EVENTS) for field in fields(event)]
SETTINGS = {"arguments": "--seed 1"}
MACHINE = {
    "host": "here",
    "cores": 2,
    "cores_allowed": 1.5,
    "memory_bytes": 2**34,
    "memory_limit_bytes": 2**33,
}
MANIFEST: dict[str, Any] = {
    "settings": SETTINGS,
    "machine": MACHINE,
    "knobs": {"prefetch": "off", "workers": "off", "cache": "off"},
    "switchable": ["prefetch", "workers"],
    "batch_size": 32,
    "epochs": 3,
    "steps_per_epoch": 60,
}
#: Names of the entries that a foreign manifest changes.
ENTRIES = [
    *((field.name,) for field in fields(Manifest)),
    *(("settings", name) for name in (*SETTINGS, "other")),
    *(("machine", name) for name in (*MACHINE, "other")),
    *(("tables", name) for name in layout.TABLES),
]


def test_the_run_has_an_event_of_each_kind() -> None:
    assert {type(event) for event in EVENTS} == set(facts.KINDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder with a hundred steps."""
    path = tmp_path_factory.mktemp("foreign")
    rows = plain(100)
    rows["wait_ms"][20::20] += 60
    write_run(path, rows, **MANIFEST)
    (path / layout.PULSES).write_bytes(Pulse(2 * SECOND, 0, Phase.WAIT, SECOND, 101, 0).encode(1))
    return path


def write_events(folder: Path, lines: list[dict[str, Any]]) -> None:
    (folder / layout.EVENTS).write_text("".join(json.dumps(line) + "\n" for line in lines))


def event_lines() -> list[dict[str, Any]]:
    return [json.loads(facts.encode(event)) for event in EVENTS]


def show(folder: Path) -> Snapshot:
    """Judge the run, and make its views and its reports; none holds a control character."""
    reader = Run(RunFolder(folder), FakeClock(3).clock)
    snapshot = reader.read()
    follower = Follower(live=True)
    for _ in range(3):
        view = follower.follow(snapshot, [], None)
    for text in chain(texts_of(view), reports(folder, snapshot)):
        assert text.isprintable(), text
    return snapshot


def texts_of(view: RunView) -> Iterator[str]:
    """Make the content of each pane."""
    header_of(view)
    log_lines(view)
    rows = EventCollector().take(view)
    list(rows)
    readings(view)
    pipeline_of(view)
    yield from (line.plain for line in switch_rows(view))
    for zoom in Zoom:
        draw(view, rows, zoom)
    assert isinstance(view.finding, Finding)


def switch_rows(view: RunView) -> Iterator[Any]:
    """Draw the knobs and the effect of the newest switch."""
    pane = KnobsPane()
    pane.view, pane.knobs = view, knob_rows(view, live=True)
    yield from pane.rows(60, 20)


def draw(view: RunView, rows: EventRows, zoom: Zoom) -> None:
    seen, columns = View(zoom), 80
    bars = bars_in_view(view.snapshot, seen, columns)
    labels = labels_in_view(rows, bars)
    picture.draw(view, bars, labels, next_top(bars, None), Size(107, 16), is_fine=True)
    span_words(view.snapshot, seen, columns)


def reports(folder: Path, snapshot: Snapshot) -> Iterator[str]:
    """Make the JSON object and the summary."""
    run = open_run(folder, FakeClock(3).clock)
    json.dumps(as_json(run), allow_nan=False).encode()
    yield from as_text(run, Path("/")).split("\n")


CHECKED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
CHANGES = some.lists(
    some.tuples(some.sampled_from(FIELDS), some.sampled_from(VALUES)), min_size=1, max_size=3
)


def test_an_unchanged_run_is_read_whole(folder: Path) -> None:
    write_events(folder, event_lines())

    snapshot = show(folder)

    assert tuple(snapshot.events) == EVENTS
    assert snapshot.torn == 0


def lines_run(folder: Path, count: int) -> int:
    """Show a run of so many events, of all kinds in turn, and return how many lines of Python that
    takes."""
    kinds, done = [line for line in event_lines() if line["event"] != "RunEnded"], 0
    lines = [{**kinds[n % len(kinds)], "at_ns": n * SECOND // 1000} for n in range(count)]
    steps = ("step", "asked_step", "first_step")
    write_events(
        folder,
        [{**line, **{name: n for name in steps if name in line}} for n, line in enumerate(lines)],
    )

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal done
        done += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        show(folder)
    finally:
        sys.settrace(before)
    return done


def test_four_times_the_events_take_no_more_than_four_times_the_work(folder: Path) -> None:
    assert lines_run(folder, 1600) < 4.5 * lines_run(folder, 400)


@CHECKED
@given(
    changes=CHANGES,
    is_ended=some.booleans(),
    order=some.permutations(range(len(EVENTS))),
    is_sorted=some.booleans(),
)
def test_any_event_is_shown_or_skipped(
    folder: Path, changes: list[Any], is_ended: bool, order: list[int], is_sorted: bool
) -> None:
    lines = event_lines()
    for (number, name), value in changes:
        lines[number][name] = value
    kept = [lines[number] for number in (sorted(order) if is_sorted else order)]
    kept = [line for line in kept if is_ended or line["event"] != "RunEnded"]
    write_events(folder, kept)

    snapshot = show(folder)

    assert len(snapshot.events) + snapshot.torn == len(kept)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_each_field_is_shown_or_skipped_with_this_value(folder: Path, value: Any) -> None:
    original = event_lines()
    lines = [{**original[number], name: value} for number, name in FIELDS]
    write_events(folder, lines)

    snapshot = show(folder)

    assert len(snapshot.events) + snapshot.torn == len(lines)


def changed(text: str, entry: tuple[str, ...], value: Any) -> str:
    """Return a manifest with another value of one entry."""
    values = json.loads(text)
    place = values[entry[0]] if len(entry) > 1 else values
    place[entry[-1]] = value
    return json.dumps(values)


def refusal(text: str) -> str:
    """Return why the text is no manifest; empty where it is one."""
    try:
        Manifest.decode(text)
    except NotARunError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_any_manifest_is_shown_or_refused_in_a_sentence(
    folder: Path, value: Any, tmp_path: Path
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write_events(tmp_path, event_lines())
    text = (folder / layout.MANIFEST).read_text()
    for entry in ENTRIES:
        one = changed(text, entry, value)
        if sentence := refusal(one):
            assert sentence.isprintable()
            assert len(sentence) < 500
        else:
            text = one
    (tmp_path / layout.MANIFEST).write_text(text)

    assert show(tmp_path).manifest.encode()
