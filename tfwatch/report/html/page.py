"""The page of a run: its sections, in one template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.judge.effects.switch_text import record_text
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.findings.log_lines import find_meanings, summarise_log
from tfwatch.report.effects import folded, make_effects
from tfwatch.report.html.curves import make_curves
from tfwatch.report.html.sections import (
    MOST_EPOCHS,
    epochs_table,
    make_causes,
    make_figures,
    make_machine,
    make_parts,
    make_pipeline,
    make_settings,
    make_stalls,
    parts_table,
)
from tfwatch.report.html.templates import environment, page_style
from tfwatch.report.html.timeline import make_timeline
from tfwatch.report.text import failure, lost_words, setting_words, state_text

if TYPE_CHECKING:
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.html.templates import Redaction


@dataclass(frozen=True, slots=True)
class VerdictText:
    """The verdict at the top. word: of the screen's banner. where: the steps of the last setting;
    empty for all."""

    tone: str
    word: str
    sentence: str
    advice: str
    code: list[str]
    where: str


def as_html(judged: JudgedRun, redaction: Redaction | None = None) -> str:
    """Return the page of a run. redaction: replaces paths, names and the host."""
    effects, edge = make_effects(judged)
    effects, more_effects = folded(effects)
    run = judged.run
    page = {
        "style": page_style(),
        "is_redacted": redaction is not None,
        "title": run.manifest.workload,
        "name": run.manifest.run,
        "device": run.manifest.device,
        "state": state_text(run),
        "failure": failure(run),
        "date": local_time(run.manifest.origin_wall_ns).strftime("%d %b %Y, %H:%M"),
        "trained": (
            f"{units.counted(judged.summary.steps, 'step')} in {units.seconds(run.length_s)}"
        ),
        "verdict": make_verdict(judged),
        "lost": lost_words(judged.lost),
        "figures": make_figures(judged),
        "timeline": make_timeline(judged),
        "parts": make_parts(judged.time_breakdown.total),
        "wall": units.seconds(judged.time_breakdown.total.wall_s),
        "curves": make_curves(run.events),
        "pipeline": make_pipeline(judged),
        "effects": effects,
        "more_effects": more_effects,
        "edge": units.times(edge),
        "record": record_text(judged.record),
        "stalls": make_stalls(judged),
        "stall_count": len(judged.summary.stalls) + len(judged.summary.patterns),
        "causes": make_causes(judged.summary.spikes),
        "machine": [
            (name, value)
            for name, value in make_machine(judged)
            if redaction is None or name != "host"
        ],
        "versions": list(run.manifest.versions.items()),
        "settings": make_settings(judged),
        "messages": [one.text for one in summarise_log(find_meanings(run.log)) if not one.harmless],
        "split_tables": _split_tables(judged),
        "epochs": epochs_table(judged.time_breakdown.epochs),
        "epochs_left": max(len(judged.time_breakdown.epochs) - MOST_EPOCHS, 0),
    }
    return environment(redaction).get_template("page.html.j2").render(page)


def make_verdict(judged: JudgedRun) -> VerdictText:
    """Return the verdict on the last setting that counts."""
    finding, judgement = judged.finding, judged.setting.judgement
    if finding is None:
        few = (
            f"{units.counted(judgement.steps, 'steady step')} of {judgement.needed} that a verdict"
            " needs"
        )
        return VerdictText(Tone.CALM.value, "NOT ENOUGH DATA", few, "", [], "")
    return VerdictText(
        tone=finding.tone.value,
        word=finding.word,
        sentence=finding.sentence,
        advice=finding.advice,
        code=[line for line in finding.edit.split("\n") if line],
        where="" if judged.setting.whole else setting_words(judged.setting).rstrip(","),
    )


def _split_tables(judged: JudgedRun) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    setting, steady = judged.setting, judged.summary.steady
    tables = [("whole run, steady steps", parts_table(steady))]
    if not setting.whole:
        tables.append(("last setting", parts_table(setting.judgement.breakdown)))
    return [(name, rows) for name, rows in tables if rows]
