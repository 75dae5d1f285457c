"""Every string of a value, wherever it stands: one reading for the proxy, the MCP gateway and the adapters.

Fields that cannot carry text are left out; strings that may not be passed on are replaced.

Values that carry no text are named here (numbers, dates, classes, fields). All others are read, dict
keys too; unreadable parts are reported, so that the caller refuses them. ``replaced`` puts other words in place of
strings.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import string
import urllib.parse
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from lazaretto.ingest.opening import MOST_PARTS, Code, Opened, Parted, Silent, Step, Unreadable, opened

Path = tuple[Step, ...]
LeaveOut = Callable[[Path, Any], bool]
"""Whether a field cannot carry text, by its path and value."""
MOST_DEPTH = 64
_NAMES = frozenset({"name", "id", "call_id", "tool_call_id", "tool_use_id", "item_id", "file_id"})
"""Fields whose values others choose; several of them, side by side, may say something."""
FEWEST_WORDS = 6
"""So many words in names are long enough for a sentence."""
_SPLIT = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_NAME = 200
_SHORT = 2
"""Strings of so many characters, several in a row, are letters of one text."""
_FEWEST_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Found:
    """One string of a value."""

    path: Path
    text: str
    is_key: bool = False
    """Whether it is the key of a mapping, not a value."""


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part that cannot be read; to pass it on is to pass on something unjudged."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class FoundPicture:
    """Bytes that are a picture: they are judged as one."""

    path: Path
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadStrings:
    """The texts and pictures in a value."""

    texts: tuple[Found, ...] = ()
    pictures: tuple[FoundPicture, ...] = ()
    unread: tuple[UnreadPart, ...] = ()
    aside: tuple[str, ...] = ()
    """Names and ids that were left out and have several words."""

    @property
    def names(self) -> str:
        """Names and ids that were left out, in words, if they are long enough together to be a sentence; else empty."""
        lines = {" ".join(words_of(name)): len(words_of(name)) for name in self.aside}
        return "\n".join(lines) if sum(lines.values()) >= FEWEST_WORDS else ""

    @property
    def whole(self) -> bool:
        """Whether every part was read."""
        return not self.unread

    @property
    def text(self) -> str:
        """All strings as one text, in their order: an order that is cut in pieces is whole again."""
        return joined(self.texts)


def read_strings(value: Any, leave_out: LeaveOut | None = None) -> ReadStrings:
    """Every string of a value of any shape with its path. Nothing is consumed, and a value may hold itself."""
    walk = _Walk(leave_out)
    walk.read(value, ())
    return ReadStrings(tuple(walk.texts), tuple(walk.pictures), tuple(walk.unread), tuple(walk.aside))


def replaced(value: Any, words: Mapping[tuple[Path, bool], Any]) -> Any:
    """The value with other words at some places: ``(path, is_key)`` -> words.

    A part that cannot be made again (an exception, an object without a copy) is replaced by the words as a whole.
    """
    return _put(value, words) if words else value


def words_of(name: str) -> list[str]:
    """The words that a name or id is made of; digits at their ends are none of them."""
    parts = (part.strip(string.digits) for part in _SPLIT.split(name[:_LONGEST_NAME]))
    return [word for word in parts if word.isalpha() and len(word) > 1]


def joined(texts: tuple[Found, ...]) -> str:
    """Some strings as one text: keys before their values, letters in a row put together, else one line each."""
    lines: list[str] = []
    key: Found | None = None
    for group in _runs_of_letters(texts):
        if len(group) > 1:
            lines.append("".join(found.text for found in group))
            key = None
            continue
        (found,) = group
        if found.is_key:
            lines.append(found.text)
            key = found
        elif key is not None and found.path == key.path:
            lines[-1] = f"{key.text}: {found.text}"
            key = None
        else:
            lines.append(found.text)
            key = None
    return "\n".join(line for line in lines if line.strip())


def _runs_of_letters(texts: tuple[Found, ...]) -> Iterator[tuple[Found, ...]]:
    """Runs of letters that stand side by side, and every other string by itself."""
    run: list[Found] = []
    for found in (*texts, None):
        letters = found is not None and len(found.text) <= _SHORT
        if letters and found is not None and (not run or run[-1].path[:-1] == found.path[:-1]):
            run.append(found)
            continue
        sides = [tuple(each for each in run if each.is_key is keys) for keys in (True, False)]
        if max(map(len, sides)) >= _FEWEST_LETTERS:
            yield from (side for side in sides if side)
        else:
            yield from ((each,) for each in run)
        run = []
        if found is not None and letters:
            run = [found]
        elif found is not None:
            yield (found,)


@dataclass(slots=True)
class _Walk:
    leave_out: LeaveOut | None
    texts: list[Found] = field(default_factory=list)
    pictures: list[FoundPicture] = field(default_factory=list)
    unread: list[UnreadPart] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    _inside: set[int] = field(default_factory=set)
    _seen: int = 0

    def read(self, value: Any, path: Path) -> None:
        if self._seen > MOST_PARTS:
            return
        self._seen += 1
        if self._seen > MOST_PARTS:
            self.unread.append(UnreadPart((), f"holds more than {MOST_PARTS:,} parts"))
            return
        if path and self.leave_out is not None and self.leave_out(path, value):
            if path[-1] in _NAMES and type(value) is str and len(words_of(value)) > 1:
                self.aside.append(value)
            return
        if type(value) is str:
            self._found(value, path)
            return
        try:
            self._open(opened(value), value, path)
        except RecursionError:
            self.unread.append(UnreadPart(path, "is nested too deep"))

    def _open(self, found: Opened, value: Any, path: Path) -> None:
        if isinstance(found, (Silent, Code)):
            return
        if isinstance(found, Unreadable):
            self.unread.append(UnreadPart(path, found.why))
            return
        if found.text is not None:
            self._found(found.text, path)
        if found.picture is not None:
            self.pictures.append(FoundPicture(path, found.picture))
        if not found.parts or id(value) in self._inside:
            return
        if len(path) >= MOST_DEPTH:
            self.unread.append(UnreadPart(path, f"is nested deeper than {MOST_DEPTH}"))
            return
        self._inside.add(id(value))
        for step, part in found.parts:
            here = (*path, step)
            if found.keyed and isinstance(step, str) and not self._left_out_key(here):
                self._found(step, here, is_key=True)
            self.read(part, here)
        self._inside.discard(id(value))

    def _left_out_key(self, path: Path) -> bool:
        return self.leave_out is not None and self.leave_out((*path, KEY), path[-1])

    def _found(self, text: str, path: Path, is_key: bool = False) -> None:
        text = readable(text)
        if not text:
            return
        data = _encoded(text)
        if data is not None and not is_key:
            self._open(data, data, path)
            return
        self.texts.append(Found(path, text, is_key))
        for inner in _inside_json(text):
            self.texts.append(Found(path, inner, is_key))


KEY = "\0key"
"""The last step of the path by which ``leave_out`` is asked about the key of a mapping instead of its value."""


def readable(text: str) -> str:
    """The text with a sign in place of halves of characters, which no store can keep."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_FEWEST_ENCODED = 400
_DATA_URL = re.compile(r"\s{0,9}data:[^,]{0,200};\s{0,9}base64\s{0,9},", re.IGNORECASE)
_OF_ADDRESSES = str.maketrans("-_", "+/")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_FEWEST_OF_PICTURE = 40
_PICTURES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "Qk")
"""The first characters of pictures in base64."""
_FEWEST_SIGNS = 10
"""Different signs without which nothing of some length is base64."""


def _encoded(text: str) -> Opened | None:
    """The content of a string that is a data URL or long base64: a picture, a text, or something that is not read."""
    url = _DATA_URL.match(text)
    if url is not None:
        return _decoded(urllib.parse.unquote(text[url.end() :]))
    if len(text) >= _FEWEST_OF_PICTURE and text.startswith(_PICTURES):
        found = _decoded(text)
        if isinstance(found, Parted) and found.picture is not None:
            return found
    long = len(text) >= _FEWEST_ENCODED and len(text) % 4 == 0 and len(set(text)) >= _FEWEST_SIGNS
    return _decoded(text) if long and _BASE64.fullmatch(text) else None


def _decoded(body: str) -> Opened | None:
    """The content of base64 as readers take it: in lines, with the signs for addresses, its last signs left out."""
    plain = "".join(body.split()).translate(_OF_ADDRESSES).rstrip("=")
    if not _BASE64.fullmatch(plain):
        return None
    try:
        return opened(base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None


_ESCAPED = re.compile(r"\\[u\"/bfnrt\\]")
_NUMBERED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
_MOST_JSON = 1_000_000


def _inside_json(text: str) -> Iterator[str]:
    """The text of a JSON text once its escapes are read; nothing if it has none. Lines of JSON, or JSON among other
    words, are read by their numbered letters alone."""
    if len(text) > _MOST_JSON or "\\" not in text or not _ESCAPED.search(text):
        return
    inner = ""
    try:
        if text.lstrip()[:1] in ("{", "[", '"'):
            inner = read_strings(orjson.loads(text)).text
    except orjson.JSONDecodeError:
        pass
    inner = inner or readable(_NUMBERED.sub(_lettered, text))
    if inner and inner != text:
        yield inner


def _lettered(match: re.Match[str]) -> str:
    numbers = bytes.fromhex(match[0].replace("\\u", ""))
    return numbers.decode("utf-16-be", "replace")


def _put(value: Any, words: Mapping[tuple[Path, bool], Any]) -> Any:
    """``words`` are by their places inside this value."""
    if not words:
        return value
    if ((), False) in words:
        return words[(), False]
    found = opened(value)
    if isinstance(found, (Silent, Code, Unreadable)) or not found.parts:
        return value
    inside = defaultdict[Step, dict[tuple[Path, bool], Any]](dict)
    for (place, is_key), instead in words.items():
        inside[place[0]][place[1:], is_key] = instead
    done: list[tuple[Step, Any]] = []
    for step, part in found.parts:
        below = inside.get(step, {})
        name = below.pop(((), True), step)
        done.append((name if found.keyed else step, _put(part, below)))
    made = None if found.build is None else found.build(done)
    return next(iter(words.values())) if made is None else made  # the first notice stands for what cannot be made again


# A value of any shape, with other words in place of every string that may not be passed on.
#
# All strings are judged together first, because an order may be cut in harmless pieces. Where that is held, each piece
# is judged by itself to find the place; pieces that are harmful only together are replaced as a whole.

Judge = Callable[[str], Awaitable[str]]
"""The text itself if it may be passed on, else the words to put in its place."""
JudgePicture = Callable[[bytes], Awaitable[str | None]]
"""None if a picture may be shown, else the words to put in its place."""
UNREADABLE = "[withheld by lazaretto: it could not be judged: it {why}]"
MOST_PIECES = 40
"""The most pieces that are judged each by itself; with more, the whole is withheld."""
MOST_TOGETHER = 200_000
"""Characters that are judged as one text."""
_SEAM = 2_000
"""Characters on both sides of the place where one such text ends and the next begins: they are judged together."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result for a value."""

    value: Any
    """Itself where nothing was held."""
    changed: tuple[tuple[Path, bool], ...] = ()
    """Places of replaced words: path, and whether it is a key."""
    whole: str | None = None
    """The words that stand for all of it, where no part of it may be passed on."""


def text_block(words: str) -> Any:
    """A block of text as most protocols write it."""
    return {"type": "text", "text": words}


async def cleaned(
    value: Any,
    judge: Judge,
    *,
    picture: JudgePicture | None = None,
    leave_out: LeaveOut | None = None,
    block: Callable[[str], Any] = text_block,
    names: Judge | None = None,
) -> Cleaned:
    """The value as it may be passed on. If others still hold the value, give a copy of it
    (``still``); where there is none, one that reads otherwise after it was judged is withheld.

    ``picture`` judges pictures, which without it cannot be judged; ``block`` replaces a block with a picture;
    ``names`` judges names and ids that are left out, where they are a sentence together.
    """
    reading = read_strings(value, leave_out)
    words: dict[tuple[Path, bool], Any] = {}
    unread = list(reading.unread)
    for shown in reading.pictures:
        if picture is None:
            unread.append(UnreadPart(shown.path, "is a picture"))
        elif (held := await picture(shown.data)) is not None:
            place = _block_around(value, shown.path)
            words[place or (), False] = held if not place else block(held) if place != shown.path else held
    words |= {(part.path, False): UNREADABLE.format(why=part.why) for part in unread}
    groups = _judged_together(reading)
    for group in groups:
        whole = await _places(group, judge, words)
        if whole is not None:
            return Cleaned(whole, (((), False),), whole)
    for seam in _seams(groups, words):
        if (whole := await judge(seam)) != seam:
            return Cleaned(whole, (((), False),), whole)
    if names is not None and reading.names and (whole := await names(reading.names)) != reading.names:
        return Cleaned(whole, (((), False),), whole)
    if read_strings(value, leave_out) != reading:
        whole = UNREADABLE.format(why="changes while it is read")
        return Cleaned(whole, (((), False),), whole)
    if ((), False) in words:
        return Cleaned(words[(), False], (((), False),), words[(), False])
    return Cleaned(replaced(value, words), tuple(words))


def _block_around(value: Any, path: Path) -> Path:
    """The path of the innermost block of a message that holds a picture; the picture's own where there is none."""
    found = path
    for depth, step in enumerate(path):
        if isinstance(value, Mapping) and "image" in str(value.get("type", "")):
            found = path[:depth]
        inner: Any = value if isinstance(value, (Mapping, list, tuple)) else {step: None}
        value = inner[step]
    return found


def _judged_together(reading: ReadStrings) -> list[tuple[Found, ...]]:
    """All strings, or as many at a time as may be judged as one text."""
    groups: list[list[Found]] = [[]]
    size = 0
    for found in reading.texts:
        if groups[-1] and size + len(found.text) > MOST_TOGETHER:
            groups.append([])
            size = 0
        groups[-1].append(found)
        size += len(found.text) + 1
    return [tuple(group) for group in groups if group]


def _seams(groups: list[tuple[Found, ...]], words: Mapping[tuple[Path, bool], Any]) -> Iterator[str]:
    """The text around each place where one group ends and the next begins, as it is now."""
    if len(groups) < 2:
        return
    every = [
        Found(found.path, str(words.get((found.path, found.is_key), found.text)), found.is_key)
        for found in itertools.chain.from_iterable(groups)
    ]
    for place in itertools.islice(itertools.accumulate(map(len, groups)), len(groups) - 1):
        before, after = joined(_some(every[:place][::-1])[::-1]), joined(_some(every[place:]))
        yield f"{before[-_SEAM:]}\n{after[:_SEAM]}"


def _some(several: Sequence[Found]) -> tuple[Found, ...]:
    """As many of them as have the characters of a seam."""
    sizes = itertools.accumulate((len(found.text) for found in several), initial=0)
    return tuple(found for found, size in zip(several, sizes, strict=False) if size < _SEAM)


async def _places(group: tuple[Found, ...], judge: Judge, words: dict[tuple[Path, bool], Any]) -> str | None:
    """Fill in the replacements by place; returns the words for the whole if no single place can be found."""
    text = joined(group)
    if not text.strip():
        return None
    instead_of_all = await judge(text)
    if instead_of_all == text:
        return None
    if len({(found.path, found.is_key) for found in group}) == 1:
        words[group[0].path, group[0].is_key] = instead_of_all
        return None
    if len(group) > MOST_PIECES:
        return instead_of_all
    rest = []
    for found in group:
        piece = found.text if found.text.strip() else ""
        instead = await judge(piece) if piece else piece
        if instead != piece:
            words[found.path, found.is_key] = instead
        elif (found.path, found.is_key) not in words:
            rest.append(found)
    if len(rest) == len(group):
        return instead_of_all  # harmful only together
    left = joined(tuple(rest))
    return instead_of_all if left.strip() and await judge(left) != left else None


# The fields that cannot carry text, by dialect: every reading of strings leaves them out. One table.
#
# A field is left out only while its value looks as the table says: an id with a space in it is read like any string.
# Base64 is left out where no model reads it as text; pictures are judged as pictures.

ID = re.compile(r"[A-Za-z0-9_.:/|+=@\-]{1,200}")
WORD = re.compile(r"[A-Za-z0-9_.:/\-]{1,64}")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "item_id", "response_id", "previous_response_id", "file_id",
        "container_id", "request_id", "model", "system_fingerprint", "encrypted_index", "encrypted_content",
        "signature", "etag", "run_id", "parent_run_id", "thread_id")  # fmt: skip
_WORDS = ("type", "role", "object", "status", "finish_reason", "stop_reason", "service_tier", "detail", "media_type",
          "mime_type", "format", "effort", "verbosity", "truncation", "modality", "tool_choice", "include",
          "ttl", "model_provider", "model_name", "native_finish_reason", "name")  # fmt: skip
_KEYS = """
    messages role content name tool_calls tool_call_id function arguments type id index text image_url url detail
    model stream choices message delta finish_reason logprobs usage prompt_tokens completion_tokens total_tokens created
    object system_fingerprint service_tier refusal reasoning_content annotations audio input output instructions tools
    parameters properties required description strict response_format json_schema schema tool_choice temperature top_p
    max_tokens max_completion_tokens max_output_tokens n stop seed user metadata store stream_options include_usage
    parallel_tool_calls reasoning effort summary item_id output_index content_index sequence_number item part response
    status incomplete_details reason error code param created_at call_id action command env system max_tokens_to_sample
    thinking signature source media_type data title context citations cache_control ttl stop_reason stop_sequence
    input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens content_block partial_json
    tool_use_id is_error additional_kwargs response_metadata example invalid_tool_calls usage_metadata artifact args
    page_content prediction documents prompt variables version items enum additionalProperties anyOf default results
    outputs logs server_label custom token bytes logprob top_logprobs completion_tokens_details reasoning_tokens
    prompt_tokens_details cached_tokens input_tokens_details output_tokens_details audio_tokens
    step parents writes run_id thread_id token_usage model_name model_provider input_token_details output_token_details
    accepted_prediction_tokens rejected_prediction_tokens native_finish_reason provider
"""

_FIELDS = {**dict.fromkeys(_IDS, ID), **dict.fromkeys(_WORDS, WORD)}
LEFT_OUT: Mapping[str, Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "openai-chat": _FIELDS | {"data": BASE64},
        "openai-responses": _FIELDS | {"encrypted_content": BASE64},
        "anthropic": _FIELDS | {"signature": BASE64, "encrypted_content": BASE64, "encrypted_index": BASE64},
        "langchain": _FIELDS | dict.fromkeys(("checkpoint_ns", "checkpoint_id", "source", "langgraph_node"), ID),
        "mcp": {"type": WORD, "mimeType": WORD, "mime_type": WORD, "role": WORD},
        "plain": {},
    }
)
"""Dialect -> name of a field -> the form of its value while it carries no text."""
PROTOCOL_KEYS = frozenset(_KEYS.split())
"""Keys that the protocols themselves use; any other key is read."""


def left_out(dialect: str) -> LeaveOut:
    """The parts of a dialect's requests and answers that cannot carry text."""
    table, keys = LEFT_OUT[dialect], PROTOCOL_KEYS if dialect != "plain" else frozenset()

    def leave(path: Path, value: Any) -> bool:
        if path[-1] == KEY:
            return isinstance(value, str) and value in keys
        shape = table.get(_name(path))
        return shape is not None and isinstance(value, str) and cannot_carry_text(value, shape)

    return leave


def is_sealed(value: str) -> bool:
    """Whether a string is base64 of what only the endpoint can read: no text, and no picture."""
    if not BASE64.fullmatch(value):
        return False
    try:
        found = opened(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False
    return isinstance(found, Unreadable)


def cannot_carry_text(value: str, shape: re.Pattern[str]) -> bool:
    """Whether a string has the shape of an id, word or code, and is no sentence in disguise."""
    return shape.fullmatch(value) is not None and len(words_of(value)) < FEWEST_WORDS


def _name(path: Path) -> str:
    """The last key of a path; items of a list count as the list."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")
