"""Lines that only point at a place: a command that installs or fetches, the markup of a picture or of its link.

Pages are full of them. The use of the package or the address stands elsewhere on the page, or nowhere: two such lines
with two packages speak of two packages, and do not contradict each other. "The parser needs the package ..." says its
use, and is compared like everything else.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from difflib import SequenceMatcher

from lazaretto.gates.memory.claims.extraction import Claim, found_once, moves_money_or_access

_COMMAND = re.compile(
    r"[$>#%`\s]*(?:(?:sudo|uv|python3?|py|-m|!)\s+)*(?:pip3?|npm|yarn|pnpm|cargo|gem|brew|apt|apt-get|conda|mamba|uv|"
    r"poetry|composer)\s+(?:install|add|get|i|require)\s(?P<rest>[^\n]+)"
)
_OPTION = re.compile(r"--?[a-z][\w-]*", re.I)
_PACKAGE = re.compile(r"[@a-z0-9][\w@./-]*(?:\[[\w,-]+\])?(?:[=<>~!^]=?[\w.*,<>=]+)?", re.I)
_CLONE = re.compile(r"[$>#%`\s]*git clone (?:-\S+ )*\S+")
_PICTURE = re.compile(
    r"(?:\.\. (?:\|[\w -]{1,40}\| )?(?:image|figure):: ?|:(?:target|alt|width|height|align): ?)\S*"
    r"|(?:\[!|!)\[(?P<label>[A-Za-z -]{0,30})\]\([^\s()]+\)(?:\]\([^\s()]+\))?"
    r"|(?:</?(?:img|a|source|picture|p|br|div|center)\b[^<>]*>\s*)+", re.I
)  # fmt: skip
_ALT = re.compile(
    r"(?<![a-z-])(?!(?:src|href|srcset|width|height|align|class|target|rel)\b)[a-z-]+=(?P<mark>[\"'])(?P<label>.*?)(?P=mark)",
    re.I,
)
_LONGEST_NAME = 100
_ALIKE = 0.75
"""Share of letters in common from which on two names may be one with a spelling mistake."""


def two_pointers(old: Claim, new: Claim) -> bool:
    """Whether two lines only point at things, and at two of them. Names that are nearly the same are compared all the
    same: "reqeusts" may be meant to pass for "requests"."""
    ours, theirs = _installed(old), _installed(new)
    if ours and theirs:
        return ours != theirs and not alike(ours, theirs)
    here, there = _shown(old), _shown(new)
    if any(alike(a, b) for a in _fetched(old) for b in _fetched(new)):  # one repository from two places
        return False
    hosts = [_hosts(a, b) for a in here for b in there]
    return bool(hosts) and not here & there and not any(a != b and alike(a, b) for a, b in hosts)


@found_once
def _installed(claim: Claim) -> str:
    """The package, where a text is nothing but a command that installs one."""
    found = _COMMAND.fullmatch(claim.text.strip().rstrip("`"))
    words = [] if found is None else [word for word in found["rest"].split() if not _OPTION.fullmatch(word)]
    if len(words) != 1 or not _PACKAGE.fullmatch(words[0]):
        return ""  # a second word may be an option's value: another index, another place
    return re.split(r"[=<>~!^\[]", words[0].casefold())[0].replace("_", "-")


@found_once
def _shown(claim: Claim) -> frozenset[str]:
    """The addresses of a text that is nothing but the markup of a picture, or of what it leads to, or a command that
    fetches a repository. A picture's label may be a word that says what it is of, but none of money, access or safety."""
    text = claim.text.strip()
    found = _PICTURE.fullmatch(text)
    if found is None and not _CLONE.fullmatch(text):
        return frozenset()
    labels = [match["label"] or "" for match in (*([found] if found else []), *_ALT.finditer(text))]
    if any(len(label.split()) > 1 or moves_money_or_access(label) for label in labels):
        return frozenset()  # more than a word may say what it is for, and is compared
    return frozenset(value.norm for value in claim.values if value.kind == "host")


@found_once
def _fetched(claim: Claim) -> frozenset[str]:
    """The repository that a command fetches, without its place."""
    found = _CLONE.fullmatch(claim.text.strip())
    name = found[0].rstrip("/`").rpartition("/")[2].casefold().removesuffix(".git") if found else ""
    return frozenset({name} if name else ())


def _hosts(first: str, second: str) -> tuple[str, str]:
    """The hosts of two addresses, without what both end with: of ``a.docs.example`` and ``b.docs.example`` a and b."""
    a, b = (name.partition("/")[0].split(".") for name in (first, second))
    while len(a) > 1 and len(b) > 1 and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return ".".join(a), ".".join(b)


def alike(first: str, second: str) -> bool:
    """Whether two names may be meant for one: one holds the other, or they are nearly the same. Long ones are compared
    as claims: names have no such length, and likeness takes time that grows with its cube."""
    if first in second or second in first or max(len(first), len(second)) > _LONGEST_NAME:
        return True
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= _ALIKE
