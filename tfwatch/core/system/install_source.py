"""The command that installs tfwatch from where this one came from: an index, a folder, a repository or a file."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def pip_install(extra: str = "") -> str:
    """Return e.g. `pip install 'tfwatch[nvidia]'`, or with the folder or address that pip used."""
    extras = f"[{extra}]" if extra else ""
    try:
        text = importlib.metadata.distribution("tfwatch").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return f"pip install {shlex.quote(f'{Path(__file__).parents[3]}{extras}')}"
    return f"pip install {_requirement(_parse(text or ''), extras)}"


def _parse(text: str) -> dict[str, Any]:
    """Return the object of direct_url.json (PEP 610), which pip writes for all but an index; empty where unreadable."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        return {}


def _requirement(source: dict[str, Any], extras: str) -> str:
    url, vcs = str(source.get("url") or ""), source.get("vcs_info")
    if not url:
        return shlex.quote(f"tfwatch{extras}")
    if isinstance(vcs, dict):
        return shlex.quote(f"tfwatch{extras} @ {vcs.get('vcs', 'git')}+{url}")
    if "dir_info" not in source:
        return shlex.quote(f"tfwatch{extras} @ {url}")
    editable = "-e " if (source["dir_info"] or {}).get("editable") else ""
    return editable + shlex.quote(f"{unquote(urlsplit(url).path)}{extras}")
