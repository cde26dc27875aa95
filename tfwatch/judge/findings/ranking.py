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
    host_operations,
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
from tfwatch.judge.findings.finding import SINCE, Fact, RemedyForecast
from tfwatch.judge.findings.situation import LEADS_FROM
from tfwatch.judge.findings.switch_lines import advise_gain, lines_with_switches
from tfwatch.judge.forecasts.forecast import Forecast, best
from tfwatch.judge.steps.steady_steps import HIGHLY_FROM
from tfwatch.judge.steps.time_breakdown import OF_ITERATOR, PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: A smaller share of the present regime is no finding: `MODERATELY_FROM` of the TensorFlow
#: profiler.
LEAST_SHARE = 0.05
#: Nor are fewer seconds, of a regime that a switch near the end has begun.
_LEAST_LOST_S = 0.1
#: A regime of so many seconds is judged, and without steady steps one of so many: of the first
#: second 58 to 100 % was data wait in runs that waited for 1 to 33 %.
_LEAST_STEADY_S, LEAST_S = 2.0, 5.0
#: So long the first verdict waits for its cause: samples of the code come after 5 s, readings of
#: the stages after 6 to 9 s.
_SAMPLES_S, STAGES_S = 6.0, 10.0
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
    host_operations,
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
    if not _is_judgeable(now) or _is_early(now):
        return ()
    regime, tuning_s = now.regime, now.regime.tuning_s
    left = {part: getattr(regime.spent, part) for part in PARTS}
    found, causes = [], []
    for kind in KINDS:
        finding = kind.find(now)
        if finding is None:
            continue
        if not finding.claims:
            causes.append(finding)
        # As far as no finding before has claimed them.
        claims = _at_most(_with_tuning(finding.claims, tuning_s, regime.spent.iterator_s), left)
        claimed_s = sum(claims.values())
        lost_s = max(claimed_s - finding.once_s, 0.0)
        if regime.share(lost_s) >= LEAST_SHARE and lost_s >= _LEAST_LOST_S:
            left |= {part: left[part] - one for part, one in claims.items()}
            finding = _with_key(now, finding) if kind in _WITH_KEY else finding
            facts = (Fact(part.removesuffix("_s"), one, "s") for part, one in claims.items())
            counted = {"lost_s": lost_s, "share": regime.share(lost_s), "evidence": tuple(facts)}
            counted |= {"since": SINCE.get(regime.cause, "")}
            found.append(replace(finding, **counted, forecast=_forecast(now, finding, claims)))
    found.sort(key=lambda finding: -finding.lost_s)
    limit = _limit(now, found) if not found or found[0].share < LEADS_FROM else None
    ranked = (*((_with_cause(limit, causes),) if limit else ()), *found, *causes)
    # The lines of an advised switch have those of the switches made already.
    return tuple(
        one
        if isinstance(one.forecast, Forecast)
        else replace(one, code=lines_with_switches(now, one.code))
        for one in ranked
    )


def _with_tuning(
    claims: Mapping[str, float], tuning_s: float, epochs_s: float
) -> Mapping[str, float]:
    """Return the claims with the waits for tf.data's autotuning thread: in the mean these are a
    part of the epochs before them, which a remedy makes shorter."""
    in_epochs_s = sum(max(claims.get(part, 0.0), 0.0) for part in OF_ITERATOR)
    if not (in_epochs_s and epochs_s and tuning_s):
        return claims
    given_s = tuning_s * min(in_epochs_s / epochs_s, 1.0)
    return {**claims, "first_batch_s": max(claims.get("first_batch_s", 0.0), given_s)}


def _at_most(claims: Mapping[str, float], left: Mapping[str, float]) -> dict[str, float]:
    return {part: min(max(one, 0.0), left[part]) for part, one in claims.items()}


def _limit(now: Situation, found: list[Finding]) -> Finding | None:
    """Return the limit of the steps: compute, or a long data wait of which no finding gives enough
    back; None where one does."""
    if now.regime.share(now.regime.spent.data_wait_s) < HIGHLY_FROM:
        return compute.find(now)
    waits = None if any("data_wait_s" in one.claims for one in found) else data_wait.find(now)
    return replace(waits, claims={}) if waits else None


def _with_cause(limit: Finding, causes: list[Finding]) -> Finding:
    """Return the limit of the steps with the remedy of the first cause: it is closer than a
    general one."""
    if not causes or limit.forecast or limit.kind != "compute-bound":
        return limit
    cause = causes[0]
    return replace(limit, advice=f"{cause.brief}: {cause.advice}", code=cause.code)


def _forecast(
    now: Situation, finding: Finding, claims: Mapping[str, float]
) -> Forecast | RemedyForecast | None:
    """Return the forecast of the step without the seconds that a remedy gives back of compute."""
    part, compute_s = now.split, now.regime.spent.compute_s
    if not finding.basis or part is None:
        return finding.forecast
    saved_ms = part.compute.mean * claims["compute_s"] / compute_s
    return RemedyForecast(part.step.mean, part.step.mean - saved_ms, finding.basis)


def _with_key(now: Situation, finding: Finding) -> Finding:
    """Return the finding of a live screen with the key that gains most."""
    gain = best(one for one in now.switches if one.is_sure) if now.live else None
    if gain is None:
        return finding
    return replace(finding, advice=f"{advise_gain(now, gain).sentence}; or {finding.advice}")


def _is_judgeable(now: Situation) -> bool:
    """Return True where enough is measured: steady steps, some seconds, or all of the run."""
    judged_s, is_enough = now.regime.judged_s, now.split is not None and now.split.is_enough
    return now.is_whole or judged_s >= LEAST_S or (is_enough and judged_s >= _LEAST_STEADY_S)


def _is_early(now: Situation) -> bool:
    """Return True at the begin of a run, until its code is sampled, and where it starves until its
    stages are read: the cause decides what to do."""
    regime = now.regime
    if now.is_whole or regime.cause != "start" or not now.manifest.data:
        return False
    starves = regime.share(regime.spent.data_wait_s) >= LEADS_FROM
    return regime.judged_s < (STAGES_S if starves and now.bottleneck is None else _SAMPLES_S)


class LeadHolder:
    """Holds the first finding of a run in progress, with its cause and its remedy, until another
    one is ahead for a while: a reader acts on what stays."""

    #: Seconds for which another one is ahead, and for which the held one is missing.
    AHEAD_S, GONE_S = 20.0, 3.0

    def __init__(self) -> None:
        #: The first one as it was shown last; None before the first verdict.
        self.held: Finding | None = None
        self._challenger: tuple[object, ...] = ()
        self._since_s = 0.0
        self._begin_ns = -1

    def order(
        self, losses: tuple[Finding, ...], begin_ns: int, now_s: float
    ) -> tuple[Finding, ...]:
        """Return the findings with the held one first. begin_ns: of the regime; a new one holds
        nothing."""
        if not losses:
            return ()
        before, is_new = self.held, begin_ns != self._begin_ns
        fresh = next((one for one in losses if before and one.kind == before.kind), None)
        # A limit has no seconds.
        is_small = fresh is not None and bool(fresh.claims) and fresh.share < LEAST_SHARE
        self._begin_ns = begin_ns
        if before is None or is_new or is_small:
            return self._lead(losses)
        if fresh and before.cause and not fresh.cause:  # the stages were not read lately
            known = _as_shown(fresh, before)
            losses = tuple(known if one is fresh else one for one in losses)
            fresh = known
        if losses[0].identity != self._challenger:
            self._challenger, self._since_s = losses[0].identity, now_s
        ahead_s = now_s - self._since_s
        if fresh is None:  # for a moment, as while a stall is open, or for good
            return self._lead(losses) if ahead_s >= self.GONE_S else (before, *losses)
        is_explained = fresh is losses[0] and bool(fresh.cause) and not before.cause
        if ahead_s >= self.AHEAD_S or is_explained or losses[0].identity == before.identity:
            return self._lead(losses)
        self.held = _as_shown(fresh, before)
        return (self.held, *(one for one in losses if one is not fresh))

    def _lead(self, losses: tuple[Finding, ...]) -> tuple[Finding, ...]:
        self.held, self._challenger = losses[0], losses[0].identity
        return losses


def _as_shown(fresh: Finding, before: Finding) -> Finding:
    """Return the finding with the cause and the remedy that were shown; a forecast that is no
    longer sure is not shown as sure."""
    if fresh.cause_words != before.cause_words:
        sentence = f"{fresh.brief}{before.sentence.removeprefix(before.brief)}"
        fresh = replace(fresh, sentence=sentence, where=before.where)
    if fresh.remedy == before.remedy or fresh.retracts(before):
        return fresh
    return replace(
        fresh,
        advice=before.advice,
        code=before.code,
        arguments=before.arguments,
        forecast=before.forecast,
    )
