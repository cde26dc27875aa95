"""A page in Chromium, where it is installed, at the widths of a phone, a laptop and a sheet of
paper."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
#: A phone, a laptop; and a sheet of paper.
WIDTHS = (360, 1200, 760)
#: Measures the page in frames of several widths, and writes what it found into its own title.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><title></title>
{frames}
<script>
onload = () => {{
  const found = [...document.querySelectorAll('iframe')].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const paths = [...page.querySelectorAll('svg path')];
    return {{
      overflow: root.scrollWidth - root.clientWidth,
      height: root.scrollHeight,
      paths: paths.length,
      empty: paths.filter(path => path.getBoundingClientRect().width === 0).length,
      clipped: [...page.querySelectorAll('h1, h2, .value')].filter(one => one.scrollWidth > one.clientWidth + 1).length,
      scripts: page.scripts.length,
      fills: [...new Set(paths.map(path => frame.contentWindow.getComputedStyle(path).fill))],
    }};
  }});
  document.title = JSON.stringify(found);
}};
</script>"""  # noqa: E501


def measured(folder: Path) -> list[dict[str, Any]]:
    """Return the measures of `page.html` of a folder at each width."""
    frames = "".join(
        f'<iframe src="page.html" width="{width}" height="800"></iframe>' for width in WIDTHS
    )
    (folder / "probe.html").write_text(PROBE.format(frames=frames), encoding="utf-8")
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--dump-dom",
    )
    command = [
        str(BROWSER),
        *options,
        f"--user-data-dir={folder / 'profile'}",
        str(folder / "probe.html"),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title
    found: list[dict[str, Any]] = json.loads(title[1])
    return found
