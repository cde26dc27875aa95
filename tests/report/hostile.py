"""A run whose every text is hostile, for reports and exports."""

from pathlib import Path

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, Staged
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

SCRIPT = "<script>alert(1)</script>"
MARKUP = f"{SCRIPT}\"'><img src=http://evil.example/x onerror=alert(1)>{{{{7*7}}}}{{% raw %}}"
ESCAPES = "\x1b[2J\x1b]0;x\x07\u202e\x00\r\n"
BROKEN = "\udc80\ud800"
LONG = "n" * 10_000
HOSTILE = MARKUP + ESCAPES + BROKEN + LONG
#: Rooms for a formula of a spreadsheet, markup of markdown, and a mention.
FORMULA = '=HYPERLINK("http://evil.example","x")'
MARKDOWN = "](http://evil.example) `x` **b** | @everyone #1 <b>"


def hostile_run(folder: Path) -> Snapshot:
    """Write a run with every kind of event, and open it."""
    run = Canned(
        folder,
        run=HOSTILE,
        workload=HOSTILE,
        device=HOSTILE,
        settings={"data": HOSTILE, HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        machine={"host": HOSTILE, "cores": 2, "system": HOSTILE, "memory_bytes": 2**34},
        not_split="",
        split="exact",
    )
    run.started().steps(120, STARVING)
    stages: tuple[Staged, ...] = (
        (HOSTILE, "Map", 9.0, 1.0, 1.0, 4.0),
        (FORMULA, "BatchV2", 1.0, 1.0, 0.0, 1.0),
    )
    run.staged(*stages)
    run.event(facts.SensorMissing, sensor=HOSTILE, reason=HOSTILE, fix=HOSTILE)
    run.event(facts.GpuFound, source=HOSTILE, name=HOSTILE, memory_bytes=2**30, unified=False)
    run.event(facts.Paused, cause="callback", took_ms=400.0, detail=HOSTILE)
    run.steps(1, (9.6, 13.0, 420.0))
    run.event(
        facts.StallLocated,
        step=run.step + 1,
        stage=HOSTILE,
        since_ns=0,
        place=HOSTILE,
        thread="generator",
    )
    run.steps(1, (8000.0, 13.0, 0.8)).steps(60, STARVING).staged(*stages)
    run.event(facts.ValidationEnded, epoch=0, took_ms=20.0)
    metrics = {"loss": 1.31, "val_loss": 1.5, HOSTILE: 0.4, FORMULA: float("nan"), MARKDOWN: 0.2}
    run.event(facts.EpochEnded, epoch=0, step=run.step, metrics=metrics)
    run.begin_epoch().steps(1, STARVING, int(Flag.EPOCH_START)).steps(40, STARVING)
    run.switched("prefetch", "off", "4").steps(1, STARVING, int(Flag.SWITCH)).steps(
        120, COMPUTE_BOUND
    )
    run.event(facts.Noted, text=HOSTILE)
    run.event(facts.LossDiverged, step=run.step, loss="NaN", finite_step=run.step - 1)
    experiment = {
        "knob": "prefetch",
        "values": ("off", "4"),
        "began": 200,
        "step": run.step,
        "cause": "failed",
    }
    experiment |= {"answer": "unclear", "rounds": 2, "steps": 40}
    run.event(facts.ExperimentEnded, **experiment, kept="4", reason=HOSTILE)
    run.event(facts.TrainingFailed, step=run.step, error=MARKDOWN + HOSTILE, traceback=HOSTILE)
    run.ended(HOSTILE, HOSTILE).writer.close()
    return open_run(folder, run.clock)
