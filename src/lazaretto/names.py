"""The rule for ids, names of agents and namespaces: one rule and one limit, at the door and in the ledger.

``warn_old_name`` warns where code uses the old name of something that has another one now, and ``counted`` writes a
number with its noun.
The table of look-alikes is written out: Python has none, and Unicode's full list folds far more than a reader would
mistake.
"""

from __future__ import annotations

import functools
import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from lazaretto.errors import InputError, TooLarge

Given = ParamSpec("Given")
Made = TypeVar("Made")
MAX_NAME = 512
"""Longest id, agent or namespace, in characters."""

_LOOKALIKES = (
    ("абвгеёзиіјкмнорсѕтухцһԁԛԝьү", "a6bree3uijkmhopcstyxuhdqwby"),
    ("АВСЕНІЈКМОРЅТХУԌԚԜЗЫ", "ABCEHIJKMOPSTXYGQW3b"),
    ("αβγειικνορτυχωη", "abyeiikvoptuxwn"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    ("օոսհցքԛ", "onuhgpq"),
    ("ıɑɡℓ", "iagl"),
)
CONFUSABLE: dict[int, str] = {
    ord(foreign): latin for pair in _LOOKALIKES for foreign, latin in zip(pair[0], pair[1], strict=True)
}
"""Foreign letter -> the Latin letter it looks like."""

_LATIN = re.compile(r"LATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL )?([A-Z])(?: WITH .+)?")
_ALIKE = str.maketrans("0i1|ӏѵѡ", "ollllvw")
_PAIRS = {"rn": "m", "vv": "w"}
"""Letters and digits that look alike in many typefaces: of names, where a person would not notice the difference."""

MAX_KIND = 20
"""Longest kind of a principal, which stands before its name."""
MAX_PRINCIPAL = 2 * MAX_NAME + 1
"""Longest name of a principal: that of a key, a slash and that of an agent."""


def look_of(name: str) -> str:
    """A name as people read it: names that differ in case, spacing, signs, accents or look-alike letters and digits are
    one."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name))
    folded = "".join(map(_latin, plain.translate(CONFUSABLE))).casefold().translate(CONFUSABLE).translate(_ALIKE)
    for pair, letter in _PAIRS.items():
        folded = folded.replace(pair, letter)
    return "".join(filter(str.isalnum, folded)) or folded


def _latin(letter: str) -> str:
    """The plain letter of a Latin one with a stroke or hook, or in the form of a small capital, as Unicode names it."""
    if letter.isascii():
        return letter
    found = _LATIN.fullmatch(unicodedata.name(letter, ""))
    return found[1] if found else letter


_LONGEST_SHOWN, _MOST_WORDS = 64, 5
_WORDS = re.compile(r"[^\W\d_]{2,}")


def is_sentence(name: str) -> bool:
    """Whether a name is long enough to say something, though it is one word or has other signs for blanks. Agents
    choose theirs, so these are not handed to models."""
    return len(name) > _LONGEST_SHOWN or name.count(" ") > 2 or len(_WORDS.findall(name)) > _MOST_WORDS


def check_name(value: object, field: str, *, empty: bool = False, printable: bool = False, most: int = MAX_NAME) -> str:
    """``value`` if every store can hold it as a name; else an error that names ``field``.

    ``printable`` is for input of callers: no blank names, and nothing that a terminal would hide or obey. The
    ledger asks for less, so that names stored before can still be read, repaired and erased.
    """
    if type(value) is str and value.isascii() and 0 < len(value) <= MAX_NAME and value.isprintable() and value.strip():
        return value  # nearly every name, without the questions below
    if not isinstance(value, str):
        raise InputError(field, f"is {type(value).__name__}, not text", "Give a name")
    if not value and empty:
        return value
    if not value or (printable and not value.strip()):
        raise InputError(field, "is empty", "Give a name")
    if len(value) > most:
        raise TooLarge(field, len(value), most, "Use a shorter name", unit="characters")
    if printable and not value.isprintable():
        raise InputError(field, f"{value!r} holds characters that cannot be printed", "Use ordinary letters and digits")
    if "\0" in value:
        raise InputError(field, "holds a NUL character", "Remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(field, "is not valid Unicode (a lone surrogate)", "Decode it with errors='replace'") from None
    return value


def check_principal(value: object) -> str:
    """``check_name`` of who is behind a write: its kind, a colon, and its name."""
    kind, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if colon and kind.isascii() and kind.isalpha() and len(kind) <= MAX_KIND:
        check_name(name, "principal", printable=True, most=MAX_PRINCIPAL)
        return f"{kind}:{name}"
    fix = "Give its kind and its name, such as 'key:scout' or 'process:scout'"
    raise InputError("principal", f"is {value!r}, which says no kind", fix)


def check_names(values: Sequence[Any], field: str) -> Sequence[str]:
    """``check_name`` of many at once: whole columns are asked the questions, and single names only when one fails."""
    if set(map(type, values)) == {str}:
        # a NUL between the names: one more of them means that a name holds one
        joined = "\0".join(values)
        lengths = list(map(len, values))
        if joined.isascii() and joined.count("\0") == len(values) - 1 and min(lengths) and max(lengths) <= MAX_NAME:
            return values
    return [check_name(value, field) for value in values]


def check_ids(values: object, field: str, most: int, setting: str = "") -> tuple[str, ...]:
    """A caller's list of item ids, each once, in order, ``most`` of them, as a ``setting`` of the policy says."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(field, f"is {type(values).__name__}, not a list of ids", "Give a list of item ids")
    if len(values) > most:
        raise TooLarge(field, len(values), most, "Give fewer", unit="ids", setting=setting)
    return tuple(dict.fromkeys(check_name(name, field, printable=True) for name in values))


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 item", "2 items"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def warn_old_name(old: str, new: str, depth: int = 3) -> None:
    """Warn the caller of an old name that has ``new`` in its place; ``depth`` as of ``warnings.warn``."""
    warnings.warn(f"{old} is now {new}; the old name goes in 0.3", DeprecationWarning, stacklevel=depth)


def old_argument(owner: str, old: str, new: str) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Decorator of a function whose argument ``new`` had another name: that one works still, with a warning."""

    def renamed(work: Callable[Given, Made]) -> Callable[Given, Made]:
        @functools.wraps(work)
        def called(*given: Given.args, **named: Given.kwargs) -> Made:
            if old in named:
                warn_old_name(f"{owner}({old}=)", f"{new}=")
                named[new] = named.pop(old)
            return work(*given, **named)

        return called

    return renamed
