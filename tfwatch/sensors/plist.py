"""Property lists as macOS' tools print them, whole, or cut off and damaged."""

from __future__ import annotations

import plistlib
import re
from typing import Any
from xml.parsers.expat import ExpatError

_BEGIN = re.compile(rb"<\?xml|<plist")
#: plistlib's parser looks at an unfinished token anew every 2 KB: 4 MiB of one take it 7 s.
_LONGEST_TOKEN = 2**16
_TOKEN = re.compile(
    rb"<(?:key>([^<]{0,200})</key>"
    rb"|(integer|real|string)>([^<]{0,400})</(?:integer|real|string)>"
    rb"|(/?)(dict|array)>"
    rb"|(?:dict|array|true|false|string)\s?/>)"
)


def read(document: bytes) -> dict[str, Any]:
    """A document's outermost dict: as the standard library reads it, else what can be made out of a damaged one.

    Empty where there is none. Never raises.
    """
    document = document.strip(b"\0 \t\r\n")
    is_sound = _BEGIN.match(document) and max(map(len, document.split(b"<"))) <= _LONGEST_TOKEN
    try:
        root = plistlib.loads(document, fmt=plistlib.FMT_XML) if is_sound else _pieces(document)
    except (ExpatError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        root = _pieces(document)
    return root if isinstance(root, dict) else {}


def _pieces(document: bytes) -> dict[str, Any]:
    """The keys of a property list that is cut off, or damaged in places; a value that cannot be read is left out."""
    root: dict[str, Any] | None = None
    open_: list[dict[str, Any] | list[Any]] = []
    keys: list[str | None] = []
    for token in _TOKEN.finditer(document):
        key, kind, text, closes, container = token.groups()
        if key is not None and keys:
            keys[-1] = key.decode("utf-8", "replace")
        elif container is not None and closes:
            if open_:
                open_.pop()
                keys.pop()
        elif container is not None:
            new: dict[str, Any] | list[Any] = {} if container == b"dict" else []
            _put(open_, keys, new)
            root = new if root is None and isinstance(new, dict) else root
            open_.append(new)
            keys.append(None)
        else:
            _put(open_, keys, _value(kind, text))
    return root or {}


def _put(open_: list[dict[str, Any] | list[Any]], keys: list[str | None], value: Any) -> None:
    """Into the innermost container, under the key that was read last."""
    if not open_:
        return
    into, key = open_[-1], keys[-1]
    if isinstance(into, list):
        into.append(value)
    elif key is not None:
        keys[-1] = None
        if value is not None:
            into[key] = value


def _value(kind: bytes | None, text: bytes | None) -> Any:
    if kind is None or text is None:
        return None
    try:
        return text.decode("utf-8", "replace") if kind == b"string" else float(text)
    except ValueError:
        return None
