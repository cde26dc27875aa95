"""The outcome of a run, and a restart's gain, in words and for the JSON object.

The outcome of a run in words and for the JSON object: its verdict with the steps it is of, its finding, its cost.

A restart and its gain, in words and for the JSON object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis.findings import starving_cost
from tfwatch.analysis.steps.verdict import Bound, Judgement
from tfwatch.analysis.tuning import switch_text
from tfwatch.analysis.tuning.comparison import changes
from tfwatch.core import units
from tfwatch.core.knobs import option_name
from tfwatch.live.restart import start_of
from tfwatch.report.document_switches import by_name, split_json

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Banner
    from tfwatch.analysis.findings.starving_cost import DataWaitCost
    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.analysis.steps.summary import LastSetting, Summary
    from tfwatch.analysis.tuning.comparison import Earlier, Restart
    from tfwatch.live.judged_run import JudgedRun
    from tfwatch.runs.format import Manifest


def last_setting_json(judged: JudgedRun) -> dict[str, Any]:
    """The last setting for `--json`: its knobs, its steps and their split."""
    setting = judged.setting
    return {
        "knobs": by_name(judged.situation.knobs),
        "stretches": [list(stretch) for stretch in setting.stretches],
        "steps": setting.judgement.steps,
        **split_json(setting.judgement.breakdown),
    }


def whole_run_json(summary: Summary) -> dict[str, Any]:
    """The steady steps of all settings for `--json`."""
    split = summary.steady
    return {"steps": split.steps if split else 0, "left_out": summary.left_out, **split_json(split)}


def finding_json(found: Banner | None) -> dict[str, str | None] | None:
    """A finding for `--json`."""
    if found is None:
        return None
    return {"word": found.word, "sentence": found.sentence, "advice": found.advice, "edit": found.edit or None}


def lost_json(found: DataWaitCost) -> dict[str, float | None]:
    """The cost of data wait for `--json`."""
    return {
        "data_wait_s": found.data_wait_s,
        "share": found.share,
        "images": found.examples,
        "energy_j": found.energy_j,
        "run_without_s": found.without_s,
    }


def steady_words(summary: Summary, split: Breakdown, left_out: str) -> list[str]:
    """The mean steady step of the whole run, and that of the last setting with the verdict.

    One line where there was one setting. left_out: words for the steps that are not steady.
    """
    setting = summary.setting
    verdict = verdict_words(setting.judgement)
    if setting.whole:
        return [f"{_mean_step(split)}: {verdict}{left_out}"]
    last = setting.judgement.breakdown
    of = _mean_step(last) if last and setting.judgement.bound else f"{units.counted(setting.judgement.steps, 'step')}"
    return [f"over the whole run {_mean_step(split)}{left_out}", f"{_where(setting)} {of}: {verdict}"]


def verdict_words(judgement: Judgement) -> str:
    """`NOT input-bound, launch-bound`."""
    if judgement.bound is None or judgement.bound is Bound.INPUT:
        return judgement.verdict.value
    return f"{judgement.verdict.value}, {judgement.bound.value}"


def next_words(judged: JudgedRun) -> list[str]:
    """The advice for the largest loss of the last setting, and the lines that follow it."""
    found, spent = judged.finding, judged.situation.epoch_spent
    if found is None:
        return []
    share = most = ""
    if judged.between_epochs and spent:
        share = f"{units.percent(spent.between_share)} of the epochs lay between their steps; "
    elif judged.summary.bound is Bound.HOST and judged.summary.callback:
        most = f" ({judged.summary.callback} takes most)"
    words = found.advice
    lines = [line for line in found.edit.split("\n") if line]
    return [f"{share}next: {words[0].lower()}{words[1:]}{most}", *(f"  edit: {line}" for line in lines)]


def lost_words(found: DataWaitCost) -> list[str]:
    """The length of the run without data wait; none where next to nothing was lost."""
    sentence = starving_cost.cost_text(found)
    return [sentence] if sentence else []


def _mean_step(split: Breakdown) -> str:
    """`a steady step waits 5.0 of 18.0 ms on average (28 %)`."""
    step = " of ".join(units.in_one_unit(split.wait.mean, split.step.mean))
    return f"a steady step waits {step} on average ({units.percent(split.wait_share)})"


def _where(setting: LastSetting) -> str:
    """`since step 101`; several stretches, or one that is not the last, have both ends."""
    if not setting.stretches:
        return "with the last setting"
    first, last = units.count(setting.stretches[0][0]), units.count(setting.stretches[-1][1])
    if len(setting.stretches) > 1:
        return f"with the last setting, in {len(setting.stretches)} stretches of the steps {first} to {last},"
    return f"with the last setting, in steps {first} to {last}," if setting.undecided else f"since step {first}"


def beginning(earlier: Earlier, manifest: Manifest) -> str:
    """What a run says of the restart that it begins with."""
    return f"restarted after {earlier.run}: {switch_text.changes_text(changes(earlier.start, start_of(manifest)))}"


def restart_words(gave: Restart | None) -> str:
    """What the restart gave that began a run, in a line; empty where none did."""
    if gave is None:
        return ""
    turned = f"restarted, {switch_text.changes_text(gave.changes)}"
    if gave.ratio is None or gave.before is None or gave.after is None:
        return f"{turned}: too few steps to compare"
    sides = " to ".join(switch_text.duration(gave, gave.typical(side.step)) for side in (gave.before, gave.after))
    return f"{turned}: {switch_text.gain_text(gave, gave.ratio)}, {sides} over {units.count(gave.after.steps)} steps"


def restart_json(gave: Restart | None) -> dict[str, Any] | None:
    """The restart that began a run, as `--json` prints it."""
    if gave is None:
        return None
    return {
        "after": gave.run,
        "changes": [{"knob": option_name(one.knob), "from": one.old, "to": one.new} for one in gave.changes],
        "of": "image" if gave.per_image else "step",
        "before_ms": gave.typical(gave.before.step) if gave.before else None,
        "after_ms": gave.typical(gave.after.step) if gave.after else None,
    }
