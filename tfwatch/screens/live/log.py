"""The log: the printed lines of TensorFlow and Python, with explanations of known lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.reactive import reactive

from tfwatch.judge.log_lines import meaning_of
from tfwatch.screens.basics.pane import RowList
from tfwatch.screens.basics.text import plain, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.view import RunView
    from tfwatch.screens.basics.text import Part


class LogPane(RowList):
    """The lines, each explained where it is known."""

    #: Reserve the scrollbar's column: when the scrollbar appears, no line wraps differently.
    DEFAULT_CSS = """
    LogPane { scrollbar-gutter: stable; }
    """
    FOLLOWS_END = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "row up", show=False),
        Binding("down", "scroll_down", "row down", show=False),
        Binding("pageup", "page_up", "page up", show=False),
        Binding("pagedown", "page_down", "page down", show=False),
    ]

    #: Oldest first.
    lines: reactive[tuple[str, ...]] = reactive((), repaint=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._folded: list[Part] = []

    def on_mount(self) -> None:
        self.set_titles("log")

    def on_resize(self) -> None:
        self._fold()

    def show(self, view: RunView) -> None:
        self.lines = log_lines(view)

    def count(self) -> int:
        """Return the number of rows of the wrapped lines."""
        return len(self._folded)

    def row_at(self, index: int, width: int) -> Content:
        """Return one row."""
        return row(self._folded[index])

    def watch_lines(self) -> None:
        self._fold()

    def _fold(self) -> None:
        width = max(self.scrollable_content_region.width, 20)
        self._folded = list(_folded(map(plain, self.lines), width))
        if not self.lines:
            self._folded.append(("no output yet", "$foreground 65%"))
        self.rows_changed()


def _folded(lines: Iterable[str], width: int) -> Iterator[Part]:
    """Wrap lines to rows; the explanation of a line follows its first occurrence."""
    explained = set[str]()
    for line in lines:
        yield from (
            (part, "") for part in ([line] if cell_len(line) <= width else wrap_text(line, width))
        )
        meaning = meaning_of(line)
        if meaning is None or meaning.name in explained:
            continue
        explained.add(meaning.name)
        style = "$foreground 65%" if meaning.is_harmless else "$text-warning"
        words = wrap_text(f"  = {meaning.text}", width, indent="    ")
        yield from ((part, style) for part in words)


def log_lines(view: RunView) -> tuple[str, ...]:
    """Return the log; append the traceback of a failed training where the log does not end with
    it."""
    unfinished = view.snapshot.log_unfinished
    log = (*view.snapshot.log_tail, unfinished) if unfinished else view.snapshot.log_tail
    failed = view.situation.failed
    if failed is None:
        return log
    lines = tuple(failed.traceback.splitlines())
    return log if lines and lines[-1] in log[-len(lines) - 5 :] else (*log, *lines)
