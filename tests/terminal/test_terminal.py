"""tfwatch owns the terminal while it runs, and restores it afterwards."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from tests.pseudo import Pseudo
from tfwatch.report.text import wrapped
from tfwatch.terminal.capture import Capture, held_signals, passed_signals
from tfwatch.terminal.output import has_colour, has_unicode, why_no_screen, write


def test_output_goes_to_the_log_and_tfwatchs_own_to_the_user(
    capfd: pytest.CaptureFixture[str],
) -> None:
    libc = ctypes.CDLL(None)
    with Capture() as terminal:
        libc.write(1, b"to one\n", 7)
        libc.write(2, b"to two\n", 7)
        sys.stdout.write("a print\n")
        sys.stderr.write("a warning\n")
        terminal.out.write("the summary\n")
        terminal.err.write("progress\n")
        assert terminal.end_of_log() == "  to one\n  to two\n  a print\n  a warning\n"
    assert capfd.readouterr() == ("the summary\n", "progress\n")


def test_descriptors_and_streams_are_restored(capfd: pytest.CaptureFixture[str]) -> None:
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    numbers = len(os.listdir("/dev/fd"))
    with Capture():
        pass
    os.write(1, b"to one\n")
    os.write(2, b"to two\n")
    assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == streams
    assert capfd.readouterr() == ("to one\n", "to two\n")
    assert len(os.listdir("/dev/fd")) == numbers


def test_without_a_temporary_folder_the_log_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with Capture() as terminal:
        os.write(2, b"lost\n")
        assert terminal.end_of_log() == ""


def test_a_closed_pipe_raises_nothing() -> None:
    script = """
import sys
from tfwatch.terminal.capture import Capture
with Capture() as terminal:
    for n in range(100_000):
        terminal.out.write(f"{n}\\n")
    terminal.err.write(f"still here\\n")
"""
    head = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    result = subprocess.run(
        [sys.executable, "-c", script], stdout=head.stdin, stderr=subprocess.PIPE, check=False
    )
    head.communicate()
    assert (result.returncode, result.stderr) == (0, b"still here\n")


def test_closed_standard_descriptors_are_replaced(tmp_path: Path) -> None:
    note = tmp_path / "note"
    script = f"""
import os, pathlib
from tfwatch.terminal.capture import Capture
with Capture() as terminal:
    terminal.out.write("nowhere")
    os.write(2, b"native")
    pathlib.Path({str(note)!r}).write_text(terminal.end_of_log())
"""
    result = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, script], check=False
    )
    assert result.returncode == 0
    assert note.read_text() == "  native\n"


def test_a_summary_wraps_between_words_but_its_code_does_not() -> None:
    text = "one two three four\nshort\n    dataset.map(read, num_parallel_calls=2)\n"
    assert wrapped(text, 12) == (
        "one two\n  three four\nshort\n    dataset.map(read, num_parallel_calls=2)\n"
    )
    assert wrapped(text, None) == text


def test_a_held_signal_is_delivered_once_a_handler_is_set() -> None:
    received: list[object] = []
    with held_signals():
        signal.raise_signal(signal.SIGINT)
        assert received == []
        with passed_signals(received.append, lambda: None):
            assert received == [signal.SIGINT]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_signals_call_the_functions_and_the_old_handlers_are_restored() -> None:
    received: list[object] = []
    before = [
        signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU)
    ]
    with passed_signals(received.append, lambda: received.append("hangup")):
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.raise_signal(signum)
    assert received == [signal.SIGTERM, signal.SIGINT, "hangup"]
    assert [
        signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU)
    ] == before


_HANGUP = """
import signal, sys, time
from pathlib import Path
from tfwatch.terminal.capture import Capture, passed_signals
notes = open(sys.argv[1], "w", buffering=1)
gone = []
with Capture() as terminal:
    terminal.on_hangup = lambda: gone.append(True)
    {signals}
    terminal.out.write("up\\n")
    while not gone:
        time.sleep(0.05)
        {probe}
    for _ in range(100):
        terminal.out.write("to a dead terminal\\n")
        terminal.err.write("to a dead terminal\\n")
notes.write("went on")
"""


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("signals", "probe"),
    [
        pytest.param(
            "signal.signal(signal.SIGHUP, lambda *_: terminal.hang_up())", "pass", id="by SIGHUP"
        ),
        pytest.param(
            "signal.signal(signal.SIGHUP, signal.SIG_IGN)",
            "terminal.err.write('x\\n')",
            id="by a write",
        ),
    ],
)
def test_a_hangup_is_reported_and_the_program_continues(
    tmp_path: Path, signals: str, probe: str
) -> None:
    notes = tmp_path / "notes"
    with Pseudo("-c", _HANGUP.format(signals=signals, probe=probe), str(notes)) as terminal:
        terminal.wait_for("up")
        terminal.hang_up()
        assert terminal.process.wait(timeout=20) == 0
    assert notes.read_text() == "went on"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"TERM": "xterm-256color"}, True, id="plain"),
        pytest.param({"TERM": "xterm-256color", "NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param({"TERM": "xterm-256color", "NO_COLOR": ""}, True, id="NO_COLOR empty"),
        pytest.param({"TERM": "vt100"}, False, id="vt100"),
    ],
)
def test_colour(environ: dict[str, str], expected: bool) -> None:
    assert has_colour(environ) is expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, True, id="nothing set"),
        pytest.param({"LANG": "de_DE.UTF-8"}, True, id="utf-8"),
        pytest.param({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, False, id="LC_ALL wins"),
        pytest.param(
            {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False, id="LC_CTYPE set by Python itself"
        ),
        pytest.param({"LANG": "en_US.ISO-8859-1"}, False, id="latin 1"),
        pytest.param({"LANG": "en_US.UTF-8", "TERM": "linux"}, False, id="console"),
        pytest.param(
            {"LANG": "en_US.UTF-8", "PYTHONIOENCODING": "ascii:replace"},
            False,
            id="Python writes ASCII",
        ),
        pytest.param({"PYTHONIOENCODING": ":replace"}, True, id="Python's errors only"),
    ],
)
def test_unicode(environ: dict[str, str], expected: bool) -> None:
    assert has_unicode(environ) is expected


def test_an_encoding_without_unicode_shows_arrows_as_ascii() -> None:
    raw = BytesIO()
    stream = TextIOWrapper(raw, encoding="latin-1")

    assert write(stream, "prefetch off → 4, 61 °C, ≤ 2 €\n") == 0

    assert raw.getvalue().decode("latin-1") == "prefetch off > 4, 61 °C, \\u2264 2 \\u20ac\n"


def test_no_screen_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda fd: fd == 0)
    assert why_no_screen({"TERM": "xterm"}) == "stdout is not a terminal: use --headless"
    monkeypatch.setattr(os, "isatty", lambda fd: fd == 1)
    assert why_no_screen({"TERM": "xterm"}).startswith("stdin is not a terminal")
    monkeypatch.setattr(os, "isatty", lambda _fd: True)
    assert "TERM" in why_no_screen({"TERM": "dumb"})
    assert why_no_screen({"TERM": "xterm"}) == ""


#: An app that acts shortly after its first paint.
_SHOWN = """
import gc
from textual.app import App
from tfwatch.cli.screen_host import show_app

class Shown(App):
    def __init__(self, painted, **options):
        super().__init__()
        self._painted = painted
    def on_mount(self):
        self.call_after_refresh(self._painted)
        self.set_timer(0.1, self.act)
"""
_FROZEN = """
    def act(self):
        self.exit(gc.get_freeze_count())
    def run(self):
        global frozen
        frozen = super().run()
        return frozen

raise SystemExit(show_app(Shown) or int(frozen > 10_000) + 40)
"""
_DIES = """
    def act(self):
        1 / 0

raise SystemExit(show_app(Shown))
"""


@pytest.mark.terminal
def test_a_screen_without_a_training_freezes_its_objects_for_the_collector() -> None:
    with Pseudo("-c", _SHOWN + _FROZEN) as terminal:
        assert terminal.wait() == 41


@pytest.mark.terminal
def test_a_failed_screen_prints_its_error() -> None:
    with Pseudo("-c", _SHOWN + _DIES) as terminal:
        assert terminal.wait() == 1
        printed = terminal.words
    assert "tfwatch: the screen failed" in printed
    assert "ZeroDivisionError: division by zero" in printed
