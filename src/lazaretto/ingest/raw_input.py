"""Raw input becomes an ``Observation``: decoded, inside the limits, with every field checked before anything else runs.

Limits are tested before anything is copied, so a text of 100 MB costs nothing but the refusal.
"""

from __future__ import annotations

import hashlib
import math
import re
import string
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from lazaretto.errors import InputError, TooLarge
from lazaretto.external_stores.records import check_value, text_of
from lazaretto.ingest.strings import FEWEST_WORDS, read_strings
from lazaretto.ledger.refs import check_ref
from lazaretto.names import check_ids, check_name, check_principal
from lazaretto.policy import Limits
from lazaretto.types import PROCESS, REBUILT, Channel, MemoryFields, Observation, Ref, SourceClass, new_id, plain

Word = TypeVar("Word", Channel, SourceClass)

USUAL_SOURCE = {
    Channel.MESSAGE: SourceClass.AGENT_MESSAGE,
    Channel.MEMORY: SourceClass.MODEL_INFERENCE,
    Channel.IMAGE: SourceClass.AGENT_MESSAGE,
    Channel.TOOL: SourceClass.TOOL_OUTPUT_EXTERNAL,
    Channel.DOCUMENT: SourceClass.UNTRUSTED_DOCUMENT,
}
"""The source class of an item when the caller gives none."""

_EARLIEST, _LATEST = -62_135_596_800, 253_402_214_400
"""The moments that calendars know, less a day at the end for time zones."""


@dataclass(frozen=True, slots=True)
class RawInput:
    """Input of a caller, before anything was checked."""

    agent: str
    channel: Channel | str
    text: str | bytes = ""
    image: bytes | None = None
    fields: MemoryFields | Mapping[str, Any] | None = None
    parents: Sequence[str] = ()
    source: SourceClass | str | None = None
    """None: the channel's usual source, the less trusted kind in doubt."""
    time: float | None = None
    key: str | None = None
    """The name under which the caller's own store keeps a memory."""
    once: str | None = None
    """The caller's own name for this write: the same name is the same item, however often it is sent."""
    ref: Ref | Sequence[str] | None = None
    """The memory's place in that store: system, namespace and key."""
    value: Any = None
    """The value that the store keeps; the text is then read out of it."""
    asked: Mapping[str, str | None] | None = None
    """The call and its arguments beside the item, such as the receiver; compared where ``once`` comes again."""
    principal: str | None = None
    """The proved principal behind the write; None: the operator's own process, which vouches for the agent's name."""
    tool: str | None = None
    """The tool that answered with it."""


def read_observation(raw: RawInput, namespace: str, limits: Limits) -> Observation:
    """The observation for some raw input. A picture is checked here; its digest is known once the ledger has it."""
    if raw.image is not None:
        check_image(raw.image, limits.max_image_bytes)
    value = None if raw.value is None else check_value(raw.value, limits.max_fields_bytes)
    if value is not None and raw.text:
        raise InputError("value", "is given beside a text", "Give one: texts in a value are judged")
    text = read_text(raw.text if value is None else text_of(value), limits.max_text_bytes)
    fields = read_fields(raw.fields, limits.max_fields_bytes)
    if not text.strip() and raw.image is None and fields is None:
        raise InputError("text", "is empty, and there is neither a picture nor a record", "Give one of them")
    channel = read_word(Channel, raw.channel, "channel")
    ref = None if raw.ref is None else check_ref(raw.ref)
    agent = check_name(raw.agent, "agent", printable=True)
    return Observation(
        agent=agent,
        channel=channel,
        text=text,
        fields=fields,
        parents=check_ids(raw.parents, "parents", limits.max_parents, "limits.max_parents"),
        source=USUAL_SOURCE[channel] if raw.source is None else read_word(SourceClass, raw.source, "source"),
        namespace=namespace,
        time=clock.time() if raw.time is None else _read_time(raw.time),
        key=(ref.key if ref else "") if raw.key is None else check_name(raw.key, "key", printable=True),
        id=new_id() if raw.once is None else id_once(namespace, check_name(raw.once, "once", printable=True)),
        ref=ref,
        value=None if isinstance(value, str) else value,
        principal=f"{PROCESS}{agent}" if raw.principal is None else check_principal(raw.principal),
        tool="" if raw.tool is None else check_name(raw.tool, "tool", printable=True),
    )


def _read_time(moment: object) -> float:
    """A moment that has a date; nothing was written in the future."""
    if isinstance(moment, bool) or not isinstance(moment, (int, float)) or not _EARLIEST <= moment < _LATEST:
        raise InputError("time", f"is {moment!r}", "Give seconds since 1970 within the years 1 to 9999")
    return min(float(moment), clock.time())


def id_once(namespace: str, once: str) -> str:
    """The id of an item that is written under a name of the caller's own."""
    return "it_" + hashlib.sha256(f"{namespace}\0{once}".encode()).hexdigest()[:24]


def read_text(value: str | bytes, limit: int) -> str:
    """Text inside the limit, decoded strictly: bytes that are not UTF-8 are refused, never guessed at."""
    if not isinstance(value, (str, bytes, bytearray)):
        raise InputError("text", f"is {type(value).__name__}, not text", "Give str, or bytes of UTF-8")
    if len(value) > limit:
        raise TooLarge("text", len(value), limit, setting="limits.max_text_bytes")
    if isinstance(value, str):
        return _checked(value, limit)
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "text", f"byte {error.start} is not UTF-8 ({error.reason})", "Decode it with its real encoding first"
        ) from None


def _checked(text: str, limit: int) -> str:
    # A str may hold lone surrogates, which no store can keep; and one character may take four bytes.
    if text.isascii():
        return text
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InputError(
            "text", f"character {error.start} is a lone surrogate, not text", "Decode it with errors='replace'"
        ) from None
    if size > limit:
        raise TooLarge("text", size, limit, setting="limits.max_text_bytes")
    return text


def check_image(data: bytes, limit: int) -> None:
    """Refuse an encoded picture past the limit. Whether it really is one is the structural gate's question."""
    if not isinstance(data, bytes):
        raise InputError(
            "image", f"is {type(data).__name__}, not bytes", "Give the bytes of a PNG, JPEG, GIF, WebP or BMP file"
        )
    if len(data) > limit:
        raise TooLarge("image", len(data), limit, "Make it smaller", setting="limits.max_image_bytes")
    if not data:
        raise InputError("image", "is empty", "Leave it out, or give the bytes of a picture")


def check_own_fields(fields: MemoryFields | Mapping[str, Any] | None) -> None:
    """``InputError`` if ``fields.meta`` has ``rebuilt``: repairs alone set it, and ``recheck`` skips such items."""
    meta = fields.get("meta") if isinstance(fields, Mapping) else None if fields is None else fields.meta
    if isinstance(meta, Mapping) and REBUILT in meta:
        raise InputError(f"fields.meta.{REBUILT}", "is set by repairs alone", "Leave it out")


def read_fields(value: MemoryFields | Mapping[str, Any] | None, limit: int) -> MemoryFields | None:
    """A structured memory record with finite numbers and plain meta data."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        unknown = set(value) - set(MemoryFields.__dataclass_fields__)
        if unknown:
            allowed = ", ".join(MemoryFields.__dataclass_fields__)
            raise InputError("fields", f"unknown key {sorted(map(str, unknown))[0]!r}", f"Allowed: {allowed}")
    elif not isinstance(value, MemoryFields):
        raise InputError("fields", f"is {type(value).__name__}, not a record", "Give MemoryFields or a mapping")
    given = value if isinstance(value, Mapping) else plain(value)
    record = MemoryFields(
        state=_numbers(given.get("state", ()), "fields.state"),
        context=_numbers(given.get("context", ()), "fields.context"),
        action=_numbers(given.get("action", ()), "fields.action"),
        tags=tuple(_tag(tag) for tag in given.get("tags", ())),
        meta=given.get("meta", {}),
    )
    try:
        size = len(orjson.dumps(plain(record)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "fields.meta", f"is not plain JSON data: {error}", "Use text, numbers, lists and mappings"
        ) from None
    if size > limit:
        raise TooLarge("fields", size, limit, setting="limits.max_fields_bytes")
    return record


def _numbers(values: Any, field: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(v) for v in values)
    except (TypeError, ValueError, OverflowError):
        raise InputError(field, "is not a list of numbers", "Give a sequence of finite numbers") from None
    if not all(map(math.isfinite, numbers)):
        raise InputError(field, "holds a number that is not finite", "Give a sequence of finite numbers")
    return numbers


def _tag(tag: Any) -> str:
    if not isinstance(tag, str):
        raise InputError("fields.tags", f"holds {type(tag).__name__}, not text", "Give a sequence of words")
    return tag


def read_word(kind: type[Word], value: Word | str, field: str) -> Word:
    """A member of a closed set, from itself or from its word."""
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise InputError(field, f"{value!r} is unknown", f"Use one of {allowed}") from None


def channel_for(text: str | bytes, image: bytes | None) -> Channel:
    """The channel of something an agent reads or says, where the caller names none."""
    return Channel.IMAGE if image is not None and not text else Channel.MESSAGE


# Names and fields beside an item's text, which models and people are shown as well.

_FEWEST_WORDS, _MOST_NAMES = 4, 16
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN, _DIGIT = re.compile(r"[\W_]+"), re.compile(r"\d")


def names_beside(observation: Observation) -> list[str]:
    """The names and fields beside an item's text that are long enough to say something, in words: its writer, record
    and key, the tool that answered, keys of its value, tags and data of a structured memory. Short keys count together;
    the parts of a record's name do too, and so do tags and data, since an order may stand in several of them."""
    record, data, keys = _lines(observation.ref or ()), dict[str, None](), list[str]()
    if observation.value is not None:
        keys += [found.text for found in read_strings(observation.value).texts if found.is_key]
    if observation.fields is not None:
        meta = read_strings(dict(observation.fields.meta)).texts
        data = _lines((*observation.fields.tags, *(found.text for found in meta if not found.is_key)))
        keys += [found.text for found in meta if found.is_key]
    lines = {**_lines((observation.agent, observation.tool, observation.key)), **record, **data, **_lines(keys)}
    alone = [line for line in lines if len(line.split()) >= _FEWEST_WORDS][:_MOST_NAMES]
    short = " ".join(line for line in _lines(keys) if line not in alone)
    together = ["; ".join(some) for some in (record, data) if len(some) > 1]
    together = [text for text in together if len(text.split()) >= FEWEST_WORDS]
    return list(dict.fromkeys((*alone, *together, *[short] * (len(short.split()) >= _FEWEST_WORDS))))


def _lines(names: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys(line for line in map(_in_words, names) if line)


def _in_words(name: str) -> str:
    """A name as the words that it is made of; a field with blanks is a text already. Parts with digits inside are
    ids."""
    if " " in name.strip():
        return name.strip()
    parts = [part.strip(string.digits) for part in _BETWEEN.split(name)]
    words = [_HUMP.sub(" ", part) for part in parts if len(part) > 1 and not _DIGIT.search(part)]
    return " ".join(words).capitalize()
