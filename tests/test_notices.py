"""Notices: an end, a failure and a stall, each once; passed on by the terminal and by the user's
own command."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.judge.situations import RUNNING, banner, changed
from tests.screens.canned import Canned
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import Phase
from tfwatch.notices import Notifier, NotifyOptions, notification

STALLED = changed(RUNNING, phase=Phase.WAIT, phase_s=31.0)
ENDED = changed(RUNNING, life="ended", ended=RunEnded(10**11, "finished", 411, ""))
KILLED = changed(RUNNING, life="killed")
SILENT = changed(RUNNING, life="not responding", silent_s=30.0)


def noticed(*situations: Any, ends: bool = True, **options: Any) -> list[str]:
    """Return the notices of these situations, one after another."""
    shown: list[str] = []
    asked = NotifyOptions(**{"in_terminal": True, **options})
    notifier = Notifier(asked, lambda sentence, _: shown.append(sentence), {})
    snapshot = Canned(None).started().reader().read()
    for now in situations:
        notifier.look(snapshot, now, banner(now), ends=ends)
    assert notifier.take_failures() == []
    return shown


@pytest.mark.parametrize(
    ("situations", "words"),
    [
        pytest.param((RUNNING, ENDED, ENDED), ["FINISHED"], id="an end, once"),
        pytest.param((RUNNING, KILLED), ["KILLED"], id="killed"),
        pytest.param((ENDED, ENDED), [], id="over before the first look"),
        pytest.param((RUNNING, changed(ENDED, stopping_s=1.0)), [], id="the user stopped it"),
        pytest.param((RUNNING, STALLED, STALLED), ["NO BATCH FOR 31.0 s"], id="a stall, once"),
        pytest.param((changed(STALLED, phase_s=29.0),), [], id="not yet a stall"),
        pytest.param((STALLED, RUNNING, STALLED), ["NO BATCH", "NO BATCH"], id="two stalls"),
        pytest.param((RUNNING, SILENT, SILENT), ["NOT RESPONDING"], id="a process that hangs"),
    ],
)
def test_an_end_and_a_stall_are_noticed_once(situations: Any, words: list[str]) -> None:
    shown = noticed(*situations)

    assert len(shown) == len(words)
    assert all(f"cnn: {word}" in one for word, one in zip(words, shown, strict=True))


def test_the_end_of_one_fit_is_not_that_of_its_script() -> None:
    assert noticed(RUNNING, ENDED, ends=False) == []


def test_nothing_is_noticed_where_nobody_asks() -> None:
    assert noticed(RUNNING, ENDED, in_terminal=False) == []


def followed(run: Canned, notifier: Notifier) -> None:
    """Follow a run that ends, as where no screen shows it."""
    reader = run.reader()
    notifier.follow(reader.read())
    run.ended().writer.flush()
    notifier.follow(reader.read())
    notifier.follow(reader.read())


def test_the_bell_rings_with_the_runs_name_and_no_control_characters() -> None:
    shown: list[tuple[str, str]] = []
    options = NotifyOptions(in_terminal=True)
    notifier = Notifier(options, lambda sentence, bell: shown.append((sentence, bell)), {})
    followed(Canned(None, workload="c\x1b]0;nn").started(), notifier)

    ((sentence, bell),) = shown
    assert bell == "\a"
    assert "FINISHED" in sentence
    assert sentence.isprintable()


def test_a_notifier_that_fails_says_so_once_and_raises_nothing() -> None:
    def fail(_sentence: str, _bell: str) -> None:
        raise OSError("the terminal is gone")

    notifier = Notifier(NotifyOptions(in_terminal=True), fail)
    followed(Canned(None).started(), notifier)

    assert notifier.take_failures() == ["no more notices: OSError: the terminal is gone"]
    assert not notifier.is_on


@pytest.mark.parametrize(
    ("environ", "has_desktop"),
    [
        pytest.param({"TERM": "xterm", "TERM_PROGRAM": "iTerm.app"}, True, id="iTerm2"),
        pytest.param({"TERM": "xterm-kitty"}, True, id="kitty"),
        pytest.param({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, False, id="tmux"),
        pytest.param({"TERM": "linux", "TERM_PROGRAM": "WezTerm"}, False, id="a console"),
        pytest.param({"TERM": "xterm-256color"}, False, id="xterm"),
        pytest.param({}, False, id="nothing known"),
    ],
)
def test_the_desktop_is_notified_where_the_terminal_can(
    environ: dict[str, str], has_desktop: bool
) -> None:
    sequence = "\x1b]9;tfwatch: it ended\x1b\\" if has_desktop else ""
    assert notification("it ended", environ) == "\a" + sequence


def test_a_name_cannot_end_the_sequence_or_begin_another() -> None:
    sequence = notification("a\x1b\\\x07\x9cb" + "c" * 1000, {"TERM": "foot"})

    body = sequence.removeprefix("\a\x1b]9;tfwatch: ").removesuffix("\x1b\\")
    assert body.isprintable()
    assert len(body) == 300


def ended(*command: str, folder: Path | None = None) -> Notifier:
    """Return the notifier of a run that ended, after its command."""
    notifier = Notifier(NotifyOptions(command=command), environ={})
    followed(Canned(folder, workload="$(touch x); `id`").started(), notifier)
    notifier.close()
    return notifier


def test_the_users_command_gets_the_sentence_the_cause_and_the_run(tmp_path: Path) -> None:
    write = "import os, sys; open(sys.argv[1], 'w').write('|'.join([*sys.argv[2:],"
    write += " os.environ['TFWATCH_CAUSE'], os.environ['TFWATCH_RUN']]))"
    out, run = tmp_path / "out", tmp_path / "run"
    notifier = ended(sys.executable, "-c", write, str(out), "a b", folder=run)

    words, sentence, cause, folder = out.read_text().split("|")
    assert (words, cause, folder) == ("a b", "end", str(run))
    assert sentence.startswith("$(touch x); `id`: FINISHED"), "one argument, whatever it contains"
    assert notifier.take_failures() == []


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        pytest.param(["/nonexistent/program"], "cannot start: No such file", id="missing"),
        pytest.param(["/bin/sh", "-c", "exit 3"], "failed: exit code 3", id="fails"),
    ],
)
def test_a_failure_of_the_command_is_a_sentence(words: list[str], failure: str) -> None:
    (sentence,) = ended(*words).take_failures()
    assert failure in sentence


def test_nobody_waits_for_a_command_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.notices.END_S", 0.01)
    until = f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done"
    notifier = ended("/bin/sh", "-c", until)

    assert notifier.take_failures() == []
    assert notifier._process
    assert notifier._process.poll() is None
    (tmp_path / "end").touch()
    assert notifier._process.wait(60) == 0
