"""tf.data's model and the names of its stages, without TensorFlow."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tfwatch.tfdata.stage_model import (
    RESTART_KIND,
    Node,
    find_stuck_stage,
    read_nodes,
    without_gate,
    work_since,
)
from tfwatch.tfdata.stage_names import CodeStage, align, code_kinds, label_of_kind

MS = 10**6


@dataclass
class Proto:
    """A node of `ModelProto`."""

    name: str
    num_elements: int = 0
    processing_time: int = 0
    inputs: list[int] = field(default_factory=list)
    id: int = 0
    buffered_elements: int = 0
    buffered_bytes: int = 0
    ratio: float = 1.0
    parameters: list[Any] = field(default_factory=list)


def parameter(name: str, value: float) -> Any:
    return SimpleNamespace(name=name, value=value, state_value=value)


def model(*nodes: Proto) -> Any:
    """A model whose first node is its output."""
    return SimpleNamespace(nodes={node.id: node for node in nodes}, output=nodes[0].id)


def chain(*nodes: Proto, first: int = 1) -> list[Node]:
    """Return the stages of a chain, given last first and numbered from `first`, under a root."""
    for n, node in enumerate(nodes, first):
        node.id = n
    for above, below in pairwise(nodes):
        above.inputs = [below.id]
    return read_nodes(model(Proto("Root", nodes[0].num_elements, inputs=[first]), *nodes))[0]


def test_stages_are_in_the_order_of_the_code_with_elements_per_batch() -> None:
    nodes = chain(
        Proto("Prefetch", 10, buffered_elements=2, parameters=[parameter("buffer_size", 4)]),
        Proto("BatchV2", 12, ratio=32.0),
        Proto("ParallelMapV2", 384, parameters=[parameter("parallelism", 3)]),
        Proto("Shuffle", 390, buffered_elements=1000, buffered_bytes=8000),
        Proto("Range", 1390, ratio=0.0),
    )

    assert [node.kind for node in nodes] == [
        "Range",
        "Shuffle",
        "ParallelMapV2",
        "BatchV2",
        "Prefetch",
    ]
    assert [node.per_batch for node in nodes] == [32.0, 32.0, 32.0, 1.0, 1.0]
    assert [node.parallelism for node in nodes][:4] == [1.0, 1.0, 3.0, 1.0]
    assert math.isnan(nodes[4].parallelism)
    assert (
        nodes[4].buffered,
        nodes[4].buffer_size,
        nodes[1].buffered,
        nodes[1].buffered_bytes,
    ) == (2, 4, 1000, 8000)
    assert math.isnan(nodes[0].buffered)


def test_a_cache_is_one_stage() -> None:
    nodes = chain(
        Proto("MemoryCache", 10, 5),
        Proto("MemoryCacheImpl", 10, 7, buffered_elements=10, buffered_bytes=80),
        Proto("Range", 10, ratio=0.0),
    )

    assert [node.kind for node in nodes] == ["Range", "MemoryCache"]
    assert (nodes[1].time_ns, nodes[1].buffered, nodes[1].buffered_bytes) == (12, 10, 80)


def test_at_the_end_of_the_data_the_remaining_stages_are_cut_off() -> None:
    whole = chain(Proto("BatchV2", ratio=4.0), Proto("Map"), Proto("Range", ratio=0.0))
    left = chain(Proto("Prefetch"), Proto("BatchV2", ratio=4.0))
    cached = chain(Proto("Prefetch"), Proto("MemoryCache"))
    shuffled = chain(Proto("BatchV2", ratio=4.0), Proto("Map"), Proto("Shuffle"))
    read = (whole, left, cached, shuffled)

    assert [any(node.cut_off for node in nodes) for nodes in read] == [False, True, False, False]


def interleave(elements: int, own: int, *inner: tuple[int, int, int]) -> Node:
    """inner: number, elements and nanoseconds of each file that is open."""
    files = [Proto("TFRecord", count, ns, id=n, ratio=0.0) for n, count, ns in inner]
    top = Proto("ParallelInterleaveV4", elements, own, [2, *(n for n, _, _ in inner)], 1, ratio=0.0)
    nodes, _ = read_nodes(
        model(Proto("Root", inputs=[1]), top, Proto("Range", 3, id=2, ratio=0.0), *files)
    )
    assert [node.kind for node in nodes] == ["Range", "ParallelInterleaveV4"]
    return nodes[1]


def test_the_files_of_an_interleave_are_its_own_work() -> None:
    before = interleave(100, 1 * MS, (5, 50, 10 * MS), (6, 50, 10 * MS))
    now = interleave(120, 2 * MS, (5, 60, 14 * MS), (6, 60, 16 * MS))

    assert work_since(before, now) == (1 * MS + 10 * MS, 20)
    assert now.reads_files


def test_closed_files_cost_as_much_as_the_open_ones() -> None:
    before = interleave(100, 0, (5, 50, 10 * MS))
    now = interleave(200, 0, (6, 50, 5 * MS))

    assert work_since(before, now) == (10 * MS, 100)


def test_work_is_the_difference_of_two_readings_and_all_work_of_a_new_iterator() -> None:
    (before,), (now,) = (chain(Proto("Map", n, n * MS)) for n in (10, 25))
    (restarted,) = chain(Proto("Map", 30, 4 * MS), first=7)

    assert work_since(before, now) == (15 * MS, 15)
    assert work_since(now, restarted) == (4 * MS, 30)
    assert work_since(now, before) == (10 * MS, 10)
    assert work_since(None, now) == (25 * MS, 25)


def gate(*above: str) -> list[str]:
    return ["FromTensor", "ForeverRepeat", "Scan", "TakeWhile", "Map", "TakeWhile", "Map", *above]


def of_kinds(kinds: list[str]) -> list[Node]:
    return chain(*(Proto(kind, 5) for n, kind in enumerate(reversed(kinds))))


@pytest.mark.parametrize("last", [(), (RESTART_KIND,)], ids=["ends once", "lasts"])
def test_the_gate_is_left_out(last: tuple[str, ...]) -> None:
    stages = without_gate(of_kinds(gate("BatchV2", "Prefetch", *last)))

    assert [node.kind for node in stages] == ["BatchV2", "Prefetch"]


def test_a_generator_over_the_gate_hides_it() -> None:
    nodes = of_kinds(["FromTensor", "Map", "BatchV2"])

    assert without_gate(nodes) == nodes


#: Stages, the last of the code first, and the one that stands.
STANDS = {
    "a map that has taken an element and not given it": (
        [Proto("BatchV2", 10, ratio=4.0), Proto("Map", 42), Proto("Range", 43)],
        "Map",
    ),
    "all wait for the source": (
        [Proto("Prefetch", 10), Proto("Map", 10), Proto("Range", 10)],
        "Range",
    ),
    "workers that hold elements": (
        [
            Proto("Prefetch", 10),
            Proto("ParallelMapV2", 10, parameters=[parameter("parallelism", 4)]),
            Proto("Map", 14),
            Proto("Range", 14),
        ],
        "ParallelMapV2",
    ),
    "elements in a buffer are ready": (
        [Proto("Shuffle", 10, buffered_elements=20), Proto("Map", 30), Proto("Range", 31)],
        "Map",
    ),
    "a batch that is complete": (
        [Proto("BatchV2", 10, ratio=4.0), Proto("Map", 44), Proto("Range", 44)],
        "BatchV2",
    ),
}


@pytest.mark.parametrize(("nodes", "where"), STANDS.values(), ids=STANDS)
def test_a_stalled_pipeline_is_located_at_the_last_stage_that_works(
    nodes: list[Proto], where: str
) -> None:
    found = chain(*nodes)
    at = find_stuck_stage(found)
    assert at is not None
    assert found[at].kind == where


@pytest.mark.parametrize(
    ("kind", "parts", "label"),
    [
        ("ParallelMapV2", ("Map",), "map"),
        ("MapAndBatch", ("Map", "Batch"), "map, batch"),
        ("PaddedBatchV2", ("PaddedBatch",), "padded_batch"),
        ("ShuffleAndRepeat", ("Shuffle", "Repeat"), "shuffle, repeat"),
        ("ForeverRepeat", ("Repeat",), "repeat"),
        ("FiniteTake", ("Take",), "take"),
        ("MemoryCache", ("Cache",), "cache"),
        ("ParallelInterleaveV4", ("Interleave",), "interleave"),
        ("FromTensor", ("Tensor",), "from_tensors"),
        ("TensorSlice", ("TensorSlice",), "from_tensor_slices"),
        ("TFRecord", ("TFRecord",), "TFRecordDataset"),
        ("Unbatch", ("Unbatch",), "unbatch"),
    ],
)
def test_kinds_without_tensorflows_variants(kind: str, parts: tuple[str, ...], label: str) -> None:
    assert (code_kinds(kind), label_of_kind(kind)) == (parts, label)


def labels(kinds: list[str], *stages: CodeStage) -> list[str]:
    return [", ".join(stage.label for stage in found) for found in align(kinds, stages)]


RANGE, DECODE, AUGMENT = (
    CodeStage("Range", "range"),
    CodeStage("Map", "map(decode)"),
    CodeStage("Map", "map(augment)"),
)
BATCH, PREFETCH = CodeStage("Batch", "batch(4)"), CodeStage("Prefetch", "prefetch")


def test_each_node_has_the_name_of_its_stage() -> None:
    kinds = ["Range", "ParallelMapV2", "Map", "BatchV2", "Prefetch"]

    found = labels(kinds, RANGE, DECODE, AUGMENT, BATCH, PREFETCH)

    assert found == ["range", "map(decode)", "map(augment)", "batch(4)", "prefetch"]


def test_a_stage_added_by_tensorflow_has_no_name_and_a_removed_one_has_no_node() -> None:
    skip = CodeStage("Skip", "skip")

    assert labels(["Range", "Map", "Prefetch"], RANGE, skip, DECODE) == ["range", "map(decode)", ""]
