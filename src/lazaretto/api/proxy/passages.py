"""The parts of a request or an answer that are judged: place, writer and replacement of each.

System and user roles and tools are the crew's own words. Tools' results, documents, files and unknown parts are
foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lazaretto.errors import InputError
from lazaretto.ingest.strings import WORD, cannot_carry_text, words_of
from lazaretto.policy import ProxySources
from lazaretto.types import Channel, SourceClass

Json = dict[str, Any]
MARK = "lazaretto_source"
"""The field by which a crew says that a message or part of it is not its own word; it is not sent on."""
COULD_NOT = "[withheld by Lazaretto: it could not be judged]"


@dataclass(frozen=True, slots=True)
class Unit:
    """One part where it stands."""

    value: Any
    put: Callable[[Any], None]
    """Puts a changed value in its place."""
    instead: Callable[[str], Any]
    """The replacement if none of it may be passed on."""
    channel: Channel
    source: SourceClass
    own: bool = False
    """Whether it is the crew's own word: one that is refused refuses the request."""
    rewritable: bool = True
    """Whether other words may stand in it; settings have no place for them."""
    tool: str = ""
    """The tool that answered with it, by the model's own call in the same conversation; empty where none is known."""
    answer: Any = None
    """The tool's answer, without the text around it."""
    by_model: bool = False
    """Whether it is the model's text: now in an answer, or earlier in a request's history."""
    earlier: bool = False
    """Whether it stands in an earlier turn of the conversation: a history may come from anywhere."""


class CalledTools:
    """The tools of the calls in a conversation, by the ids of the calls. An id of two calls that wait for an answer
    names no tool."""

    def __init__(self) -> None:
        self._names, self._waiting = dict[str, str](), set[str]()

    def call(self, key: Any, name: Any) -> None:
        """A call of the model."""
        key, name = str(key), name_of(name)
        self._names[key] = "" if key in self._waiting or name == WITHHELD else name
        self._waiting.add(key)

    def answered(self, key: Any) -> str:
        """The tool that answers to a call; empty where none is known."""
        self._waiting.discard(str(key))
        return self._names.get(str(key), "")


def words_in(content: Any) -> Any:
    """A tool's answer: the words of its one part of text; anything else as it stands."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        words = content[0].get("text")
        return words if isinstance(words, str) else content
    return content


def setter(holder: Any, key: Any) -> Callable[[Any], None]:
    """Puts something at a place of a mapping or list."""

    def put(value: Any) -> None:
        holder[key] = value

    return put


def objects(holder: Json, key: str) -> list[Json]:
    """The objects of a list in a request."""
    found = holder.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise InputError(key, "is not a list of objects", "Send what the endpoint expects")
    return found


def own_content(
    holder: Json,
    key: str,
    source: SourceClass,
    sources: ProxySources,
    text_part: Callable[[str], Json],
    tool: Callable[[Any, Callable[[Any], None]], Unit | None] = lambda part, put: None,
) -> Iterator[Unit]:
    """The parts of the crew's own text; without those that it marked, and documents and tools' results."""
    content, marked = holder.get(key), marked_source(holder, source)
    if isinstance(content, str):
        yield of_role(content, setter(holder, key), str, marked or source, own=marked is None)
    elif isinstance(content, list):
        for place, part in enumerate(content):
            put = setter(content, place)
            if (brought := tool(part, put)) is not None:
                yield brought
                continue
            own, beside = _without_beside(part)
            yield _part(own, put, marked, source, sources, text_part)
            if beside:
                part.pop(MARK, None)
                yield _beside(beside, content, place, sources)
    elif content is not None:
        raise InputError(key, f"is {type(content).__name__}, not a text or a list", "Send what the endpoint expects")


def _part(
    part: Any,
    put: Callable[[Any], None],
    marked: SourceClass | None,
    source: SourceClass,
    sources: ProxySources,
    text_part: Callable[[str], Json],
) -> Unit:
    claimed_source = (marked_source(part, source) if isinstance(part, dict) else None) or marked
    if claimed_source is None and isinstance(part, dict) and str(part.get("type")) not in _WRITTEN:
        claimed_source = sources.document
    return of_role(part, put, text_part, claimed_source or source, own=claimed_source is None)


def _without_beside(part: Any) -> tuple[Any, Json]:
    """A part of text as its writer made it, and its other fields, such as citations."""
    if not isinstance(part, dict) or str(part.get("type")) not in _WRITTEN:
        return part, {}
    beside = {key: value for key, value in part.items() if key not in _OF_TEXT}
    return ({key: value for key, value in part.items() if key not in beside} if beside else part), beside


def _beside(beside: Json, content: list[Any], place: int, sources: ProxySources) -> Unit:
    """The fields beside the text of a part, which the writer did not make: they pass as they are, or not at all."""
    part = content[place]

    def without(_: Any) -> None:
        if content[place] is part:  # else it gave way to another already
            content[place] = {key: value for key, value in part.items() if key not in beside}

    return of_document(beside, without, lambda _: {}, sources.document)


def turn_start(messages: Sequence[Json]) -> int:
    """The place of the last answer of the model before the user's last words: the present turn begins behind it. Zero
    where the conversation is in its first turn."""
    spoken = [place for place, message in enumerate(messages) if message.get("role") == "user" and _says(message)]
    answers = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    return max((place for place in answers if spoken and place < spoken[-1]), default=0)


def _says(message: Json) -> bool:
    """Whether a message of the role user has more than results of tools."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return any(not (isinstance(part, dict) and str(part.get("type")).endswith("_result")) for part in parts)


def earlier_places(messages: Sequence[Json]) -> frozenset[int]:
    """The places of messages of earlier turns; but not of the instructions at the beginning, which a program sends anew
    with every request."""
    roles = [str(message.get("role")) for message in messages]
    leading = next((place for place, role in enumerate(roles) if role not in ("system", "developer")), len(roles))
    return frozenset(range(leading, turn_start(messages)))


def with_roles(items: Sequence[Json]) -> list[Json]:
    """Items of a conversation, each with a role: calls and thoughts of the model name none, nor do results of tools."""
    kinds = [str(item.get("type", "")) for item in items]
    return [
        item if item.get("role") else {"role": "tool" if kind.endswith("_output") else "assistant"}
        for item, kind in zip(items, kinds, strict=True)
    ]


def as_earlier(units: Iterator[Unit], earlier: bool) -> Iterator[Unit]:
    """The parts of a message; ``earlier``: it is of an earlier turn."""
    return (replace(unit, earlier=True) for unit in units) if earlier else units


def settings(value: Json, put: Callable[[Any], None], channel: Channel, source: SourceClass) -> Unit:
    """Fields around the text: they pass as they are, or not at all."""
    return Unit(value, put, str, channel, source, own=True, rewritable=False)


def of_role(
    value: Any, put: Callable[[Any], None], instead: Callable[[str], Any], source: SourceClass, *, own: bool
) -> Unit:
    """A part of a message; a part that is not the crew's own is a document to it."""
    foreign = source in (SourceClass.UNTRUSTED_DOCUMENT, SourceClass.TOOL_OUTPUT_EXTERNAL)
    return Unit(value, put, instead, Channel.DOCUMENT if foreign else Channel.MESSAGE, source, own)


def marked_source(holder: Json, granted: SourceClass) -> SourceClass | None:
    """The source that a crew marked something with, taken off it; None without a mark. A mark only lowers trust."""
    if MARK not in holder:
        return None
    word, lower = holder.pop(MARK), {SourceClass.UNTRUSTED_DOCUMENT, granted}
    if granted in (SourceClass.SYSTEM, SourceClass.DIRECT_USER):
        lower |= {SourceClass.TOOL_OUTPUT_EXTERNAL, SourceClass.AGENT_MESSAGE, SourceClass.MODEL_INFERENCE}
    if not isinstance(word, str) or word not in lower:
        allowed = ", ".join(sorted(source.value for source in lower))
        raise InputError(MARK, f"is {word!r}, and may only lower trust here", f"Use one of {allowed}")
    return SourceClass(word)


_WRITTEN = frozenset({"text", "input_text"})
"""Parts that their speaker wrote; all others, also of unknown kinds, bring something in."""
_OF_TEXT = frozenset({"type", "text", "cache_control", MARK})
_DOCUMENTS = frozenset({"document", "search_result", "file", "input_file", "container_upload"})
_PICTURES = frozenset({"image", "image_url", "input_image", "computer_screenshot"})
_ELSEWHERE = frozenset({"input_audio", "audio", "container_upload", "video_url", "input_video", "video"})


def named_elsewhere(part: Json) -> bool:
    """Whether a part only names something the endpoint would fetch, or is sound or film: nothing here can judge it."""
    kind = str(part.get("type"))
    if kind in _ELSEWHERE:
        return True
    if kind not in _PICTURES | _DOCUMENTS:
        return False
    source, address, file = part.get("source"), part.get("image_url"), part.get("file", part)
    url = address.get("url") if isinstance(address, dict) else address
    inner = source if isinstance(source, dict) else {}
    if inner.get("type") in ("url", "file") or part.get("file_id") or part.get("file_url"):
        return True
    if isinstance(file, dict) and file.get("file_id"):
        return True
    if url is not None and not (isinstance(url, str) and url.startswith("data:")):
        return True
    return kind in _PICTURES and url is None and inner.get("type") != "base64"


def withhold_named(value: Any, text_part: Callable[[str], Json], depth: int = 0) -> int:
    """Put a notice in place of every part that only names its content; how many there were."""
    if depth > 64:
        raise InputError("body", "is nested too deep", "Send what the endpoint expects")
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    count = 0
    for place, part in list(places):
        if isinstance(part, dict) and named_elsewhere(part):
            value[place] = text_part(COULD_NOT) if isinstance(value, list) else COULD_NOT
            count += 1
        elif isinstance(part, (dict, list)):
            count += withhold_named(part, text_part, depth + 1)
    return count


def of_document(value: Any, put: Any, instead: Any, source: SourceClass) -> Unit:
    """A text of a document."""
    return Unit(value, put, instead, Channel.DOCUMENT, source)


WITHHELD = "withheld"
"""The word in place of a name that is none."""


def name_of(value: Any) -> str:
    """A name that is one; else a word for it."""
    return value if isinstance(value, str) and cannot_carry_text(value, WORD) else WITHHELD


_WORDS_OF_A_NAME = 3


def short_name(value: Any) -> str:
    """A name beside a notice: one of so few words that it is no piece of a sentence."""
    name = name_of(value)
    return name if len(words_of(name)) < _WORDS_OF_A_NAME else WITHHELD
