"""The lines to paste, and the findings that carry them."""

from typing import Any

import pytest

from tests.judge.situations import RUNNING, banner, changed, judged
from tfwatch.core.events import ExperimentBegan
from tfwatch.core.script_code import CodeEdit
from tfwatch.judge.effects.switching_state import RunningExperiment
from tfwatch.judge.findings import switch_lines
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.findings.switch_lines import lines_of, proved_knobs
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.regime import Regime
from tfwatch.judge.stages import Stage, StageTable, find_bottleneck
from tfwatch.judge.steps.time_breakdown import TimeSpent

DECODE = Stage("map(decode)", "Map", 21.0)
STAGES = (
    Stage("list, shuffle", "Shuffle", 0.2),
    DECODE,
    Stage("map(<lambda>)", "Map", 30.0),
    Stage("batch(32)", "Batch", 0.6),
)
TABLE = StageTable(0, STAGES)
WORKERS = Forecast("workers", "auto", 9.1, 8.6, 9.9, "the rest is compute", 23.4)


def pasted_lines(started: dict[str, str], knobs: dict[str, str], **more: Any) -> str:
    """Return the lines for these knobs of a run that began with others."""
    return lines_of(changed(RUNNING, **{"stages": TABLE, "started": started, **more}), knobs)


@pytest.mark.parametrize(
    ("knob", "value", "line"),
    [
        pytest.param("prefetch", "4", "dataset = dataset.prefetch(4)", id="prefetch"),
        pytest.param(
            "prefetch", "auto", "dataset = dataset.prefetch(tf.data.AUTOTUNE)", id="prefetch auto"
        ),
        pytest.param(
            "workers", "8", "dataset = dataset.map(decode, num_parallel_calls=8)", id="workers"
        ),
        pytest.param("cache", "on", "dataset = dataset.cache()", id="cache"),
        pytest.param("prefetch", "off", "", id="nothing to add"),
        pytest.param("workers", "default", "", id="TensorFlow's own"),
    ],
)
def test_a_knob_is_a_line_of_a_pipeline(knob: str, value: str, line: str) -> None:
    edit = switch_lines.switch_line(changed(RUNNING, stages=TABLE), knob, value)
    assert edit.startswith(line)
    assert bool(edit) == bool(line)


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        ("prefetch", "auto", ".prefetch(tf.data.AUTOTUNE)"),
        ("prefetch", "off", "without .prefetch()"),
        ("workers", "default", "without num_parallel_calls"),
        ("cache", "off", "without .cache()"),
    ],
)
def test_a_phrase_names_the_call_that_a_pipeline_has_or_lacks(
    knob: str, value: str, words: str
) -> None:
    assert switch_lines.switch_phrase(knob, value) == words


def test_lines_are_python_and_name_the_map_that_costs_most_and_has_a_name() -> None:
    knobs = {"prefetch": "4", "workers": "8", "cache": "on"}
    text = pasted_lines(dict.fromkeys(knobs, "off"), knobs)
    compile(text, "edit", "exec")
    assert [line.partition("(")[0].rpartition(".")[2] for line in text.splitlines()] == [
        "map",
        "cache",
        "prefetch",
    ]
    assert "map(decode," in text
    assert pasted_lines({}, {"workers": "8"}, stages=None).startswith("dataset = dataset.map(...,")
    assert pasted_lines({"prefetch": "4"}, {"prefetch": "4"}) == ""


def test_without_keys_the_sentence_holds_the_stage_the_number_and_the_edit() -> None:
    table = changed(TABLE, stages=(DECODE,), bottleneck=find_bottleneck((DECODE,), 1.0, 8))
    knobs = {"prefetch": "4", "workers": "off"}
    now = changed(
        RUNNING, live=False, knobs=knobs, stages=table, forecasts={("workers", "auto"): WORKERS}
    )
    found = banner(changed(now, split=judged()))
    assert (
        found.advice
        == "num_parallel_calls=tf.data.AUTOTUNE: 23.4 to about 9.1 ms, 2.6 x (the rest is compute)"
    )
    assert found.cause == "map(decode) runs serially on one of 8 cores: 21.0 ms/batch"
    assert found.code.startswith(
        "dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)"
    )


def test_on_a_live_screen_the_finding_has_the_key_and_the_edit_of_the_same_switch() -> None:
    now = changed(RUNNING, split=judged(), forecasts={("workers", "auto"): WORKERS})
    found = banner(now)
    assert found.advice == "w workers auto: 23.4 to about 9.1 ms, 2.6 x (the rest is compute)"
    assert found.code.startswith("dataset = dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE)")


LAUNCHES = {"split": judged(0.0, 1.2, 0.1), "accelerated": True}
CALLBACKS = {"split": judged(0.2, 13.6, 8.0)}


@pytest.mark.parametrize(
    ("changes", "edit"),
    [
        pytest.param(
            {"split": judged(0.1), "accelerated": True},
            "keras.mixed_precision.set_global_policy(",
            id="compute",
        ),
        pytest.param({"split": judged(0.1)}, "", id="a CPU"),
        pytest.param(
            LAUNCHES,
            "model.compile(..., steps_per_execution=8, jit_compile=True)",
            id="kernels too small",
        ),
        pytest.param(
            CALLBACKS,
            "model.compile(..., steps_per_execution=8)  # callbacks run once per call",
            id="callbacks",
        ),
        pytest.param(
            {"regime": Regime(spent=TimeSpent(None, 20, compute_s=4.0, validation_s=4.0))},
            "model.fit(..., validation_freq=5)",
            id="validation",
        ),
    ],
)
def test_the_edit_of_a_loss_follows_the_lines_of_the_switches_made(
    changes: dict[str, Any], edit: str
) -> None:
    started = {"prefetch": "off", "cache": "off"}
    now = changed(RUNNING, knobs=started, started=started, **changes)
    now = changed(now, better={("prefetch", "off"): "16", ("cache", "off"): "on"})
    switched = banner(changed(now, knobs={"prefetch": "16", "cache": "on"})).code.splitlines()

    assert banner(changed(now, better={})).code.startswith(edit)
    assert [line.partition("(")[0] for line in switched[:2]] == [
        "dataset = dataset.cache",
        "dataset = dataset.prefetch",
    ]
    assert "\n".join(switched[2:]).startswith(edit)


def test_a_switch_that_is_not_proved_is_not_pasted() -> None:
    knobs, started = {"prefetch": "4", "cache": "on"}, {"prefetch": "off", "cache": "off"}
    now = changed(RUNNING, split=judged(0.1), knobs=knobs, started=started)

    assert "prefetch" not in banner(now).code
    proved = banner(changed(now, better={("cache", "off"): "on"})).code
    assert ".cache()" in proved
    assert "prefetch" not in proved


def test_within_an_ab_test_the_proved_setting_is_pasted_and_not_that_of_the_block() -> None:
    started = {"prefetch": "off"}
    now = changed(RUNNING, split=judged(0.1), knobs={"prefetch": "8"}, started=started)
    now = changed(now, better={("prefetch", "off"): "4"})
    began = ExperimentBegan(0, "prefetch", ("4", "8"), 100, 600)

    running = changed(now, experiment=RunningExperiment(began, None))
    assert proved_knobs(running) == {"prefetch": "4"}


def test_a_setting_that_measured_slower_is_not_suggested() -> None:
    started = {"prefetch": "off", "workers": "off"}
    better = {("workers", "auto"): "off", ("prefetch", "8"): "4"}
    text = pasted_lines(started, {"prefetch": "8", "workers": "auto"}, better=better)
    assert text.startswith("dataset = dataset.prefetch(4)")
    assert "num_parallel_calls" not in text
    circle = {("prefetch", "8"): "4", ("prefetch", "4"): "8"}
    assert "prefetch(" in pasted_lines(started, {"prefetch": "8"}, better=circle)


def test_a_knob_without_a_line_of_the_script_has_a_general_one() -> None:
    line = "data = data.map(f).batch(2)"
    edit = CodeEdit("workers", "train.py", 9, line, 17, 17, ", num_parallel_calls={}", "")
    assert pasted_lines({}, {"workers": "4", "prefetch": "8"}, code=(edit,)).splitlines()[1:] == [
        "data = data.map(f, num_parallel_calls=4).batch(2)",
        "dataset = dataset.prefetch(8)  # the last stage: prepares batches while a step runs",
    ]


def test_the_lines_for_a_py_dataset_set_its_workers_before_fit() -> None:
    started = {"prefetch": "default", "workers": "off", "multiprocessing": "off"}
    assert pasted_lines(started, {**started, "prefetch": "4"}) == ""
    workers, queue, processes = pasted_lines(
        started, {**started, "workers": "auto", "multiprocessing": "on"}
    ).splitlines()
    assert workers == "dataset.workers = max(os.cpu_count(), 4)  # before fit, after import os"
    assert queue == "dataset.max_queue_size = max(dataset.max_queue_size, 2 * dataset.workers)"
    assert processes.startswith("dataset.use_multiprocessing = True  # before fit")


@pytest.mark.parametrize(
    ("origin", "line", "named"),
    [
        ("TF_DATA", "dataset = dataset.take(n)  # of a model", "rows = rows.take(n)  # of a model"),
        (
            "TF_DATA",
            "model.fit(dataset.repeat())  # a dataset",
            "net.fit(rows.repeat())  # a dataset",
        ),
        ("TF_DATA", "# train.py:9  in place of: dataset = dataset.map(f)", ""),
        ("TF_DATA", "dataset = dataset.map(f, num_parallel_calls=2)", ""),
        (
            "PY_DATASET",
            "dataset.workers, dataset.max_queue_size = 4, 8",
            "rows.workers, rows.max_queue_size = 4, 8",
        ),
        (
            "ARRAYS",
            "dataset = tf.data.Dataset.range(9); model.fit(dataset)",
            "dataset = tf.data.Dataset.range(9); net.fit(dataset)",
        ),
    ],
)
def test_lines_have_the_names_of_the_script_and_its_own_lines_stay(
    origin: str, line: str, named: str
) -> None:
    text = "dataset = dataset.map(f)"
    edit = CodeEdit("workers", "train.py", 9, text, len(text) - 1, len(text) - 1, ", n={}", "")
    names = {"model": "net", "dataset": "rows"}
    now = changed(RUNNING, origin=SourceKind[origin], code=(edit,), names=names)
    assert switch_lines.with_names(now, line) == (named or line)
