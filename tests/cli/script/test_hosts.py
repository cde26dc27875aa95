"""A script in a thread: its exit code, its stops, and what it prints. Its fits write runs without
TensorFlow."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.processes import wait_until
from tfwatch.cli.script.hosts import ScriptThread
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Launch, announce_in
from tfwatch.terminal.pseudo_terminal import OutputRelay


@contextlib.contextmanager
def started(folder: Path, text: str) -> Iterator[ScriptThread]:
    path = folder / "train.py"
    path.write_text(text)
    launch = Launch(str(folder / "runs"))
    with contextlib.closing(OutputRelay()) as relay:
        script = ScriptThread([str(path), str(folder / "runs")], launch, relay, outputs=())
        with script:
            script.start()
            yield script
    announce_in("")


@pytest.mark.parametrize(
    ("text", "code", "printed"),
    [
        ("", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no data')", 1, "no data\n"),
        ("raise ValueError('no')", 1, "ValueError: no\n"),
        ("import argparse; argparse.ArgumentParser().parse_args()", 2, "unrecognized arguments: "),
    ],
)
def test_its_exit_code_is_that_of_a_process(
    text: str, code: int, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, text) as script:
        assert script.wait(90)
    assert (script.code, script.is_hung) == (code, False)
    assert printed in capsys.readouterr().err


@pytest.mark.parametrize(
    ("signum", "code"), [(None, 130), (signal.SIGTERM, 143)], ids=["from the screen", "signal"]
)
def test_a_stop_ends_its_training_and_its_run(
    signum: int | None, code: int, tmp_path: Path
) -> None:
    with started(tmp_path, "from tests.cli.fake_fits import fit\nfit()\n") as script:
        wait_until(lambda: any(len(open_run(one).steps) for one in list_runs(tmp_path / "runs")))
        script.send(signum) if signum else script.interrupt()
        assert script.wait(20)
    assert script.code == code
    (folder,) = script.folders
    run = open_run(folder)
    assert run.ended
    assert run.ended.cause == "stopped"
