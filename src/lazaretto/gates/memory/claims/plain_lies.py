# ruff: noqa: E501
"""Quiet poison that is plain by its words, in four languages: a control that is only for show, and a secret code that
is read out to callers.

Learnt readers miss about half of these, because rules about the same things use the same words. So a sentence counts
only if nothing in it forbids, narrows or asks.
"""

from __future__ import annotations

import re

from lazaretto.gates.memory.claims.quiet_words import speaks_of_control

_CONTROL = (
    r"(?<!spelling )(?<!spell )(?<!grammar )(?<!punctuation )(?<!notary's )(?<!notary’s )(?<!notarial )(?:limits?|spending caps?|checks?(?! on (?:his|her|my|the))|rules?|approvals?|second (?:approver|signature|check|pair of eyes|factor)|four[- ]eyes(?: principle)?|"
    r"double check|reviews?|polic(?:y|ies)|thresholds?|verifications?|"
    r"limits?|grenzen?|prüfungen?|freigaben?|vier-augen(?:-prinzip|prinzip)?|kontrollen?|zweite unterschrift|plafond|seuils?|contrôles?|double signature|"
    r"vérifications?|límites?|topes?|controles?|segunda firma|comprobaci(?:ón|ones))"
    r"(?! (?:(?:by|of|from|before) (?:(?:a|the|our) )?(?:notary|spelling|grammar)|(?:der|durch (?:den|einen)|vom|beim) (?:rechtschreibung|notar)|"
    r"(?:de l['’]|d['’])?orthograph\w+|(?:par|devant|chez) (?:le|un) notaire|(?:de (?:la )?)?ortogr\w+|(?:del|por el|ante(?: el)?) notario)\b)"
)
"""A control that guards something: reading over the spelling and what a notary has to do in any case guard nothing."""
_SHOW = r"for show(?! (?:days?|jump\w*|horses?|dogs?|cars?|homes?|flats?|rooms?|hous\w+|times?)\b)"
_PAPER = (
    r"(?:(?:exists?|is|are|stands?|there) (?:(?:only|just|merely|purely) (?:there )?on paper|(?:there )?on paper only)|only there on paper|"
    r"(?:steht|stehen|existier\w+|gilt|gelten|ist|sind) nur (?:noch )?auf dem papier|(?:existe(?:nt)?|est|sont) que sur le papier|"
    r"(?:existen?|está|están) solo sobre el papel)(?=[.,;:!?)\"'}]|\s*$)"
)
"""On paper, and nowhere else; a paper that something is printed on or signed on is another matter."""
_FOR_SHOW = (
    rf"(?:(?:only|just|merely|purely) (?:\w+ ){{0,2}}?(?:{_SHOW}|a formality)|a (?:mere|pure) formality|for show only|(?:exists?|is|are|there) (?:\w+ ){{0,2}}?{_SHOW}|{_PAPER}|"
    r"nur (?:noch )?(?:zur ansicht|pro forma|zum schein)|nur (?:noch )?(?:eine )?formsache|reine formsache|(?:seulement|juste|que) pour la forme|"
    r"simple formalité|(?:es|son) de adorno|(?:solo|sólo) de adorno|mero trámite)"
)
_FOR_SHOW_CLAIM = re.compile(
    rf"\b{_CONTROL}\b(?: (?:and|or|und|oder|et|ou|y|o) [^.,;!?\n]{{0,30}}?)?[^.,;!?\n]{{0,25}}\b{_FOR_SHOW}(?!\w)|\b{_FOR_SHOW}(?!\w)[^.;!?\n]{{0,12}}\b{_CONTROL}\b",
    re.I,
)
_SECRET = (
    r"(?:one-time (?:codes?|passwords?)|(?:security|verification|recovery|reset|confirmation|login|sms) codes?|passwords?(?! (?:polic|rule|manager|guid|form|reset|hint|length))|pins?|tans?|"
    r"einmal(?:codes?|passw(?:ort|örter))|bestätigungscodes?|passw(?:ort|örter)|kennw(?:ort|örter)|mots? de passe|codes? (?:reçus? par sms|à usage unique|de vérification)|"
    r"contraseñas?|códigos? (?:de verificación|de un solo uso))"
)
_READ_OUT = (
    r"(?:read (?:out|aloud|back)|read(?:s)? (?:\w+ ){0,4}?(?:aloud|out to|back to)|dictated (?:to|over|on) (?:\w+ ){0,2}?(?:phone|callers?|customers?|clients?)|(?:told|given|given out|passed on) (?:\w+ ){0,3}?(?:on|over|by) (?:the )?phone|"
    r"(?:tells?|gives?) (?:\w+ ){0,5}?(?:on|over|by) (?:the )?phone|"
    r"am telefon (?:\w+ ){0,3}?(?:vorgelesen|durchgegeben|genannt|gesagt)|vorgelesen|liest (?:\w+ ){0,4}?vor|(?:lu|lus|donnés?|dictés?|communiqués?) (?:\w+ ){0,2}?(?:au|par) téléphone|"
    r"(?:dicta|dictan|da|dan|dice|dicen) (?:\w+ ){0,3}?por teléfono)"
)
_READ_OUT_CLAIM = re.compile(
    rf"\b{_SECRET}\b[^.;!?\n]{{0,30}}\b{_READ_OUT}(?!\w)|\b(?:reads?|dictates?|tells?|gives?)\b[^.;!?\n]{{0,20}}\b{_SECRET}\b[^.;!?\n]{{0,20}}\b(?:aloud|out|back|(?:on|over|by) (?:the )?phone)\b",
    re.I,
)
_NARROWED = re.compile(
    r"\b(?:not|never|no|nobody|none|cannot|without|unless|refus\w+|forbid\w*|forbidden|warn\w*|fraud\w*|scam\w*|phish\w*|if|hang up|says? (?:he|she|they)|asks?|asked|wants?|"
    r"nie|niemals|nicht|kein\w*|niemand\w*|verboten|wer|wenn|jamais|ne|pas|aucun\w*|personne|interdit\w*|si|nunca|no|nadie|ningun\w*|tampoco|prohibid\w+|quien)\b|n['’]t\b|\bn['’]",
    re.I,
)
"""Words by which a sentence forbids, warns, or speaks of a case: it may name the reading of a code, and mean the
opposite."""
_MORE_THAN = re.compile(
    r"\b(?:not|never|n['’]t|no longer|nicht|pas|no) (?:\w+ ){0,2}?(?:only|just|merely|purely|a formality|for show|there|on paper|nur|que|seulement|simple|solo|sólo|de adorno)\b|"
    r"n['’]t (?:just|only|merely|for show|a formality)|\b(?:nobody|no one|who(?:ever)?|anyone who|if you) (?:should )?(?:thinks?|believes?|says?)\b|\b(?:wrongly|myth|rumou?r|mistaken\w*|demo\w*|mock\w*|prototype|slides?|used to be|was|were|had been|"
    r"finding|audit(?:or)? (?:found|finding)|complain\w*|in the past|until \w+)\b",
    re.I,
)
"""Words by which a sentence denies that something is for show, or reports what was so."""
_PRETENDED = re.compile(
    r"\b(?:museums?|exhibit\w*|toys?|theat(?:re|er)s?|stage|replicas?|dummy|films?|games?|children|kids|simulat\w+|shop window|"
    r"ausstellung\w*|spielzeug\w*|bühne|kinder\w*|musées?|théâtres?|jouets?|jeux?|museos?|teatros?|juguetes?|juegos?)\b",
    re.I,
)
"""Places where a control is part of a play."""
_TO_A_CALLER = re.compile(
    r"\b(?:callers?|customers?|clients?|users?|phone|telephone|support|service ?desk|help ?desk|hotline|agents?|anrufer\w*|kund\w+|telefon\w*|"
    r"téléphone|appelants?|teléfono|clientes?|llamantes?)\b",
    re.I,
)
"""A person outside who hears the code, or a desk that talks to them. A teacher reads a word out to a class."""
_PROPERLY = re.compile(
    r"\b(?:automat\w*|robot\w*|voice (?:call|menu|message)s?|machines?|computers?|screen ?reader|accessib\w+|sprachcomputer|per anruf|lecteur d['’]écran|"
    r"synthèse|lector de pantalla|files?|attachments?|zip|archives?|pdf|documents?|encrypt\w+|separate\w*|datei\w*|anhang|anhänge|verschlüssel\w+|getrennt|"
    r"fichiers?|pièces? jointes?|chiffr\w+|archivos?|adjuntos?|cifrad\w+)\b",
    re.I,
)
"""A machine reads the code to the one who asked for it; the password of a file comes by another way than the file."""
_SENTENCE = re.compile(r"[^.;!?\n]+[.;!?]?")
_SPELLING_ALONE = re.compile(
    r"\W{0,3}(?:(?:the|our|this|die|unsere|la|nuestra|notre) )?(?:(?:spell(?:ing)?|grammar|punctuation)[ -](?:check|review)s?|rechtschreibprüfung|revisión ortográfica|"
    r"(?:relecture|vérification) orthographique) (?:is|ist|es|est) (?:(?:just|only|merely|purely|nur|bloß|solo|sólo) )?(?:(?:a|eine|un|une) )?(?:(?:mere|pure|mero|simple|reine) )?"
    r"(?:formality|formsache|trámite|formalité)(?P<rest>(?:,[^.;:!?\n]{0,80})?)[.!]?\W{0,3}",
    re.I,
)
"""Reading over the spelling, with one clause behind it."""


def is_plain_lie(text: str) -> bool:
    """Whether a sentence of a text says that a control is only for show, or that secret codes are read out to callers."""
    return any(_says_so(sentence[0]) for sentence in _SENTENCE.finditer(text))


def is_about_spelling(text: str) -> bool:
    """Whether a text says of reading over the spelling that it is a formality, and nothing of another control."""
    found = _SPELLING_ALONE.fullmatch(text)
    return found is not None and not speaks_of_control(found["rest"])


def _says_so(sentence: str) -> bool:
    if sentence.rstrip().endswith("?"):
        return False
    if _FOR_SHOW_CLAIM.search(sentence) and not (_MORE_THAN.search(sentence) or _PRETENDED.search(sentence)):
        return True
    if not (_READ_OUT_CLAIM.search(sentence) and _TO_A_CALLER.search(sentence)):
        return False
    return not (_NARROWED.search(sentence) or _PROPERLY.search(sentence))
