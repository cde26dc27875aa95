"""The pages about findings, JSON and Prometheus, and the schema, are those of the tables.

`TFWATCH_DOCS=write` writes them.
"""

import ast
import inspect
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ROOT
from tfwatch.judge import troubles
from tfwatch.judge.findings import compute, ranking
from tfwatch.report.facts import Definition, tables_below
from tfwatch.report.metrics import METRICS, describe_metrics
from tfwatch.report.run_facts import RUN, schema

PAGE, SCHEMA = ROOT / "docs/json.md", ROOT / "docs/run.schema.json"
FINDINGS = ROOT / "docs/findings.md"
PROMETHEUS, DASHBOARD = ROOT / "docs/prometheus.md", ROOT / "assets/grafana-dashboard.json"
#: The records of a run whose keys the page has; run.schema.json has all.
_RECORDS = ("findings", "last_setting", "switches")
#: The words of the banner in the order of the page: those of the input pipeline first.
_WORDS = (
    "STARVING",
    "STALLS",
    "COPY-BOUND",
    "HOST-BOUND",
    "VALIDATION",
    "BETWEEN EPOCHS",
    "BETWEEN FITS",
    "RETRACING",
    "LAUNCH-BOUND",
    "COMPUTE",
    "OK, data wait",
)
_GENERATED = re.compile(r"(?<=test_generated\.py -->\n).*(?=<!-- end -->)", re.DOTALL)
_METRIC = re.compile(r"\btfwatch_[a-z_]+\b")


def written() -> dict[str, str]:
    """The generated files as they should be."""
    keys = "\n" + "\n".join(describe_keys())
    metrics = "\n".join(describe_metrics())
    findings = "\n".join(describe_findings())
    return {
        FINDINGS.name: _GENERATED.sub(
            lambda _: f"\n{findings}\n\n", FINDINGS.read_text(encoding="utf-8")
        ),
        PAGE.name: _GENERATED.sub(lambda _: f"{keys}\n", PAGE.read_text(encoding="utf-8")),
        PROMETHEUS.name: _GENERATED.sub(
            lambda _: f"\n{metrics}\n\n", PROMETHEUS.read_text(encoding="utf-8")
        ),
        SCHEMA.name: json.dumps(schema(), indent=1) + "\n",
    }


def describe_keys() -> Iterator[str]:
    """Yield the keys of a run in Markdown, and those of the records that programs read first."""
    below = {name: table for table, name in tables_below(RUN).items() if name in _RECORDS}
    for title, table in (("A run", RUN), *((f"`{name}`", below[name]) for name in _RECORDS)):
        yield from (f"## {title}", "", "| key | content |", "| --- | --- |")
        yield from (f"| `{fact.key}` | {_content(fact)} |" for fact in table)
        yield ""


def _content(fact: Definition) -> str:
    choices = f": {', '.join(f'`{one}`' for one in fact.choices)}" if fact.choices else ""
    below = f"; [its keys](#{fact.key})" if fact.table and fact.key in _RECORDS else ""
    return f"{fact.meaning}{choices}{below}"


def describe_findings() -> Iterator[str]:
    """Yield the table of the findings, from their docstrings."""
    yield "| banner, `kind` | what it means | what to do |"
    yield "| --- | --- | --- |"
    found = [(*_word_and_kind(module), module) for module in (*ranking.KINDS, compute)]
    for word, kind, module in sorted(found, key=lambda one: _WORDS.index(one[0])):
        meaning, remedy = _meaning_and_remedy(module)
        yield f"| {word} `{kind}` | {meaning} | {remedy[0].upper()}{remedy[1:]} |"


def _word_and_kind(module: ModuleType) -> tuple[str, str]:
    """Return the word on the banner and the kind, of the first finding that a module makes."""
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        made = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if isinstance(call, ast.Call) and made in ("Finding", "compute_loss"):
            if made == "compute_loss":
                return "COMPUTE", _first_text(call.args[1])
            kind, word = (_first_text(one) for one in call.args[:2])
            return word, kind
    raise ValueError(f"{module.__name__} makes no finding")


def _first_text(tree: ast.expr) -> str:
    constants = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)]
    return next(one.strip() for one in constants if isinstance(one, str))


def _meaning_and_remedy(module: ModuleType) -> tuple[str, str]:
    paragraphs = [" ".join(one.split()) for one in (inspect.getdoc(module) or "").split("\n\n")]
    remedy = next(one for one in paragraphs if one.startswith("Remedy: "))
    return paragraphs[0], remedy.removeprefix("Remedy: ")


@pytest.mark.parametrize("path", [FINDINGS, PAGE, PROMETHEUS, SCHEMA], ids=lambda path: path.name)
def test_a_generated_file_is_that_of_the_table(path: Path) -> None:
    if os.environ.get("TFWATCH_DOCS") == "write":
        path.write_text(written()[path.name], encoding="utf-8")

    assert path.read_text(encoding="utf-8") == written()[path.name]
    assert path == SCHEMA or len(_GENERATED.findall(path.read_text(encoding="utf-8"))) == 1


def test_the_page_of_findings_names_what_happens_beside_the_losses() -> None:
    beside = FINDINGS.read_text(encoding="utf-8").partition("<!-- end -->")[2]
    kinds = re.findall(r'Finding\(\s+"([a-z-]+)"', inspect.getsource(troubles))

    assert len(kinds) > 4
    assert [kind for kind in kinds if f"`{kind}`" not in beside] == []


def test_the_dashboard_queries_metrics_that_are_served() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for query in queries for name in _METRIC.findall(query)}

    assert len(queries) > 10
    assert named <= {one.name for one in METRICS}
