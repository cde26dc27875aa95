"""The evidence of a fix: as lines of text, as Markdown for a pull request, and as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.report.markdown import code_block, plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.fix.script_fix import ScriptFix
    from tfwatch.fix.tried import Tried
    from tfwatch.judge.effects.interval import Estimate


def as_lines(found: ScriptFix, is_applied: bool) -> Iterator[str]:
    """Yield what was tried, the evidence, and what becomes of the patch."""
    width = max((len(one.change) for one in found.tried), default=0)
    for one in found.tried:
        yield f"{_word(one):<5}  {one.change:<{width}}  {one.outcome}"
    yield from (*found.evidence, *_gain(found))
    if found.patch is None:
        yield found.why_none
        return
    checked = found.patch.checked
    yield f"{checked} applies it to a copy" if checked else "not tried: there is no git or patch"
    names = ", ".join(one.file.name for one in found.patch.files)
    apply = f"in {found.patch.folder}: git apply, or patch -p1"
    yield f"written: {names}" if is_applied else f"nothing is written; to apply it, {apply}"


def as_markdown(found: ScriptFix) -> str:
    """Return what was tried as a table, the evidence, and the patch."""
    rows = [(_word(one), one.change, one.outcome) for one in found.tried]
    lines = [*table(("", "change", "outcome"), rows)] if rows else []
    for one in filter(None, (*found.evidence, *_gain(found), found.why_none)):
        lines += [plain(one), ""]
    if found.patch:
        diff = found.patch.diff.decode(errors="replace").split("\n")
        lines += code_block(diff, language="diff")
    return "\n".join(lines)


def as_json(found: ScriptFix, is_applied: bool) -> dict[str, Any]:
    """Return all of it as one object."""
    patch = found.patch
    return {
        "patch": patch.diff.decode(errors="replace") if patch else None,
        "folder": str(patch.folder) if patch else None,
        "checked_by": (patch.checked or None) if patch else None,
        "applied": is_applied and patch is not None,
        **_ratios(found.gain),
        "why_none": found.why_none or None,
        "tried": [
            {"change": one.change, "outcome": one.outcome, "kept": one.kept} | _ratios(one.estimate)
            for one in found.tried
        ],
        "evidence": list(found.evidence),
        "runs": [str(run) for run in found.runs],
    }


def _gain(found: ScriptFix) -> Iterator[str]:
    if found.gain:
        gain, low, high = map(units.times, (found.gain.ratio, found.gain.low, found.gain.high))
        yield f"the patch in a fresh run, with its 95 % interval: {gain} ({low} to {high})"


def _ratios(known: Estimate | None) -> dict[str, float | None]:
    return {
        "speedup": known.ratio if known else None,
        "speedup_low": known.low if known else None,
        "speedup_high": known.high if known else None,
    }


def _word(one: Tried) -> str:
    return "kept" if one.kept else "tried"
