"""What a run was bound by at last, what to try next, and what starving cost it: for the JSON object and the summary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis import advice, bound, cost
from tfwatch.analysis.breakdown import breakdown, steady
from tfwatch.analysis.cost import Lost, lost
from tfwatch.analysis.forecast import forecasts
from tfwatch.analysis.grounds import Grounds, gather
from tfwatch.analysis.ledger import Ledger, mean_of, total_of
from tfwatch.analysis.origin import origin_of
from tfwatch.analysis.situation import Situation
from tfwatch.analysis.summary import between, latest_of
from tfwatch.analysis.switches import LONGEST
from tfwatch.analysis.tried import tried
from tfwatch.analysis.verdict import NEEDED, Bound, Judgement, classify
from tfwatch.core import units
from tfwatch.core.events import StagesFound
from tfwatch.core.rows import Flag
from tfwatch.report.derived import grounds_of, ledger_of, summary_of

if TYPE_CHECKING:
    from tfwatch.analysis.finding import Banner
    from tfwatch.analysis.grounds import Evidence
    from tfwatch.analysis.hardware import Hardware
    from tfwatch.analysis.summary import Latest, Summary
    from tfwatch.runs.opened import Run


def finding_of(run: Run, grounds: Grounds, summary: Summary, ledger: Ledger) -> Banner | None:
    """What the run's last setting was bound by, and what to try next; None where too few steps tell."""
    known, latest = last_setting(run, grounds, summary)
    if latest is None:
        return None
    manifest = run.manifest
    now = Situation(
        live=False,
        judgement=Judgement(classify(latest.split), latest.split.steps, NEEDED, latest.split, latest.bound),
        device="the GPU" if manifest.accelerated else "the device",
        accelerated=manifest.accelerated,
        op_by_op=manifest.op_by_op,
        knobs=known.knobs,
        started=manifest.knobs,
        switchable=tuple(manifest.switchable),
        fast_form=manifest.fast_form,
        callback=summary.callback,
        epoch_spent=mean_of(ledger.epochs),
        fills=summary.fills,
        held_end=advice.held_end(run.events),
        forecasts={(one.knob, one.value): one for one in forecasts(known)},
        stages=known.stages,
        origin=origin_of(event for event in run.events if isinstance(event, StagesFound)),
        batch_size=manifest.batch_size,
        batch_bytes=manifest.batch_bytes,
    )
    return bound.between(now) or bound.judged(now)


def last_finding(run: Run) -> Banner | None:
    """`finding_of` a run, from nothing but it."""
    return finding_of(run, grounds_of(run), summary_of(run), ledger_of(run))


def last_setting(run: Run, grounds: Grounds, summary: Summary) -> tuple[Evidence, Latest | None]:
    """The last setting that was decided on: not what a move or an experiment had in hand as the run ended (`tried`)."""
    found = tried(run.events)
    if found is None:
        return gather(grounds, summary.switches, len(run.steps), round(run.length_s * 1e9)), summary.latest
    last = found.stretches[-1][1]
    before = [switch for switch in summary.switches if switch.step is not None and switch.step <= last]
    rows = np.concatenate([between(run.steps, *stretch) for stretch in found.stretches])
    rows = rows[np.flatnonzero(rows["flags"] & Flag.SWITCH).max(initial=0) :]
    calm = steady(rows)
    known = gather(grounds, before, last, found.at_ns)
    # One block of an experiment is too short to forecast from: all those of the setting are.
    known = replace(known, rows=calm[-LONGEST:], breakdown=breakdown(calm[-LONGEST:]))
    return known, latest_of(rows, breakdown(calm), run.manifest.accelerated, run.manifest.op_by_op)


def finding_json(found: Banner | None) -> dict[str, str | None] | None:
    """The same for `--json`."""
    if found is None:
        return None
    return {"word": found.word, "sentence": found.sentence, "advice": found.advice, "edit": found.edit or None}


def next_words(run: Run, grounds: Grounds, summary: Summary, ledger: Ledger) -> list[str]:
    """What to try next, by what the run lost most to at last, and the lines that do it."""
    found, (_, latest) = finding_of(run, grounds, summary, ledger), last_setting(run, grounds, summary)
    if found is None or latest is None:
        return []
    epochs = total_of(ledger.epochs)
    is_between = epochs.between_share >= max(advice.BETWEEN_SHARE, latest.split.wait_share)
    share = f"{units.percent(epochs.between_share)} of the epochs lay between their steps; " if is_between else ""
    bound_by_host = latest.bound is Bound.HOST and not is_between
    most = f" ({summary.callback} takes most)" if bound_by_host and summary.callback else ""
    words = found.advice
    lines = [line for line in found.edit.split("\n") if line]
    return [f"{share}next: {words[0].lower()}{words[1:]}{most}", *(f"  edit: {line}" for line in lines)]


def lost_of(run: Run, summary: Summary, ledger: Ledger, machine: Hardware) -> Lost:
    """What starving cost a run."""
    size = run.manifest.batch_size
    return lost(ledger.total, run.length_s, summary.steps * size if size else None, machine.energy)


def lost_json(found: Lost) -> dict[str, float | None]:
    """The same for `--json`."""
    return {
        "waiting_s": found.waiting_s,
        "share": found.share,
        "images": found.examples,
        "energy_j": found.energy_j,
        "run_without_s": found.without_s,
    }


def lost_words(run: Run, summary: Summary, ledger: Ledger, machine: Hardware) -> list[str]:
    """What the run would have taken had no step waited; none where next to nothing was lost."""
    sentence = cost.words(lost_of(run, summary, ledger, machine))
    return [sentence] if sentence else []
