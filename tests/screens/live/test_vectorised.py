"""The fast pipeline of a script on the live screen: vectorised maps, proved before their first switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.screens.canned import STARVING, Canned
from tests.screens.showing import shown
from tfwatch.core.events import SwitchAsked, SwitchFailed
from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from pathlib import Path

_KNOBS = {"prefetch": "default", "workers": "default", "cache": "off", "fast_pipeline": "off"}
_PROOF = "equal in 9 batches (265 examples)"


def of_script(folder: Path, **changes: Any) -> Canned:
    """Return a run of a script whose maps can be vectorised."""
    values = {"knobs": _KNOBS, "switchable": [*_KNOBS], "settings": {"fast_pipeline": "vectorised"}}
    return (
        Canned(folder, **{**values, **changes})
        .started()
        .steps(60, STARVING)
        .doing(Phase.COMPUTE, 0.001)
    )


def ask(run: Canned, old: str, new: str) -> Canned:
    return run.event(SwitchAsked, knob="fast_pipeline", old=old, new=new, step=run.step, by="key")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_its_row_says_that_a_proof_comes_first(size: tuple[int, int], tmp_path: Path) -> None:
    run = of_script(tmp_path)
    async with shown(run, size) as show:
        assert "t fast pipeline off next: on proved equal first" in show.words
        await show.press("t")
        assert show.asked() == [("fast_pipeline", True)]
        ask(run, "off", "on").steps(2, STARVING).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "fast pipeline off → on: compares real batches first" in show.words


async def test_once_proved_its_row_says_what_the_proof_covers(tmp_path: Path) -> None:
    async with shown(of_script(tmp_path, proof=_PROOF), (80, 24)) as show:
        assert f"t fast pipeline off next: on {_PROOF}" in show.words
    run = (
        of_script(tmp_path / "on", proof=_PROOF)
        .switched("fast_pipeline", "off", "on")
        .steps(120, STARVING)
        .doing(Phase.COMPUTE, 0.001)
    )
    async with shown(run, (80, 24)) as show:
        assert (
            "t fast pipeline on next: off no difference from off; equal in 9 batches" in show.words
        )


async def test_values_that_differ_are_the_reason_beside_its_key(tmp_path: Path) -> None:
    why = "values differ in 3 of 32 000 elements"
    known = {"switchable": ["prefetch", "workers"], "fixed": {"fast_pipeline": why}}
    run = ask(of_script(tmp_path, **known), "off", "on").event(
        SwitchFailed, knob="fast_pipeline", reason=why, old="off", new="on", step=1, now="off"
    )
    async with shown(run) as show:
        await show.press("t")
        assert show.asked() == []
        assert [note.message for note in show.app._notifications] == [
            f"fast pipeline: as the script has it: {why}"
        ]
