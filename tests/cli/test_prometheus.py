"""A real Prometheus scrapes a run: it takes the metrics, and each query of the dashboard has
data."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import ROOT
from tests.report.test_metrics import running
from tests.runs.processes import wait_until
from tests.screens.canned import STARVING
from tfwatch.cli.serve import start_server
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.screens.canned import Canned

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL), reason="Debian's package prometheus is not installed"
)
#: What Grafana puts in place of a dashboard's variables.
VARIABLES = {"$__rate_interval": "1m", "$run": ".+"}


@pytest.fixture
def run(tmp_path: Path) -> Canned:
    """A run that starves on a GPU and waits for a batch."""
    run = running(tmp_path / "runs")
    run.event(
        facts.GpuFound, source="nvml", name='NVIDIA "H100"', memory_bytes=80 * 2**30, unified=False
    )
    return advance(run)


def advance(run: Canned) -> Canned:
    run.steps(20, STARVING).doing(Phase.WAIT, 0.5)
    run.sample(
        gpu_busy=0.4, gpu_power_w=310.0, gpu_temperature_c=61.0, gpu_memory_bytes=2.0**30
    ).writer.flush()
    return run


@pytest.fixture
def metrics_url(run: Canned, tmp_path: Path) -> Iterator[str]:
    """The address of the metrics."""
    server, thread = start_server(tmp_path / "runs", "127.0.0.1", 0, run.clock)
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture
def prometheus(metrics_url: str, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the metrics, from its fifth second on."""
    target = urllib.parse.urlsplit(metrics_url).netloc
    config = {
        "scrape_configs": [{"job_name": "tfwatch", "static_configs": [{"targets": [target]}]}]
    }
    (tmp_path / "prometheus.yml").write_text(
        json.dumps({"global": {"scrape_interval": "100ms"}, **config})
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert PROMETHEUS
    words = [
        PROMETHEUS,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=db",
        f"--web.listen-address={address}",
    ]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def ask(prometheus: str, query: str) -> list[dict[str, Any]]:
    """Return the series of a query; none while Prometheus starts.

    Raises:
        urllib.error.HTTPError: it is no PromQL.
    """
    address = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(address, timeout=10) as reply:
            found: list[dict[str, Any]] = json.load(reply)["data"]["result"]
    except urllib.error.URLError as error:
        if (
            isinstance(error.reason, ConnectionError)
            or getattr(error, "code", None) == HTTPStatus.SERVICE_UNAVAILABLE
        ):
            return []
        raise
    return found


def dashboard_queries() -> list[str]:
    dashboard = json.loads((ROOT / "assets" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    pattern = "|".join(map(re.escape, VARIABLES))
    return [re.sub(pattern, lambda found: VARIABLES[found[0]], query) for query in queries]


def test_each_query_of_the_dashboard_has_data(run: Canned, prometheus: str) -> None:
    def has_three_readings() -> bool:
        advance(run)  # a second of the run, so that the next scrape reads it again
        found = ask(prometheus, "changes(tfwatch_steps_total[1m]) >= 2")
        return bool(found)

    wait_until(has_three_readings)

    values = {
        query: [one["value"][1] for one in ask(prometheus, query)] for query in dashboard_queries()
    }
    assert [query for query, found in values.items() if not found or "NaN" in found] == []
    ((_, share),) = (one["value"] for one in ask(prometheus, "tfwatch_data_wait_ratio"))
    assert float(share) == pytest.approx(0.41, abs=0.01)
    assert [one["value"][1] for one in ask(prometheus, 'up{job="tfwatch"}')] == ["1"]


def test_promtool_finds_no_fault_in_the_metrics(metrics_url: str) -> None:
    with urllib.request.urlopen(metrics_url, timeout=10) as reply:
        page = reply.read()
    assert PROMTOOL

    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=page, capture_output=True, check=False
    )

    assert (checked.returncode, checked.stderr.decode()) == (0, "")
