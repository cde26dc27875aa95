"""Notices of a run: decided from its situation, once per cause."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.analysis.situations import RUNNING, judged
from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned
from tfwatch.analysis.findings.banner import banner
from tfwatch.analysis.steps.verdict import Verdict
from tfwatch.analysis.tuning.tuner_text import running_experiment
from tfwatch.core import events as facts
from tfwatch.core.events import LossDiverged, RunEnded
from tfwatch.core.rows import Phase
from tfwatch.live.notices import QUIET_S, Cause, LightFollower, NoticeDecider, Notifier
from tfwatch.terminal.notification import NotifyOptions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

AFTER_S = 30.0
STARVED = replace(RUNNING, judgement=judged(Verdict.HIGHLY))
FED = replace(RUNNING, judgement=judged(Verdict.NOT, wait=0.2))
STALLED = replace(RUNNING, phase=Phase.WAIT, phase_s=31.0)
ENDED = replace(RUNNING, life="ended", ended=RunEnded(10**11, "finished", 411, ""))


def noticed(
    *moments: tuple[float, Any], decider: NoticeDecider | None = None
) -> list[tuple[float, Cause]]:
    """The notices of situations at their times."""
    decider = decider or NoticeDecider(AFTER_S)
    return [
        (at_s, one.cause) for at_s, now in moments for one in decider.take(now, banner(now), at_s)
    ]


def every_s(first_s: int, last_s: int, now: Any) -> Iterable[tuple[float, Any]]:
    return ((float(at_s), now) for at_s in range(first_s, last_s))


def test_starving_is_noticed_once_it_lasts_and_then_no_more() -> None:
    assert noticed(*every_s(0, 500, STARVED)) == [(30.0, Cause.STARVING)]


def test_starving_in_short_stretches_is_not_noticed() -> None:
    moments = [(float(at_s), STARVED if at_s % 20 else FED) for at_s in range(500)]

    assert noticed(*moments) == []


def test_an_end_before_the_first_look_is_noticed_where_the_run_is_known_to_have_run() -> None:
    assert noticed((0.0, ENDED)) == []
    assert noticed((0.0, ENDED), decider=NoticeDecider(AFTER_S, was_running=True)) == [
        (0.0, Cause.END)
    ]


def test_a_cause_that_returns_is_noticed_less_and_less_often() -> None:
    stretches = [
        (float(at_s), STARVED if at_s % 120 < 60 else FED) for at_s in range(0, 4 * 3600, 10)
    ]

    times = [at_s for at_s, _ in noticed(*stretches)]
    gaps = [after - before for before, after in pairwise(times)]

    assert times[0] == AFTER_S
    assert len(times) == 5
    assert all(gap >= QUIET_S * 2**n for n, gap in enumerate(gaps))


def test_settings_that_are_only_tried_are_not_noticed() -> None:
    began = facts.ExperimentBegan(0, "prefetch", ["off", "4"], 1, 100, 0)
    tried = replace(STARVED, experiment=running_experiment([began]))

    assert tried.experiment is not None
    assert noticed(*every_s(0, 100, tried)) == []


def test_a_wait_for_a_batch_is_noticed_with_the_banners_words() -> None:
    decider = NoticeDecider(AFTER_S)
    short = replace(STALLED, phase_s=29.0)

    assert decider.take(short, banner(short), 29.0) == []
    (notice,) = decider.take(STALLED, banner(STALLED), 31.0)
    assert notice.cause is Cause.STALL
    assert notice.sentence.startswith("NO BATCH FOR 31.0 s: ")
    assert decider.take(STALLED, banner(STALLED), 32.0) == []


def test_a_process_that_does_not_respond_is_noticed_as_a_stall() -> None:
    silent = replace(RUNNING, life="not responding", silent_s=30.0)

    assert noticed((0.0, RUNNING), (30.0, silent), (31.0, silent)) == [(30.0, Cause.STALL)]


def test_a_loss_of_nan_is_noticed_with_its_step() -> None:
    diverged = replace(FED, diverged=LossDiverged(0, 151, "NaN", 150))
    decider = NoticeDecider(AFTER_S)

    (notice,) = decider.take(diverged, banner(diverged), 0.0)

    assert (notice.cause, notice.sentence) == (Cause.LOSS, "loss is NaN since step 151")
    assert noticed(*every_s(1, 99, diverged), decider=decider) == []


def test_an_end_is_noticed_where_the_run_was_seen_running() -> None:
    killed = replace(RUNNING, life="killed")

    assert noticed((0.0, ENDED), (1.0, ENDED)) == []
    assert noticed((0.0, RUNNING), (1.0, ENDED), (2.0, ENDED)) == [(1.0, Cause.END)]
    assert noticed((0.0, RUNNING), (1.0, killed)) == [(1.0, Cause.END)]


def test_a_run_without_a_screen_is_judged_as_the_screen_judges_it(tmp_path: Path) -> None:
    run = Canned(tmp_path).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.0)
    reader, light = run.reader(), LightFollower()

    now, finding = light.follow(reader.tail())
    assert now.judgement.verdict is Verdict.HIGHLY
    assert finding.word == "STARVING 41 %"
    run.switched("prefetch", "off", "4").steps(150, COMPUTE_BOUND).doing(
        Phase.COMPUTE, 0.0
    ).writer.flush()
    assert light.follow(reader.tail())[0].judgement.verdict is Verdict.NOT


def shown_by(options: NotifyOptions, run: Canned) -> tuple[Notifier, list[tuple[str, str]]]:
    shown: list[tuple[str, str]] = []
    notifier = Notifier(
        options, lambda sentence, bell: shown.append((sentence, bell)), run.clock, {}
    )
    return notifier, shown


def test_the_notifier_rings_the_bell_with_the_runs_name_and_no_control_characters() -> None:
    run = Canned(None, workload="c\x1b]0;nn").started()
    notifier, shown = shown_by(NotifyOptions(in_terminal=True), run)
    reader = run.reader()
    notifier.follow(reader.tail())
    run.event(facts.LossDiverged, step=9, finite_step=8, loss="NaN").writer.flush()
    notifier.follow(reader.tail())

    assert [bell for _, bell in shown] == ["\a"]
    assert shown[0][0].endswith("loss is NaN since step 9")
    assert shown[0][0].isprintable()


def test_a_notifier_that_is_off_follows_the_run_and_shows_nothing() -> None:
    run = Canned(None).started()
    notifier, shown = shown_by(NotifyOptions(), run)
    reader = run.reader()
    notifier.follow(reader.tail())
    run.event(facts.LossDiverged, step=9, finite_step=8, loss="NaN").writer.flush()
    notifier.follow(reader.tail())
    notifier.toggle()
    notifier.follow(reader.tail())

    assert shown == []
    assert notifier.describe().startswith("notices by the bell: ")
    run.ended().writer.flush()
    notifier.follow(reader.tail())
    assert [sentence.split(":")[1] for sentence, _ in shown] == [" FINISHED"]


def test_a_notifier_that_fails_says_so_and_raises_nothing() -> None:
    run = Canned(None).started()
    notifier, _ = shown_by(NotifyOptions(in_terminal=True), run)

    def fail(_sentence: str, _bell: str) -> None:
        raise OSError("the terminal is gone")

    notifier.show = fail
    reader = run.reader()
    notifier.follow(reader.tail())
    run.ended().writer.flush()
    notifier.follow(reader.tail())

    notifier.toggle()
    notifier.follow(reader.tail())
    assert notifier.take_failures() == ["no more notices: OSError: the terminal is gone"]
    assert not notifier.is_on


def test_an_end_that_the_user_asked_for_is_not_noticed() -> None:
    run = Canned(None).started()
    notifier, shown = shown_by(NotifyOptions(in_terminal=True), run)
    reader = run.reader()
    notifier.follow(reader.tail())
    run.ended("stopped").writer.flush()
    snapshot = reader.tail()
    now, finding = LightFollower().follow(snapshot)
    notifier.look(snapshot, replace(now, stopping_s=1.0), finding)

    assert shown == []
