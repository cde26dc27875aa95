"""The losses of a run in rank: the most seconds first, none of them claimed twice, and the limit of
the steps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.losses import (
    ADAM,
    BATCH,
    COPIES,
    GAINS,
    LAUNCHES,
    LOOPS,
    MULTIPLIES,
    UNEVEN,
    UPDATES,
    kinds,
    losing,
)
from tests.judge.profiles import PROFILE, profile_of
from tests.judge.situations import RUNNING, changed, split
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.findings.ranking import find_losses
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.regime import CodeTime, Regime
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.stalls import Stall
from tfwatch.judge.steps.time_breakdown import PARTS, TimeSpent
from tfwatch.runs.format import Machine


def test_the_largest_loss_comes_first_whatever_its_kind() -> None:
    parts = {"first_batch_s": 3.0, "validation_s": 10.0, "data_wait_s": 5.0, "host_s": 7.0}

    found = find_losses(losing(**parts))

    assert [one.kind for one in found] == ["validation", "host-bound", "input-bound", "first-batch"]
    assert [one.lost_s for one in found] == pytest.approx([8.0, 6.125, 5.0, 3.0])


def test_a_run_without_a_large_loss_is_well() -> None:
    small = losing(data_wait_s=0.1, host_s=0.1, validation_s=0.1, first_batch_s=0.1)

    assert kinds(small) == ["compute-bound"]
    assert find_losses(small)[0].tone is Tone.GOOD


@pytest.mark.parametrize(
    ("spent", "losses"),
    [
        ({"data_wait_s": 2.9, "first_batch_s": 1.0}, {"input-bound": 1.29, "first-batch": 1.0}),
        ({"data_wait_s": 9.0, "unaccounted_s": 20.0}, {"input-bound": 0.0}),
    ],
    ids=["9 % are given back", "less than 5 % are"],
)
def test_a_run_that_waits_for_a_fifth_of_its_time_is_not_well(
    spent: dict[str, float], losses: dict[str, float]
) -> None:
    waited_s = spent["data_wait_s"]
    table = StageTable(0, (Stage("map(load)", "Map", 20.0), BATCH), wait_cores=1.0)
    now = losing(
        **spent,
        split=split(waited_s, 10.0, 0.0),
        stages=table.with_bottleneck(2, 0.0, waited_s, 10.0),
        cores_free=0.0,
        origin=SourceKind.TF_DATA,
    )
    two = msgspec.structs.replace(now.manifest, machine=Machine(cores=2))

    found = find_losses(changed(now, manifest=two))

    assert {one.kind: one.lost_s for one in found} == pytest.approx(losses)


def test_a_loss_below_a_tenth_comes_after_the_limit_of_the_steps() -> None:
    assert kinds(losing(data_wait_s=0.8)) == ["compute-bound", "input-bound"]


def test_nothing_is_judged_before_there_is_enough() -> None:
    short = losing(compute_s=1.0, data_wait_s=1.0, steps=5, is_whole=False)

    assert find_losses(short) == ()
    assert kinds(changed(short, is_whole=True)) == ["input-bound"]
    assert kinds(changed(short, split=None)) == []
    assert kinds(losing(compute_s=5.0, data_wait_s=5.0, is_whole=False)) == ["input-bound"]


@pytest.mark.parametrize("live", [True, False])
def test_a_live_screen_names_the_key_that_gains_beside_the_remedy_in_the_script(live: bool) -> None:
    stages = StageTable(0, (Stage("map(scale)", "Map", 0.96), BATCH))
    now = losing(data_wait_s=5.0, stages=stages, forecasts={("prefetch", "4"): GAINS}, live=live)

    first, *_ = find_losses(now)

    key = "p prefetch on: 17.0 to about 12.0 ms, 1.4 x (it overlaps); or "
    assert first.kind == "cheap-maps"
    assert first.advice.startswith(f"{key if live else ''}.batch(32) before the map")


def test_a_cause_without_known_seconds_comes_last_and_is_the_advice_on_the_limit() -> None:
    now = losing(model=LOOPS, accelerated=True, host_s=0.7)

    limit, loss, cause = find_losses(now)

    assert [limit.kind, loss.kind, cause.kind] == ["compute-bound", "host-bound", "no-cudnn"]
    assert limit.advice.startswith("lstm (LSTM) and 1 more without cuDNN: recurrent_dropout=0.2")
    assert (cause.lost_s, cause.share, cause.word) == (0.0, 0.0, "COMPUTE")
    assert "%" not in cause.sentence


SECONDS = st.floats(0, 1e6)
TIMES = st.builds(
    CodeTime,
    st.sampled_from(["HOST", "EPOCH_END", "BETWEEN_FITS", "WAIT"]),
    st.sampled_from(["", "Plotter", "ModelCheckpoint"]),
    st.sampled_from(["", "predict", "gc.collect", "save"]),
    st.sampled_from(["", "train.py:9 in f"]),
    SECONDS,
)
SPENT = st.builds(
    TimeSpent,
    steps=st.integers(0, 10_000),
    traces=st.integers(0, 200),
    **dict.fromkeys(PARTS, SECONDS),
)
REGIMES = st.builds(
    Regime,
    spent=SPENT,
    code=st.lists(TIMES, max_size=4).map(tuple),
    models=st.integers(1, 50),
    fits=st.integers(1, 500),
    epochs=st.integers(0, 500),
    newest=st.lists(SPENT, max_size=4).map(tuple),
    fills_shuffle=st.booleans(),
    host_growth_ms=st.tuples(SECONDS, SECONDS),
)
PART = st.floats(0.01, 100)
SPLITS = st.builds(split, PART, PART, PART) | st.just(UNEVEN) | st.just(COPIES) | st.just(LAUNCHES)
TABLES = st.sampled_from(
    [
        None,
        StageTable(0, (Stage("map(scale)", "Map", 0.96), BATCH)),
        StageTable(0, (Stage("from_generator", "FlatMap python", 3.2), BATCH)),
        StageTable(0, (Stage("map(read)", "ParallelMapV2", 8.0, 4.0), BATCH)),
    ]
)


@given(
    regime=REGIMES,
    split=SPLITS,
    stages=TABLES,
    accelerated=st.booleans(),
    op_by_op=st.booleans(),
    model=st.sampled_from([None, ADAM, LOOPS]),
    profile=st.sampled_from([None, PROFILE, profile_of(MULTIPLIES, UPDATES)]),
    stalls_ms=st.lists(SECONDS, max_size=3),
    log=st.sampled_from([frozenset(), frozenset({"cache dropped"})]),
    is_whole=st.booleans(),
)
def test_no_second_is_claimed_twice(stalls_ms: list[float], **drawn: Any) -> None:
    now = changed(RUNNING, stalls=[Stall(9, 1, 1, ms, "") for ms in stalls_ms], **drawn)
    spent = now.regime.spent

    found = find_losses(now)

    assert sum(one.lost_s for one in found) <= spent.active_s * (1 + 1e-9)
    assert all(0 <= one.share <= 1 for one in found)
    losses = [one.lost_s for one in found if one.lost_s]
    assert losses == sorted(losses, reverse=True)
