"""The pages for readers: short where they promise it, and without dead links."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_DAY = re.compile(r"\b\d{1,2} [A-Z][a-z]{2} 20\d\d\b")
INDEX = ROOT / "docs/README.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(("name", "most"), [("README.md", 150), ("CONTRIBUTING.md", 220)])
def test_a_first_page_is_short(name: str, most: int) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= most
    assert name == "README.md" or max(map(len, lines)) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))

    assert [
        link for link in links if not link.startswith("https:") and not _leads_somewhere(page, link)
    ] == []


def test_every_page_of_docs_is_linked_from_the_index() -> None:
    index = INDEX.read_text(encoding="utf-8")
    names = [str(page.relative_to(INDEX.parent)) for page in PAGES[2:] if page != INDEX]

    assert [name for name in names if f"({name})" not in index] == []


def test_nothing_installs_tfwatch_from_an_index_which_has_none() -> None:
    """`pip install tfwatch` would install what somebody else publishes under this name."""
    texts = [*PAGES, ROOT / ".ci/run", *(ROOT / "tfwatch").rglob("*.py")]
    named = re.compile(r"(?:pip|pipx|tool) install (?:-\S+ )*['\"]?tfwatch\b|uvx (?:-\S+ )*tfwatch")

    assert [path for path in texts if named.search(path.read_text(encoding="utf-8"))] == []
    assert named.search("uv tool install 'tfwatch[tensorflow]'")


def test_every_measured_result_has_its_day() -> None:
    page = (ROOT / "docs/developers/results.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", page, flags=re.MULTILINE)[1:]

    assert len(sections) > 10
    assert [
        section.partition("\n")[0]
        for section in sections
        if not _DAY.search(_first_result(section))
    ] == []


def _first_result(section: str) -> str:
    """The text of a section up to the end of its first table."""
    first, bar, rest = section.partition("\n| ")
    return first + bar + rest.partition("\n\n")[0]


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_the_gain_of_its_picture() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = (ROOT / "assets/solved.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    said = re.search(
        r"is measured, (\S+) x (\(.+?\))\. Data wait fell from (\d+) to (\d+) %", readme
    )

    assert said is not None
    ratio, interval, before, after = said.groups()
    assert f"{ratio} x faster {interval}" in picture
    assert f"data wait {before} → {after} %" in picture
