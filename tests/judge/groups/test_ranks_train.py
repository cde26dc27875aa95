"""Two processes of one training with `MultiWorkerMirroredStrategy`, one of them late; more in
`tests.bench.ranks`."""

from pathlib import Path

import pytest

from tests.bench.ranks import Case, check, train

CASES = [Case("data", 1), Case("host", 0)]


@pytest.mark.tensorflow
def test_the_late_rank_is_named_with_its_cause(tmp_path: Path) -> None:
    groups = train(2, CASES, 80, tmp_path)

    for group, case in zip(groups, CASES, strict=True):
        assert check(group, case)[0], check(group, case)[1]
        assert [len(rank.steps) for rank in group.group.ranks.values()] == [80, 80]
