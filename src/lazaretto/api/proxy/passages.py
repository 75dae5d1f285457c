"""What is to be judged in a request or an answer: each passage with a way to put something else in its place."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lazaretto.api.conversations import Passage
from lazaretto.types import Channel, SourceClass

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """One passage where it stands."""

    passage: Passage | None
    """None: it cannot be judged, and so it is not passed on."""
    put: Callable[[str], None]
    """Puts words in its place."""
    fatal: bool = False
    """Whether a request that holds something harmful here is refused as a whole."""


def setter(holder: Any, key: Any) -> Callable[[str], None]:
    """Puts words at a place of a mapping or list."""

    def put(words: str) -> None:
        holder[key] = words

    return put


def texts(
    holder: Any, key: Any, channel: Channel, source: SourceClass | None, kinds: Mapping[str, str], fatal: bool = False
) -> Iterator[Slot]:
    """The passages of a content that is a string or a list of parts; ``kinds``: type of a part -> key of its text."""
    content = holder.get(key) if isinstance(holder, dict) else holder[key]
    if isinstance(content, str):
        if content.strip():
            yield Slot(Passage(content, channel=channel, source=source), setter(holder, key), fatal)
        return
    if content is None:
        return
    if not isinstance(content, list):
        yield Slot(None, setter(holder, key), fatal)
        return
    for number, part in enumerate(content):
        if isinstance(part, str):
            yield Slot(Passage(part, channel=channel, source=source), setter(content, number), fatal)
            continue
        kind = str(part.get("type")) if isinstance(part, dict) else ""
        if kind in kinds:
            words = part.get(kinds[kind])
            if isinstance(words, str) and words.strip():
                yield Slot(Passage(words, channel=channel, source=source), setter(part, kinds[kind]), fatal)
        else:
            picture = picture_in(part) if isinstance(part, dict) else None
            passage = None if picture is None else Passage(image=picture, channel=Channel.IMAGE, source=source)
            text_kind, text_key = next(iter(kinds.items()), ("text", "text"))
            yield Slot(passage, _as_text(content, number, text_kind, text_key))


def _as_text(content: list[Any], number: int, kind: str, key: str) -> Callable[[str], None]:
    """Puts a part of text in the place of another part."""

    def put(words: str) -> None:
        content[number] = {"type": kind, key: words}

    return put


def picture_in(part: Json) -> bytes | None:
    """The picture of a part, in any of the three forms; None where it lies elsewhere or is something else."""
    source = part.get("source")
    if part.get("type") == "image" and isinstance(source, dict) and source.get("type") == "base64":
        return _decoded(source.get("data"))
    address = part.get("image_url")
    url = address.get("url") if isinstance(address, dict) else address
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        return _decoded(url.partition(",")[2])
    return None


def _decoded(data: Any) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) and data else None
    except (ValueError, binascii.Error):
        return None
