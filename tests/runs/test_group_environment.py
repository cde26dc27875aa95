from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfwatch.runs.group import MOST_RANKS, Membership, find_membership

HOST = "node1"
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
}


def tf_config(role: str, index: int | str, **cluster: object) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


def place(environ: dict[str, str]) -> tuple[int | None, int | None, str] | None:
    found = find_membership(environ, HOST)
    return (found.rank, found.size, found.launcher) if found else None


WORKERS = ["a:1", "b:1", "c:1"]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, None, id="alone"),
        pytest.param(tf_config("worker", 1, worker=WORKERS), (1, 3, "TF_CONFIG"), id="a worker"),
        pytest.param(
            tf_config("worker", "1", worker=WORKERS), (1, 3, "TF_CONFIG"), id="its index as text"
        ),
        pytest.param(
            tf_config("worker", 1, worker=WORKERS, chief=["d:1"]),
            (2, 4, "TF_CONFIG"),
            id="beside a chief",
        ),
        pytest.param(
            tf_config("chief", 0, worker=WORKERS, chief=["d:1"]),
            (0, 4, "TF_CONFIG"),
            id="the chief",
        ),
        pytest.param(tf_config("evaluator", 0, worker=WORKERS), None, id="an evaluator"),
        pytest.param(
            tf_config("worker", 1, worker=WORKERS, ps=["d:1"]), None, id="parameter servers"
        ),
        pytest.param(
            tf_config("worker", 3, worker=WORKERS), None, id="an index beyond the cluster"
        ),
        pytest.param(tf_config("worker", 0, worker=["a:1"]), None, id="a cluster of one"),
        pytest.param({"TF_CONFIG": "{"}, None, id="no JSON"),
        pytest.param(SLURM, (2, 4, "SLURM"), id="srun"),
        pytest.param({**SLURM, "SLURM_STEP_ID": ""}, None, id="a batch script without srun"),
        pytest.param({"RANK": "3", "WORLD_SIZE": "8"}, None, id="somebody's RANK"),
        pytest.param(
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
            (1, 2, "Open MPI"),
            id="Open MPI",
        ),
        pytest.param(
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, None, id="mpirun of one"
        ),
        pytest.param({"TFWATCH_GROUP": "mine"}, (None, None, "TFWATCH_GROUP"), id="a named group"),
        pytest.param(
            {"TFWATCH_GROUP": "mine", **SLURM},
            (2, 4, "TFWATCH_GROUP"),
            id="a name for SLURM's ranks",
        ),
        pytest.param(
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "2"}, None, id="beyond the size"
        ),
    ],
)
def test_rank_and_size_are_those_of_the_launcher(
    environ: dict[str, str], expected: tuple[int, int, str] | None
) -> None:
    assert place(environ) == expected


def launch(environ: dict[str, str], host: str = HOST) -> str:
    found = find_membership(environ, host)
    assert found
    return found.launch


def test_ranks_of_one_launch_have_the_same_text_and_those_of_another_one_do_not() -> None:
    places = [(tf_config("worker", index, worker=WORKERS), f"node{index}") for index in range(3)]
    assert len({launch(*place) for place in places}) == 1
    assert launch(SLURM) == launch({**SLURM, "SLURM_PROCID": "0"}, "node9")
    others = [
        {**SLURM, "SLURM_JOB_ID": "8"},
        {**SLURM, "SLURM_STEP_ID": "1"},
        {**SLURM, "SLURM_RESTART_COUNT": "1"},
    ]
    assert len({launch(SLURM), *map(launch, others)}) == 4


def test_a_cluster_of_this_machine_only_is_another_one_on_each_machine() -> None:
    local = tf_config("worker", 0, worker=["localhost:1", "localhost:2"])

    assert launch(local, "a") != launch(local, "b")


_VARIABLES = (
    "TF_CONFIG", "RANK", "WORLD_SIZE", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",  # noqa: E501
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
    "TFWATCH_GROUP",
)  # fmt: skip
_KEYS = st.sampled_from(["cluster", "task", "type", "index", "worker", "chief", "x"])
_JSON = st.recursive(
    st.none()
    | st.integers(-2, 5)
    | st.text("01x", max_size=3)
    | st.sampled_from(["worker", "chief", "ps"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_TEXTS = (
    st.integers(-1, MOST_RANKS + 1).map(str)
    | st.text("01-./ x\0é", max_size=5)
    | _JSON.map(json.dumps)
)


@example({"TFWATCH_GROUP": "0", "TF_CONFIG": "0"})
@given(st.dictionaries(st.sampled_from(_VARIABLES), _TEXTS, max_size=6))
def test_any_environment_gives_a_sound_place_or_none(environ: dict[str, str]) -> None:
    found = find_membership(environ, HOST)

    assert found is None or _is_sound(found)


def _is_sound(found: Membership) -> bool:
    is_placed = found.rank is None or found.size is None or 0 <= found.rank < found.size
    return (
        is_placed and bool(found.name) and "/" not in found.name and not found.name.startswith(".")
    )
