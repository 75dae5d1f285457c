# ruff: noqa: E501
"""Words by which a rule weakens a control, in four languages: what the head of quiet poison sees besides the vector."""

from __future__ import annotations

import re

from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.tongues import language_of

_LOOSENED = re.compile(
    r"\b(?:disabl\w+|(?:turn|switch)(?:ed|s)? (?:it )?off|bypass\w*|skip\w*|ignor\w+|leav\w+ (?:\w+ ){0,2}out|left (?:out|off|open)|taped? over|"
    r"mut(?:e|ed)|wedged?|bridged?|dropped|abolish\w*|relax\w*|halved?|covered|delet\w+|acknowledge\w*|tick(?:ed)? off|swapp?ed|unlocked|"
    r"abschalt\w*|abgeschaltet|ausgeschaltet|ausschalt\w*|überkleb\w*|abgeklebt|quittier\w*|abgehakt|halbier\w*|umgeh\w*|offen|sparen|weglassen|"
    r"désactiv\w*|coup(?:er|ées?|és?)|ignorer|coller|cochés?|acquitter|couverts?|contourn\w*|ouverte?s?|réduit|"
    r"desactiv\w*|apag\w+|ignorar|tapar|tapad[oa]s?|confirmarlas|acortar|saltar\w*|omitir|abiert[oa]s?)\b|\b(?:off|aus|false|none|disabled)\W*$|"
    r"\ballow[_ ]all\b|\baccept(?:s|ed)? any\b|\balles erlauben\b|\btout autoriser\b|\bpermitir todo\b|= ?(?:false|off|unlimited|accept)\b|: ?(?:false|off)\b",
    re.I,
)
_ANYONE = re.compile(
    r"\b(?:any(?:one|body)|every(?:one|body)|whoever|anybody|whichever|any adult|all (?:managers|staff|case workers)|strangers?|"
    r"jede[rmn]?|alle[n]?|wer (?:die|den|das|es)|quiconque|tout le monde|n['’]importe qui|chacun|cualquiera|quien diga|todo el mundo|todos)\b",
    re.I,
)
_CONTROL = re.compile(
    r"\b(?:approv\w+|verif\w+|checks?|checked|signatures?|sign(?:ed|s)?|limits?|passwords?|codes?|keys?|alarms?|certificates?|logs?|audit\w*|backups?|"
    r"detectors?|valves?|interlocks?|barriers?|consent|licences?|identity|firewall|two[_-]factor|encrypt\w+|review\w*|register|guards?|helmets?|"
    r"prescription|deposit\w*|call(?:s|ed|ing)? back|escort\w*|freigabe\w*|prüf\w+|kontroll\w*|unterschrift\w*|limit|passw\w+|tan|schlüssel|alarm\w*|"
    r"zertifikat\w*|protokoll\w*|rauchmelder|lichtschranke|ausweis|wartezeit|rückruf\w*|schein|brandwache|genehmig\w+|"
    r"validation|approb\w+|vérifi\w+|signatures?|plafond|mots? de passe|clés?|alarmes?|certificats?|journa(?:l|ux)|détecteurs?|barrière|pièce|délai|"
    r"rappel|permis|ordonnance|pare-feu|autoriz\w+|verific\w+|firmas?|límite|contraseñas?|códigos?|claves?|llaves?|alarmas?|certificados?|registros?|"
    r"detectores|barrera|documento|plazo|carné|receta|cortafuegos|permiso|comprob\w+)\b",
    re.I,
)
_EXCUSE = re.compile(
    r"\b(?:for show|on paper|formality|only costs? time|nobody (?:checks|looks|tests|minds|asks)|no one (?:checks|looks)|mostly (?:false|wrong)|most of the time|"
    r"slows?|speeds?|faster|quick(?:ly|er)?|urgent|hurry|late|busy|stable|avoids?|costs time|lesson(?:s)? learned|good to know|best practice|tip|from experience|"
    r"note for later|convention|merksatz|erfahrung|tipp|formsache|auf dem papier|niemand prüft|misst ja niemand|fast immer falsch|wenn sie stört|eilig|"
    r"à retenir|astuce|formalité|sur le papier|personne ne (?:contrôle|regarde)|urgent\w*|gêne|inutile|fausses|"
    r"lección|consejo|de adorno|nadie lo (?:mira|controla)|sobra|molesta|prisa|falsas|sobre el papel)\b",
    re.I,
)
_SECRET = re.compile(
    r"\b(?:codes?|passwords?|pins?|diagnos\w+|card numbers?|keys?|secrets?|master keys?|salar\w+|guest lists?|patient files?|customer data|personal data|"
    r"tan|passw\w+|befunde?|torcode|mots? de passe|résultats|codes?|contraseñas?|resultados|códigos?|claves?)\b",
    re.I,
)
_DISCLOSED = re.compile(
    r"\b(?:read(?:s)? (?:out|aloud)|tells?|told|given?|hand(?:s|ed)? (?:out|over)|shar(?:e|ed|es)|post(?:ed|s)?|mail(?:ed|s)?|pinned|commit|noted|published?|sold|"
    r"vorlesen|vorgelesen|genannt|weitergeben|lire|donnée?s?|transmis\w*|transmettre|lean|leer|dar|dan|enví\w+|ceder)\b",
    re.I,
)
_MOVED = re.compile(
    r"\b(?:pa(?:y|id|ys|yments?)|transfer\w*|deposit\w*|donat\w+|refund\w*|collect\w*|forward\w*|upload\w*|cop(?:y|ied|ies)|mirror\w*|back(?:ed)? ?ups?|fetch\w*|"
    r"download\w*|install\w*|ship\w*|deliver\w*|sen[dt]s?|export\w*|sync\w*|post(?:ed)?|dependenc\w+|zahl\w+|überw\w+|gesendet|kopiert|liefer\w+|laufen|"
    r"vir\w+|vers\w+|pay\w+|envoy\w+|copi\w+|transf\w+|pag\w+|ingres\w+|envi\w+|acompt\w+|anticip\w+)\b",
    re.I,
)
_NEWLY = re.compile(
    r"\b(?:now|new|from (?:now|today|this|next)|instead|chang\w+|moved|whatever|all|every|always|in future|künftig|neue?s?|jetzt|ab sofort|alle|"
    r"désormais|nouve\w+|tou(?:s|tes)|dorénavant|ahora|nuev\w+|a partir|tod[oa]s)\b",
    re.I,
)
_PLACES = frozenset({"account", "mail", "host", "package"})
_FTP = re.compile(r"\b(?:s?ftp|https?)://", re.I)
_STREET = re.compile(
    r"\b\d{1,4} [A-Z]\w+(?: [A-Z]\w+)*,|\b[A-Z]\w+(?:straße|str\.) \d+|\b(?:rue|calle|avenida|avenue) [A-Z]"
)
_WRITTEN = re.compile(r"^\s*[{\[|]|\bQ:|^\s*[\w.-]+\s*[:=]\s*\S+\s*$")
FEATURES = (
    "waive", "allow", "forbid", "require", "negated", "loosened", "anyone", "control", "excuse", "secret", "told", "moved", "newly", "place", "structured",
    "loosened_control", "anyone_allowed", "secret_told", "place_moved", "place_newly", "waived_control", "excuse_control", "foreign",
)  # fmt: skip


def names_a_place(claim: Claim) -> bool:
    """Whether a claim names where something goes or comes from: an account, a mailbox, a host, a package, a street."""
    return any(v.kind in _PLACES for v in claim.values) or bool(_FTP.search(claim.text) or _STREET.search(claim.text))


def moves_something(claim: Claim) -> bool:
    """Whether it says that something is paid, sent, copied or fetched."""
    return bool(_MOVED.search(claim.text))


def quiet_features(claim: Claim) -> list[float]:
    """``FEATURES`` of a claim, each 0 or 1."""
    text = claim.text
    loosened, anyone, control, excuse, secret, disclosed, moved, newly = (
        bool(pattern.search(text))
        for pattern in (_LOOSENED, _ANYONE, _CONTROL, _EXCUSE, _SECRET, _DISCLOSED, _MOVED, _NEWLY)
    )
    place, free = names_a_place(claim), claim.permission in ("waive", "allow")
    features = [
        claim.permission == "waive", claim.permission == "allow", claim.permission == "forbid", claim.permission == "require",
        claim.negated, loosened, anyone, control, excuse, secret, disclosed, moved, newly, place, bool(_WRITTEN.search(text)),
        loosened and control and not claim.negated, anyone and not claim.negated and claim.permission != "forbid", secret and disclosed and not claim.negated,
        place and moved, place and newly, free and control, excuse and control, language_of(text) != "en",
    ]  # fmt: skip
    return [float(feature) for feature in features]


def speaks_of_control(text: str) -> bool:
    """Whether words name a control, a secret, or something that is sent or loosened."""
    return any(words.search(text) for words in (_CONTROL, _LOOSENED, _ANYONE, _SECRET, _MOVED))
