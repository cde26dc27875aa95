"""The first finding of a live run, with its cause and its remedy, is held while a reader acts on
it."""

from dataclasses import replace

from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.ranking import LeadHolder


def first_kinds(holder: LeadHolder, *frames: tuple[float, str]) -> list[str]:
    """Return the first kinds of frames, each a moment and the kind that is ahead in it."""
    both = {kind: Finding(kind, "", "", share=0.3) for kind in ("input-bound", "callback")}
    ordered = []
    for now_s, ahead in frames:
        losses = tuple(sorted(both.values(), key=lambda one: one.kind != ahead))
        ordered.append(holder.order(losses, 0, now_s)[0].kind)
    return ordered


def test_the_first_finding_of_a_live_run_holds_until_another_is_ahead_for_a_while() -> None:
    frames = [(0.0, "input-bound"), (1.0, "callback"), (2.0, "input-bound"), (3.0, "callback")]
    later = [(22.9, "callback"), (23.0, "callback"), (24.0, "callback")]

    assert first_kinds(LeadHolder(), *frames, *later) == ["input-bound"] * 5 + ["callback"] * 2


def test_a_new_regime_holds_no_finding() -> None:
    holder, one, two = (
        LeadHolder(),
        Finding("a", "", "", share=0.3),
        Finding("b", "", "", share=0.2),
    )

    assert holder.order((one, two), 0, 1.0)[0] is one
    assert holder.order((two, one), 5, 2.0)[0] is two


def test_a_cause_that_is_not_measured_lately_stays_with_the_finding() -> None:
    holder = LeadHolder()
    known = Finding(
        "input-bound", "STARVING 41 %", "waits 9 ms: map is serial", "w", brief="waits 9 ms"
    )
    unread = replace(known, sentence="waits 8 ms", brief="waits 8 ms", advice="cheaper batches")
    holder.order((known,), 0, 0.0)

    for second in range(1, 60):
        (shown,) = holder.order((unread,), 0, float(second))
        assert (shown.sentence, shown.advice) == ("waits 8 ms: map is serial", "w")


def test_a_finding_that_is_missing_for_a_moment_stays_and_for_good_does_not() -> None:
    holder = LeadHolder()
    stalls, other = (Finding(kind, kind, kind) for kind in ("stall", "input-bound"))
    holder.order((stalls,), 0, 0.0)
    kinds = [holder.order((other,), 0, at_s)[0].kind for at_s in (1.0, 2.0, 3.0, 4.0)]

    assert kinds == ["stall", "stall", "stall", "input-bound"]
