"""Checks of Python and its packages, made without importing TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.doctor.check import Check, Status
from tfwatch.doctor.packages import AND_CUDA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.doctor.facts import Facts
    from tfwatch.doctor.packages import Problem

#: The range of `requires-python` in pyproject.toml; the second version is excluded.
PYTHONS = ((3, 10), (3, 15))
_ARM_PYTHON = (
    "install an arm64 Python (python.org's, Homebrew's in /opt/homebrew, conda's for osx-arm64) and tfwatch with it; "
    "in Terminal's Get Info turn off Open using Rosetta"
)


def python(facts: Facts) -> Check:
    """Check Python's version and architecture."""
    interpreter = facts.interpreter
    version = ".".join(map(str, interpreter.version))
    found = f"Python {version}, {facts.installed.machine}, {interpreter.bits} bit"
    if interpreter.bits != 64:
        return Check(
            "python", Status.FAIL, f"{found}: TensorFlow needs 64 bit", "install a 64-bit Python"
        )
    if not PYTHONS[0] <= interpreter.version[:2] < PYTHONS[1]:
        found += ": tfwatch knows no TensorFlow wheel for this version"
        return Check("python", Status.FAIL, found, "use Python 3.11 or 3.12")
    if (
        facts.installed.is_apple_silicon
        and interpreter.version[:2] >= (3, 13)
        and not facts.trial.gpus
    ):
        found += ": tensorflow-metal has no wheel for this version, so the GPU is not used"
        return Check("python", Status.WARN, found, "use Python 3.12, which has tensorflow-metal")
    return Check("python", Status.OK, found)


def rosetta(facts: Facts) -> Check:
    """Check that no Intel Python runs on an Apple chip."""
    interpreter = facts.interpreter
    if not facts.is_mac:
        return Check("rosetta", Status.NA, "only on Macs")
    if not facts.is_x86:
        return Check(
            "rosetta", Status.OK, "Python runs natively on the Apple chip, without Rosetta 2"
        )
    if facts.is_rosetta:
        aborts = (
            "" if "import" in facts.trial.results else "TensorFlow aborts where Rosetta lacks AVX, "
        )
        found = f"this is an Intel Python under Rosetta 2 on an Apple chip: {aborts}its newest TensorFlow is 2.16"
        return Check("rosetta", Status.FAIL, f"{found}, and the GPU cannot be used", _ARM_PYTHON)
    if interpreter.is_arm64 is None:
        found = "this is an Intel Python, and the system does not report whether the processor is an Intel one"
        return Check("rosetta", Status.WARN, found, "on an Apple chip: " + _ARM_PYTHON)
    found = "this is an Intel Mac, whose newest TensorFlow is 2.16"
    return Check("rosetta", Status.WARN, found, "train on an Apple chip or on Linux")


def versions(facts: Facts) -> Check:
    """Check the versions of TensorFlow, Keras and tensorflow-metal."""
    problems = [
        problem for problem in facts.installed.find_problems() if not _is_refuted(problem, facts)
    ]
    if problems:
        status = Status.FAIL if any(problem.is_blocking for problem in problems) else Status.WARN
        found = "; ".join(problem.found for problem in problems)
        return Check("versions", status, found, _remedy(facts, problems))
    if len(facts.providers) > 1:
        found = f"several packages install TensorFlow and overwrite each other's files: {', '.join(facts.providers)}"
        return Check(
            "versions",
            Status.WARN,
            found,
            "uninstall all of them, then install the one that you want",
        )
    only = facts.providers[0] if facts.providers else ""
    brought = f" (installed by {only})" if only and not only.startswith("tensorflow ") else ""
    works = ", a pair that works" if "tensorflow-metal" in facts.installed.versions else ""
    return Check("versions", Status.OK, f"{facts.installed.stack}{brought}{works}")


def _is_refuted(problem: Problem, facts: Facts) -> bool:
    """Return True for a plug-in that is said not to load where TensorFlow started, or to be missing beside a GPU."""
    has_started = "import" in facts.trial.results
    return problem.is_metal and bool(facts.trial.gpus or (has_started and problem.is_blocking))


def _remedy(facts: Facts, problems: Sequence[Problem]) -> str:
    """Return each remedy once; an Intel Python on a Mac has a single one."""
    if facts.installed.is_mac_x86:
        return "see rosetta"
    remedies = dict.fromkeys(problem.todo for problem in problems)
    if "tensorflow" not in facts.installed.versions and facts.nvidia.has_card and not facts.is_mac:
        return AND_CUDA
    return "; ".join(remedies)


def keras(facts: Facts) -> Check:
    """Check Keras' backend."""
    if "tensorflow" not in facts.installed.versions:
        return Check("keras", Status.NA, "TensorFlow is not installed")
    if facts.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        found = "TF_USE_LEGACY_KERAS is set: tf.keras is Keras 2, whose steps tfwatch cannot split"
        return Check("keras", Status.WARN, found, "unset TF_USE_LEGACY_KERAS")
    if facts.backend != "tensorflow":
        found = f"Keras' backend is {facts.backend}: your scripts do not train with TensorFlow"
        todo = "export KERAS_BACKEND=tensorflow, or change backend in ~/.keras/keras.json (tfwatch train sets it itself)"
        return Check("keras", Status.WARN, found, todo)
    return Check("keras", Status.OK, "Keras' backend is TensorFlow")
