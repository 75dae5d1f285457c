"""Misspelt words of orders, put right: "iggnore prevoius instructons" says what the same words say when well spelt.

Only words that orders to agents are made of, a single slip, letters twice or inner letters in another order away, and
only where several are misspelt: an honest text
with slips says then what its writer meant.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from lazaretto.reading.encoded import english

_CUES = (
    "ignore disregard forget override overrule bypass previous prior above earlier instruction instructions guideline "
    "guidelines directive directives system prompt prompts assistant assistants agent agents immediately everything "
    "everyone always forward transfer upload reveal disclose password passwords passphrase secret secrets token tokens "
    "credential credentials execute delete disable approve confirm confirmation account accounts balance invoice "
    "invoices backup backups message messages policy policies administrator customer customers nobody anyone without "
    "about payment payments wallet conversation operator developer safety security permission"
)
_NAMES = tuple(_CUES.split())
_WORDS_OF_THEIR_OWN = (
    "argent ballet conform forge forgot massage police precious priory promote repeal revel promos systemes safely "
    "taken waller walled woken approval balancer pallet unload agente agenten agentes agenti assistent assistente "
    "asistente confirma confirme confirmo directie directiva ignora ignorer ignorez ignoro operador operateur "
    "administrador passwort secreto secreta secrete systeme sistem"
)
"""One letter from a cue, and no slip: other words of English, and those of languages near to it."""
_ENDINGS = ("s", "d", "r", "ed", "er", "rs", "ers", "ing", "al", "ly")
"""Of other forms of a cue, which is left as it is, in the place of its last letter or after it."""
_WORD = re.compile(rf"(?<![A-Za-z])[A-Za-z]{{5,{max(map(len, _NAMES)) + 1}}}(?![A-Za-z])")
"""No longer word is one slip away from a cue."""
_FEWEST, _LEAST_ENGLISH = 2, 0.1
_TWICE = re.compile(r"([a-z])\1+")
_FEWEST_TWICE = 2
_LEAST_SCRAMBLED = 6
"""Letters of a cue that is known by its letters in any order between the first and the last."""


def spelled_right(text: str) -> str:
    """The text with misspelt cues put right; as it stands where there are fewer than two, or where it is no English."""
    slips = set[str]()

    def right(match: re.Match[str]) -> str:
        word = match[0].lower()
        meant = _meant(word)
        if not meant:
            return match[0]
        slips.add(word)
        return meant

    read = _WORD.sub(right, text)
    return read if len(slips) >= _FEWEST and english(read) >= _LEAST_ENGLISH else text


def _meant(word: str) -> str:
    """The cue that a misspelt word means; empty for any other word."""
    if word in _well_spelt():
        return ""
    cues = _cues()
    near = (cue for shorter in _shortened(word) for cue in cues.get(shorter, ()))
    meant = next((cue for cue in near if _one_slip(word, cue)), "")
    return meant or _drawn_out(word) or _scrambled().get(_outline(word), "")


def _drawn_out(word: str) -> str:
    """The cue that is left of a word without its double letters, if need be with one slip: "innstrucctionss"."""
    bare = _TWICE.sub(r"\1", word)
    if len(word) - len(bare) < _FEWEST_TWICE:
        return ""
    near = (cue for shorter in _shortened(bare) for cue in _cues_once().get(shorter, ()))
    return next((cue for cue in near if _one_slip(bare, _TWICE.sub(r"\1", cue))), "")


def _outline(word: str) -> tuple[str, str, str]:
    """The same for words whose inner letters changed places, which people read all the same."""
    return word[0], "".join(sorted(word[1:-1])), word[-1]


@functools.cache
def _scrambled() -> dict[tuple[str, str, str], str]:
    return {_outline(cue): cue for cue in _NAMES if len(cue) >= _LEAST_SCRAMBLED}


@functools.cache
def _cues_once() -> dict[str, tuple[str, ...]]:
    """As ``_cues``, without double letters."""
    found: dict[str, tuple[str, ...]] = {}
    for cue in _NAMES:
        for form in _shortened(_TWICE.sub(r"\1", cue)):
            found[form] = (*found.get(form, ()), cue)
    return found


@functools.cache
def _well_spelt() -> frozenset[str]:
    """Cues, other forms of them, and words of their own."""
    forms = {form for cue in _NAMES for end in _ENDINGS for form in (cue, cue + end, cue[:-1] + end)}
    return frozenset(_WORDS_OF_THEIR_OWN.split()) | forms


@functools.cache
def _cues() -> dict[str, tuple[str, ...]]:
    """Cues by each of their forms that lack a letter: a word with one slip shares such a form with its cue."""
    found: dict[str, tuple[str, ...]] = {}
    for cue in _NAMES:
        for form in _shortened(cue):
            found[form] = (*found.get(form, ()), cue)
    return found


def _shortened(word: str) -> Iterator[str]:
    yield word
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]


def _one_slip(word: str, cue: str) -> bool:
    """A letter too many, one missing, one wrong, or two that changed places."""
    start = next((at for at, (a, b) in enumerate(zip(word, cue, strict=False)) if a != b), min(len(word), len(cue)))
    end = 0
    while end < min(len(word), len(cue)) - start and word[-1 - end] == cue[-1 - end]:
        end += 1
    ours, theirs = word[start : len(word) - end], cue[start : len(cue) - end]
    return max(len(ours), len(theirs)) <= 1 or (len(ours) == 2 and ours == theirs[::-1])
