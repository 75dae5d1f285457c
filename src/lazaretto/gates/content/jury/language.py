"""Whether a text is in the one language the jury's models were trained on: English.

A judge that cannot read a text must not pretend to: such items get the widest interval and go to a person. Function
words are enough to tell; a language identifier would be a dependency of a hundred megabytes for one bit.
"""

from __future__ import annotations

import re

_ENGLISH_WORDS = (
    "the a an of to in is are was were be been and or but not no it its this that these those for on with as at by "
    "from i you he she we they me my your his her our their what how why who when where which can could will would "
    "should do does did have has had if then than there here about into over more some any all one out up so just "
    "please"
)
# Spanish, Portuguese, French, Italian, German, Dutch, Swedish, Polish, Turkish, Indonesian, Vietnamese, Romanian,
# Czech, Finnish, Hungarian: words that are frequent there and rare in English.
_LATIN_WORDS = (
    "el la los las de que y en un una por con para como es se del al lo su más pero o os das dos não uma com da em "
    "le les des et est dans pour qui sur avec ce cette je vous nous il elle di che e per sono della un' gli nel "
    "der und ist nicht ein eine ich zu den mit auf für von dem wie het een van niet ik dat och att det som "
    "är inte jag w nie na się z jest jak co ve bir bu için ne nasıl yang dan untuk dengan saya apa adalah tidak "
    "và là của có không cho một tôi și în nu este cu care že ja ei että hogyan és egy az nem"
)
_ENGLISH, _LATIN = frozenset(_ENGLISH_WORDS.split()), frozenset(_LATIN_WORDS.split())
_WORD = re.compile(r"[^\W\d_]+")
_FEWEST_WORDS = 4


def unfamiliar(text: str) -> bool:
    """Whether the text is clearly not English: another script, or another language's function words."""
    words = [w.lower() for w in _WORD.findall(text)]
    letters = sum(map(len, words))
    if not letters:
        return False
    foreign = sum(1 for w in words for c in w if ord(c) > 0x24F)
    if foreign / letters > 0.3:
        return True
    if len(words) < _FEWEST_WORDS:
        return False
    english = sum(w in _ENGLISH for w in words) / len(words)
    other = sum(w in _LATIN for w in words) / len(words)
    return other > 1.5 * english and other > 0.1
