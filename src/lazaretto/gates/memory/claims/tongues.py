# ruff: noqa: E501
"""Words of German, French and Spanish for reading claims: language, polarity, permissions, numbers, days.

English is in ``extraction`` and ``values``. The encoder knows English, so plain words of refusal are matched here.
"""

from __future__ import annotations

import re

from lazaretto.kept_texts import remembered

_COMMON = {
    "en": "the and is are was were of to in on at for with by not no only be been has have from that this may must can",
    "de": "der die das und ist nicht den dem ein eine einen wird werden wurde auf für mit von nur bei ohne im am zu des "
          "kein keine hat darf muss gibt es sich als auch nach über vor bis war sind dürfen müssen kann vom zum zur wer "
          "niemand jeder alle aus man hatte herr herrn frau bekommt um",
    "fr": "le la les de des du un une est sont et pour sur avec dans par ne pas qui que au aux ce cette il elle on se "
          "sans plus peut été a ont son sa ses en très jamais seul seule chaque tout toute était mme monsieur prend",
    "es": "el los las un una es son y para con por en del al se no que lo su sus sin más puede está están fue fueron "
          "ha han hay nunca solo cada como tiene todo toda nadie cuando hasta señor señora toma",
}  # fmt: skip
COMMON = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_WORD = re.compile(r"[^\W\d_]+")
_MARKS = {"de": "äöüß", "fr": "éèêàùçœ", "es": "ñáíóú¿¡"}


@remembered(256 << 10, lambda code: 100)
def language_of(text: str) -> str:
    """en | de | fr | es, by the commonest words; English where nothing tells."""
    words = _WORD.findall(text.casefold())
    score = {language: float(sum(word in known for word in words)) for language, known in COMMON.items()}
    for language, marks in _MARKS.items():
        score[language] += 0.6 * any(mark in text.casefold() for mark in marks)
    best = max(score, key=lambda name: (score[name], name == "en"))
    return best if score[best] > score["en"] else "en"


NEGATION = {
    "de": re.compile(r"\b(?:nicht|nichts|nie|niemals|niemand\w*|kein\w*|ohne|weder)\b", re.I),
    "fr": re.compile(
        r"\b(?:pas|jamais|aucune?|rien|sans)\b|\bn(?:e\s+|['’])\w+ plus\b|\bpersonne n|\bn(?:e\s+|['’])\w+ni\b", re.I
    ),
    "es": re.compile(r"\b(?:no|nunca|jamás|sin|ningun[oa]|ningún|tampoco)\b|^\W*nadie\b|(?<!no )\bnadie\b", re.I),
}  # fmt: skip
"""Words that negate a sentence."""

DECLARED = re.compile(
    r"\b(?:ab (?:sofort|heute|jetzt)|künftig|nunmehr|neue[nrs]? (?:konto\w*|bankverbindung|iban|kontonummer)|(?:hat|haben) sich\b[^.!?\n]{0,40}(?<!\bnicht)(?<!\bnie)(?<!\bniemals) geändert|"
    r"(?:wurden?|ist|sind|hat|haben)\b[^.!?\n]{0,40}(?<!\bnicht)(?<!\bnie)(?<!\bniemals) (?:geändert|gewechselt|umgestellt)|(?:gilt|gelten|gültig)\b[^.!?\n]{0,20} nicht mehr|"
    r"désormais|dorénavant|à partir d['’]aujourd['’]hui|nouve(?:au|lle|aux|lles) (?:comptes?|iban|rib|banque|coordonnées bancaires)|"
    r"(?:a|ont) changé|n['’]est plus valable|"
    r"desde (?:hoy|ahora)|a partir de (?:hoy|ahora)|en adelante|nuev[oa]s? (?:cuentas?|iban|datos bancarios|banco)|(?<!\bno )(?<!\bno (?:se|le|os) )(?<!\bno (?:nos|les) )(?<!\bnunca )(?:ha|han|hemos) (?:cambiado|sustituido)|ya no (?:es|vale|sirve))\b",
    re.I,
)
"""Words of German, French and Spanish that say plainly that something changed, not that nothing did; they are asked for
beside an account."""
_ASKED = {
    "de": "freigabe|prüfung|rückruf|unterschrift|genehmigung|kontrolle|ausweis|rezept|schein|bestätigung|aufsicht|"
          "begleitung|rückfrage|zustimmung|nachfrage|gutachter|helm|limit",
    "fr": "validation|approbation|accord|signature|rappel|permis|contrôle|relecture|confirmation|vérification|"
          "ordonnance|autorisation|expert|casque|pièce|demander",
    "es": "autorización|permiso|firma|llamar|aprobación|revisión|confirmar|verificar|control|carné|documento|receta|"
          "visto|perito|casco|preguntar|comprobar",
}  # fmt: skip
PERMISSIONS: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "de": (
        ("waive", re.compile(
            rf"\b(?:muss|müssen|braucht|brauchen) (?:[\w-]+ ){{0,4}}(?:nicht|kein\w*)\b|\bnicht (?:mehr )?(?:nötig|"
            rf"notwendig|erforderlich|vorgesehen)|\b(?:entfällt|entfallen|freiwillig|überflüssig|unnötig)\b|\bverzicht|"
            rf"\bweg(?:ge)?lassen|\bformsache\b|\bsparen\b|\bohne (?:\w+ ){{0,2}}(?:{_ASKED['de']})\b|\bauf dem papier\b|"
            rf"\bgilt nicht mehr\b", re.I)),
        ("forbid", re.compile(
            r"\b(?:darf|dürfen) (?:[\w-]+ ){0,5}(?:nicht|nie|kein\w*)\b|\bverboten\b|\buntersagt\b|\bniemand\b|"
            r"\bnie(?:mals)?\b", re.I)),
        ("require", re.compile(
            r"\b(?:muss|müssen|braucht|brauchen|erforderlich|pflicht|notwendig|nötig|zwingend|ausschließlich)\b|\bnur "
            r"(?:mit|nach|gegen|wenn|wer|auf|zu|durch|persönlich|die|der|das)\b", re.I)),
        ("allow", re.compile(r"\b(?:darf|dürfen|kann|können|erlaubt|reicht|genügt|gestattet|jederzeit)\b", re.I)),
    ),
    "fr": (
        ("waive", re.compile(
            rf"\bpas besoin\b|\bn['’](?:est|ont|a) (?:plus|pas) (?:\w+ )?(?:nécessaire|requis|obligatoire|demandé|besoin|"
            rf"à |prévu)|\b(?:facultati|inutile|superflu|dispens|formalité)|\bse passer d|\bsans (?:\w+ ){{0,2}}"
            rf"(?:{_ASKED['fr']})\b|\bsur le papier\b|\blaisser de côté\b", re.I)),
        ("forbid", re.compile(
            r"\binterdit|\bdéfendu|\bne (?:peut|peuvent|doit|doivent) (?:pas|jamais)\b|\bjamais\b|\bpersonne n", re.I)),
        ("require", re.compile(
            r"\b(?:doit|doivent|faut|obligatoire|exigé\w*|nécessaire|réservé\w*|seule?s?)\b|\bne? ?['’]?\w+ \w* ?qu['’e]",
            re.I)),
        ("allow", re.compile(r"\b(?:peut|peuvent|autorisé\w*|suffit|suffisent|n['’]importe)\b", re.I)),
    ),
    "es": (
        ("waive", re.compile(
            rf"\bno (?:hace|hacen) falta\b|\bno (?:es|son) (?:necesari|obligatori)|\bno (?:se )?(?:necesit|prevé|requier)|"
            rf"\bno tienen? que\b|\b(?:opcional|omitir|saltar|prescindir|trámite|sobra)\b|\bsin (?:\w+ ){{0,2}}"
            rf"(?:{_ASKED['es']})\b|\bsobre el papel\b|\bde adorno\b", re.I)),
        ("forbid", re.compile(r"\bprohibid|\bno (?:se )?(?:puede|pueden|debe|deben)\b|\bnadie\b|\bnunca\b", re.I)),
        ("require", re.compile(
            r"\b(?:debe|deben|necesitan?|obligatori\w+|exige|únicamente)\b|\bhay que\b|\bhacen? falta\b|\bsolo (?:con|"
            r"tras|al|quien|se|la|el)\b", re.I)),
        ("allow", re.compile(r"\b(?:puede|pueden|permit\w+|basta|bastan|cualquiera)\b", re.I)),
    ),
}  # fmt: skip

NUMBERS = {
    word: number
    for words in (
        "2:zwei 3:drei 4:vier 5:fünf 6:sechs 7:sieben 8:acht 9:neun 10:zehn 12:zwölf 14:vierzehn 15:fünfzehn 20:zwanzig",
        "2:deux 3:trois 4:quatre 5:cinq 7:sept 8:huit 9:neuf 10:dix 12:douze 14:quatorze 15:quinze 20:vingt",
        "2:dos 3:tres 4:cuatro 5:cinco 6:seis 7:siete 8:ocho 9:nueve 10:diez 12:doce 14:catorce 15:quince 20:veinte",
        "2:beide 2:zweimal 3:dreimal 1:einmal",
    )
    for number, word in (pair.split(":") for pair in words.split())
}  # fmt: skip
"""Number words as digits."""
MONTHS = {
    name: number
    for number, names in enumerate(
        ("januar janvier enero", "februar février febrero", "märz mars marzo", "avril abril", "mai mayo",
         "juni juin junio", "juli juillet julio", "août agosto", "septembre septiembre", "oktober octobre octubre",
         "novembre noviembre", "dezember décembre diciembre"), 1)
    for name in names.split()
}  # fmt: skip
DAYS = {
    name: day
    for day, names in {
        "monday": "montag lundi lunes", "tuesday": "dienstag mardi martes", "wednesday": "mittwoch mercredi miércoles",
        "thursday": "donnerstag jeudi jueves", "friday": "freitag vendredi viernes",
        "saturday": "samstag samedi sábado", "sunday": "sonntag dimanche domingo",
    }.items()
    for name in names.split()
}  # fmt: skip
UNITS = {
    name: unit
    for unit, names in {
        "degree": "grad degrés grados", "hour": "stunde stunden heures heure horas hora", "day": "tag tage tagen jours "
        "jour días día", "week": "woche wochen semaines semaine semanas semana", "month": "monat monate monaten mois "
        "meses mes", "year": "jahr jahre jahren ans an années año años", "minute": "minuten minutos", "tonne": "tonnen "
        "toneladas tonnes", "person": "personen personnes personas", "litre": "liter litres litros",
        "signature": "unterschriften signatures firmas",
    }.items()
    for name in names.split()
}  # fmt: skip
