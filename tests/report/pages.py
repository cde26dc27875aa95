"""Pages of canned runs, and their elements."""

import re
from typing import Any

import html5lib

from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.page import as_html
from tfwatch.runs.snapshot import Snapshot

HTML = "{http://www.w3.org/1999/xhtml}"
#: Elements of the template.
_ELEMENTS = """html head meta title style body main header section footer h1 h2 p div span b pre dl
dt dd table tbody tr th td"""
KNOWN = frozenset(_ELEMENTS.split())


def page_of(run: Snapshot) -> str:
    """Return the page of a run in a folder."""
    return as_html(JudgedRun(run))


def parsed(page: str) -> Any:
    """Return the page's elements; a page that breaks a rule of HTML raises an error."""
    return html5lib.HTMLParser(strict=True).parse(page)


def text_of(page: str) -> str:
    """Return the page's text, each stretch of white space as one space."""
    body = parsed(page).find(f"{HTML}body")
    return " ".join("".join(body.itertext()).split())


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of all rows of its tables."""
    return [["".join(cell.itertext()) for cell in row] for row in parsed(page).iter(f"{HTML}tr")]


def columns_of(page: str) -> list[str]:
    """Return the HTML of the columns of its chart."""
    (plot,) = re.findall(r'<div class="plot">\n(.*?)\n</div>\n', page, re.DOTALL)
    return str(plot).split("\n")


def assert_harmless(page: str) -> None:
    """Text from outside is text: no element, attribute or code of its own, and not without end."""
    elements = list(parsed(page).iter())
    assert {str(one.tag).rpartition("}")[2] for one in elements} <= KNOWN
    assert not [
        name
        for one in elements
        for name in one.attrib
        if name.startswith("on") or name in ("src", "href")
    ]
    assert not re.search(r"url\(|@import|\x1b|\x00|\u202e", page)
    assert page.encode().decode() == page
    assert len(page) < 400_000
