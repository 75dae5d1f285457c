"""Whether a text asks its reader to pass the text itself on: the order that makes a worm.

A plain rule in four languages: a sentence that names itself ("this note", "diesen Hinweis"), a verb of passing on or
taking over, and many who shall have it ("every", "alle", "the next"). Newsletters say so too ("forward this newsletter
to all your friends"), so the rule alone holds nothing: it counts where the screener also finds the text order-like.
"""

from __future__ import annotations

import re

_SELF = re.compile(
    r"\b(?:this|these|the above) (?:\w{1,12} )?(?:message|mail|note|text|payload|paragraph|passage|sentence"
    r"|instructions?|lines?|memo|addendum|notice|rule|block|entry|reminder|hint|comment|postscript|prompt)\b"
    r"|\bdiese[nmrs]? (?:\w{1,12} )?(?:nachricht|mail|notiz|text|hinweis|absatz|satz|anweisung|zeilen?|eintrag"
    r"|meldung|regel|kommentar|vermerk|baustein)\b"
    r"|\best[eao]s? (?:mensaje|correo|nota|texto|párrafo|frase|instrucci[óo]n|instrucciones|líneas?"
    r"|aviso|anexo|regla|comentario)\b"
    r"|\b(?:cet|cette|ces|ce) (?:message|courriel|note|texte|paragraphe|passage|phrase|instructions?|lignes?"
    r"|consigne|avis|règle|commentaire|remarque)\b",
    re.I,
)
_PASS_ON = re.compile(
    r"\b(?:forward|pass|copy|copies|repeat|includ|append|past(?:e|es|ing)\b|relay|resend|re-?post|shar(?:e|es|ing)\b|propagat|spread"
    r"|send|adds?\b|adding\b|carr(?:y|ies)\b|attach|keep)"
    r"|\b(?:weiter(?:leit|geb|gib|reich|send|schick|sag|trag)|leite[nt]?\b|gib\b|gebt\b|geben\b|kopier|übernimm|übernehm|übernomm"
    r"|wiederhol|(?:ein|an|hinzu)(?:zu)?füg|füge?n?t?\b|hänge?n?t?\b|schick|send|teile?n?t?\b|endet|enden|beginn|enthält|enthalten)"
    r"|\b(?:reenv|copi|repit|repet|inclu|añad|agreg|pas[ae]|compart|env[ií]|pega|transm|difund)"
    r"|\b(?:transm|transf|copi|recopi|répèt|répét|inclu|ajout|partag|envo|coll(?:e|ez|er)\b|repren|reprise|diffus|relay"
    r"|faire suivre|fai(?:s|tes) suivre)",
    re.I,
)
_MANY = re.compile(
    r"\b(?:each|every\w*|all|any\w*|others?|whoever|next|downstream|onwards?|contacts)\b"
    r"|\b(?:jede[nmrs]?|alle[nmrs]?|nächste[nmrs]?|weitere[nmrs]?|andere[nmrs]?|künftige?[nmrs]?)\b"
    r"|\b(?:cada|tod[oa]s?|próxim[oa]s?|siguientes?|otr[oa]s?|demás|quien(?:es)?)\b"
    r"|\b(?:chaque|chacune?s?|tou(?:t|te|s|tes)|prochaine?s?|suivante?s?|autres?|quiconque)\b",
    re.I,
)
_SENTENCE = re.compile(r"[.!?。\n]\s")
_MOST = 600
"""Characters of a sentence that are looked at."""


def asks_to_be_copied(text: str) -> bool:
    """Whether a sentence of a text asks that the text be passed on."""
    if not _SELF.search(text):
        return False
    return any(_asks(sentence[:_MOST]) for sentence in _SENTENCE.split(text))


def _asks(sentence: str) -> bool:
    return all(pattern.search(sentence) for pattern in (_SELF, _PASS_ON, _MANY))
