"""Which language a text is in, for models that know English alone: what they cannot read they must not judge."""

from __future__ import annotations

from functools import cache
from typing import Any

from lazaretto.errors import MissingExtra

_READ = 4_000
"""Characters looked at: a language shows in its first page."""
_SURE = 0.7
_NO_LANGUAGE = ("en", "zxx", "und")


def language_of(text: str) -> str:
    """``en`` unless the text is surely in another language; code, tables and fragments count as ``en``."""
    start = text[:_READ]
    letters = [c for c in start if c.isalpha()]
    if not letters:
        return "en"
    language, confidence = _identifier().classify(start)
    if sum(c > "\u024f" for c in letters) > len(letters) / 2:  # mostly past the Latin letters: never English
        return str(language) if language not in _NO_LANGUAGE else "und"
    return str(language) if confidence >= _SURE and language not in _NO_LANGUAGE else "en"


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise MissingExtra("telling languages apart", "gates") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
