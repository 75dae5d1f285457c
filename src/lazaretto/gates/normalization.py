"""How a text looks, apart from how it is written: the folding under which trivial edits vanish.

The table of look-alikes is written out here: Python has no such data, the packages that carry Unicode's full list fold
far more than a reader would mistake (and load megabytes for it), and what evades filters in practice is the handful
of Cyrillic, Greek and Armenian letters that look Latin. Full-width, mathematical and circled letters need no
table: NFKC folds them.
"""

from __future__ import annotations

import re
import unicodedata

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

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that show nothing: zero width, direction marks, fillers, selectors, tags."""

_LATIN = re.compile("[A-Za-z]")
_GAP = re.compile(r"[\W_]+")


def fold(text: str) -> str:
    """The same string for texts that differ only in case, spacing, punctuation, look-alikes or invisible characters."""
    seen = unicodedata.normalize("NFKC", INVISIBLE.sub("", text))
    seen = INVISIBLE.sub("", seen)
    if _LATIN.search(seen):  # a text in one foreign alphabet disguises nothing
        seen = seen.translate(CONFUSABLE).casefold().translate(CONFUSABLE)
    return _GAP.sub(" ", seen.casefold()).strip()
