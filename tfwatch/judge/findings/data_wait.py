"""Data wait: the device starves for the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings import advice, input_advice
from tfwatch.judge.findings.finding import Advice, Fact, Finding, Tone
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.forecasts.evidence import cores_of
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.steps.steady_steps import HIGHLY_FROM, Verdict, verdict_of

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast

#: The share of the fetches that larger batches give back where batches are ready: of batches eight
#: times as large a fetch took a quarter an example.
_FEWER_FETCHES = 0.5


def find(now: Situation) -> Finding | None:
    """Find the data wait of the steps."""
    spent, part = now.setting.regime.spent, now.setting.judgement.breakdown
    share = now.setting.regime.share(spent.data_wait_s)
    if not spent.data_wait_s:
        return None
    gain = best(now.setting.forecasts.values())
    if not now.live and advice.comes_before_forecast(now, gain):
        gain = None
    remedy = advice.advise_starving(now, part) if part else _advise(now)
    sentence, brief = _sentences(now)
    wait_share = part.wait_share if part else share
    table = now.setting.stages
    limit = table.bottleneck if table else None
    return Finding(
        "input-bound",
        f"STARVING {units.percent(wait_share)}",
        sentence,
        remedy.sentence,
        remedy.edit,
        Tone.BAD if share >= HIGHLY_FROM else Tone.WARN,
        brief,
        where=table.stages[limit.stage].name if table and limit else "",
        evidence=(
            Fact("data_wait", spent.data_wait_s, "s"),
            *((Fact("bottleneck", limit.sentence),) if limit else ()),
        ),
        forecast=gain,
        claims={"data_wait_s": spent.data_wait_s * _recovered(now, gain)},
    )


def _advise(now: Situation) -> Advice:
    """Advise where there are too few steady steps for a forecast."""
    return advice.beside_switches(now, input_advice.advise_data_wait(now))


def _sentences(now: Situation) -> tuple[str, str]:
    """Return the sentence on the data wait, and a shorter one."""
    spent, part = now.setting.regime.spent, now.setting.judgement.breakdown
    if part is None:
        wait_ms = units.milliseconds(1e3 * spent.data_wait_s / max(spent.steps, 1))
        brief = f"input-bound: a step waits {wait_ms} for data in the mean"
        return brief, brief
    bound = _bound(now)
    brief = f"{bound}: waits {advice.of_step(part.wait, part.step)}/step"
    return f"{bound}: {advice.wait_sentence(now, part)}", brief


def _bound(now: Situation) -> str:
    """Return how input-bound the present regime is, by its whole wall clock: a wait that is long in
    few steps is not high. Where the share of the last steps has another verdict, neither stands
    beside it."""
    spent, part = now.setting.regime.spent, now.setting.judgement.breakdown
    verdict = verdict_of(now.setting.regime.share(spent.data_wait_s))
    is_alike = part is None or verdict_of(part.wait_share) is verdict
    return verdict.value if is_alike and verdict is not Verdict.NOT else "input-bound"


def _runs_serially(now: Situation) -> bool:
    """Return whether the limit is a stage on one core, which all cores would share."""
    place = now.setting.stages.bottleneck if now.setting.stages else None
    return place is not None and place.reason == "serial"


def _recovered(now: Situation, gain: Forecast | None) -> float:
    """Return the share of the data wait that the advised switch gives back; 1 where no forecast
    says less."""
    part = now.setting.judgement.breakdown
    if part is None or part.wait.mean <= 0:
        return 1.0
    cores = cores_of(now.manifest)
    if gain is None and cores > 1 and _runs_serially(now):
        return min(1.0, part.step.mean * (1 - 1 / cores) / part.wait.mean)
    if gain is None:
        is_fetch = now.origin.kind is SourceKind.ARRAYS or advice.is_fetch_bound(now, part)
        return _FEWER_FETCHES if is_fetch else 1.0
    before_ms = gain.now_mean_ms if gain.in_bursts else gain.now_ms
    return min(1.0, max(0.0, before_ms - gain.typical_ms) / part.wait.mean)
