"""Situations to judge: a run that goes on, and what its finding is."""

from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from tests.runs.folders import make_manifest
from tfwatch.core.knobs import PARTS, WAIT
from tfwatch.core.rows import Phase
from tfwatch.judge.banner import banner as make_banner
from tfwatch.judge.effects.comparison import SwitchEffect
from tfwatch.judge.effects.interval import Change, Estimate
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.ranking import find_losses
from tfwatch.judge.findings.situation import Situation
from tfwatch.judge.regime import Regime
from tfwatch.judge.steps.steady_steps import Breakdown, Stat
from tfwatch.judge.steps.time_breakdown import TimeSpent
from tfwatch.runs.format import Manifest


def stat(ms: float) -> Stat:
    return Stat(ms, ms, ms)


def split(wait: float, compute: float, host: float, steps: int = 100) -> Breakdown:
    step = wait + compute + host
    return Breakdown(
        steps, stat(step), stat(wait), stat(1.0), stat(compute), stat(host), wait / step
    )


def judged(wait: float = 9.6, compute: float = 13.0, host: float = 0.8) -> Breakdown:
    """Return 100 steady steps of so many milliseconds."""
    return split(wait, compute, host)


SAME_WAIT = Change(0.0, -0.1, 0.1)


def effect(ratio: float, low: float, high: float, wait: Change = SAME_WAIT) -> SwitchEffect:
    return SwitchEffect(Estimate(ratio, low, high), {WAIT: wait}, frozenset(PARTS))


T = TypeVar("T")
_OF_MANIFEST = {*Manifest.__struct_fields__} - {"device", "run", "knobs", "machine", "split"}


def changed(what: T, **changes: Any) -> T:
    """Return a situation with fields of it or of its manifest changed, or another record with its
    own."""
    if not isinstance(what, Situation):
        return replace(what, **changes)  # type: ignore[type-var]
    of_run = {key: changes.pop(key) for key in _OF_MANIFEST & changes.keys()}
    if "started" in changes:
        of_run["knobs"] = changes.pop("started")
    return replace(
        what,
        manifest=msgspec.structs.replace(changes.pop("manifest", what.manifest), **of_run),
        **changes,
    )


RUNNING = changed(
    Situation(make_manifest()),
    phase=Phase.COMPUTE,
    step=412,
    steps_total=411,
    median_step_ms=23.4,
    knobs={"prefetch": "off", "workers": "off"},
    switchable=["prefetch", "workers"],
    run="2026-11-20T10-17-03_cnn",
    now_s=100.0,
)


def regime_of_split(split: Breakdown, steps: int = 0) -> Regime:
    """Return a regime of so many steps like these; 0: of six seconds or more."""
    steps = steps or max(1000, round(6e3 / split.step.mean))
    parts = {"data_wait_s": split.wait, "compute_s": split.compute, "host_s": split.host}
    seconds = {part: stat.mean * steps / 1e3 for part, stat in parts.items()}
    copy_s = split.copy.mean * steps / 1e3 if split.copy else 0.0
    spent = replace(TimeSpent(None, steps, copy_s=copy_s), **seconds)  # type: ignore[arg-type]
    return Regime(spent=spent, epochs=1)


def with_regime(now: Situation) -> Situation:
    """Return a situation whose regime is of steps like the judged ones, if it has none of its
    own."""
    split = now.split
    if split is None or now.regime.spent.steps:
        return now
    return changed(now, regime=regime_of_split(split))


def banner(now: Situation) -> Finding:
    """Return the banner of a moment, with the losses of its regime."""
    now = with_regime(now)
    return make_banner(now, find_losses(now))


def losses(now: Situation) -> tuple[Finding, ...]:
    """Return the losses of a moment in rank."""
    return find_losses(with_regime(now))


def finding(**changes: Any) -> tuple[str, str, str]:
    found = banner(changed(RUNNING, **changes))
    return found.word, found.sentence, found.advice
