"""`tfwatch run`: a script runs as Python itself runs it. The scripts here do not import Keras."""

import fcntl
import os
import shlex
import signal
import struct
import subprocess
import sys
import termios
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.pseudo import ROOT, Pseudo
from tests.runs.hanging import hang
from tests.runs.processes import wait_until
from tfwatch import cli
from tfwatch.cli.script import run
from tfwatch.cli.script.request import RunOptions
from tfwatch.runs import library
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Launch

NO_STEP = "tfwatch: no step of this script is recorded in "
#: What Python sets up for a script. `__main__` has these names and those that the script itself
#: defines.
PROBE = """\
import os, sys
print(sys.argv, sys.path, os.getcwd(), sys.stdin.read(), sys.flags, sys.meta_path[-3:])
print(sorted(vars(sys.modules["__main__"])), __name__, __file__, __package__, __cached__, __doc__, __builtins__)
print(type(__loader__), __spec__ and (__spec__.name, __spec__.origin), sys.modules["__main__"].sys is sys)
print(sys.orig_argv[-1], sorted(os.environ), sys.excepthook is sys.__excepthook__, eval("1 if __debug__ else 0"))
print(globals().get("__annotations__"), (lambda x: int).__annotations__)
print([name for name in sys.modules if "keras" in name.split(".")])
"""  # noqa: E501
#: A script that sends its parent a signal and waits for its own, once.
SIGNALS = """\
import os, signal, sys, time
got = []
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(number))
print("ready", flush=True)
while not got:
    time.sleep(0.01)
time.sleep(0.2)  # a second one would come now
print(len(got), signal.Signals(got[0]).name, flush=True)
sys.exit(9)
"""


def command(words: Sequence[str], *flags: str) -> list[str]:
    run = ["-m", "tfwatch", "run", "--headless", "--runs-dir", "runs"]
    return [sys.executable, *flags, *run, *words]


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def execute(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environ(), input="typed", capture_output=True, text=True, timeout=60
    )


def begin(words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Begin a process whose outputs are read line by line."""
    out = err = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environ(), text=True, stdout=out, stderr=err)


def both(
    words: Sequence[str], folder: Path, *flags: str
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """Run a script bare and under tfwatch; return both, the second one without tfwatch's own
    lines."""
    bare = execute([sys.executable, *flags, *words], folder)
    under = execute(command(words, *flags), folder)
    before, own, after = under.stderr.partition(NO_STEP)
    assert own, under.stderr
    assert ("tfwatch.track(batches)" in after) is (under.returncode == 0)
    under.stderr = before
    return bare, under


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a script in each of the forms that Python runs."""
    package = tmp_path / "package"
    package.mkdir()
    for path in (tmp_path / "train.py", package / "__main__.py", package / "part.py"):
        path.write_text(PROBE)
    package.joinpath("__init__.py").touch()
    tmp_path.joinpath("linked.py").symlink_to(package / "part.py")
    with zipfile.ZipFile(tmp_path / "packed.pyz", "w") as archive:
        archive.writestr("__main__.py", PROBE)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["train.py", "--headless", "--", "-m", "x"], []),
        (["./package/../train.py"], ["-O"]),
        (["linked.py", "--runs-dir"], []),
        (["package", "-h"], []),
        (["packed.pyz"], []),
        (["-m", "package", "--epochs", "10"], []),
        (["-m", "package.part"], []),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_script_finds_everything_as_under_python(
    words: list[str], flags: list[str], folder: Path
) -> None:
    bare, under = both(words, folder, *flags)

    assert bare.stdout.count("\n") == 6, bare.stderr
    assert (under.stdout, under.returncode, under.stderr) == (bare.stdout, 0, bare.stderr)


def test_an_isolated_interpreter_runs_an_isolated_script(folder: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tfwatch.cli import main;"
        " sys.exit(main(sys.argv[1:]))"
    )
    bare = execute([sys.executable, "-I", "train.py"], folder)
    under = execute([sys.executable, "-I", "-c", code, *command(["train.py"])[3:]], folder)

    assert (under.stdout, under.returncode) == (bare.stdout, 0)


def test_a_script_keeps_its_own_packages_where_tfwatch_is_installed_apart(tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.joinpath("numpy").mkdir(parents=True)
    apart.joinpath("numpy", "__init__.py").write_text("raise ImportError('of tfwatch, not mine')")
    apart.joinpath("tfwatch").symlink_to(ROOT / "tfwatch")
    tmp_path.joinpath("train.py").write_text(
        "import sys, tfwatch; print(tfwatch.__file__, sys.path)"
    )
    bootstrap = apart / "tfwatch/watch/script/bootstrap.py"
    launch = Launch(str(tmp_path)).to_text()

    ran = execute([sys.executable, str(bootstrap), launch, "", "", "train.py"], tmp_path)

    assert (ran.stderr, ran.returncode) == ("", 0)
    assert ran.stdout.startswith(f"{apart / 'tfwatch' / '__init__.py'} [")
    assert f"'{apart}'" not in ran.stdout


ENDS = {
    "a number": "sys.exit(3)",
    "words": "sys.exit('no data')",
    "an error": "def deep():\n    raise ValueError('no') from KeyError(1)\ndeep()",
    "a group": (
        "raise ExceptionGroup('two', [OSError(1)]) if sys.version_info > (3, 11) else OSError(1)"
    ),
    "a hook of its own": (
        "sys.excepthook = lambda kind, error, trace: print(kind, trace.tb_lineno)\n1 / 0"
    ),
    "bad syntax": "def f(:",
    "ctrl+c": "raise KeyboardInterrupt",
    "a signal": "os.kill(os.getpid(), 9)",
    "an abort": "os.abort()",
    "at once": "os._exit(5)",
    "while it ends": "import atexit; atexit.register(print, 'bye'); print('out', end='')",
}


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_a_script_ends_as_under_python(text: str, tmp_path: Path) -> None:
    tmp_path.joinpath("end.py").write_text(f"import os, sys\n{text}\n")

    bare, under = both(["end.py"], tmp_path)

    assert (under.stdout, under.stderr, under.returncode) == (
        bare.stdout,
        bare.stderr,
        bare.returncode,
    )


#: A script that writes to both outputs by turns, announces a run, and dies of a signal.
MIXED = """\
import os, random, signal, sys
from tfwatch.runs.script_process import announce
from pathlib import Path
for number in range(1000):
    os.write(random.choice((1, 2)), b"%d\\n" % number)
os.write(2, b"\\x00\\xff no text\\r\\n")
folder = Path("run"); folder.mkdir(); announce(folder)
os.write(2, b"in the run\\n")
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_both_outputs_in_one_file_keep_their_order_and_are_in_the_log(tmp_path: Path) -> None:
    tmp_path.joinpath("mixed.py").write_text(MIXED)

    words, both_in_one = command(["mixed.py"]), subprocess.STDOUT
    done = subprocess.run(
        words, cwd=tmp_path, env=environ(), stdout=subprocess.PIPE, stderr=both_in_one
    )

    written = b"".join(b"%d\n" % number for number in range(1000)) + b"\x00\xff no text\r\n"
    assert done.returncode == -signal.SIGTERM
    assert done.stdout.startswith(written + b"in the run\n" + NO_STEP.encode())
    log = (tmp_path / "run" / "log.txt").read_bytes()
    assert log.startswith(b"0\n1\n2\n")
    assert log.endswith(b"in the run\n")


def test_messages_alone_are_copied_where_the_outputs_differ(tmp_path: Path) -> None:
    tmp_path.joinpath("mixed.py").write_text(MIXED)

    words = command(["mixed.py"])
    done = subprocess.run(words, cwd=tmp_path, env=environ(), capture_output=True)

    lines = sorted(done.stdout.split() + done.stderr.split(b"\x00")[0].split(), key=int)
    assert lines == [b"%d" % number for number in range(1000)]
    assert (tmp_path / "run" / "log.txt").read_bytes().endswith(b"no text\r\nin the run\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_changes_no_exit_code(closed: str, tmp_path: Path) -> None:
    tmp_path.joinpath("end.py").write_text("import sys; sys.exit(3)")

    line = f"{shlex.join(command(['end.py']))} {closed}"
    assert execute(["sh", "-c", line], tmp_path).returncode == 3


def test_what_main_defines_is_pickled_and_spawned_and_forked(tmp_path: Path) -> None:
    tmp_path.joinpath("spawns.py").write_text(
        "import multiprocessing, pickle, sys\nclass Thing: pass\ndef work(thing): return"
        " type(thing).__module__, 'tfwatch' in sys.modules\nif __name__ == '__main__':\n    assert"
        " type(pickle.loads(pickle.dumps(Thing()))) is Thing\n    for way in ('spawn', 'fork'):\n  "
        "      with multiprocessing.get_context(way).Pool(1) as pool:\n           "
        " print(pool.map(work, [Thing()])[0][0], way == 'spawn' and pool.map(work,"
        " [Thing()])[0][1])\n"
    )

    bare, under = both(["spawns.py"], tmp_path)

    assert bare.stdout == "__mp_main__ False\n__main__ False\n", bare.stderr
    assert (under.stdout, under.returncode, under.stderr) == (bare.stdout, 0, bare.stderr)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_signal_to_tfwatch_reaches_the_script_once(name: str, tmp_path: Path) -> None:
    tmp_path.joinpath("waits.py").write_text(SIGNALS)
    with begin(command(["waits.py"]), tmp_path) as ran:
        assert ran.stdout
        assert ran.stdout.readline() == "ready\n"
        ran.send_signal(getattr(signal, name))
        assert ran.stdout.readline() == f"1 {name}\n"
    assert ran.returncode == 9


def test_a_script_that_does_not_end_after_ctrl_c_is_reported(tmp_path: Path) -> None:
    tmp_path.joinpath("hangs.py").write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\n"
        "signal.pause()\n"
    )
    program = (
        "import sys\nfrom tfwatch.cli.script import hosts\nhosts._LATE_S = 0.01\n"
        "hosts.run_child([sys.executable, 'hangs.py'], lambda _: None)"
    )
    with begin([sys.executable, "-c", program], tmp_path) as ran:
        assert ran.stdout
        assert ran.stderr
        assert ran.stdout.readline() == "ready\n"
        ran.send_signal(signal.SIGINT)
        late = "tfwatch: the script has not ended since ctrl+c: ctrl+\\ ends it\n"
        assert ran.stderr.readline() == late
        ran.send_signal(signal.SIGTERM)


#: Two fits; SIGTERM ends the second one, once steps of it are written.
FITS = """\
import os, pathlib, signal
from tests.cli.fake_fits import fit
def end():
    if sum(steps.stat().st_size > 0 for steps in pathlib.Path("runs").glob("*/steps.bin")) == 2:
        os.kill(os.getpid(), signal.SIGTERM)
fit(30, loss=0.25)
fit(until=end)
"""


def test_the_summary_counts_the_runs_and_has_the_signal_that_ended_the_last(
    tmp_path: Path,
) -> None:
    tmp_path.joinpath("train.py").write_text(FITS)

    ran = execute(command(["train.py", "runs"]), tmp_path)

    assert ran.returncode == -signal.SIGTERM
    first, last, reason, *_ = ran.stderr.splitlines()
    assert first == "1 earlier run of this script: tfwatch runs"
    assert last.startswith("train on CPU stopped: ")
    assert reason == "the process was ended by SIGTERM"


@pytest.mark.parametrize(
    ("name", "code", "cause"),
    [("SIGINT", 130, "stopped"), ("SIGTERM", 143, "stopped"), ("SIGHUP", 0, "finished")],
)
def test_a_workload_is_stopped_by_a_signal_and_not_by_a_hangup(
    name: str, code: int, cause: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nfrom tests.cli.fake_fits import fit\nfit(150)\n")
    program = (
        "import sys\nfrom pathlib import Path\nfrom tfwatch.cli.script import request, run\n"
        "options = request.RunOptions(sys.argv[1:], Path('runs'), True, is_workload=True)\n"
        "sys.exit(run.run(options))"
    )
    words = [sys.executable, "-c", program, str(script), str(tmp_path / "runs")]
    with begin(words, tmp_path) as ran:
        wait_until(
            lambda: any(len(open_run(one).steps) > 3 for one in list_runs(tmp_path / "runs"))
        )
        ran.send_signal(getattr(signal, name))
        _, reported = ran.communicate(timeout=30)
    (folder,) = list_runs(tmp_path / "runs")
    ended = open_run(folder).ended
    assert ended
    assert (ran.returncode, ended.cause) == (code, cause)
    assert "Traceback" not in reported


def test_the_summary_is_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.openpty()
    fcntl.ioctl(
        writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0)
    )  # termios.tcsetwinsize: Python 3.11
    with open(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        run.say("mean steady step: 0.7 of 10.3 ms")
        assert os.read(reader, 100) == b"mean steady step:\r\n  0.7 of 10.3 ms\r\n"
    os.close(reader)


@pytest.mark.terminal
def test_ctrl_c_reaches_the_script_once(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(SIGNALS)
    with Pseudo(
        "-m", "tfwatch", "run", "--headless", "--runs-dir", str(tmp_path), str(script)
    ) as terminal:
        terminal.wait_for("ready")
        terminal.press("\x03")
        assert "1 SIGINT" in terminal.wait_for("1 SIGINT")
        assert terminal.wait() == 9


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["a.py", "--headless", "--runs-dir", "x"], ["a.py", "--headless", "--runs-dir", "x"]),
        (["--runs-dir", "r", "a.py", "--", "-h"], ["a.py", "--", "-h"]),
        (["--runs-dir=r", "--", "-m", "x"], ["-m", "x"]),
        (["-mpackage", "-m"], ["-m", "package", "-m"]),
        (["-m", "package", "--", "x"], ["-m", "package", "--", "x"]),
    ],
    ids=lambda words: " ".join(words),
)
def test_what_follows_the_script_is_the_scripts(
    words: list[str], script: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Sequence[str]] = []
    monkeypatch.setattr("tfwatch.cli.script.run.run", lambda options: seen.append(options.script))

    cli.main(["run", *words])

    assert seen == [script]


@pytest.mark.skipif(sys.platform != "linux", reason="every signal of macOS has a name")
def test_a_signal_without_a_name_ends_tfwatch_as_it_ended_the_script(tmp_path: Path) -> None:
    tmp_path.joinpath("ends.py").write_text("import os; os.kill(os.getpid(), 35)")

    under = execute(command(["--notify", "ends.py"]), tmp_path)

    assert under.returncode == -35
    assert under.stderr.startswith("tfwatch: script ended by signal 35\n")


def test_without_a_temporary_folder_the_script_runs_without_log_and_notices(tmp_path: Path) -> None:
    tmp_path.joinpath("ends.py").write_text("import sys; sys.exit(7)")
    full = (
        "import errno, tempfile\ndef mkdtemp(**_): raise OSError(errno.ENOSPC, 'No space left on"
        " device')\n"
    )
    program = (
        f"{full}tempfile.mkdtemp = mkdtemp\nimport sys\nfrom tfwatch.cli import"
        " main\nsys.exit(main(sys.argv[1:]))"
    )
    words = command(["--notify", "ends.py"])

    under = execute([sys.executable, "-c", program, *words[3:]], tmp_path)

    assert under.returncode == 7
    why = "[Errno 28] No space left on device"
    assert under.stderr.startswith(f"tfwatch: messages of this script are not read: {why}\n")


def test_a_disk_that_hangs_costs_the_summary_and_not_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; sys.exit(3)")
    monkeypatch.setattr(run, "_PATIENCE_S", 0.05)
    monkeypatch.setattr("tfwatch.runs.folder.SLOW_S", 0.01)
    with hang(monkeypatch, library, "runs_since"):
        code = run.run(RunOptions([str(script)], tmp_path / "runs", headless=True))

    assert code == 3
    assert capsys.readouterr().err.endswith(
        f"tfwatch: no summary: the disk of {tmp_path}/runs has not responded for 0.05 s\n"
    )
