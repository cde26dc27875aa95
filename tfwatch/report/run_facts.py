"""The table of a run: each figure once. `--json`, its schema and the pages walk over it.

docs/json.md and docs/run.schema.json are generated from here.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_user
from tfwatch.core.events import (
    ROLES,
    EpochEnded,
    ExperimentEnded,
    SensorMissing,
    SwitchFailed,
)
from tfwatch.core.knobs import option_name
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.judge.machine import PIPELINE
from tfwatch.judge.past_run import state_of
from tfwatch.judge.profile.step_groups import step_rows
from tfwatch.judge.profile.step_parts import StepPart, step_parts
from tfwatch.judge.steps.stalls import UNEXPLAINED
from tfwatch.judge.steps.time_breakdown import PART_NAMES
from tfwatch.report.effects import AUTOPILOT, EXPERIMENT, STEADY, SWITCH, by_name
from tfwatch.report.facts import (
    anything,
    as_object,
    finite,
    if_any,
    mapping,
    number,
    pick,
    record,
    rows,
    schema_of,
    text,
    texts,
    whole,
    within,
)
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot

# -- findings --------------------------------------------------------------------------------------

_EVIDENCE = (
    text("name", "the figure"),
    anything("value", "a number, or words"),
    text("unit", "of `value`; null for words"),
)


def _of_switch(source: Callable[[Forecast], Any]) -> Callable[[Any], Any]:
    """Return a source of a forecast's figure that a remedy in the script does not have."""
    return lambda one: source(one) if isinstance(one, Forecast) else None


_FORECAST = (
    text(
        "knob",
        "as `--switch` names it; null for a remedy in the script",
        _of_switch(lambda one: option_name(one.knob)),
    ),
    text("to", "its setting", _of_switch(lambda one: one.value)),
    number("now_ms", "the step time now"),
    number("step_ms", "the expected step time"),
    number(
        "low_ms",
        "lower end of its 90 % prediction interval; null for a remedy in the script",
        _of_switch(lambda one: one.low_ms),
    ),
    number("high_ms", "its upper end", _of_switch(lambda one: one.high_ms)),
    text("basis", "what limits the step after a switch; what the seconds rest on", "why"),
)
FINDING = (
    text("kind", "the kind of loss; stable between versions"),
    number("lost_s", "the seconds that its remedy gives back", lambda one: one.lost_s or None),
    number("share", "of the present regime's wall clock, 0 to 1", lambda one: one.share or None),
    text("sentence", "the loss in words"),
    text("advice", "the remedy; null where there is nothing to do"),
    text("code", "lines of Python for your own training"),
    text("where", "a line of your file, such as `train.py:24`, a stage or a callback"),
    rows("evidence", "the figures behind it", _EVIDENCE),
    record("forecast", "of the advised switch, or of a remedy in compute; else null", _FORECAST),
)

# -- time ------------------------------------------------------------------------------------------

_PART_MEANINGS = {
    "compute_s": "compute of the steps",
    "data_wait_s": "data wait of the steps, first batches excluded",
    "copy_s": "copies of batches to the device; null where none is timed: a part of `compute_s`",
    "host_s": "callbacks, Python and logging between steps",
    "first_batch_s": "the new iterator and the extra wait of an epoch's first batch",
    "validation_s": "validation",
    "epoch_end_s": "callbacks at the end of an epoch",
    "between_fits_s": "the script's own code between two fits",
    "compile_s": "building the model, and the extra time of traced steps",
    "asleep_s": "the machine slept",
    "unaccounted_s": "time that no row and no event covers",
}


def _spent(name: str, spent: Any) -> float | None:
    return None if name == "copy_s" and not spent.copies else getattr(spent, name)


TIME_SPENT = (
    whole("epoch", "counted from 0; null in a total"),
    whole("steps", "completed steps"),
    number("wall_s", "seconds of wall clock; the parts sum to it"),
    *(number(name, _PART_MEANINGS[name], partial(_spent, name)) for name in PART_NAMES),
)
_TIME_BREAKDOWN = (
    record("total", "the whole run", TIME_SPENT),
    record("start", "the time before the first epoch", TIME_SPENT),
    rows("epochs", "each epoch, until the next one starts", TIME_SPENT),
)


def _waited_s(judged: JudgedRun) -> float:
    return judged.time_breakdown.total.data_wait_s


_COST = (
    number("data_wait_s", "data wait of all steps", _waited_s),
    number(
        "run_without_data_wait_s",
        "the length of the run without data wait, at best",
        lambda judged: max(judged.run.length_s - _waited_s(judged), 0.0),
    ),
)

# -- steps -----------------------------------------------------------------------------------------


_LAST_SETTING = (
    mapping("knobs", "its settings", lambda judged: by_name(judged.situation.knobs)),
    *within(STEADY, "split"),
)
STALL = (
    whole("step", "the first step"),
    number("start_s", "since the start of the run", lambda one: one.start_ns / 1e9),
    whole("steps", "the steps of the stretch"),
    number("lost_ms", "their data wait"),
    text(
        "cause",
        "an event that explains it; null where `place` alone does; `unexplained` without either",
        lambda one: None if one.place and one.cause == UNEXPLAINED else one.cause,
    ),
    text("place", "the line or the stage that it waited for"),
)


# -- pipeline --------------------------------------------------------------------------------------

STAGE = (
    text("name", "as its author would write it"),
    text("kind", "tf.data's own name"),
    number("busy_ms", "its work for a batch, summed over its workers"),
    number("parallelism", "its workers"),
    number("buffered", "elements in its buffer"),
    number("buffer_size", "the size of its buffer"),
)
_BOTTLENECK = (
    text("stage", "its name", "limiting_stage.name"),
    text("reason", "why it limits the pipeline", "bottleneck.reason"),
    text("sentence", "the same in words", "bottleneck.sentence"),
)


def missing_stages(judged: JudgedRun) -> str:
    """Return why the stages have no figures; empty where they have some, or it is unknown."""
    if judged.pipeline and not math.isnan(judged.pipeline.all_ms):
        return ""
    events = (one for one in reversed(judged.run.events) if isinstance(one, SensorMissing))
    return next((one.reason for one in events if one.sensor == PIPELINE), "")


_PIPELINE_FACTS = (
    rows("stages", "the source first", STAGE, lambda j: j.pipeline.stages if j.pipeline else ()),
    number("total_ms", "a batch in all stages", if_any("pipeline.all_ms")),
    record(
        "bottleneck",
        "the stage that limits the pipeline",
        _BOTTLENECK,
        lambda j: j.pipeline if j.pipeline and j.pipeline.bottleneck else None,
    ),
    text("missing", "why there are no figures", missing_stages),
)

# -- the step by layer -----------------------------------------------------------------------------


def _device(part: StepPart) -> str:
    return "CPU" if part.on_host else ""


_STEP_PART = (
    text("role", "the part of the step", choices=("layer", *ROLES[2:], "small", "gaps")),
    text("name", "of the layer, the metric or the optimizer"),
    text("kind", "its class"),
    number("took_ms", "a step, the mean; of a layer forward and backward"),
    number("backward_ms", "of it, the backward pass", lambda one: one.backward_ms or None),
    number("share", "of the time of all operations and of launch gaps, 0 to 1"),
    text("operation", "TensorFlow's name of the operation that takes most of it"),
    text("dtype", "that this operation computes"),
    text("device", "`CPU` where that computes it, and the GPU waits", _device),
    text("place", "the line of yours that makes it, such as `train.py:24 in call`"),
    text("variable", "that the optimizer updates"),
)
STEP_ROW = (
    *_STEP_PART,
    whole("count", "the layers or the variables that are one row"),
    text("longest", "that of them that takes most"),
)
_PROFILE = (
    whole("step", "the last profiled step"),
    whole("steps", "the number of profiled steps"),
    number("step_ms", "the mean of these steps"),
    number("cost_ms", "what the profile took of the training: its start and slower steps"),
    number("gaps_ms", "a step, the GPU runs nothing between two kernels; null on a CPU"),
    number("float32_ms", "a step, kernels in float32 on a GPU whose tensor cores idle"),
    rows(
        "parts", "the longest first, of a deep model with its layers in groups", STEP_ROW, step_rows
    ),
    rows("single_parts", "the same with each layer by itself", _STEP_PART, step_parts),
)

# -- machine ---------------------------------------------------------------------------------------


def _median(column: str) -> Any:
    return lambda machine: machine.figures[column]


MACHINE = (
    text("gpu", "the GPU", if_any("found.name")),
    number("gpu_total_bytes", "its memory", if_any("found.memory_bytes")),
    number("gpu_busy", "share of time with a kernel on the GPU, 0 to 1", _median("gpu_busy")),
    number("gpu_process_busy", "of it, with one of this training", _median("gpu_process_busy")),
    number("gpu_others_busy", "of it, with one of other programs", if_any("gpu.others")),
    number("gpu_power_w", "power of the GPU", _median("gpu_power_w")),
    number("gpu_freq_mhz", "clock of the GPU", _median("gpu_freq_mhz")),
    number("gpu_memory_bytes", "memory of the GPU in use", _median("gpu_memory_bytes")),
    number("cpu_cores", "cores in use by all programs", _median("cpu_cores")),
    number("process_cores", "cores in use by the training", _median("process_cores")),
    number("process_bytes", "memory of the training", _median("process_bytes")),
    number(
        "process_peak_bytes", "the most memory of the training", if_any("process_memory.peak_bytes")
    ),
    number("thermal_limit_s", "slowed down by heat", "heat_s"),
    number("swapping_s", "slowed down by swapping", "swap_s"),
    number("other_programs_s", "other programs took cores from it", "others.took_s"),
    mapping(
        "missing",
        "`reason` and `fix` of each sensor without figures",
        lambda machine: {
            one.sensor: {"reason": one.reason, "fix": one.fix or None} for one in machine.missing
        },
    ),
)
# -- the run ---------------------------------------------------------------------------------------


def final_loss(run: Snapshot) -> float | None:
    """Return the loss of the last epoch."""
    epochs = (event for event in reversed(run.events) if isinstance(event, EpochEnded))
    return next((event.metrics.get("loss") for event in epochs), None)


def steps_done(judged: JudgedRun) -> int:
    """Return the number of completed steps."""
    return judged.run.ended.steps if judged.run.ended else len(judged.run.steps)


def _split_method(judged: JudgedRun) -> str:
    manifest = judged.run.manifest
    return f"none: {manifest.not_split}" if manifest.not_split else manifest.split


def finished_epochs(judged: JudgedRun) -> int:
    """Return the number of completed epochs."""
    return sum(isinstance(event, EpochEnded) for event in judged.run.events)


#: What happened, for the head of each text.
OUTCOME = (
    text("workload", "the script or workload", "run.manifest.workload"),
    text("device", "the device of the steps", "run.manifest.device"),
    text("state", "finished, stopped, failed, killed, running, ...", lambda j: state_of(j.run)),
    text("failure", "the error of a failed training, with its step", "run.failure"),
    whole("epochs", "completed epochs", finished_epochs),
    whole("steps", "completed steps", steps_done),
    number("length_s", "from its start to its end, or to now", "run.length_s"),
    number("final_loss", "as Keras reports it for the last epoch", lambda j: final_loss(j.run)),
)
RUN = (
    text("run", "its name, that of the folder", "run.manifest.run"),
    text(
        "path", "the run folder", lambda j: str(j.run.folder.absolute()) if j.run.folder else None
    ),
    *OUTCOME,
    texts("replicas", "the devices of a distribution strategy", "run.manifest.replicas"),
    mapping(
        "knobs",
        "the live knobs as the run began, by the names that `--switch` takes",
        lambda judged: by_name(judged.run.manifest.knobs),
    ),
    mapping("settings", "the `arguments` of a workload, as in a shell", "run.manifest.settings"),
    rows("findings", "the losses, the largest first", FINDING),
    record("time_breakdown", "where each second went", _TIME_BREAKDOWN),
    record("data_wait_cost", "the cost of data wait", _COST, lambda j: j),
    record("last_setting", "the steady steps of the last setting", _LAST_SETTING, lambda j: j),
    text("split", "how the parts are separated", _split_method),
    record("pipeline", "the stages by tf.data's own model", _PIPELINE_FACTS, lambda j: j),
    record("profile", "the step by layer, as profiled last", _PROFILE, "situation.profile"),
    rows(
        "switches",
        "live switches of knobs",
        SWITCH,
        lambda j: [*j.switches, *j.run.events.of(SwitchFailed)],
    ),
    rows(
        "experiments",
        "A/B tests; their switches are not among `switches`",
        EXPERIMENT,
        lambda j: j.run.events.of(ExperimentEnded),
    ),
    rows("autopilot", "runs of the autopilot", AUTOPILOT, lambda j: autopilot_runs(j.run.events)),
    rows("stalls", "stretches of steps that starved", STALL, "stalls"),
    record("machine", "medians of the sensors while steps ran", MACHINE, "machine"),
)


def _mean_step_ms(judged: JudgedRun) -> float | None:
    split = judged.split
    return split.step.mean if split else None


def _examples_per_s(judged: JudgedRun) -> float | None:
    step_ms, size = _mean_step_ms(judged), judged.run.manifest.batch_size
    return round(1e3 * size / step_ms) if step_ms and size else None


#: The key figures of a page for people; those that are missing are left out.
FIGURES = (
    number("step_time_ms", "mean of the steady steps of the last setting", _mean_step_ms),
    *pick(within(STEADY, "split"), "data_wait_share"),
    whole("examples_per_second", "in steady steps", _examples_per_s),
    *pick(_COST, "data_wait_s", "run_without_data_wait_s"),
    *pick(within(MACHINE, "machine"), "gpu_busy", "cpu_cores", "process_peak_bytes"),
)


def summary(run_path: str | Path | None) -> dict[str, float]:
    """Return the key figures of a run for a tracker of experiments: numbers by flat names that
    begin with `tfwatch/`.

    A unit stands at the end of a name, and `tfwatch/lost_s/KIND` are the seconds that the remedy of
    a finding gives back. What was not measured is left out. A run that cannot be read has no
    figures, with a sentence on stderr: the training goes on.

    run_path: the run folder; None where nothing was recorded.
    """
    found: dict[str, float | None] = {}
    with fails_open(lambda why: warn_user(f"there is no summary of this run: {why}")):
        if run_path is not None:
            judged = JudgedRun(open_run(run_path))
            facts = (*pick(OUTCOME, "length_s"), *FIGURES)
            found = {fact.key: fact.value(judged) for fact in facts}
            found |= {f"lost_s/{one.kind}": one.lost_s or None for one in judged.findings}
    return {f"tfwatch/{key}": value for key, value in finite(found).items() if value is not None}


def as_json(run: Snapshot) -> dict[str, Any]:
    """Return a run as `--json` prints it. A missing figure is None; none is NaN or infinite."""
    return judged_json(JudgedRun(run))


def judged_json(judged: JudgedRun) -> dict[str, Any]:
    """Return a run that was judged already as `as_json` does."""
    return as_object(RUN, judged)


def schema() -> dict[str, Any]:
    """Return the JSON schema of `as_json`."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tfwatch report"}
    return {**head, **schema_of(RUN)}
