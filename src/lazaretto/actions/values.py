"""Calls and tasks taken apart: values of a call in forms that can be compared, and words that ask for an action.

Only letter case, spacing and the separators of account numbers are ignored. A look-alike letter makes another value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import orjson

from lazaretto.actions.classes import Tool, word_set, words_of
from lazaretto.actions.leaves import AMOUNTS, DESTINATIONS, PlainValue, leaves, number_of
from lazaretto.actions.records import ActionClass, ActionSettings, ValueKind
from lazaretto.actions.written import says_where, written_object
from lazaretto.errors import InputError, TooLarge
from lazaretto.reading.normalization import fold
from lazaretto.types import plain

MOST_VALUES = 500
"""Values of one call that are looked for; a call with more is asked about."""
SHOWN = 200
_TO, _PLACE = ("destination",), ("place",)
_SECRETS = word_set("password passwd passphrase secret pin credential credentials apikey token")
_CODE = word_set("code command cmd script sql shell expression program query_sql")
_TEXTS = word_set(
    "body content message text subject description title comment note notes summary reason query prompt caption "
    "details thought"
)
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?|\d\d?:\d\d(?::\d\d)?"
)
_MAIL = re.compile(r"[\w.+%'-]{1,320}@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"[a-z][a-z0-9+.-]{0,80}://[^\s<>\"'`\])}]+", re.I)
_ENDINGS = (
    "com|org|net|io|dev|app|ai|co|uk|de|fr|nl|eu|us|ch|at|it|es|pl|se|no|dk|fi|be|jp|cn|in|br|au|ca|ru|ua|cz|pt|gr|tr|"
    "kr|tw|hk|sg|za|mx|ar|cl|ie|nz|info|biz|gov|edu|mil|int|example|test|internal|local|lan|corp|cloud|onion|xyz|online|"
    "site|tech|me|top|club|shop|store|blog|live|link|click|zip|mov|page|space|website|icu|vip|pro|tv|cc|ws|gg|ly|to|id|"
    "finance|bank|support|security|systems|network|email|news|world|agency|services"
)
_HOST = re.compile(
    rf"(?<![\w@./-])(?:www\.[\w-]+(?:\.[\w-]+)+|(?:[\w-]+\.)+(?:{_ENDINGS}))(?![\w-])(?::\d+)?(?:/[^\s<>\"'`\])}}]*)?",
    re.I,
)
_IBAN = re.compile(r"(?<![\w])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,4})?(?!\w)")
_WALLET = re.compile(r"(?<!\w)(?:0x[0-9a-fA-F]{16,64}|bc1[0-9a-z]{20,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34})(?!\w)")
_IP = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\w)(?::\d+)?(?:/[^\s<>\"'`\])}]*)?")
_AFTER_SLASHES = re.compile(r"(?<![:\w/\\])[/\\]{2}([\w-]+(?:\.[\w-]+)+(?:/[^\s<>\"'`\])}]*)?)")
_PHONE = re.compile(r"(?<![\w+])\+\d(?:[ ()/.-]{0,2}\d){6,}(?!\w)")
_DIGITS = re.compile(r"(?<!\w)\+?\d(?:[ ()/.-]{0,2}\d){6,}(?!\w)")
_SPACE = re.compile(r"\s+")
_SEPARATORS = re.compile(r"[\s\-./()]+")
_TRAILING = ".,;:!?"


@dataclass(frozen=True, slots=True)
class ArgumentValue:
    """One value of a call."""

    argument: str
    """Its place, for example ``recipients[0]``."""
    kind: ValueKind
    value: str
    number: float | None = None
    """The number, if it is an amount."""


def canonical(arguments: Any) -> bytes:
    """Arguments as JSON with sorted keys: equal for equal calls and for no others."""
    try:
        raw = _as_json(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("arguments", f"cannot be read: {error}", "Give plain JSON data") from None
    return raw


def _as_json(arguments: Any) -> bytes:
    try:
        raw = orjson.dumps(_plain(arguments), option=orjson.OPT_SORT_KEYS, default=_readable)
    except TypeError:  # keys that are no text, or worse
        option = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        raw = orjson.dumps(_plain(arguments), option=option, default=_readable)
        json.loads(raw, object_pairs_hook=_once_each)
    if b"null" in raw:  # what JSON has no number for stands there as nothing
        with contextlib.suppress(TypeError, ValueError):
            spelled = json.dumps(_plain(arguments), default=_readable_or_words)
            raw = orjson.dumps(json.loads(spelled, parse_constant=str), option=orjson.OPT_SORT_KEYS)
    return raw


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these pairs: ``ValueError`` where two keys are one once they are text."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("two keys of an object are written alike")
    return made


def _plain(value: Any) -> Any:
    return plain(value) if dataclasses.is_dataclass(value) else value


def _readable(value: Any) -> Any:
    """Values that frameworks hand over besides JSON data."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, (tuple, Mapping)):
        return dict(value) if isinstance(value, Mapping) else list(value)
    raise TypeError(f"{type(value).__name__} is no JSON data")


def _readable_or_words(value: Any) -> Any:
    """The same, for a reader that knows less."""
    if dataclasses.is_dataclass(value):
        return plain(value)
    try:
        return _readable(value)
    except TypeError:
        return str(value)


def read_arguments(arguments: Any, limit: int) -> tuple[dict[str, Any], bytes]:
    """Arguments as plain data, and in their canonical form."""
    raw = canonical(arguments)
    if len(raw) > limit:
        raise TooLarge("arguments", len(raw), limit, setting="limits.max_text_bytes")
    read = orjson.loads(raw)
    if not isinstance(read, dict):
        raise InputError("arguments", f"is {type(read).__name__}, not an object", 'Give {"name": value}')
    return read, raw


def values_of(
    tool: Tool, arguments: Mapping[str, Any], action: ActionClass, settings: ActionSettings
) -> list[ArgumentValue]:
    """The values of a call that can be found again, with the kind of each; also those of objects in its texts."""
    found = _plain_values(tool, arguments, action, settings)
    if len(found) > MOST_VALUES or action not in _ACTS:
        return found
    goes_somewhere = any(value.kind is ValueKind.DESTINATION for value in found) and action is not ActionClass.PAY
    return found + _written_values(tool, arguments, action, settings, goes_somewhere)


def _plain_values(
    tool: Tool, arguments: Mapping[str, Any], action: ActionClass, settings: ActionSettings
) -> list[ArgumentValue]:
    found: list[ArgumentValue] = []
    for name, value in arguments.items():
        for at in _leaves(value, name):
            kind = settings.named_kind(tool.name, name) or (
                settings.named_kind(tool.name, at.key) if at.key != name else None
            )
            words = _words_for(at)
            fixed = tool.takes_only(name, at.value) and not {*words} & AMOUNTS
            fixed &= not (isinstance(at.value, str) and _is_address(at.value.strip()))
            if words == _TO and _is_route(tool):
                words = _PLACE
            found += _read_leaf(at.place, words, at.value, kind or (ValueKind.FREE if fixed else None), action)
            if len(found) > MOST_VALUES:
                return found
    return found


def _leaves(value: Any, name: str) -> Iterator[PlainValue]:
    """The plain values of an argument; of the names in it those that hold an address."""
    return (at for at in leaves(value, name) if not at.is_key or addresses_in(at.value))


def _words_for(at: PlainValue) -> tuple[str, ...]:
    """The words of the name that a value goes by, and of the object that names it."""
    words, above = words_of(at.key), words_of(at.above)
    words += above if {*above} & DESTINATIONS and isinstance(at.value, str) else ()
    if {*words_of(at.around)} & AMOUNTS and _number_in(at.value):
        words += ("amount",)  # an amount taken apart is one all the same
    return words


_ACTS = (ActionClass.SEND, ActionClass.PAY, ActionClass.SHARE, ActionClass.DELETE, ActionClass.EXECUTE)
"""Classes of calls that reach out: those in which written objects are read."""
_PAGES = word_set("html markdown css style")
_MOST_WRITTEN = 3
"""Times that an object may be written as text inside of another."""


def _written_values(
    tool: Tool,
    arguments: Mapping[str, Any],
    action: ActionClass,
    settings: ActionSettings,
    goes_somewhere: bool,
    depth: int = 1,
) -> list[ArgumentValue]:
    """The values of objects that a call holds as text, as far as this class of calls asks for them. In the text of a
    message that goes somewhere else an object is content."""
    needs, found = settings.needs(action), list[ArgumentValue]()
    for name, value in arguments.items():
        for place, key, leaf in ((at.place, at.key, at.value) for at in _leaves(value, name)):
            named = settings.named_kind(tool.name, name) or settings.named_kind(tool.name, key)
            if not isinstance(leaf, str) or named or tool.takes_only(name, leaf) or {*words_of(key)} & _CODE:
                continue
            content = bool({*words_of(key)} & (_TEXTS | _PAGES))
            written = None if content and goes_somewhere else written_object(leaf, strict=content)
            if written is None or (content and not says_where(written)):
                continue
            for inner in written if isinstance(written, list) else [written]:
                part = inner if isinstance(inner, dict) else {key: inner}
                there = _plain_values(tool, part, action, settings)
                if depth < _MOST_WRITTEN:
                    there += _written_values(tool, part, action, settings, goes_somewhere, depth + 1)
                asked = [inside for inside in there if inside.kind is ValueKind.AMOUNT or needs.of(inside.kind) > 0]
                found += [replace(inside, argument=f"{place}.{inside.argument}") for inside in asked]
                if len(found) > MOST_VALUES:
                    return found
    return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """One plain value of a call as it stands, of any kind."""

    place: str
    text: str
    plain: bool
    """Whether it can be trusted by itself: no amount, no switch, and nothing inside of an argument, where its place may
    say something too."""


def all_else(arguments: Mapping[str, Any], values: Iterable[ArgumentValue]) -> list[Leaf]:
    """Everything that a call has besides its destinations."""
    there = {value.argument for value in values if value.kind is ValueKind.DESTINATION}
    found = []
    for name, value in arguments.items():
        for place, leaf in ((at.place, at.value) for at in _leaves(value, name)):
            if place in there or leaf is None or leaf == "":
                continue
            text = leaf if isinstance(leaf, str) else orjson.dumps(leaf).decode()
            found.append(Leaf(place, text, place == name and isinstance(leaf, str) and number_of(leaf) is None))
    return found


def _is_route(tool: Tool) -> bool:
    """Whether a tool goes from somewhere to somewhere: its destination is a place, and nobody gets anything there."""
    return any(words_of(name) == ("origin",) for name in tool.arguments)


def _read_leaf(
    place: str, words: tuple[str, ...], leaf: Any, named: ValueKind | None, action: ActionClass
) -> list[ArgumentValue]:
    if leaf is None or isinstance(leaf, bool) or leaf == "":
        return []
    number = number_of(leaf)
    kind = named or _kind(words, leaf, number, action)
    if kind is ValueKind.FREE:
        return []
    text = str(leaf) if isinstance(leaf, str) else f"{leaf:g}" if isinstance(leaf, float) else str(leaf)
    if kind is ValueKind.TEXT:
        return [ArgumentValue(place, ValueKind.LINK, address) for address in addresses_in(text)]
    if kind is ValueKind.DESTINATION and (several := _listed_in(text)):
        return [value for part in several for value in _read_leaf(place, words, part, named, action)]
    if kind is ValueKind.DESTINATION and re.search(r"[,;\s]", text.strip()) and len(parts := addresses_in(text)) > 0:
        whole = [] if only_addresses(text, parts) else [ArgumentValue(place, kind, text)]
        return [*(ArgumentValue(place, kind, part) for part in parts), *whole]
    inside = [] if _is_address(text.strip()) else addresses_in(text)
    links = [ArgumentValue(place, ValueKind.LINK, address) for address in inside]
    return [ArgumentValue(place, kind, text, number if kind is ValueKind.AMOUNT else None), *links]


def _listed_in(text: str) -> list[str]:
    """The texts of a list that is written as text; empty where it is none, or holds anything else."""
    if not text.lstrip().startswith("["):
        return []
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    return read if all(isinstance(part, str) and not part.lstrip().startswith("[") for part in read) else []


def _number_in(leaf: Any) -> bool:
    return isinstance(leaf, (int, float, str)) and not isinstance(leaf, bool) and any(map(str.isdigit, str(leaf)))


def _kind(words: tuple[str, ...], leaf: Any, number: float | None, action: ActionClass) -> ValueKind:
    named = {*words}
    if named & _SECRETS:
        return ValueKind.SECRET
    if named & AMOUNTS:
        return ValueKind.AMOUNT
    if named & DESTINATIONS and not named & _TEXTS:
        return ValueKind.DESTINATION
    if isinstance(leaf, (int, float)):
        if isinstance(leaf, float) and action is ActionClass.PAY:
            return ValueKind.AMOUNT
        return ValueKind.NAME if named & {"id", "ids", "number", "no"} else ValueKind.FREE
    if named & _CODE:
        return ValueKind.CODE
    text = leaf.strip()
    if _DATE.fullmatch(text):
        return ValueKind.FREE
    if _is_address(text):
        return ValueKind.DESTINATION
    if named & _TEXTS or len(text) > 80 or "\n" in text or len(text.split()) > 6:
        return ValueKind.TEXT
    return ValueKind.NAME


def _is_address(text: str) -> bool:
    """Whether a whole value is an account, an address or a host."""
    return any(pattern.fullmatch(text) for pattern in (_MAIL, _URL, _HOST, _IBAN, _WALLET, _DIGITS))


def is_mail(text: str) -> bool:
    """Whether a whole value is a mail address."""
    return _MAIL.fullmatch(text.strip()) is not None


def addresses_in(text: str) -> list[str]:
    """Mail and web addresses, accounts, wallets and telephone numbers inside a text, each once."""
    found: dict[str, None] = {}
    if not text.isascii() or "&" in text:  # as a mail program or a browser shows it
        text = html.unescape(unicodedata.normalize("NFKC", text))
    for pattern in (_URL, _MAIL, _HOST, _IBAN, _WALLET, _IP, _PHONE):
        found.update(dict.fromkeys(match[0].rstrip(_TRAILING) for match in pattern.finditer(text)))
    found.update(dict.fromkeys(match[1].rstrip(_TRAILING) for match in _AFTER_SLASHES.finditer(text)))
    return [address for address in found if not any(address != other and address in other for other in found)]


def only_addresses(text: str, parts: list[str]) -> bool:
    """Whether a text is a list of addresses and nothing else."""
    for part in parts:
        text = text.replace(part, " ")
    return not re.sub(r"[\s,;<>\"]+", "", text)


# the forms that are compared


def plain_form(text: str) -> str:
    """A text in which values are looked for: compatibility forms, case and spacing are forgiven, nothing else."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def value_form(value: str) -> str:
    """A value as it is looked for in such a text."""
    form = plain_form(value).strip("\"'`<>()[]")
    form = re.sub(r"^(?:mailto:|https?://)", "", form)
    return form.lstrip("#@").rstrip("/")


def account_form(value: str) -> str:
    """An account, card or telephone number without its separators; empty where the value is none."""
    form = unicodedata.normalize("NFKC", value).strip()
    if not any(map(str.isdigit, form)) or not any(pattern.fullmatch(form) for pattern in (_IBAN, _WALLET, _DIGITS)):
        return ""
    return _SEPARATORS.sub("", form).casefold().lstrip("+")


def accounts_in(text: str) -> set[str]:
    """The accounts, cards and telephone numbers of a text, without their separators."""
    form = unicodedata.normalize("NFKC", text)
    return {
        _SEPARATORS.sub("", match[0]).casefold().lstrip("+")
        for pattern in (_IBAN, _WALLET, _DIGITS)
        for match in pattern.finditer(form)
    }


def stands_in(form: str, text: str) -> bool:
    """Whether a value stands in a text as a whole: not as a part of a longer name, number or address."""
    at = text.find(form)
    while at >= 0:
        before, after = text[:at][-9:], text[at + len(form) : at + len(form) + 2]
        if _begins(before) and _ends(after, form):
            return True
        at = text.find(form, at + 1)
    return False


def _begins(before: str) -> bool:
    if before.endswith("://"):
        return True
    return not before or not (before[-1].isalnum() or before[-1] in "_.@/+-%\\=&~'") or before[-2:] in ("- ", " '")


def _ends(after: str, form: str) -> bool:
    if not after:
        return True
    first, second = after[0], after[1:2]
    if first.isalnum() or first in "_@+%\\=&~-":
        return False
    if first in ".,:/?#'" and second:
        inside = second.isalnum() or second in "_-%"
        return not inside or (first in ",?" and not form[-1:].isdigit()) or (first == "'" and second == "s")
    return True


def looks_like(value: str) -> str:
    """The look of a value: two that a reader takes for one another are equal here."""
    return fold(value).replace(" ", "").translate(_DIGIT_LIKE)


_DIGIT_LIKE = str.maketrans("01", "ol")


def host_of(value: str) -> str:
    """The host that an address leads to; empty if it is unclear."""
    form = unicodedata.normalize("NFKC", value).strip().casefold()
    if re.search(r"[\\\s]", form) or not form.isprintable():
        return ""
    try:
        return urlsplit(form if "://" in form else f"//{form}").hostname or ""
    except ValueError:
        return ""


def fingerprint(namespace: str, value: str) -> str:
    """The ledger's mark for a value, which does not keep the value itself."""
    form = account_form(value) or value_form(value)
    return hashlib.sha256(f"{namespace}\0{form}".encode("utf-8", "surrogatepass")).hexdigest()[:24]


def numbers_in(text: str) -> set[float]:
    """The numbers of a text."""
    return {
        float(match[0].replace(",", "")) for match in re.finditer(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", text)
    }


# Whether a task asks for an action: the words in which people ask for each class of actions.
#
# Only requests count ("send", "make a payment"), not "the emails", "do not send" or "tell me". They are weak evidence,
# used for one thing: a call that no words ask for, made while a stranger's text is in mind, is asked about.

_VERBS: dict[ActionClass, frozenset[str]] = {
    ActionClass.SEND: word_set(
        "send email mail message write tell inform notify reply respond forward post publish remind contact invite "
        "schedule submit upload announce text dm share"
    ),
    ActionClass.PAY: word_set(
        "pay transfer refund buy purchase order book reserve charge donate wire subscribe settle rent schedule adjust "
        "update change"
    ),
    ActionClass.DELETE: word_set("delete remove cancel erase clear drop purge clean kick revoke undo"),
    ActionClass.EXECUTE: word_set("run execute start launch deploy install test build compile evaluate restart"),
    ActionClass.SHARE: word_set("share invite add grant give change update set reset allow"),
    ActionClass.WRITE: word_set("write create update set add append save edit change move rename schedule"),
}
_NEVER_NOUNS = word_set(
    "send write tell inform notify forward invite remind publish submit pay buy refund reserve donate settle delete "
    "remove erase execute install deploy grant reset append"
)
"""Verbs that need nothing before them to be one."""
_NOUNS: dict[ActionClass, frozenset[str]] = {
    ActionClass.PAY: word_set("reservation booking payment transfer transaction order purchase donation refund"),
    ActionClass.SEND: word_set("message email mail reply post announcement invitation"),
}
"""Nouns that people make, place or set up instead of using the verb."""
_MAKES = word_set("make place create set write")
_DETERMINERS = word_set("the a an my your his her their our this that these those any all each every no some")
_LEADS = word_set(
    "and then please to also you or just could would will can i we ll now kindly must should help d let us let's lets "
    "need want but so after afterwards finally first next otherwise immediately quickly automatically"
)
_NEGATIONS = word_set("not don't dont never without cannot no")
_TO_THE_USER = word_set("me us")
_WORD = re.compile(r"[\w']+|[.!?;:,\n()-]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ENDS = frozenset(".!?;\n")
_LOOKING = word_set("look looking looks")
_STOPS = frozenset(".!?;:,\n()-")
_WEB_PAGES = word_set(
    "website websites webpage webpages page pages article articles link links blog blogs url urls site sites web "
    "internet online"
)
"""Nouns of a task that asks for pages to be read."""
_GENERIC = word_set("get list search find read fetch check show view tool api call user data item")
_SYNONYMS = {
    "create": ("add",),
    "add": ("create",),
    "reschedule": ("move", "postpone"),
    "remove": ("kick",),
    "update": ("modify", "switch", "upgrade", "downgrade", "adjust", "swap", "replace"),
}
"""Other words for the verb that a tool is named by."""
_DO = word_set("do perform complete follow execute")
_WORK = word_set("actions tasks instructions steps todos requests")
_WHOSE = word_set("the all of my our your his her their every each")
"""Words that may stand before work described elsewhere; "these tasks" and "the following ones" are described here."""
_FIRMLY = word_set("please and then also kindly")
"""Words that may stand before an order without doubt: not "should I do", nor "what to do"."""
_NEAR = 5
"""Words between the noun and the word that makes it."""


def asks_for(text: str, tool: str, action: ActionClass) -> str:
    """The word with which a text asks for such an action; empty where none does."""
    if action is ActionClass.FETCH:
        return asks_for_pages(text)
    name = words_of(tool)
    own = {name[0], *_SYNONYMS.get(name[0], ())} - _GENERIC if name else set()
    verbs = _VERBS.get(action, frozenset()) | own
    words: list[str] = _WORD.findall(text.casefold().replace("’", "'"))
    for place, word in enumerate(words):
        if word in verbs and _is_request(words, place, word):
            return word
        if word in _MAKES and _negated(words, place) is False:
            near = words[place + 1 : place + 1 + _NEAR]
            made = near[: next((i for i, word_near in enumerate(near) if word_near in _STOPS), _NEAR)]
            if noun := next((word_near for word_near in made if word_near in _NOUNS.get(action, ())), ""):
                return noun
    return ""


def hands_over(text: str) -> str:
    """The words with which a text asks to follow another text ("do the tasks of Ann's list", "follow the
    instructions"); empty if there are none."""
    words: list[str] = _WORD.findall(text.casefold().replace("’", "'"))
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word not in _DO or not (not before or before in _STOPS or before in _FIRMLY) or _negated(words, place):
            continue
        work = next((after for after in words[place + 1 : place + 1 + _NEAR] if after not in _WHOSE), "")
        if work in _WORK:
            return f"{word} the {work}"
    return ""


def is_request_word(word: str) -> bool:
    """Whether people ask for some action with a word."""
    return any(word in verbs for verbs in _VERBS.values())


def asks_for_pages(text: str) -> str:
    """The word with which a text asks for pages that it does not name; a sentence that names pages asks for these
    alone."""
    for sentence in _SENTENCE.split(text):
        words: list[str] = _WORD.findall(sentence.casefold())
        spoken = {*words} & _WEB_PAGES
        if spoken and not addresses_in(sentence):
            return min(spoken)
    return ""


def _is_request(words: list[str], place: int, word: str) -> bool:
    before, after = words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else ""
    if after in _TO_THE_USER or _negated(words, place):
        return False
    if word == "share" and not _shared_with(words[place + 1 :]):
        return False
    if word == "forward" and before in _LOOKING:
        return False
    if not before or before in _STOPS or before in _LEADS:
        return True
    return word in _NEVER_NOUNS and before not in _DETERMINERS


def _shared_with(after: list[str]) -> bool:
    """Whether something is to be shared with a third person: "share the names" only asks for an answer."""
    clause = after[: next((i for i, word in enumerate(after) if word in _ENDS), len(after))]
    pairs = zip(clause, [*clause[1:], ""], strict=True)
    return any(word in ("with", "to", "on", "among", "between") and then not in _TO_THE_USER for word, then in pairs)


def _negated(words: list[str], place: int) -> bool:
    before = words[max(0, place - 4) : place]
    since = before[max((i + 1 for i, word in enumerate(before) if word in _STOPS), default=0) :]
    return bool({*since} & _NEGATIONS)
