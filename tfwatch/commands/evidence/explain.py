"""`tfwatch explain`: the findings on a run with evidence, code and confidence."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.commands.evidence.sides import open_named
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.live.evidence.explained_run import explain_run
from tfwatch.live.groups.explained_group import explain_group
from tfwatch.live.groups.group_to_compare import GroupToCompare
from tfwatch.report.evidence.explanation import explanation_json, explanation_lines
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The options of `tfwatch explain`."""

    run: str | None
    runs_dir: Path
    as_json: bool = False


def explain(options: ExplainOptions, clock: Clock = SYSTEM) -> int:
    """Print the findings, and return the exit code.

    Raises:
        BadInputError: there is no such run.
    """
    one = open_named(options.run, options.runs_dir, clock)
    found = explain_group(one) if isinstance(one, GroupToCompare) else explain_run(one)
    if options.as_json:
        return write(sys.stdout, json.dumps(explanation_json(one, found), indent=1) + "\n")
    return write(sys.stdout, "\n".join(explanation_lines(one, found)) + "\n")
