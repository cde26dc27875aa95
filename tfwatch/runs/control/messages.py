"""The messages of the control socket: one JSON object a line from a client, and one line back.

{"do": "switch", "knob": "prefetch", "value": "4", "by": "key"}
{"refused": "", "is_stopping": false}
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Annotated, Any, TypeAlias

import msgspec

from tfwatch.core.bounds import Count, Knob, MeanBytes, Seed, one_of
from tfwatch.core.errors import printable
from tfwatch.core.knobs import check_value, epochs_until, option_name
from tfwatch.runs.control.requests import Autopilot, Experiment, Request

#: The largest message, bytes, with its line end.
LONGEST = 4096
#: Characters of a sentence in an answer.
_LONGEST_SENTENCE = 300
#: The most settings of one A/B test.
_MOST_VALUES = 16


class BadMessageError(ValueError):
    """A line is not a message of this protocol; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class AskStatus:
    """Does this run take requests?"""


@dataclass(frozen=True, slots=True)
class AskSwitch:
    """Switch a knob to a value, as text. by: the kind of the user's request."""

    knob: Knob
    value: str
    by: Annotated[str, one_of("key", "command")] = "key"

    def request(self) -> Request:
        """Return the request that it stands for.

        Raises:
            ValueError: the value is not one of this knob.
        """
        return Request(self.knob, check_value(self.knob, self.value), self.by)


@dataclass(frozen=True, slots=True)
class AskExperiment:
    """Start an A/B test; the fields are those of `Experiment`, the values as text."""

    knob: Knob
    values: Annotated[list[str], msgspec.Meta(min_length=2)]
    steps: Count | None = None
    seed: Seed = 0

    def experiment(self) -> Experiment:
        """Return the test that it stands for.

        Raises:
            ValueError: it is not a test that can run live.
        """
        values = tuple(check_value(self.knob, text) for text in self.values[: _MOST_VALUES + 1])
        if len(values) > _MOST_VALUES or len(set(values)) < len(values):
            raise ValueError(f"an A/B test compares 2 to {_MOST_VALUES} different settings")
        if any(epochs_until(self.knob, value) for value in values):
            raise ValueError(
                f"{option_name(self.knob)} takes effect with an epoch: it has no A/B test"
            )
        return Experiment(self.knob, values, self.steps, self.seed)


@dataclass(frozen=True, slots=True)
class AskAutopilot:
    """Start the autopilot; the field is that of `Autopilot`."""

    memory_bytes: MeanBytes | None = None

    def autopilot(self) -> Autopilot:
        """Return the tuner's job."""
        return Autopilot(self.memory_bytes)


@dataclass(frozen=True, slots=True)
class CancelTuner:
    """End the A/B test or the autopilot."""


@dataclass(frozen=True, slots=True)
class AskStop:
    """End the training at the next batch."""


Message: TypeAlias = AskStatus | AskSwitch | AskExperiment | AskAutopilot | CancelTuner | AskStop
_KINDS: dict[str, type[Message]] = {
    "status": AskStatus,
    "switch": AskSwitch,
    "experiment": AskExperiment,
    "autopilot": AskAutopilot,
    "cancel": CancelTuner,
    "stop": AskStop,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a message. refused: the reason why nothing happened; empty where it was accepted."""

    refused: str = ""
    is_stopping: bool = False


def encode_message(message: Message) -> bytes:
    """Return the line of a message."""
    return _line({"do": _NAMES[type(message)], **asdict(message)})


def decode_message(line: bytes) -> Message:
    """Read a message.

    Raises:
        BadMessageError: the line is not one.
    """
    values = _object(line)
    kind = _KINDS.get(name) if isinstance(name := values.pop("do", None), str) else None
    if kind is None:
        raise BadMessageError(f"there is no request {_quoted(name)}")
    message: Message = _read(kind, values)
    return message


def encode_answer(answer: Answer) -> bytes:
    """Return the line of an answer; a long sentence is cut."""
    return _line({"refused": _short(answer.refused), "is_stopping": answer.is_stopping})


def decode_answer(line: bytes) -> Answer:
    """Read an answer.

    Raises:
        BadMessageError: the line is not one.
    """
    answer = _read(Answer, _object(line))
    return Answer(_short(answer.refused), answer.is_stopping)


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadMessageError(f"this is not JSON: {_quoted(error)}") from error
    if not isinstance(values, dict):
        raise BadMessageError("this is not a JSON object")
    return values


def _read(kind: type[Any], values: dict[str, Any]) -> Any:
    declared = {field.name: field.default is MISSING for field in fields(kind)}
    if unknown := values.keys() - declared.keys():
        raise BadMessageError(f"it has no field {_quoted(min(unknown))}")
    if missing := [
        name for name, is_needed in declared.items() if is_needed and name not in values
    ]:
        raise BadMessageError(f"it lacks {', '.join(missing)}")
    try:
        return msgspec.convert(values, kind)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise BadMessageError(_quoted(error)) from error


def _quoted(value: object) -> str:
    return _short(str(value))


def _short(text: str) -> str:
    return printable(text)[:_LONGEST_SENTENCE]
