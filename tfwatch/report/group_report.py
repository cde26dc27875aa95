"""A group of ranks as one table: who is late, by how much and why; for the screen, Markdown, HTML
and JSON."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

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
    all_starve_sentences,
    banner_word,
    no_straggler_sentence,
    straggler_sentence,
    without_sentence,
)
from tfwatch.judge.past_run import state_of
from tfwatch.report.effects import STEADY
from tfwatch.report.facts import (
    anything,
    as_object,
    flag,
    mapping,
    number,
    record,
    rows,
    text,
    whole,
    within,
)
from tfwatch.report.markdown import plain, table
from tfwatch.report.page import environment, page_style
from tfwatch.report.text import one_line, state_text
from tfwatch.runs.library import replay_argument

if TYPE_CHECKING:
    from tfwatch.judge.groups.judged_group import JudgedGroup, RankState
    from tfwatch.report.facts import Source
    from tfwatch.report.redaction import Redaction
    from tfwatch.runs.snapshot import Snapshot

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
    tone = Tone.BAD if straggler.is_critical else Tone.WARN
    return tone, banner_word(straggler), sentences


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


# -- JSON ------------------------------------------------------------------------------------------

_STRAGGLER = (
    whole("rank", "the late rank"),
    text("cause", "why it is late", "cause.value"),
    number("share", "of the group's step, 0 to 1"),
    number("group_step_ms", "the group's step", "group_ms"),
    number("gain_ms", "shorter without it"),
    flag("gain_is_least", "the gain is at least so much", "is_least"),
    anything("own", "the figure of the cause, of this rank"),
    anything("others", "the same of the others"),
    text("sentence", "all of it in words", straggler_sentence),
)
#: Of the group, and the state of one of its ranks.
_Rank: TypeAlias = "tuple[JudgedGroup, RankState]"


def _run_of(one: _Rank) -> Snapshot:
    return one[0].group.ranks[one[1].rank]


def _silent_s(one: _Rank) -> float | None:
    run = _run_of(one)
    return run.silent_s if run.life.is_stale else None


def _of_state(path: str) -> Source:
    return lambda one: attrgetter(path)(one[1])


RANK = (
    whole("rank", "its number", _of_state("rank")),
    text("run", "its run", lambda one: _run_of(one).manifest.run),
    text("state", "finished, running, killed, ...", lambda one: state_of(_run_of(one))),
    number("silent_s", "it does not respond for so long", _silent_s),
    number("overdue_s", "its step lasts for so long", lambda one: overdue_s(*one)),
    text("overdue_where", "in which part", lambda one: overdue_where(*one)),
    whole("last_step", "the last step", _of_state("step")),
    whole("behind_steps", "steps behind the first rank", _of_state("behind")),
    number("late_ms", "after the rank that comes first to the call", _of_state("late_ms")),
    flag(
        "data_wait_seen",
        "its data wait is measured",
        lambda one: not _run_of(one).manifest.fetches_in_calls,
    ),
    number("process_cores", "cores that it uses", _of_state("machine.cores")),
    number("gpu_clock_mhz", "clock of its GPU", _of_state("machine.clock_mhz")),
    number("gpu_power_w", "power of its GPU", _of_state("machine.power_w")),
    number("gpu_temperature_c", "temperature of its GPU", _of_state("machine.temperature_c")),
    *within(STEADY[1:], _of_state("split")),
)


def _unreadable(judged: JudgedGroup) -> dict[str, str]:
    return {str(rank): why for rank, why in judged.group.unreadable.items()}


_FIGURES_OF = (
    whole("first_step", "the first step that counts"),
    whole("last_step", "the last one"),
    flag("whole", "all steps count", "is_whole"),
)
GROUP = (
    text("group", "its name", "group.folder.name"),
    text("launcher", "what started the ranks", "group.file.launcher"),
    whole("size", "the number of ranks", "group.file.size"),
    anything("missing_ranks", "ranks without a run", "group.missing"),
    mapping("unreadable_ranks", "why, by rank", _unreadable),
    whole("aligned_steps", "steps that all ranks have", lambda judged: len(judged.aligned.steps)),
    record("figures_of", "the steps that count", _FIGURES_OF, lambda judged: judged),
    number("waiting_share", "the time that ranks wait for one another, 0 to 1"),
    number("in_call_s", "all ranks are in the same call for so long", call_s),
    record("straggler", "the late rank; null where none is", _STRAGGLER),
    text("straggler_not_known", "why none can be named", "why_not"),
    flag(
        "compute_known",
        "compute is measured apart from waiting",
        lambda judged: not judged.why_not and judged.is_compute_known,
    ),
    rows("ranks", "each rank", RANK, lambda judged: [(judged, one) for one in judged.ranks]),
)


def group_json(judged: JudgedGroup) -> dict[str, Any]:
    """Return the group: its ranks, and the straggler or why none can be named."""
    return as_object(GROUP, judged)
