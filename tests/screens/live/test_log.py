"""The log pane: the lines, and their explanations."""

from pathlib import Path

import pytest

from tests.screens.canned import STARVING, usual
from tests.screens.showing import shown
from tests.screens.states import starting

ONEDNN = (
    "I0000 00:00:1795263242.021949   29426 port.cc:153] oneDNN custom operations are on. You may"
    " see [bold]"
)
RETRACED = (
    "WARNING:tensorflow:5 out of the last 5 calls to <function f> triggered tf.function retracing."
)


async def test_a_line_is_explained_once(tmp_path: Path) -> None:
    run = usual(tmp_path)
    run.log.write_text(f"first\n{ONEDNN}\n{ONEDNN}\n{RETRACED}\n{RETRACED}\nlast\n")
    async with shown(run) as show:
        await show.press("5")
        rows = [part for part, _ in show.live.log_pane._folded]
        text = " ".join(" ".join(rows).split())

        assert (
            text.count("oneDNN custom operations are on")
            == text.count("triggered tf.function retracing")
            == 2
        )
        assert text.count("= a function is traced repeatedly") == 1
        assert "You may see [bold]" in text
        assert "= a function is traced repeatedly" in show.text


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_before_the_first_step_the_log_has_the_room_unless_another_pane_is_chosen(
    size: tuple[int, int], tmp_path: Path
) -> None:
    run = starting(tmp_path)
    run.log.write_text("importing\n")
    async with shown(run, size) as show:
        assert "importing" in show.text
        assert "live switches" not in show.text
        assert not show.live.knobs.display
        await show.press("1")
        assert show.live.knobs.display
    async with shown(run, size) as show:
        run.started().steps(30, STARVING)
        await show.frame()
        assert show.live.knobs.display
