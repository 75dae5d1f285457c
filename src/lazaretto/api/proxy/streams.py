"""A stream of events, read to its end, and sent on: written again, without comments, ids or other lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lazaretto.api.proxy.dialects import Dialect, sse
from lazaretto.api.proxy.passages import Json
from lazaretto.ingest.strings import (
    BASE64,
    KEY,
    LEFT_OUT,
    WORD,
    Found,
    Path,
    ReadStrings,
    cannot_carry_text,
    joined,
    left_out,
    read_strings,
)

DONE = b"[DONE]"
_AT = ("output_index", "content_index", "summary_index", "item_id", "index")
"""Fields of an event that say which text it goes on with."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event."""

    data: Json
    name: str = ""


def events_of(raw: bytes) -> list[StreamEvent] | None:
    """Every event; None where one of them cannot be read, and so cannot be judged."""
    found = []
    for block in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n"):
        lines = block.split(b"\n")
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        if not data or data == DONE:
            continue
        value = read_object(data)
        if value is None:
            return None
        names = [line[6:].strip().decode("utf-8", "replace") for line in lines if line.startswith(b"event:")]
        name = names[-1] if names and cannot_carry_text(names[-1], WORD) else ""
        found.append(StreamEvent(value, name))
    return found


def written(events: Sequence[StreamEvent], raw: bytes) -> bytes:
    """The events as they are sent on."""
    end = sse(DONE) if DONE in raw[-200:] else b""
    return b"".join(sse(event.data, event.name) for event in events) + end


def read_object(data: bytes) -> Json | None:
    """A JSON object; None for anything else."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class StreamTexts:
    """All texts of a stream."""

    texts: tuple[str, ...]
    """The model's texts, each put together from its pieces."""
    rest: str
    """Every other string."""
    foreign: str
    """The strings of ``rest`` that tools at the endpoint returned."""
    pictures: tuple[bytes, ...]
    unread: bool
    """Whether a part of it cannot be read."""


def texts_of_stream(events: Sequence[StreamEvent], dialect: Dialect, known: frozenset[str]) -> StreamTexts:
    """Everything that a stream says; ``known``: strings of the request, which were judged before."""
    bits: dict[Any, tuple[Path, list[str]]] = {}
    rest: dict[str, Found] = {}
    foreign: dict[str, Found] = {}
    pictures: list[bytes] = []
    unread, table = False, left_out(dialect.name)
    for event in events:
        if dialect.silent(event.data):
            continue
        reading = read_strings(event.data, lambda path, value: _is_whole(path, dialect) and table(path, value))
        pictures += [picture.data for picture in reading.pictures]
        unread |= not reading.whole
        other = foreign if dialect.foreign(event.data) else rest
        for path, bit in {found.path: found for found in reading.texts if _is_bit(found)}.items():
            bits.setdefault(_place(event.data, path), (path, []))[1].append(_at(event.data, bit))
        for found in reading.texts:
            if not _is_bit(found) and not (_is_echo(found) and found.text in known):
                other.setdefault(found.text, found)
    put_together = [
        (path, parts[0] if len(set(parts)) == 1 else "".join(parts), parts) for path, parts in bits.values()
    ]
    whole = [read_strings("".join(parts)) for path, text, parts in put_together if not table(path, text)]
    pictures += [picture.data for reading in whole for picture in reading.pictures]
    unread |= not all(reading.whole for reading in whole)
    texts = tuple(dict.fromkeys(reading.text for reading in whole if reading.text.strip()))
    return StreamTexts(texts, _all(rest, {*texts}), _all(foreign, {*texts}), tuple(pictures), unread)


def _all(found: dict[str, Found], again: set[str]) -> str:
    return joined(tuple(string for text, string in found.items() if text not in again))


def _is_bit(found: Found) -> bool:
    """Whether a string is a piece of a text that comes bit by bit."""
    return "delta" in found.path and not found.is_key


def _is_whole(path: Path, dialect: Dialect) -> bool:
    """Whether a string is whole: neither a piece of a text nor a piece of data."""
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    return "delta" not in path or path[-1] == KEY or LEFT_OUT[dialect.name].get(name) is BASE64


def _is_echo(found: Found) -> bool:
    """Whether a string stands where an endpoint repeats the request's settings."""
    return found.path[0] == "response" and found.path[1:2] != ("output",)


def _at(data: Any, found: Found) -> str:
    """The string as it stands in the event, spaces and all."""
    value = data
    for step in found.path:
        value = value[step]
    return value if isinstance(value, str) else found.text


def _place(event: Json, path: Path) -> tuple[Any, ...]:
    """The text that a bit belongs to: its kind of event, its path, and the indexes it names."""
    return (*_indexed(event, path), *(str(event.get(name)) for name in ("type", *_AT)))


def _indexed(value: Any, path: Path) -> Iterator[Any]:
    """The path with the index that a thing names in place of where it stands in a list."""
    for step in path:
        inner: Any = value[step] if isinstance(value, dict) or isinstance(step, int) else None
        index = inner.get("index") if isinstance(inner, dict) and isinstance(step, int) else None
        yield step if index is None else ("index", str(index))
        value = inner


def strings_of(body: Any) -> frozenset[str]:
    """Every string of a request: an answer that repeats one says nothing new."""
    reading: ReadStrings = read_strings(body)
    return frozenset(found.text for found in reading.texts)
