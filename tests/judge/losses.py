"""Situations with losses of known seconds, and the facts that a loss is known by."""

from dataclasses import fields, replace
from typing import Any

from tests.judge.situations import RUNNING, changed, split, stat
from tfwatch.core.events import OperationTime
from tfwatch.judge.findings.ranking import find_losses
from tfwatch.judge.findings.situation import Situation
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.regime import Regime
from tfwatch.judge.stages import Stage
from tfwatch.judge.steps.time_breakdown import TimeSpent
from tfwatch.runs.format import Embedding, ModelFacts, RecurrentLayer

_OF_SPENT = {field.name for field in fields(TimeSpent)}
_OF_REGIME = {field.name for field in fields(Regime)}


def losing(**changes: Any) -> Situation:
    """Return a run of 1 000 steps that compute for 10 s over ten epochs, and lose these seconds."""
    spent = {name: changes.pop(name) for name in _OF_SPENT & changes.keys()}
    of_regime = {name: changes.pop(name) for name in _OF_REGIME & changes.keys()}
    total = TimeSpent(**{"steps": 1000, "compute_s": 10.0, **spent})
    regime = Regime(spent=total, **{"epochs": 10, **of_regime})
    return changed(RUNNING, **{"live": False, "is_whole": True, "regime": regime, **changes})


def kinds(now: Situation) -> list[str]:
    return [finding.kind for finding in find_losses(now)]


BATCH = Stage("batch(32)", "BatchV2", 0.1)
COPIES = replace(split(0.0, 10.0, 0.0), copy=stat(5.0), step=stat(15.0))
LAUNCHES = replace(split(0.0, 10.0, 0.0), dispatch=stat(8.0))
UNEVEN = replace(
    split(20.0, 10.0, 0.0),
    step=replace(stat(30.0), median=10.1),
    wait=replace(stat(20.0), median=0),
)
GAINS = Forecast("prefetch", "4", 12.0, 11.0, 13.0, "it overlaps", 17.0)
ADAM = ModelFacts(optimizer="Adam", largest_embedding=Embedding("items", 20_000, 64))
DROPS = RecurrentLayer("lstm", "LSTM", ["recurrent_dropout=0.2"])
UNROLLS = RecurrentLayer("encoder/gru", "GRU", ["RNN(GRUCell)", "unroll=True"])
LOOPS = ModelFacts(without_cudnn=[DROPS, UNROLLS])
MULTIPLIES = OperationTime("forward", "lstm", "LSTM", "MatMul", 4.0, in_loop=True)
UPDATES = OperationTime("optimizer", "adam", "Adam", "Mul", 4.0)
