"""A run without a profile: when it is due for one though nobody asked, and the facts of the model
that are known without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import StepProfiled
from tfwatch.judge.findings.dense_updates import updates_all_rows
from tfwatch.judge.findings.situation import LEADS_FROM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.view import RunView
    from tfwatch.runs.format import Manifest

#: The findings that a profile of the step explains.
IN_COMPUTE = ("compute-bound", "launch-bound", "dense-update")

#: A setting is profiled once it has trained so long, and so many steps.
_LEAST_S, _LEAST_STEPS = 15.0, 200
#: The most that a profile is expected to cost: this share of the steps so far, and of a minute.
_MOST_SHARE, _MINUTE_S = 0.005, 60.0
#: What a profile costs at most, milliseconds and a share of each of its steps: with starting,
#: stopping and reading it a second of steps of a transformer took 100 to 188 ms longer on two busy
#: cores, on a GPU 50 to 300 of three models in the mean, and the steps of a recurrent layer, which
#: has the most operations, took 1.1 to 1.4 times as long (docs/developers/results.md).
_STOPPING_MS, _STOPPING_ON_GPU_MS, _SLOWER, _STEPS = 200.0, 300.0, 0.3, 3


def is_due(view: RunView) -> bool:
    """Return whether a run is profiled now though nobody asked: compute is its limit and has been
    for a while, nothing else is measured, and no profile was tried before."""
    limit = view.losses[0].kind if view.losses else ""
    return (
        limit in IN_COMPUTE
        and view.searched is None
        and not view.snapshot.events.of(StepProfiled)
        and _can_be_profiled(view.situation)
        and _is_undisturbed(view.situation)
        and _is_steady(view.situation)
    )


def _can_be_profiled(now: Situation) -> bool:
    """Return whether TensorFlow's profiler sees the step, and its compute is its own: a rank's is a
    wait for the others too."""
    manifest = now.manifest
    is_on_metal = manifest.accelerated and not manifest.has_cudnn
    return not (manifest.op_by_op or is_on_metal or manifest.group)


def _is_undisturbed(now: Situation) -> bool:
    """Return whether the training runs, and no setting is tried."""
    is_tried = now.experiment is not None or now.autopilot_run is not None or bool(now.asked)
    return now.life == "running" and now.stopping_s is None and not is_tried


def _is_steady(now: Situation) -> bool:
    """Return whether the present setting has trained long enough without much data wait, also for
    the cost of a profile."""
    spent, part = now.regime.spent, now.split
    steps_s = spent.compute_s + spent.copy_s + spent.host_s + spent.data_wait_s
    if part is None or not part.is_enough or part.wait_share >= LEADS_FROM:
        return False
    is_long = steps_s >= _LEAST_S and spent.steps >= _LEAST_STEPS
    most_ms = 1e3 * _MOST_SHARE * max(steps_s, _MINUTE_S)
    stopping_ms = _STOPPING_ON_GPU_MS if now.manifest.accelerated else _STOPPING_MS
    return is_long and stopping_ms + _SLOWER * _STEPS * part.step.mean <= most_ms


#: At most so many facts have a line.
_MOST_FACTS = 8


def fact_lines(manifest: Manifest) -> list[str]:
    """Return a line for each fact; none where the model is not known, as in a loop of the script's
    own."""
    return [*_facts(manifest)][:_MOST_FACTS]


def _facts(manifest: Manifest) -> Iterator[str]:
    model = manifest.model
    if model is None:
        return
    if (table := model.largest_embedding) and updates_all_rows(model.optimizer):
        size = f"{units.count(table.rows)} x {units.count(table.columns)}"
        yield f"{model.optimizer} updates all rows of {table.name} ({size}) in each step"
    for metric in model.threshold_metrics:
        count = units.count(metric.thresholds)
        yield f"metric {metric.name} ({metric.kind}) compares each prediction with {count} values"
    for layer in model.preprocessing:
        yield f"{layer.name} ({layer.kind}) preprocesses images within the step"
    for recurrent in model.without_cudnn if manifest.has_cudnn else ():
        against = ", ".join(recurrent.against)
        yield f"{recurrent.name} ({recurrent.kind}) runs without cuDNN: {against}"
    for layer in model.float16_convolutions if not manifest.accelerated else ():
        yield f"{layer.name} ({layer.kind}) computes in float16"
