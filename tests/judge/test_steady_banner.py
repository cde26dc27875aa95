"""The banner of a run that does not change: its text stands, whatever its steps, its epochs and the
programs beside it do from one second to the next."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.screens.canned import Canned, Staged
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.findings.finding import MOMENT, Finding
from tfwatch.judge.view import Follower

EPOCH_STEPS, FRAME_S = 47, 0.25
N_A = math.nan
STAGES: tuple[Staged, ...] = (
    ("shuffle(1500)", "ShuffleDatasetV3", 0.2, 1.0, 900.0, 1500.0),
    ("map(load), batch(32)", "MapAndBatch", 33.0, 1.0, 0.0, N_A),
)


_FIGURE = re.compile(r"\d+([.,: ]\d+)*")


@dataclass(frozen=True)
class Change:
    """A new text of the banner, and its moment."""

    at_s: float
    finding: Finding

    @property
    def text(self) -> str:
        """The texts of the banner without their figures."""
        found = self.finding
        return _FIGURE.sub("#", f"{found.word}\n{found.remark}\n{found.cause}\n{found.advice}")


def most_in_a_minute(times_s: list[float]) -> int:
    """Return the most of these moments within 60 s."""
    return max((sum(0 <= one - first < 60 for one in times_s) for first in times_s), default=0)


def texts_of(seconds: int, beside: Callable[[Canned, float], None]) -> list[Change]:
    """Return each text of the banner of a noisy run that starves for as many seconds, each frame of
    which `beside` may add to."""
    knobs = {"prefetch": "default", "workers": "default", "cache": "off"}
    run = Canned(None, data="tf.data", knobs=knobs)
    run.jitter = 0.3
    run.started()
    reader, follower, texts = run.reader(), Follower(live=True), list[Change]()
    begin_s = run.at_s
    while run.at_s < begin_s + seconds:
        until_s = run.at_s + FRAME_S
        while run.at_s < until_s:
            one_step(run)
        beside(run, run.at_s - begin_s)
        run.doing(Phase.COMPUTE, 0.004).writer.flush()
        change = Change(run.at_s, follower.follow(reader.read(), (), None).finding)
        if not texts or texts[-1].text != change.text:
            texts.append(change)
    return texts


def one_step(run: Canned) -> None:
    """Make a step, which waits longer and shorter by turns of seconds; 0.5 s pass between epochs,
    in frames of their own."""
    level = 1 + 0.4 * math.sin(run.at_s / 3)
    flags = 0
    if run.step % EPOCH_STEPS == 0:
        run.event(facts.EpochEnded, epoch=run.epoch, step=run.step, metrics={"loss": 1.1})
        run.pass_s(0.5).begin_epoch()
        flags = int(Flag.EPOCH_START)
    run.steps(1, (9.0 * level, 12.0 * level, 0.8), flags)


def seconds_of(texts: list[Change]) -> list[float]:
    """Return the moments of the changes after the first verdict."""
    verdicts = [one.at_s for one in texts if one.finding.kind != MOMENT]
    return [one.at_s for one in texts if one.at_s > verdicts[0]]


def test_an_unchanged_run_changes_its_banner_once_a_minute_at_most() -> None:
    def read_stages(run: Canned, at_s: float) -> None:
        if at_s % 20 < 6:  # they are read now and then
            run.staged(*STAGES)
        run.sample()

    changes = seconds_of(texts_of(120, read_stages))

    assert most_in_a_minute(changes) <= 1


def test_a_load_that_comes_and_goes_changes_it_once_a_minute_at_most() -> None:
    def load(run: Canned, at_s: float) -> None:
        is_loaded = at_s % 24 < 12  # from the begin on
        run.staged(*STAGES).sample(cpu_cores=2.0, process_cores=0.6 if is_loaded else 1.9)
        if is_loaded:
            run.event(
                facts.Paused,
                cause="CPU contention",
                took_ms=FRAME_S * 1e3,
                detail="other processes use 1.4 of 2 cores",
            )

    texts = texts_of(120, load)

    assert most_in_a_minute(seconds_of(texts)) <= 1
    assert "OTHER PROGRAMS USE 1.4 OF 2 CORES" in texts[-1].finding.remark
