"""The outcome of a run in words and for the JSON object: verdict, finding, cost of data wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis.findings import starving_cost
from tfwatch.analysis.steps.verdict import Bound, Judgement
from tfwatch.core import units
from tfwatch.report.document_switches import by_name, split_json
from tfwatch.terminal.capture import CODE

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Banner
    from tfwatch.analysis.findings.starving_cost import DataWaitCost
    from tfwatch.analysis.steps.summary import LastSetting, Summary
    from tfwatch.analysis.steps.verdict import Breakdown
    from tfwatch.live.judged_run import JudgedRun


def last_setting_json(judged: JudgedRun) -> dict[str, Any]:
    """Return the last setting: its knobs, its steps and their split."""
    setting = judged.setting
    return {
        "knobs": by_name(judged.situation.knobs),
        "step_ranges": [list(stretch) for stretch in setting.stretches],
        "steps": setting.judgement.steps,
        **split_json(setting.judgement.breakdown),
    }


def whole_run_json(summary: Summary) -> dict[str, Any]:
    """Return the steady steps of all settings."""
    split = summary.steady
    return {
        "steps": split.steps if split else 0,
        "excluded_steps": summary.left_out,
        **split_json(split),
    }


def finding_json(found: Banner | None) -> dict[str, str | None] | None:
    """Return a finding."""
    if found is None:
        return None
    return {
        "word": found.word,
        "sentence": found.sentence,
        "advice": found.advice,
        "code": found.edit or None,
    }


def data_wait_cost_json(found: DataWaitCost) -> dict[str, float | None]:
    """Return the cost of data wait."""
    return {
        "data_wait_s": found.data_wait_s,
        "share_of_run": found.share,
        "examples": found.examples,
        "energy_j": found.energy_j,
        "run_without_data_wait_s": found.without_s,
    }


def steady_words(summary: Summary, split: Breakdown, left_out: str) -> list[str]:
    """Return the mean steady step of the whole run, and that of the last setting with the verdict.

    One line where there was one setting. left_out: the words for the excluded steps.
    """
    setting = summary.setting
    verdict = verdict_words(setting.judgement)
    if setting.whole:
        return [f"{_mean_step(split)}: {verdict}{left_out}"]
    last = setting.judgement.breakdown
    of = (
        _mean_step(last)
        if last and setting.judgement.bound
        else f"{units.counted(setting.judgement.steps, 'step')}"
    )
    return [
        f"over the whole run {_mean_step(split)}{left_out}",
        f"{setting_words(setting)} {of}: {verdict}",
    ]


def verdict_words(judgement: Judgement) -> str:
    """Return `NOT input-bound, launch-bound`."""
    if judgement.bound is None or judgement.bound is Bound.INPUT:
        return judgement.verdict.value
    return f"{judgement.verdict.value}, {judgement.bound.value}"


def next_words(judged: JudgedRun) -> list[str]:
    """Return the advice for the last setting, and the lines of its code."""
    found, spent = judged.finding, judged.situation.epoch_spent
    if found is None:
        return []
    share = most = ""
    if judged.between_epochs and spent:
        share = f"{units.percent(spent.between_share)} of the epoch time is between steps; "
    elif judged.summary.bound is Bound.HOST and judged.summary.callback:
        most = f" ({judged.summary.callback} takes most)"
    words = found.advice
    lines = [line for line in found.edit.split("\n") if line]
    return [
        f"{share}next: {words[0].lower()}{words[1:]}{most}",
        *(f"  {CODE}{line}" for line in lines),
    ]


def lost_words(found: DataWaitCost) -> list[str]:
    """Return the cost of data wait; nothing where it is next to none."""
    sentence = starving_cost.cost_text(found)
    return [sentence] if sentence else []


def _mean_step(split: Breakdown) -> str:
    """Return `mean steady step: 5.0 of 18.0 ms is data wait (28 %)`."""
    step = " of ".join(units.in_one_unit(split.wait.mean, split.step.mean))
    return f"mean steady step: {step} is data wait ({units.percent(split.wait_share)})"


def setting_words(setting: LastSetting) -> str:
    """Return `since step 101`; several stretches, or one before the last, have both ends."""
    if not setting.stretches:
        return "last setting"
    first, last = units.count(setting.stretches[0][0]), units.count(setting.stretches[-1][1])
    if len(setting.stretches) > 1:
        return f"last setting, {len(setting.stretches)} stretches of steps {first} to {last},"
    return f"last setting, steps {first} to {last}," if setting.undecided else f"since step {first}"
