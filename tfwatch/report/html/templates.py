"""The templates of the pages: every text from outside is made harmless, then escaped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from tfwatch.report.html.redaction import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.report.html.redaction import Redaction

_HERE = Path(__file__).parent
#: A line of code may be longer than a name.
_LONGEST_CODE = 2000


def page_style() -> Markup:
    """Return the style sheet of the pages."""
    return Markup((_HERE / "page.css").read_text(encoding="utf-8"))


def environment(redaction: Redaction | None = None) -> jinja2.Environment:
    """Return an environment in which every text of a run is made harmless before it is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalizer(redaction),
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["code"] = lambda text: Markup.escape(shown(text, redaction, _LONGEST_CODE))
    return environment


def _finalizer(redaction: Redaction | None) -> Callable[[object], object]:
    def finalize(value: object) -> object:
        return shown(value, redaction) if isinstance(value, str) and not isinstance(value, Markup) else value

    return finalize
