# ruff: noqa: E501
"""Quiet poison that is plain by its words, in four languages: a control that is only for show, and a secret code that
is read out to callers.

Learnt readers miss about half of these, because rules about the same things use the same words. So a sentence counts
only if nothing in it forbids, narrows or asks.
"""

from __future__ import annotations

import re

_CONTROL = (
    r"(?:limits?|spending caps?|checks?(?! on (?:his|her|my|the))|rules?|approvals?|second (?:approver|signature|check|pair of eyes|factor)|four[- ]eyes(?: principle)?|"
    r"double check|reviews?|polic(?:y|ies)|thresholds?|verifications?|"
    r"limits?|grenzen?|prüfungen?|freigaben?|vier-augen(?:-prinzip|prinzip)?|kontrollen?|zweite unterschrift|plafond|seuils?|contrôles?|double signature|"
    r"vérifications?|límites?|topes?|controles?|segunda firma|comprobaci(?:ón|ones))"
)
_FOR_SHOW = (
    r"(?:(?:only|just|merely|purely) (?:\w+ ){0,2}?(?:for show|on paper|a formality)|for show only|(?:exists?|is|are|there) (?:\w+ ){0,2}?for show|"
    r"on paper only|"
    r"nur (?:noch )?(?:zur ansicht|auf dem papier|pro forma|zum schein)|reine formsache|que sur le papier|(?:seulement|juste|que) pour la forme|"
    r"simple formalité|(?:es|son) de adorno|(?:solo|sólo) de adorno|mero trámite|solo sobre el papel)"
)
_FOR_SHOW_CLAIM = re.compile(
    rf"\b{_CONTROL}\b[^.,;!?\n]{{0,25}}\b{_FOR_SHOW}\b|\b{_FOR_SHOW}\b[^.;!?\n]{{0,12}}\b{_CONTROL}\b", re.I
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
_SENTENCE = re.compile(r"[^.;!?\n]+[.;!?]?")


def is_plain_lie(text: str) -> bool:
    """Whether a sentence of a text says that a control is only for show, or that secret codes are read out to callers."""
    return any(_says_so(sentence[0]) for sentence in _SENTENCE.finditer(text))


def _says_so(sentence: str) -> bool:
    if sentence.rstrip().endswith("?"):
        return False
    shown = _FOR_SHOW_CLAIM.search(sentence) is not None and _MORE_THAN.search(sentence) is None
    return shown or (_READ_OUT_CLAIM.search(sentence) is not None and _NARROWED.search(sentence) is None)
