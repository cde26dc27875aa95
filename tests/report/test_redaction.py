"""Texts without paths, names and the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.profiles import profile_of
from tests.judge.step_rows import make_steps
from tests.report.written_runs import open_written
from tfwatch.core.events import OperationTime, SensorMissing
from tfwatch.report.redaction import LONGEST, Redaction, redaction_of, shown
from tfwatch.runs.format import ModelFacts, RecurrentLayer

if TYPE_CHECKING:
    from pathlib import Path

REDACTION = Redaction({"ada": "[user]", "vm": "[host]", "fraud model": "[name]"})


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("read by Ada on vm", "read by [user] on [host]"),
        ("adam, ada_1, kvm, vm-2", "adam, [user]_1, kvm, [host]-2"),
        ("the fraud models", "the [name]s"),
        (
            "map(features) and .flat_map(features, 4), features, map(lambda x: x)",
            "map(function) and .flat_map(function, 4), features, map(lambda x: x)",
        ),
        (
            "/srv/data/x.tfrecord, ~/x, ../x, C:\\\\x\\\\y, s3://b/x",
            "[path], [path], [path], [path], [path]",
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '/srv/my data/x', isn't 'a' 3 ms/step",
            "PermissionError: [Errno 13] Permission denied: [path], isn't 'a' 3 ms/step",
        ),
        ("at feed.py:41 in rows", "at [file]"),
        (
            "13.9 ms/step, 2 of 4 ms/batch, /GPU:0, 1 / 255",
            "13.9 ms/step, 2 of 4 ms/batch, /GPU:0, 1 / 255",
        ),
    ],
)
def test_names_and_paths_are_replaced(text: str, redacted: str) -> None:
    assert shown(text, REDACTION) == redacted


def test_a_run_without_secrets_keeps_its_texts() -> None:
    assert shown("prefetch off → 4", Redaction({})) == "prefetch off → 4"


@pytest.mark.parametrize("redaction", [None, REDACTION], ids=["plain", "redacted"])
def test_a_text_is_one_short_line(redaction: Redaction | None) -> None:
    assert shown("a\x1b[2J\nb\udc80", redaction) == "a [2J b "
    assert len(shown("n" * 10**6, redaction)) == LONGEST


def test_whoever_has_a_home_in_a_text_of_the_run_is_named_nowhere(tmp_path: Path) -> None:
    missing = SensorMissing(0, "gpu", "/home/grace/tool: not for grace")
    run = open_written(tmp_path / "run", make_steps(np.zeros(40)), missing)

    redaction = redaction_of(run, tmp_path / "ada", ())
    assert redaction.text("/home/grace/tool: not for grace") == "[path]: not for [user]"


def test_names_of_layers_that_their_author_gave_are_replaced(tmp_path: Path) -> None:
    layers = [RecurrentLayer(name, "LSTM", ["unroll=True"]) for name in ("pricer/lstm_1", "flow")]
    run = open_written(
        tmp_path / "run", make_steps(np.zeros(40)), model=ModelFacts(without_cudnn=layers)
    )

    redaction = redaction_of(run, tmp_path / "ada", ())
    assert redaction.text("pricer/lstm_1, flow (LSTM)") == "[layer]/lstm_1, [layer] (LSTM)"


def test_the_name_of_a_block_is_replaced_as_those_of_its_layers(tmp_path: Path) -> None:
    layer = OperationTime("forward", "pricer_3_bid", "Dense", "MatMul", 1.0)
    run = open_written(tmp_path / "run", make_steps(np.zeros(40)), profile_of(layer))
    redaction = redaction_of(run, tmp_path, ())
    assert redaction.text("pricer_3 (2 layers), pricer_3_bid") == "[layer] (2 layers), [layer]"
