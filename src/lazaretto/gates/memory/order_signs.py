"""Signs that a text gives orders to whoever reads it by machine, in four languages.

Three of them: it asks to be passed on itself (the order that makes a worm), it speaks to machines that read, or it
wants something kept from somebody. Honest texts say such things too ("forward this mail to everyone"), so a sign alone
holds nothing: it counts where the screener also finds the text faintly like an order.
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
    r"\b(?:forward|pass|copy|copies|repeat|includ|append|past(?:e|es|ing)\b|relay|resend|re-?post|shar(?:e|es"
    r"|ing)\b|propagat|spread"
    r"|send|adds?\b|adding\b|carr(?:y|ies)\b|attach|keep)"
    r"|\b(?:weiter(?:leit|geb|gib|reich|send|schick|sag|trag)|leite[nt]?\b|gib\b|gebt\b|geben\b|kopier|übernimm"
    r"|übernehm|übernomm"
    r"|wiederhol|(?:ein|an|hinzu)(?:zu)?füg|füge?n?t?\b|hänge?n?t?\b|schick|send|teile?n?t?\b|endet|enden|beginn"
    r"|enthält|enthalten)"
    r"|\b(?:reenv|copi|repit|repet|inclu|añad|agreg|pas[ae]|compart|env[ií]|pega|transm|difund)"
    r"|\b(?:transm|transf|copi|recopi|répèt|répét|inclu|ajout|partag|envo|coll(?:e|ez|er)\b|repren|reprise|diffus"
    r"|relay"
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
_MACHINES = re.compile(
    r"\b(?:language[ -]models?|llms?|chat ?bots?|(?:ai|chat|virtual|automated|digital) (?:assistants?|agents?"
    r"|helpers?|systems?"
    r"|readers?|models?))\b[^.!?\n]{0,40}?(?::|,? (?:should|must|please|shall|need to|are (?:asked|required"
    r"|expected))\b)"
    r"|\b(?:sprachmodellen?|chatbots?|(?:ki|virtuelle[nr]?|automatische[nr]?|digitale[nr]?)[ -](?:assisten\w{1,6}"
    r"|agenten|helfern?"
    r"|systemen?))\b[^.!?\n]{0,40}?(?::|,? (?:bitte|sollen|sollten|müssen)\b)"
    r"|\b(?:modelos? de lenguaje|chatbots?|(?:asistentes?|agentes?) (?:virtual(?:es)?|automátic[oa]s?"
    r"|digital(?:es)?|de ia))\b"
    r"[^.!?\n]{0,40}?(?::|,? (?:deben|deberían|por favor|han de)\b)"
    r"|\b(?:modèles? de langage|chatbots?|(?:assistants?|agents?) (?:virtuels?|automatiques?|numériques?|ia"
    r"|d['’]ia))\b"
    r"[^.!?\n]{0,40}?(?: ?:|,? (?:doivent|devraient|veuillez|merci de)\b)",
    re.I,
)
_SECRECY = re.compile(
    r"\b(?:do not|don['’]t|never|no need to|without|not) (?:\w{1,10} ){0,2}(?:tell|telling|inform|informing|notify"
    r"|notifying|alert"
    r"|alerting|bring (?:this|it) up|mention (?:this|it|that)|mentioning (?:this|it|that))\b|\b(?:nobody"
    r"|no one) (?:needs|has) to know\b"
    r"|\bkeep (?:this|it) (?:from|between us|quiet|to yourself)\b"
    r"|\b(?:niemandem?|keinem) [^.!?\n]{0,30}?(?:davon|etwas) (?:\w{1,10} )?(?:sagen|erzählen|verraten)\b"
    r"|\bnichts (?:davon )?zu (?:wissen|sagen|erfahren)\b|\bohne (?:\w{1,14} ){0,4}zu (?:informieren|melden"
    r"|erwähnen)\b"
    r"|\bsin (?:avisar|decírselo|informar|contarlo|decir nada)\b|\bno (?:se )?(?:lo |la )(?:digas|diga|digan"
    r"|menciones|mencione|cuentes)\b"
    r"|\bsans (?:en parler|prévenir|avertir|informer|le dire)\b|\bn['’]en (?:parle[zr]?|dites|dis)\b"
    r"|\bne le (?:dites|dis|mentionnez|signalez)\b",
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


def has_order_sign(text: str) -> bool:
    """Whether one of the three signs stands in a text."""
    return bool(_MACHINES.search(text) or _SECRECY.search(text)) or asks_to_be_copied(text)
