"""The findings of a run in rank: the largest loss first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.judge.findings import (
    augmentation,
    between_fits,
    callbacks,
    cheap_maps,
    compute,
    copying,
    data_wait,
    dense_updates,
    eager,
    epoch_end,
    first_batch,
    float16_on_cpu,
    generator_rows,
    host,
    idle_tensor_cores,
    kept_order,
    launching,
    metric_cost,
    new_models,
    no_cudnn,
    python_in_step,
    retracing,
    small_operations,
    stalls,
    take_after_cache,
    validation,
)
from tfwatch.judge.findings.finding import RemedyForecast
from tfwatch.judge.findings.switch_lines import advise_gain, lines_with_switches
from tfwatch.judge.forecasts.forecast import Forecast, best
from tfwatch.judge.steps.time_breakdown import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: A smaller share of the present regime is no finding: `MODERATELY_FROM` of the TensorFlow
#: profiler.
LEAST_SHARE = 0.05
#: A loss below this share of it does not come first: compute does.
_LEADS = 0.10
#: A regime of so many seconds is judged without steady steps too.
_LEAST_S = 5.0
#: The kinds of losses. Of two that may claim the same seconds the more specific one stands first.
KINDS = (
    new_models,
    retracing,
    eager,
    take_after_cache,
    stalls,
    kept_order,
    generator_rows,
    cheap_maps,
    data_wait,
    copying,
    callbacks,
    host,
    validation,
    first_batch,
    epoch_end,
    between_fits,
    python_in_step,
    metric_cost,
    augmentation,
    dense_updates,
    float16_on_cpu,
    small_operations,
    no_cudnn,
    idle_tensor_cores,
    launching,
)
#: They have a key where a switch is forecast to gain, beside their own remedy in the script.
_WITH_KEY = (kept_order, generator_rows, cheap_maps)


def find_losses(now: Situation) -> tuple[Finding, ...]:
    """Return the losses of the present regime, the most seconds first.

    Where none is large, the limit of the steps comes before them; causes without known seconds come
    after them. Empty before the first step, and while too little is measured for a verdict.
    """
    if not _is_judgeable(now):
        return ()
    regime = now.regime
    left = {part: getattr(regime.spent, part) for part in PARTS}
    found, causes = [], []
    for kind in KINDS:
        finding = kind.find(now)
        if finding and not finding.claims:
            causes.append(finding)
        claims = _left_of(finding.claims, left) if finding else {}
        lost_s = sum(claims.values())
        if finding and regime.share(lost_s) >= LEAST_SHARE:
            left = {part: left[part] - claims.get(part, 0.0) for part in PARTS}
            finding = _with_key(now, finding) if kind in _WITH_KEY else finding
            counted = {"lost_s": lost_s, "share": regime.share(lost_s)}
            found.append(replace(finding, **counted, forecast=_forecast(now, finding, lost_s)))
    found.sort(key=lambda finding: -finding.lost_s)
    limit = compute.find(now) if not found or found[0].share < _LEADS else None
    ranked = (*((_with_cause(limit, causes),) if limit else ()), *found, *causes)
    return tuple(_with_switches(now, finding) for finding in ranked)


def _with_cause(limit: Finding, causes: list[Finding]) -> Finding:
    """Return the limit of the steps with the remedy of the first cause: it is closer than a
    general one."""
    if not causes or limit.forecast or limit.kind != "compute-bound":
        return limit
    cause = causes[0]
    return replace(limit, advice=f"{cause.brief}: {cause.advice}", code=cause.code)


def _forecast(now: Situation, finding: Finding, lost_s: float) -> Forecast | RemedyForecast | None:
    """Return the forecast of the step without the seconds that a remedy gives back of compute."""
    part, compute_s = now.split, now.regime.spent.compute_s
    if not finding.basis or part is None:
        return finding.forecast
    saved_ms = part.compute.mean * lost_s / compute_s
    return RemedyForecast(part.step.mean, part.step.mean - saved_ms, finding.basis)


def _with_key(now: Situation, finding: Finding) -> Finding:
    """Return the finding of a live screen with the key that gains most."""
    gain = best(now.switches) if now.live else None
    if gain is None:
        return finding
    return replace(finding, advice=f"{advise_gain(now, gain).sentence}; or {finding.advice}")


def _with_switches(now: Situation, finding: Finding) -> Finding:
    """Return the finding with the lines of the switches made before its own, which those of an
    advised switch have already."""
    if isinstance(finding.forecast, Forecast):
        return finding
    return replace(finding, code=lines_with_switches(now, finding.code))


def _is_judgeable(now: Situation) -> bool:
    """Return True where enough is measured: steady steps, some seconds, or all of the run."""
    is_long = now.regime.judged_s >= _LEAST_S
    return now.is_whole or is_long or (now.split is not None and now.split.is_enough)


def _left_of(claims: Mapping[str, float], left: Mapping[str, float]) -> dict[str, float]:
    """Return the claimed seconds as far as no finding before has claimed them."""
    return {part: min(max(seconds, 0.0), left[part]) for part, seconds in claims.items()}


class LeadHolder:
    """Holds the first finding of a run in progress until another one is ahead for a while: a reader
    acts on what stays."""

    #: Seconds.
    AHEAD_S = 20.0

    def __init__(self) -> None:
        self._kind = self._challenger = ""
        self._since_s = 0.0
        self._begin_ns = -1

    def order(
        self, losses: tuple[Finding, ...], begin_ns: int, now_s: float
    ) -> tuple[Finding, ...]:
        """Return the findings with the held one first. begin_ns: of the regime; a new one holds
        nothing."""
        first = losses[0].kind if losses else ""
        held = next((one for one in losses if one.kind == self._kind), None)
        if held is None or held.share < LEAST_SHARE or begin_ns != self._begin_ns:
            self._kind, self._begin_ns, self._challenger = first, begin_ns, ""
            return losses
        if first != self._challenger:
            self._challenger, self._since_s = first, now_s
        if first == self._kind or now_s - self._since_s >= self.AHEAD_S:
            self._kind = first
            return losses
        return (held, *(one for one in losses if one is not held))
