"""Objects that an argument holds as text: ``"{\\"to\\": \\"ops\\"}"`` names a receiver as ``{"to": "ops"}`` does.

JSON, literals of Python, lines of ``name: value``, form data and elements of XML are read, also inside a fence, inside
other words, or written twice. An object that cannot be taken apart is searched for the names of receivers and sums.
"""

from __future__ import annotations

import ast
import base64
import binascii
import html
import re
from typing import Any
from urllib.parse import parse_qsl

import orjson

from lazaretto.actions.classes import word_set, words_of

_MOST_DEPTH = 3
"""Times that an object may be written as text inside of another."""
_MOST_LITERAL = 100_000
"""Characters of a literal of Python: its parser is slow."""
_OF_PAIR = 2
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_FLAG = re.compile(r"--?([A-Za-z][\w-]{0,40})(?:=|\s{1,3})(\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^\s-]\S{0,200})")
_CALL = re.compile(r"[A-Za-z_][\w.]{0,60}\(")
_MOST_FIELDS = 1_000
_MOST_SEARCHED = 1_000_000
ADDRESSING = word_set(
    "to recipient recipients receiver receivers cc bcc payee beneficiary destination account iban wallet channel url "
    "uri webhook endpoint amount email mailto forward"
)
"""Names by which an object says where something goes, or how much."""
_FENCE = re.compile(r"\s*```\w*\s*\n(?P<body>.*?)\n?\s*```\s*", re.S)
_FORM = re.compile(r"[\w.\[\]%-]{1,60}=[^&\s]*(?:&[\w.\[\]%-]{1,60}=[^&\s]*)*")
_LINE = re.compile(
    r"[ \t]*(?:- )?[\"']?(?P<name>[A-Za-z][\w -]{0,40}?)[\"']?[ \t]*[:=][ \t]*(?P<value>[^\n]{0,2000}?)[ \t,;]*"
)
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>(?P<value>[^<>]{0,2000})</(?P=name)\s*>")
_NAMED = re.compile(
    rf"(?<![\w-])[\"']?(?P<name>[A-Za-z_]{{0,20}}(?:{'|'.join(sorted(ADDRESSING))})[A-Za-z_]{{0,20}})[\"']?\s{{0,3}}(?:=>|[:=])\s{{0,3}}"
    r"[\"'\[]{0,3}(?P<value>[^\"'\n,;}\]&]{1,200})", re.I
)  # fmt: skip


def written_object(text: str, strict: bool = False) -> dict[str, Any] | list[Any] | None:
    """The object that a text writes out; None where it writes none. ``strict``: only one that is the whole text, in
    JSON or as Python writes it."""
    found = _read(text, 0, strict)
    return found if isinstance(found, (dict, list)) else None


def says_where(written: dict[str, Any] | list[Any]) -> bool:
    """Whether an object names a receiver or a sum on its first level."""
    several = written if isinstance(written, list) else [written]
    return any(ADDRESSING & {*words_of(name)} for part in several if isinstance(part, dict) for name in part)


def _read(text: str, depth: int, strict: bool) -> Any:
    if depth > _MOST_DEPTH:
        return None
    fenced = _FENCE.fullmatch(text)
    body = (fenced["body"] if fenced else text).strip()
    if not body:
        return None
    if body[0] in "{[\"'(":
        found = _literal(body)
        if isinstance(found, str) and found != text:
            return _read(found, depth + 1, strict)
        if isinstance(found, (dict, list)):
            return _paired(found)
    if (plain := _from_base64(body)) is not None:
        return plain
    return None if strict else _fields(body) or _inside(body) or _searched(body)


def _paired(found: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """A list of names with values as an object; anything else as it is."""
    if (
        isinstance(found, list)
        and found
        and all(isinstance(pair, list) and len(pair) == _OF_PAIR and isinstance(pair[0], str) for pair in found)
    ):
        return dict(found)
    return found


def _from_base64(body: str) -> dict[str, Any] | list[Any] | None:
    """The object that a text of base64 holds."""
    if not _BASE64.fullmatch(body):
        return None
    try:
        found = orjson.loads(
            base64.urlsafe_b64decode(body.replace("+", "-").replace("/", "_") + "=" * (-len(body) % 4))
        )
    except (ValueError, binascii.Error):
        return None
    return found if isinstance(found, (dict, list)) else None


def _literal(body: str) -> Any:
    """The value of JSON or of a literal of Python; None for anything else."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    if len(body) > _MOST_LITERAL:
        return None
    try:
        found = ast.literal_eval(body)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    try:  # sets, tuples and bytes as JSON has them
        return orjson.loads(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS, default=_readable))
    except (TypeError, ValueError, RecursionError):
        return None


def _readable(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _fields(body: str) -> dict[str, Any] | None:
    """Form data, lines that all give a name a value, or elements of XML; one of them names a receiver or a sum, for
    words may look like this."""
    found = None
    lines = [_LINE.fullmatch(line) for line in body.splitlines() if line.strip()]
    if _FORM.fullmatch(body):
        found = _together(parse_qsl(body)) if body.count("&") < _MOST_FIELDS else None
    elif len(lines) > 1 and all(lines):
        found = _together([(match["name"], match["value"].strip("\"'")) for match in lines if match])
    elif len(flags := _FLAG.findall(body)) > 0 and body.startswith("-"):
        found = _together([(name, value.strip("\"'")) for name, value in flags])
    elif body.startswith("<"):
        found = _together([(match["name"], html.unescape(match["value"])) for match in _ELEMENT.finditer(body)])
    return found if found and says_where(found) else None


def _together(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Pairs as an object; values of equal names in a list."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return dict(found)


def _inside(body: str) -> Any:
    """The object between the first bracket of a text and the last one."""
    for opening, closing in ("{}", "[]"):
        start, end = body.find(opening), body.rfind(closing)
        if 0 <= start < end and isinstance(found := _literal(body[start : end + 1]), (dict, list)):
            return found
    return None


def _searched(body: str) -> dict[str, Any] | None:
    """The words behind the names of receivers and sums, in brackets that cannot be taken apart."""
    if "{" not in body and not (_CALL.match(body) and body.endswith(")")):
        return None
    found = [(match["name"], match["value"].strip()) for match in _NAMED.finditer(body[:_MOST_SEARCHED])]
    return _together(found) if found else None
