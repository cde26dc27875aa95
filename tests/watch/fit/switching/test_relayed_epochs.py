"""Switches below a strategy over two logical devices: each training's results are those of stock `fit`, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.watch.child import seen_by

pytestmark = pytest.mark.tensorflow

ORDER = "they come before filter, which decides by each element what follows"
#: `python -m tests.watch.spread_switches FOLDER` trains all fourteen kinds.
KINDS = (
    "a ragged batch",
    "unknown length",
    "parts of an epoch",
    "endless, asked before",
    "from a function",
    "a cache",
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = str(tmp_path_factory.mktemp("spread"))
    found: dict[str, Any] = seen_by("tests.watch.spread_switches", folder, *KINDS, timeout_s=900)
    return found


@pytest.mark.parametrize(
    ("kind", "switched", "refused"),
    [
        pytest.param("a ragged batch", 10, [], id="a ragged batch"),
        pytest.param("unknown length", 2, [ORDER], id="unknown length"),
        pytest.param("parts of an epoch", 2, [], id="epochs of another length than the data"),
        pytest.param(
            "from a function",
            4,
            ["its pipeline has 1 map with parallel calls, not 2"],
            id="a function distributes",
        ),
        pytest.param("a cache", 2, [], id="a cache"),
        pytest.param(
            "fused",
            2,
            [ORDER.replace("filter", "assert_cardinality")],
            id="several steps in a call",
        ),
    ],
)
def test_switches_change_no_bit(
    seen: dict[str, Any], kind: str, switched: int, refused: list[str]
) -> None:
    found = seen[kind]
    assert found["equal"]
    assert found["switched"] >= switched
    assert found["refused"] == refused


def test_endless_data_is_switched_where_it_is_asked_for_before(seen: dict[str, Any]) -> None:
    found = seen["endless, asked before"]
    assert found["equal"]
    assert found["switched"] >= 2
    assert all("repeat stands after batch" in why for why in found["refused"])


def test_nothing_is_replaced_before_a_request(seen: dict[str, Any]) -> None:
    assert seen["untouched"] == {"equal": True, "installed": False}


def test_the_stages_below_a_strategy_have_figures_once_a_switch_was_asked_for(
    seen: dict[str, Any],
) -> None:
    found = seen["stages"]
    assert {"map(double)", "map(shifted)", "batch(8)", "prefetch"} <= set(found["found"])
    assert found["rows"] > 0
    assert found["switchable"] == ["prefetch", "workers", "cache", "fast_pipeline"]
    assert found["from_epoch"] == ["cache"]  # before, each of them


def test_a_relay_that_cannot_be_built_changes_no_bit(seen: dict[str, Any]) -> None:
    first, later = seen["broken"]["first"], seen["broken"]["later"]
    assert first["equal"]
    assert later["equal"]
    assert (first["switched"], later["switched"] > 0) == (0, True)
    assert first["refused"] == [
        "batches are spread over several devices (AttributeError: no relay here)"
    ]
    assert any("no relay here" in note for note in later["notes"])
