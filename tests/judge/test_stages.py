"""The time of a batch in each stage, and the stage that limits the pipeline."""

import math

import numpy as np
import pytest

from tfwatch.core.events import StagesFound
from tfwatch.core.rows import STAGE, Rows
from tfwatch.judge.stages import Stage, StageTable, find_bottleneck, make_stage_table

NAN = math.nan
FOUND = {0: StagesFound(0, 0, ["range", "map(decode)", "prefetch"], ["Range", "Map", "Prefetch"])}


def row(
    at_s: float,
    stage: int,
    busy_ms: float,
    elements: int = 10,
    pipeline: int = 0,
    wait_cores: float = NAN,
) -> Rows:
    passed = (round(at_s * 1e9), pipeline, stage, elements, busy_ms)
    return np.array([(*passed, 1.0, 2.0, 4.0, 100.0, wait_cores)], dtype=STAGE)


def stage(kind: str, busy_ms: float, parallelism: float = 1.0, name: str = "") -> Stage:
    return Stage(name or kind, kind, busy_ms, parallelism)


def table_of(*rows: Rows, found: dict[int, StagesFound] = FOUND) -> StageTable:
    table = make_stage_table(np.concatenate(rows), found)
    assert table is not None
    return table


def test_costs_are_means_weighted_with_what_passed() -> None:
    table = table_of(row(1, 1, 10.0, elements=30), row(2, 1, 20.0, elements=10))

    decode = table.stages[1]
    assert decode.busy_ms == pytest.approx(12.5)
    assert (table.at_ns, decode.name, decode.kind) == (2 * 10**9, "map(decode)", "Map")
    assert decode.buffered == 2.0


def test_a_reading_in_which_nothing_passed_changes_no_cost() -> None:
    table = table_of(row(1, 1, 10.0), row(2, 1, NAN, elements=0))

    assert table.stages[1].busy_ms == pytest.approx(10.0)


def test_what_a_prefetch_seems_to_cost_is_no_work() -> None:
    table = table_of(row(1, 0, 0.2), row(1, 1, 0.6), row(1, 2, 1.8))

    assert math.isnan(table.stages[2].busy_ms)
    assert (table.stages[2].buffered, table.stages[2].buffer_size) == (2.0, 4.0)
    assert table.all_ms == pytest.approx(0.8)


def test_the_table_is_of_the_newest_pipeline() -> None:
    found = {**FOUND, 1: StagesFound(0, 1, ["range"], ["Range"])}
    table = table_of(row(1, 1, 10.0), row(2, 0, 3.0, pipeline=1), found=found)

    assert [(s.name, s.busy_ms) for s in table.stages] == [("range", 3.0)]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(row(1, 0, 1.0)[:0], id="none"),
        pytest.param(row(1, 0, 1.0, pipeline=9), id="unnamed"),
    ],
)
def test_without_rows_or_names_there_is_no_table(rows: Rows) -> None:
    assert make_stage_table(rows, FOUND) is None


def named(*stages: Stage) -> int | None:
    found = find_bottleneck(stages)
    return found.stage if found else None


@pytest.mark.parametrize(
    ("stages", "slowest"),
    [
        pytest.param(
            [stage("Range", 0.1), stage("Map", 20.0), stage("BatchV2", 1.0)], 1, id="serial"
        ),
        pytest.param(
            [stage("Map", 20.0), stage("ParallelMapV2", 60.0, 4)],
            0,
            id="workers share a stage's work",
        ),
        pytest.param(
            [stage("Map", 20.0), stage("ParallelMapV2", 60.0, 2)], 1, id="too few workers"
        ),
        pytest.param(
            [
                stage("Map", 15.0),
                stage("Map", 20.0),
                stage("Prefetch", 0.1, NAN),
                stage("Map", 30.0),
            ],
            1,
            id="two before a prefetch outweigh one behind it",
        ),
        pytest.param(
            [
                stage("Map", 5.0),
                stage("Map", 20.0),
                stage("Prefetch", 0.1, NAN),
                stage("Map", 30.0),
            ],
            3,
            id="or not",
        ),
        pytest.param(
            [stage("Map", 5.0), stage("Prefetch", 50.0, NAN)], 0, id="handing over is no work"
        ),
        pytest.param(
            [stage("Map", NAN), stage("BatchV2", 1.0)], 1, id="what is not known is not blamed"
        ),
        pytest.param(
            [stage("ParallelMapV2", 8.0, NAN), stage("Map", 5.0)],
            0,
            id="unknown parallelism is one",
        ),
        pytest.param(
            [stage("MapAndBatch", 40.0, 4), stage("Map", 11.0)], 1, id="fused stages have workers"
        ),
    ],
)
def test_the_slowest_serial_stretch_limits_the_pipeline(stages: list[Stage], slowest: int) -> None:
    assert named(*stages) == slowest


@pytest.mark.parametrize(
    ("kind", "parallelism", "wait_cores", "others", "reason"),
    [
        pytest.param("Map", 1, 1.0, 0, "serial", id="works alone"),
        pytest.param("Map", 1, 0.05, 0, "storage", id="waits"),
        pytest.param("Map files", 1, 0.4, 0, "storage", id="reads, and mostly waits"),
        pytest.param("Map", 1, 0.4, 0, "serial", id="waits for its turn a little"),
        pytest.param("Map files", 1, 1.0, 0, "serial", id="reads from memory"),
        pytest.param("Map files", 1, NAN, 0, "serial", id="reads files, cores unknown"),
        pytest.param("ParallelMapV2 files", 2, NAN, 0, "busy", id="reads or computes"),
        pytest.param("Map", 1, NAN, 0, "serial", id="cores unknown"),
        pytest.param("Map", 1, 0.2, 5, "serial", id="other programs take the cores"),
        pytest.param("Map", 1, 0.02, 5, "serial", id="waits beside other programs are ignored"),
        pytest.param("Map files", 1, 0.02, 5, "storage", id="reads beside other programs"),
        pytest.param("Map files", 1, NAN, 5, "serial", id="cores unknown beside other programs"),
        pytest.param(
            "ParallelMapV2 files", 8, 3.9, 3.8, "cpu", id="reads with the cores that are left"
        ),
        pytest.param("ParallelMapV2", 4, 3.9, 0, "cpu", id="all workers work"),
        pytest.param("ParallelMapV2", 4, 0.3, 0, "storage", id="all workers wait"),
        pytest.param("ParallelMapV2", 1, 1.0, 0, "serial", id="one worker"),
        pytest.param("FlatMap python", 1, 1.0, 0, "python", id="a generator"),
        pytest.param("ParallelMapV2 python", 4, 0.0, 0, "python", id="Python in workers"),
    ],
)
def test_why_a_stage_is_slow(
    kind: str, parallelism: float, wait_cores: float, others: float, reason: str
) -> None:
    found = find_bottleneck((stage(kind, 40.0, parallelism),), wait_cores, 8, others)

    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize(
    ("wait_ms", "named"),
    [(0.5, True), (4.0, True), (6.0, False), (NAN, True)],
)
def test_a_stage_that_takes_next_to_nothing_of_the_wait_is_not_blamed(
    wait_ms: float, named: bool
) -> None:
    table = StageTable(0, (stage("Map", 1.0),)).with_bottleneck(8, 0.0, wait_ms)

    assert (table.bottleneck is not None) == named


@pytest.mark.parametrize(
    ("wait_ms", "reason"), [(2.0, "serial"), (10.0, "storage"), (NAN, "storage")]
)
def test_waits_too_short_to_sample_are_ignored(wait_ms: float, reason: str) -> None:
    table = StageTable(0, (stage("Map", 10.0),), wait_cores=0.0).with_bottleneck(8, 0.0, wait_ms)

    assert table.bottleneck is not None
    assert table.bottleneck.reason == reason


@pytest.mark.parametrize(
    ("used", "reason"), [(1.9, "cpu"), (1.2, "busy"), (0.2, "storage"), (NAN, "busy")]
)
def test_waits_too_short_to_sample_are_judged_by_the_cores_in_use_in_the_mean(
    used: float, reason: str
) -> None:
    """Two calls decoded JPEGs from memory on two cores, and each step waited 4 ms: that was no wait
    for storage."""
    read = StageTable(0, (stage("MapAndBatch files random", 30.0, 2),), wait_cores=0.1)

    found = read.with_bottleneck(2, 0.0, 4.0, 12.0, used).bottleneck

    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize(
    ("calls", "work_ms", "shown_ms"),
    [
        pytest.param(1, 38.0, 24.0, id="one call at a time"),
        pytest.param(2, 38.0, 38.0, id="two calls"),
        pytest.param(2, 60.0, 48.0, id="two calls, more than both can do"),
        pytest.param(1, 7.0, 7.0, id="less than a step"),
    ],
)
def test_a_stage_works_at_most_a_step_in_each_of_its_calls(
    calls: int, work_ms: float, shown_ms: float
) -> None:
    read = StageTable(0, (stage("MapAndBatch", work_ms, calls),))

    table = read.with_bottleneck(2, 0.0, 12.0, 12.0)

    assert table.all_ms == shown_ms
    assert table.rate_ms <= 24.0
    assert read.with_bottleneck(2, 0.0).all_ms == work_ms  # no step is known


@pytest.mark.parametrize(
    ("maps_ms", "step_ms", "wait_ms", "total"),
    [
        pytest.param((40.0, 20.0), 23.0, 12.0, 20.0, id="parallel"),
        pytest.param((40.0, 20.0), 60.0, 55.0, 60.0, id="all calls share the cores"),
        pytest.param((4.0, 2.0), 60.0, 55.0, None, id="neither explains the wait"),
        pytest.param((80.0, 20.0), 10.0, 2.0, None, id="a stall that the steps no longer have"),
        pytest.param((0.2, 0.1), 10.0, 0.0, 0.1, id="steps do not starve"),
        pytest.param((0.2, 0.1), NAN, NAN, 0.1, id="no step is known"),
    ],
)
def test_the_total_of_the_stages_is_one_that_explains_the_step(
    maps_ms: tuple[float, ...], step_ms: float, wait_ms: float, total: float | None
) -> None:
    table = StageTable(0, tuple(stage("ParallelMapV2", ms, 2) for ms in maps_ms))

    assert table.total(step_ms, wait_ms) == total


def test_the_total_of_stages_in_one_thread_is_that_of_their_calls() -> None:
    table = StageTable(0, (stage("Map", 20.0), stage("BatchV2", 1.0)))

    assert table.total(25.0, 12.0) == 21.0


def test_what_works_beside_a_waiting_stage_is_not_its_work() -> None:
    """Reading takes 15 of 20 ms: the CPU is busy in the other 5."""
    found = find_bottleneck((stage("Map files", 15.0), stage("Map", 5.0)), 0.3, 8)

    assert found is not None
    assert (found.stage, found.reason) == (0, "storage")


@pytest.mark.parametrize(
    ("stages", "wait_cores", "sentence"),
    [
        pytest.param(
            [stage("Map", 21.0, name="map(decode)"), stage("BatchV2", 2.0)],
            1.0,
            "map(decode) runs serially on one of 8 cores: 21.0 of 23.0 ms/batch",
            id="serial",
        ),
        pytest.param(
            [stage("Map files", 18.0, name="map(read)")],
            0.1,
            "map(read) waits for storage: 18.0 ms/batch, serial, with 0.1 cores in use",
            id="storage",
        ),
        pytest.param(
            [stage("ParallelMapV2", 18.0, 2, name="map(ask)")],
            0.1,
            "map(ask) waits for something other than the CPU: 9.0 ms/batch, 2 parallel, with 0.1"
            " cores in use",
            id="something else",
        ),
        pytest.param(
            [stage("ParallelMapV2", 64.0, 8, name="map(decode)")],
            7.8,
            "map(decode) is CPU-bound: 8 workers on 8 cores take 8.0 ms/batch, 64.0 ms of work",
            id="cpu",
        ),
        pytest.param(
            [stage("ParallelMapV2 files", 40.0, 2, name="map(load)")],
            NAN,
            "map(load) reads files or computes: 2 workers on 8 cores take 20.0 ms/batch",
            id="files, cores unknown",
        ),
        pytest.param(
            [stage("FlatMap python", 17.0, name="from_generator(rows)")],
            1.0,
            "from_generator(rows) runs Python and holds the GIL: 17.0 ms/batch, serial",
            id="python",
        ),
        pytest.param(
            [stage("FlatMap python", 17.0, name="from_generator(rows)")],
            math.nan,
            "from_generator(rows) runs Python: 17.0 ms/batch, serial",
            id="Python of which nothing says whether it waits",
        ),
        pytest.param(
            [
                stage("ParallelMapV2 python", 64.0, 8, name="map(ask)"),
                stage("BatchV2", 6.0, name="batch"),
            ],
            0.85,
            "map(ask) waits in Python: 8.0 ms/batch, 8 parallel, with 0.1 cores in use",
            id="Python that waits while another stage computes",
        ),
    ],
)
def test_the_sentence_names_the_stage_the_reason_and_the_time(
    stages: list[Stage], wait_cores: float, sentence: str
) -> None:
    found = find_bottleneck(tuple(stages), wait_cores, 8)

    assert found is not None
    assert found.sentence == sentence


def test_where_only_the_last_stages_were_read_the_table_is_of_the_whole_pipeline_before() -> None:
    found = {
        **FOUND,
        1: StagesFound(0, 1, ["prefetch"], ["Prefetch"]),
        2: StagesFound(0, 2, ["batch"], ["BatchV2"]),
    }
    whole = row(1, 0, 1.0), row(1, 1, 10.0), row(1, 2, 0.1)
    after_the_end = table_of(*whole, row(2, 0, 0.1, pipeline=1), found=found)
    after_another = table_of(*whole, row(2, 0, 0.1, pipeline=2), found=found)

    assert [stage.name for stage in after_the_end.stages] == ["range", "map(decode)", "prefetch"]
    assert after_the_end.at_ns == 10**9
    assert [stage.name for stage in after_another.stages] == ["batch"]
