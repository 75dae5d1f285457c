"""Signs that a text gives orders to machines that read it, in four languages.

Three of them: it asks to be passed on itself (the order that makes a worm), it speaks to machines that read, or it
wants something kept from a person. Honest texts say such things too ("forward this mail to everyone"), so a sign alone
holds nothing: it counts where the screener also finds the text faintly like an order. One thing needs no doubt of the
screener: an order to change or report a value which is to be kept from the person who controls it.
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
    r"|send|giv(?:e|es|ing)\b|adds?\b|adding\b|carr(?:y|ies)\b|attach|keep)"
    r"|\b(?:weiter(?:leit|geb|gib|reich|send|schick|sag|trag)|leite[nt]?\b|gib\b|gebt\b|geben\b|kopier|übernimm"
    r"|übernehm|übernomm"
    r"|wiederhol|(?:ein|an|hinzu)(?:zu)?füg|füge?n?t?\b|hänge?n?t?\b|schick|send|teile?n?t?\b|endet|enden|beginn"
    r"|enthält|enthalten)"
    r"|\b(?:leit|gib|geb|reich|send|schick|sag|trag|träg)\w{0,3}\b[^.!?\n]{0,60}?\bweiter\b"
    r"|\bschreib\w{0,3}\b[^.!?\n]{0,60}?\bab\b"
    r"|\b(?:reenv|copi|repit|repet|inclu|añad|agreg|pas[ae]|compart|env[ií]|pega|transm|difund)"
    r"|\b(?:transm|transf|copi|recopi|répèt|répét|inclu|ajout|partag|envo|coll(?:e|ez|er)\b|repren|reprise|diffus"
    r"|relay"
    r"|faire suivre|fai(?:s|tes) suivre)",
    re.I,
)
_MANY = re.compile(
    r"\b(?:each|every|all|any|next|other)\b[^.!?\n]{0,24}?\b(?:agents?|assistants?|workers?|helpers?|bots?|readers?"
    r"|repl(?:y|ies)"
    r"|answers?|responses?|notes?|messages?|memor(?:y|ies)|files?|entr(?:y|ies)|logs?|mails?|summar(?:y|ies)"
    r"|reports?|hand-?overs?)\b"
    r"|\b(?:whoever|everyone|everybody|anyone|anybody) (?:opens|reads|who)|\b(?:every ?one of them|downstream"
    r"|the next one|do the same)\b"
    r"|\b(?:jede|alle|nächste|weitere|andere)[nmrs]?\b[^.!?\n]{0,24}?\b(?:agenten?|assistenten|helfern?"
    r"|antwort(?:en)?|notiz(?:en)?"
    r"|nachricht(?:en)?|eintr\w{1,5}|berichte?|datei(?:en)?)\b|\bauch die der anderen\b|\bdasselbe zu tun\b"
    r"|\b(?:jede|alle) (?:notiz|antwort|nachricht)"
    r"|\b(?:cada|tod[oa]s|próxim[oa]s?|otr[oa]s)\b[^.!?\n]{0,24}?\b(?:agentes?|asistentes?|compañer[oa]s?"
    r"|respuestas?|notas?|mensajes?"
    r"|informes?|archivos?)\b|\blos demás también\b"
    r"|\b(?:chaque|chacune?|tou(?:te|s|tes)|prochaine?s?|autres)\b[^.!?\n]{0,24}?\b(?:agents?|assistants?|services"
    r"|réponses?|notes?|messages?"
    r"|comptes? rendus|fichiers?)\b"
    r"|\b(?:everyone|everybody|anyone|all) (?:you|it|they) (?:talk|speak|work|meet|write|answer)s?\b"
    r"|\bjede[mnr]\b[^.!?\n,]{0,16}, (?:(?:mit|von|an) )?(?:dem|der|den|die) (?:er|sie|es|du|ihr)\b"
    r"|\b(?:tod[oa]s|cada un[oa])\b[^.!?\n]{0,16}? (?:con|a) quien(?:es)?\b"
    r"|\b(?:tous|toutes|chacun)\b[^.!?\n]{0,16}? (?:à|avec) qui\b",
    re.I,
)
_MACHINES = re.compile(
    r"\b(?:language[ -]models?|llms?|chat ?bots?|(?:ai|chat|virtual|automated|digital) (?:assistants?|agents?"
    r"|helpers?|readers?))\b"
    r"(?:[^.!?\n:]{0,40}?:|[^.!?\n]{0,12}?\b(?:read|reads|reading|index|indexing|processing|process"
    r"|summari[sz]ing)\b[^.!?\n]{0,40}?"
    r"\b(?:should|must|please|shall|need to)\b|,? please\b)"
    r"|\b(?:sprachmodellen?|chatbots?|(?:ki|virtuelle[nr]?|automatische[nr]?|digitale[nr]?)[ -](?:assisten\w{1,6}"
    r"|agenten|helfern?))\b"
    r"(?:[^.!?\n:]{0,40}?:|,? bitte\b)"
    r"|\b(?:modelos? de lenguaje|chatbots?|(?:asistentes?|agentes?) (?:virtual(?:es)?|automátic[oa]s?"
    r"|digital(?:es)?|de ia))\b"
    r"(?:[^.!?\n:]{0,40}?:|,? por favor\b)"
    r"|\b(?:modèles? de langage|chatbots?|(?:assistants?|agents?) (?:virtuels?|automatiques?|numériques?|ia"
    r"|d['’]ia))\b"
    r"(?:[^.!?\n:]{0,40}?:|,? (?:veuillez|merci de)\b)"
    r"|\b(?:would|kindly|politely|please)\b[^.!?\n]{0,20}?\b(?:ask|request|invite|encourage|like)\b[^.!?\n]{0,12}?"
    r"\b(?:language[ -]models?|llms?|chat ?bots?|(?:ai|chat|virtual|automated|digital) (?:assistants?|agents?"
    r"|helpers?|readers?)) (?:also )?to\b(?! be\b)"
    r"|\b(?:bitten|ersuchen)\b[^.!?\n,]{0,24}?\b(?:sprachmodelle|chatbots|(?:ki|virtuelle|automatische|digitale)[ -]"
    r"(?:assisten\w{1,6}|agenten|helfer|leser))\b,?\s"
    r"|\b(?:pedimos|rogamos|agradeceríamos)\b[^.!?\n]{0,24}?\b(?:modelos? de lenguaje|chatbots?"
    r"|(?:asistentes?|agentes?|lectores) (?:virtual(?:es)?|automátic[oa]s?|digital(?:es)?|de ia)) que\b"
    r"|\b(?:prions|demandons)\b[^.!?\n]{0,24}?\b(?:modèles? de langage|chatbots?"
    r"|(?:assistants?|agents?|lecteurs) (?:virtuels?|automatiques?|numériques?|ia|d['’]ia)) d(?:e\b|['’])",
    re.I,
)
_SECRECY = re.compile(
    r"\b(?:without|no need to) (?:tell|telling|inform|informing|notify|notifying|alert|alerting|bring (?:this"
    r"|it) up|mention|mentioning)\b"
    r"|\b(?:do not|don['’]t) (?:tell (?:anyone|anybody)|mention (?:this|it))\b|\b(?:nobody|no one) (?:needs"
    r"|has) to know\b"
    r"|\bkeep (?:this|it) (?:between us|quiet|to yourself)\b"
    r"|\bniemandem? (?:\w{1,10} ){0,2}davon (?:\w{1,10} )?(?:sagen|erzählen|verraten)\b"
    r"|\bniemandem etwas davon sagen\b"
    r"|\bdavon nichts zu (?:wissen|erfahren)\b|\bohne (?:\w{1,14} ){0,4}zu informieren\b"
    r"|\bsin (?:avisar|decírselo|informar|decir nada) al?\b|\bn['’]en (?:parlez|dites)\b|\bsans (?:en parler"
    r"|prévenir|le dire)\b",
    re.I,
)
_WHO = (
    r"(?:supervisors?|auditors?|reviewers?|inspectors?|managers?|management|security|compliance"
    r"|controllers?|regulators?|examiners?|analysts?|shift leads?"
    r"|(?:safety|data protection|security|compliance) officers?"
    r"|prüfern?|prüfung|kontrolle|leitung|vorgesetzten|revision|aufsicht|sicherheit"
    r"|supervisor[ae]?|auditor[a]?|inspector[a]?|jef[ea]|seguridad"
    r"|responsables?|auditeur|contrôleur|inspecteur|sécurité|direction)"
)
"""People who control reports."""
_KEPT_FROM = re.compile(
    rf"\b(?:without (?:telling|informing|notifying|alerting) (?:the |your |our )?{_WHO}"
    rf"|(?:do not|don['’]t|never) (?:tell|inform|notify|mention (?:it|this) to) (?:the |your |our )?{_WHO}"
    rf"|(?:do not|don['’]t) let (?:the |your |our )?{_WHO} know|keep (?:it|this) from (?:the |your |our )?{_WHO}"
    rf"|ohne (?:den|die|das|der) {_WHO} zu (?:informieren|unterrichten|benachrichtigen)"
    rf"|sag(?:e|t)? (?:dem|der|den) {_WHO} nichts(?: davon)?"
    rf"|sin (?:avisar|informar|decírselo|decir nada) (?:al?|a la|a los) ?{_WHO}"
    rf"|no se lo dig(?:as|a|áis) (?:al?|a la) ?{_WHO}"
    rf"|sans (?:prévenir|informer|avertir) (?:le |la |les |l['’]){_WHO})\b"
    r"(?!['’]| (?:first|which|who|whose|where|an?|that an?|about (?:other|another))\b)", re.I
)  # fmt: skip
"""A person does not hear of the change; "do not tell the reviewers which wine is which" keeps another thing."""
_ALTERS = (
    r"set(?! up)|lower|raise|round|remove|delete|change|backdate|replace|adjust|drop|cut|strike"
    r"|setze?t?|änder[en]|streiche?t?|lösche?t?|runde?t?|cambi(?:a|ad|e)|borr(?:a|ad|e)|elimin(?:a|ad|e)"
    r"|redonde(?:a|ad|e)|chang(?:e|ez)|supprim(?:e|ez)|arrondi(?:s|ssez)"
)
_RECORDS = (
    r"enter|report|mark|record|leave|log|write|put|count|trage?t?|melde?t?|markiere?t?|schreibe?t?|marc(?:a|ad|ue)"
    r"|pon|poned|ponga|anot(?:a|ad|e)|not(?:e|ez)|marqu(?:e|ez)|mettez|mets"
)
"""Verbs of everyday work: "record the values" changes none."""
_GIVEN = re.compile(
    r"(?<!every )\d|\b(?:as(?! (?:measured|read|usual|always|soon|well))|higher|lower|better|old|instead|zero|out|off"
    r"|passed|done|green|als|statt|null|höher\w*|niedriger\w*|besser\w*|bestanden|como|en vez|cero|mejor|comme|au lieu"
    r"|zéro|meilleure?s?)\b", re.I
)  # fmt: skip
"""The value that is to stand there."""
_REPORTED = (
    r"(?:values?|figures?|readings?|results?|status|checks?|tests?|runs?|rows?|hours|dates?|amounts?|logs?|reports?|lists?"
    r"|summary|timesheets?|records?|scans?|notes|complaints?|passed|done|green|minor|measurements?"
    r"|mess(?:ung|wert)(?:en)?|werte?|protokoll|liste|bericht|reklamation(?:en)?|bestanden|temperatur|stunden"
    r"|pruebas?|cifras?|informes?|valor(?:es)?|lista|registros?|horas|fechas?"
    r"|contrôles?|valeurs?|chiffres?|rapports?|relevés?|heures|dates?)"
)
_ABOUT_REPORT = re.compile(rf"(?:[^.!?\n]|[.](?=\d)){{0,120}}?\b{_REPORTED}\b", re.I)
_UNLESS = re.compile(
    r"\b(?:if|when|was|were|been|no|nothing|only|keine?[mnrs]?|nur|wenn|falls|wurden?|nunca|si|jamais|aucune?"
    rf"|(?:never|not|don['’]t|nie|niemals|nicht) (?:{_ALTERS}|{_RECORDS}))\b|\b(?:never|nie) $", re.I
)  # fmt: skip
"""Words of a warning, or of a report."""
_ORDERED = re.compile(
    r"(?:^|[.!?;:\n\"“„«]\s?|\b(?:please|bitte|por favor|and|then|und)\s)(?<!not )(?<!never )"
    rf"(?:(?P<alters>{_ALTERS})|{_RECORDS})\s", re.I
)  # fmt: skip
_SENTENCE_END = re.compile(r"[.!?\n](?!\d)")
_REACH = 180
"""Characters in which an order stands before the words that keep it from a person."""
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


def hides_a_change(text: str) -> bool:
    """Whether a text orders that a value be changed or reported and that this be kept from the person who controls it.
    Both together are an order out of place, at any score of the screener."""
    done = 0
    for kept in _KEPT_FROM.finditer(text):
        begin, until = max(done, kept.start() - _REACH), kept.start()
        ends = [end.start() for end in _SENTENCE_END.finditer(text, begin, until)]
        for verb in _ORDERED.finditer(text, ends[-1] if ends else begin, until):
            if _changes_something(text, verb, until):
                return True
        done = kept.end()
    return False


def _changes_something(text: str, verb: re.Match[str], until: int) -> bool:
    """Whether an order that goes on up to there changes a report."""
    given = verb["alters"] or _GIVEN.search(text, verb.end(), until)
    warns = _UNLESS.search(text[verb.end() : until])
    return bool(given and not warns and _ABOUT_REPORT.match(text, verb.end()))


def has_order_sign(text: str) -> bool:
    """Whether one of the three signs stands in a text."""
    return bool(_MACHINES.search(text) or _SECRECY.search(text)) or asks_to_be_copied(text)
