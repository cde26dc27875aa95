"""The layers of a deep model in groups."""

import pytest

from tests.judge.profiles import profile_of
from tfwatch.core.events import OperationTime, StepProfiled
from tfwatch.judge.profile.step_groups import blocks_in, step_rows
from tfwatch.judge.profile.step_parts import step_parts


def deep(*layers: tuple[str, str, float]) -> StepProfiled:
    """Return the profile of layers, each a name, a class and its time, a quarter of it forward."""
    roles = (("forward", 0.25), ("backward", 0.75))
    return profile_of(
        *(
            OperationTime(role, name, kind, "Conv2D", share * took_ms)
            for name, kind, took_ms in layers
            for role, share in roles
        ),
        OperationTime("optimizer", "adam", "Adam", "Mul", 2.0),
        small_ms=1.0,
    )


def shown(profile: StepProfiled) -> list[tuple[str, int, float]]:
    return [(one.name, one.count, round(one.took_ms, 3)) for one in step_rows(profile)]


KINDS = ("Conv2D", "BatchNormalization", "ReLU", "DepthwiseConv2D", "Dropout")
#: Eight equal blocks of two layers; and stages, the blocks of the last of which take most.
EVEN = [
    (f"block_{at}_{name}", kind, took_ms)
    for at in range(1, 9)
    for name, kind, took_ms in (("conv", "Conv2D", 2.0), ("bn", "BatchNormalization", 2.0))
]
UNEVEN = [
    (f"stage{stage}_block{at}_{kind.lower()}", kind, 4.0 if stage == 5 else 0.1)
    for stage in range(2, 6)
    for at in (1, 2)
    for kind in KINDS
]


def test_equal_blocks_are_grouped_by_class() -> None:
    assert shown(deep(*EVEN)) == [
        ("Conv2D", 8, 16.0),
        ("BatchNormalization", 8, 16.0),
        ("adam", 1, 2.0),
        ("small operations", 1, 1.0),
    ]


def test_a_block_that_takes_most_is_opened_and_its_blocks_are_rows() -> None:
    rows = shown(deep(*UNEVEN))
    assert rows[:2] == [("stage5_block1", 5, 20.0), ("stage5_block2", 5, 20.0)]
    assert ("stage2", 10, 1.0) in rows


def test_stages_tell_more_than_a_class_that_is_nearly_all() -> None:
    """As in a ResNet; without stages there are no fewer rows than the class."""
    layers = [
        (f"conv{stage}_block{at}_{kind.lower()}", kind, 2.0 if kind == "Conv2D" else 0.1)
        for stage in range(2, 6)
        for at in range(4)
        for kind in ("Conv2D", "ReLU")
    ]
    stages = [(f"conv{stage}", 8, 8.4) for stage in range(2, 6)]
    assert sorted(shown(deep(*layers))[:4]) == stages
    flat = [(f"conv2d_{at}", kind, took_ms) for at, (_, kind, took_ms) in enumerate(layers)]
    assert shown(deep(*flat))[0] == ("Conv2D", 16, 32.0)


def test_a_large_layer_keeps_its_row_and_the_rows_sum_to_the_parts() -> None:
    profile = deep(*EVEN, ("head", "Dense", 40.0), *UNEVEN)
    rows, parts = step_rows(profile), step_parts(profile)
    assert ("head", 1) in [(one.name, one.count) for one in rows]
    for field in ("took_ms", "backward_ms", "share"):
        total = sum(getattr(one, field) for one in parts)
        assert sum(getattr(one, field) for one in rows) == pytest.approx(total)
    assert sum(one.count for one in rows) == len(parts)


def test_a_group_names_its_longest_layer_and_has_both_directions() -> None:
    first = step_rows(deep(("block_1_conv", "Conv2D", 2.2), *EVEN[1:]))[0]
    assert (first.name, first.longest) == ("Conv2D", "block_1_conv")
    assert first.backward_ms == pytest.approx(0.75 * 16.2)


def test_the_optimizer_is_one_row_beside_a_variable_that_takes_much() -> None:
    updates = [("table/embeddings", 5.0), ("dense/kernel", 0.2), ("dense/bias", 0.1), ("", 0.1)]
    profile = profile_of(
        OperationTime("forward", "table", "Embedding", "ResourceGather", 4.6),
        *(
            OperationTime("optimizer", "adam", "Adam", "Mul", took_ms, variable=variable)
            for variable, took_ms in updates
        ),
    )
    assert [one.title for one in step_rows(profile)] == [
        "optimizer adam (Adam) of table/embeddings",
        "table (Embedding)",
        "optimizer adam (Adam)",
    ]
    assert step_rows(profile)[2].longest == "dense/kernel"
    assert len(step_parts(profile)) == 5


def test_a_model_of_few_layers_is_not_grouped() -> None:
    profile = deep(*EVEN[:12])
    assert step_rows(profile) == step_parts(profile)


def test_the_layers_of_a_layer_count_with_it_until_it_takes_most() -> None:
    """Attention in blocks of the author's own class: the blocks are equal, and each holds all."""
    layers = [
        (f"encoder_{at}{name}", kind, took_ms)
        for at in range(6)
        for name, kind, took_ms in (
            ("", "Encoder", 0.5),
            ("/attention", "MultiHeadAttention", 2.0),
            ("/attention/query", "EinsumDense", 1.0),
            ("/dense", "Dense", 5.0),
        )
    ]
    assert shown(deep(*layers))[:3] == [
        ("Dense", 6, 30.0),
        ("MultiHeadAttention", 12, 18.0),
        ("Encoder", 6, 3.0),
    ]


def test_a_model_in_a_model_is_opened() -> None:
    inner = [(f"base/{name}", kind, took_ms) for name, kind, took_ms in EVEN]
    rows = shown(deep(("base", "Functional", 0.1), *inner))
    assert rows[:2] == [("Conv2D", 8, 16.0), ("BatchNormalization", 8, 16.0)]


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("block_3_expand_BN", ["block_3"]),
        ("conv2_block1_1_conv", ["conv2", "conv2_block1", "conv2_block1_1"]),
        ("block2a_expand_conv", ["block2a"]),
        (
            "convnext_tiny_stage_0_block_1_gelu",
            ["convnext_tiny_stage_0", "convnext_tiny_stage_0_block_1"],
        ),
        ("conv2d_1", []),
        ("conv2d_transpose_1", []),
        ("dense_12", []),
    ],
)
def test_a_block_is_the_beginning_of_a_name_up_to_a_number(name: str, blocks: list[str]) -> None:
    assert blocks_in(name) == blocks
