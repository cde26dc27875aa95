"""The rows that a change repaints, and the rows it does not."""

from textual.app import App, ComposeResult
from textual.content import Content
from textual.strip import Strip

from tfwatch.screens.pane import Pane


class Words(Pane):
    """Shows words, and notes the rows that are painted."""

    words: tuple[str, ...] = ("first", "second", "third")

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[int] = []

    def rows(self, width: int, height: int) -> list[Content]:
        return [Content(f"{word} in {width} cells") for word in self.words]

    def render_line(self, y: int) -> Strip:
        self.painted.append(y)
        return super().render_line(y)


class WordsApp(App[None]):
    CSS = "Words { height: 6; }"

    def compose(self) -> ComposeResult:
        yield Words()


async def test_a_row_is_painted_again_only_where_it_changed() -> None:
    app = WordsApp()
    async with app.run_test(size=(60, 8)) as pilot:
        pane = app.query_one(Words)
        pane.painted.clear()

        pane.words = ("first", "another", "third")
        pane.repaint_rows()
        await pilot.pause()
        changed, shown = [*pane.painted], [pane.render_line(y).text.strip() for y in range(6)]

        await pilot.resize_terminal(40, 8)
        resized = pane.render_line(0).text.strip()

    assert changed == [1]
    assert shown == ["first in 58 cells", "another in 58 cells", "third in 58 cells", "", "", ""]
    assert resized == "first in 38 cells"
