"""A group of ranks as one table: who is late, by how much and why; for the screen, Markdown, HTML
and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.groups.judged_group import (
    call_s,
    overdue_s,
    overdue_where,
    state_lines,
    stopped_word,
)
from tfwatch.judge.groups.straggler import (
    ADVICE,
    Level,
    all_starve_sentences,
    banner_word,
    no_straggler_sentence,
    straggler_sentence,
    without_sentence,
)
from tfwatch.judge.past_run import state_of
from tfwatch.report.effects import STEADY
from tfwatch.report.facts import as_object, finite
from tfwatch.report.markdown import plain, table
from tfwatch.report.page import environment, page_style
from tfwatch.report.text import one_line, state_text
from tfwatch.runs.library import replay_argument

if TYPE_CHECKING:
    from tfwatch.judge.groups.judged_group import JudgedGroup, RankState
    from tfwatch.judge.groups.straggler import Straggler
    from tfwatch.report.redaction import Redaction

_TONES = {Level.CRITICAL: Tone.BAD, Level.WARNING: Tone.WARN}
#: The share of data wait of every rank from which that comes before the straggler.
_STARVES_FROM = 0.2
#: The columns of the table; times are means of a rank's newest steady steps.
COLUMNS = ("rank", "step", "ms/step", "data wait", "compute", "host", "late by", "why", "state")


def group_title(judged: JudgedGroup) -> str:
    """Return what trains: `cnn, 3 ranks of 4`."""
    group = judged.group
    title, size = next(iter(group.ranks.values())).manifest.workload, group.file.size
    of_size = f" of {size}" if size and size != len(group.ranks) else ""
    return f"{title}, {units.counted(len(group.ranks), 'rank')}{of_size}"


def group_finding(judged: JudgedGroup) -> tuple[Tone, str, list[str]]:
    """Return the tone, the word and the sentences: a rank that no longer trains goes before a late
    one."""
    states = state_lines(judged)
    tone, word, sentences = _straggler_finding(judged)
    if stopped := stopped_word(judged):
        return Tone.BAD, stopped, [*states, *sentences]
    return tone, word, [*sentences, *states]


def _straggler_finding(judged: JudgedGroup) -> tuple[Tone, str, list[str]]:
    straggler = judged.straggler
    if judged.why_not:
        return Tone.CALM, "STRAGGLER n/a", [judged.why_not]
    if straggler is None:
        sentence = no_straggler_sentence(judged.waiting_share, judged.aligned)
        return _all_starve(judged, sentence) or (Tone.GOOD, banner_word(None), [sentence])
    sentences = [
        straggler_sentence(straggler),
        without_sentence(straggler),
        ADVICE[straggler.cause],
    ]
    return _TONES[straggler.level], banner_word(straggler), sentences


def _all_starve(judged: JudgedGroup, sentence: str) -> tuple[Tone, str, list[str]] | None:
    """Return the finding that all ranks wait for data alike; None where they do not."""
    splits = [one.split for one in judged.ranks if one.split]
    least = min(splits, key=lambda split: split.wait_share, default=None)
    if least is None or least.wait_share < _STARVES_FROM:
        return None
    word = f"ALL RANKS STARVE {units.percent(least.wait_share)}"
    sentences = all_starve_sentences(least.wait.mean, least.step.mean)
    return Tone.BAD, word, [*sentences, sentence]


def rank_rows(judged: JudgedGroup) -> list[tuple[str, ...]]:
    """Return the cells of each rank, in the order of `COLUMNS`. Text from outside is in one
    line."""
    return [_row(judged, one) for one in judged.ranks]


def _row(judged: JudgedGroup, state: RankState) -> tuple[str, ...]:
    split, late = state.split, judged.straggler
    means = (
        (split.step.mean, split.wait.mean, split.compute.mean, split.host.mean)
        if split
        else (None,) * 4
    )
    figures = map(units.milliseconds, (*means, state.late_ms))
    why = late.cause.value if late and late.rank == state.rank else ""
    return str(state.rank), units.count(state.step), *figures, why, _state_text(judged, state)


def _state_text(judged: JudgedGroup, state: RankState) -> str:
    run = judged.group.ranks[state.rank]
    if (seconds := overdue_s(judged, state)) is not None:
        return one_line(f"{overdue_where(judged, state)} for {units.seconds(seconds)}")
    behind = f", {units.counted(state.behind, 'step')} behind" if state.is_lagging else ""
    return one_line(state_text(run)) + behind


def _figures_of(judged: JudgedGroup) -> str:
    """Return which steps the figures are of, and the command for one rank."""
    first, last = units.count(judged.first_step), units.count(judged.last_step)
    steps = "all steps" if judged.is_whole else f"the newest steps, {first} to {last}"
    folder = next((run.folder for run in judged.group.ranks.values() if run.folder), None)
    rank = f"; one rank: tfwatch report {replay_argument(folder)}" if folder else ""
    return f"Figures of {steps}{rank}"


def group_markdown(judged: JudgedGroup, redaction: Redaction | None = None) -> str:
    """Return the finding and the table in Markdown. redaction: replaces paths, names and the
    hosts."""
    _, word, (first, *sentences) = group_finding(judged)
    lines = [f"### {plain(group_title(judged), redaction)}", ""]
    lines += [f"**{plain(word, redaction)}**: {plain(first, redaction)}", ""]
    lines += [f"* {plain(one, redaction)}" for one in sentences]
    lines += [
        "",
        *table(COLUMNS, rank_rows(judged), redaction),
        plain(_figures_of(judged), redaction),
    ]
    return "\n".join(lines) + "\n"


def group_html(judged: JudgedGroup, redaction: Redaction | None = None) -> str:
    """Return the finding and the table as a page. redaction: replaces paths, names and the
    hosts."""
    tone, word, sentences = group_finding(judged)
    page = {
        "style": page_style(),
        "title": group_title(judged),
        "name": judged.group.folder.name,
        "tone": tone.value,
        "word": word,
        "sentences": sentences,
        "columns": COLUMNS,
        "rows": rank_rows(judged),
        "figures_of": _figures_of(judged),
    }
    return environment(redaction).get_template("group.html.j2").render(page)


def group_json(judged: JudgedGroup) -> dict[str, Any]:
    """Return the group: its ranks, and the straggler or why none can be named."""
    group = judged.group
    document: dict[str, Any] = finite(
        {
            "group": group.folder.name,
            "launcher": group.file.launcher,
            "size": group.file.size,
            "missing_ranks": group.missing,
            "unreadable_ranks": {str(rank): why for rank, why in group.unreadable.items()},
            "aligned_steps": len(judged.aligned.steps),
            "figures_of": {
                "first_step": judged.first_step,
                "last_step": judged.last_step,
                "whole": judged.is_whole,
            },
            "waiting_share": judged.waiting_share,
            "in_call_s": call_s(judged),
            "straggler": _straggler(judged.straggler) if judged.straggler else None,
            "straggler_not_known": judged.why_not or None,
            "compute_known": not judged.why_not and judged.is_compute_known,
            "ranks": [_rank(judged, one) for one in judged.ranks],
        }
    )
    return document


def _straggler(straggler: Straggler) -> dict[str, Any]:
    return {
        "rank": straggler.rank,
        "cause": straggler.cause.value,
        "level": straggler.level.value,
        "share": straggler.share,
        "group_step_ms": straggler.group_ms,
        "gain_ms": straggler.gain_ms,
        "gain_is_least": straggler.is_least,
        "own": straggler.own,
        "others": straggler.others,
        "sentence": straggler_sentence(straggler),
    }


def _rank(judged: JudgedGroup, state: RankState) -> dict[str, Any]:
    run = judged.group.ranks[state.rank]
    return {
        "rank": state.rank,
        "run": run.manifest.run,
        "state": state_of(run),
        "silent_s": run.silent_s if run.life.is_stale else None,
        "overdue_s": overdue_s(judged, state),
        "overdue_where": overdue_where(judged, state) or None,
        "last_step": state.step,
        "behind_steps": state.behind,
        "late_ms": state.late_ms,
        "data_wait_seen": not run.manifest.fetches_in_calls,
        "process_cores": state.machine.cores,
        "gpu_clock_mhz": state.machine.clock_mhz,
        "gpu_power_w": state.machine.power_w,
        "gpu_temperature_c": state.machine.temperature_c,
        **as_object(STEADY[1:], state.split),
    }
