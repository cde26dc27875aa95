"""Programs of the tests in a process of their own, which print what they saw as JSON in their last
line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.watch.tracked import ROOT


def seen_by(module: str, *arguments: str, timeout_s: float) -> Any:
    """Run a module without a GPU; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
