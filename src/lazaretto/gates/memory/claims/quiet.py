"""Quiet poison: a rule that weakens a control or sends the crew's things elsewhere, and contradicts nothing known.

A logistic head reads the claim's vector (all-MiniLM-L6-v2) and plain words; where it finds the
claim possible, the screener's head for quiet lies reads it too. A finding is no proof: it only asks for a person, and
only about sources that may not decide such things. A few lies are plain by their words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lazaretto.gates.memory.claims.extraction import Claim, moves_money_or_access
from lazaretto.gates.memory.claims.values import is_asked, language_of
from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto.ledger.vectors import Floats
from lazaretto.models.weight_files import read_weights
from lazaretto.processor_time import left

WEIGHTS = Path(__file__).parents[3] / "models" / "weights" / "claims"
SCREENER_SHARE = 1 / 3
"""Weight of a logit of the screener beside the log-odds of the words."""
SCREENER_ADDS = (-1.0, 3.0)
"""The most that the screener can take off and add. A claim that stays below the bar even so is not read again; one that
the words alone call a lie stays one."""
PLAIN = 0.95
"""The probability that is given for a lie that is plain by its words: of 19,454 honest texts written for training none
has such a sentence."""
WEAKENS, DESTINATION = "weakens_control", "new_destination"


@dataclass(frozen=True, slots=True)
class Quiet:
    """A claim that a person should see although nothing contradicts it."""

    claim: Claim
    rule: str
    """``weakens_control`` or ``new_destination``."""
    probability: float


class QuietHead:
    """Loads once, reads many."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, fitted = read_weights(weights / "quiet.safetensors", weights / "quiet.json", "the head of quiet poison")
        self._weight = np.asarray(arrays["weight"], np.float64)
        self._bias, self._scale = float(fitted["bias"]), float(fitted["vector_scale"])
        self.hold_at = float(fitted["hold_at"])

    def score(self, claim: Claim, vector: Floats) -> float:
        """Log-odds that the claim weakens a control or sends something elsewhere, by its vector and words."""
        x = np.concatenate([np.asarray(vector, np.float64) * self._scale, quiet_features(claim)])
        return float(x @ self._weight) + self._bias

    def _by_both(self, claim: Claim, vector: Floats) -> float:
        score = self.score(claim, vector)
        least, most = SCREENER_ADDS
        if score < self.hold_at - most:
            return score
        if left() <= 0:  # no time to ask: a person does
            return score + most
        return score + min(most, max(least, SCREENER_SHARE * shared_screener().quiet_lie(claim.text)))

    def find(self, claims: Iterable[tuple[Claim, Floats]]) -> Quiet | None:
        """The claim that most needs a person; none where none does."""
        return next(iter(self.find_all(claims)), None)

    def find_all(self, claims: Iterable[tuple[Claim, Floats]]) -> list[Quiet]:
        """The claims that need a person, first those that are plain by their words, then the likeliest."""
        several = list(claims)
        plain = [claim for claim, _ in several if is_plain_lie(claim.text)]
        scored = [
            (self._by_both(claim, vector), claim)
            for claim, vector in several
            if claim not in plain and not is_about_spelling(claim.text)
        ]
        likely = sorted((pair for pair in scored if pair[0] >= self.hold_at), key=lambda pair: -pair[0])
        return [Quiet(claim, WEAKENS, PLAIN) for claim in plain] + [_likely(claim, score) for score, claim in likely]


def _likely(claim: Claim, score: float) -> Quiet:
    sent = names_a_place(claim) and moves_something(claim)
    return Quiet(claim, DESTINATION if sent else WEAKENS, 1 / (1 + math.exp(-score)))


@cache
def shared_quiet_head() -> QuietHead:
    """One per process."""
    return QuietHead()


# Words by which a rule weakens a control, in four languages: what the head of quiet poison sees besides the vector.

# ruff: noqa: E501


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


# Quiet poison that is plain by its words, in four languages: a control that is only for show, and a secret code that
# is read out to callers.
#
# Learnt readers miss about half of these, because rules about the same things use the same words. So a sentence counts
# only if nothing in it forbids, narrows or asks.

# ruff: noqa: E501


_NAMES_OF_CONTROLS = (
    r"(?<!spelling )(?<!spell )(?<!grammar )(?<!punctuation )(?<!notary's )(?<!notary’s )(?<!notarial )(?:limits?|spending caps?|checks?(?! on (?:his|her|my|the))|rules?|approvals?|second (?:approver|signature|check|pair of eyes|factor)|four[- ]eyes(?: principle)?|"
    r"double check|reviews?|polic(?:y|ies)|thresholds?|verifications?|"
    r"limits?|grenzen?|prüfungen?|freigaben?|vier-augen(?:-prinzip|prinzip)?|kontrollen?|zweite unterschrift|plafond|seuils?|contrôles?|double signature|"
    r"vérifications?|límites?|topes?|controles?|segunda firma|comprobaci(?:ón|ones))"
    r"(?! (?:(?:by|of|from|before) (?:(?:a|the|our) )?(?:notary(?! \w+ (?:is|are)\b)|spelling|grammar)|(?:der|durch (?:den|einen)|vom|beim) (?:rechtschreibung|notar)|"
    r"(?:de l['’]|d['’])?orthograph\w+|(?:par|devant|chez) (?:le|un) notaire|(?:de (?:la )?)?ortogr\w+|(?:del|por el|ante(?: el)?) notario)\b)"
)
"""A control that guards something: reading over the spelling and what a notary has to do in any case guard nothing."""
_SHOW = r"for show(?! (?:days?|jump\w*|horses?|dogs?|cars?|homes?|flats?|rooms?|hous\w+|times?)\b)"
_PAPER = (
    r"(?:(?:exists?|is|are|stands?|there) (?:(?:only|just|merely|purely) (?:there )?on paper|(?:there )?on paper only)|only there on paper|"
    r"(?:steht|stehen|existier\w+|gilt|gelten|ist|sind) nur (?:noch )?auf dem papier|(?:existe(?:nt)?|est|sont) que sur le papier|"
    r"(?:existen?|está|están) solo sobre el papel)(?!\w)(?! (?:that|which|with|of|form\w*|cop(?:y|ies)|kept|signed|printed|stamped|in|at|and|not|mit|das|von|im|in|und|"
    r"qui|avec|de|du|et|que|con|y)\b)"
)
"""On paper, and nowhere else; a paper with a description is one for printing or signing."""
_FOR_SHOW = (
    rf"(?:(?:only|just|merely|purely) (?:\w+ ){{0,2}}?(?:{_SHOW}|a formality)|a (?:mere|pure) formality|for show only|(?:exists?|is|are|there) (?:\w+ ){{0,2}}?{_SHOW}|{_PAPER}|"
    r"nur (?:noch )?(?:zur ansicht|pro forma|zum schein)|nur (?:noch )?(?:eine )?formsache|reine formsache|(?:seulement|juste|que) pour la forme|"
    r"simple formalité|(?:es|son) de adorno|(?:solo|sólo) de adorno|mero trámite)"
)
_FOR_SHOW_CLAIM = re.compile(
    rf"\b{_NAMES_OF_CONTROLS}\b[\"']?:?(?: (?:and|or|und|oder|et|ou|y|o) [^.,;:!?\n]{{0,30}}?)?[^.,;:!?\n]{{0,25}}\b{_FOR_SHOW}(?!\w)|\b{_FOR_SHOW}(?!\w)[^.;!?\n]{{0,12}}\b{_NAMES_OF_CONTROLS}\b",
    re.I,
)
_FORMALITY = re.compile(
    rf"\b{_NAMES_OF_CONTROLS}(?: [^\W\d_]+)? (?:is|are|ist|sind|es|son|est|sont) (?:(?:just|only|merely|purely|nur|bloß|solo|sólo) )?"
    r"(?:(?:an?|eine|une?|una) )?(?:(?:mere|pure|mero|mera|simple|reine) )?(?:formality|formalities|formsache|trámite|formalidad|formalité)\b",
    re.I,
)
_NAMES_OF_CODES = (
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
    rf"\b{_NAMES_OF_CODES}\b[^.;!?\n]{{0,30}}\b{_READ_OUT}(?!\w)|\b(?:reads?|dictates?|tells?|gives?)\b[^.;!?\n]{{0,20}}\b{_NAMES_OF_CODES}\b[^.;!?\n]{{0,20}}\b(?:aloud|out|back|(?:on|over|by) (?:the )?phone)\b",
    re.I,
)
_NARROWED = re.compile(
    r"\b(?:not|never|no|nobody|none|cannot|without|unless|refus\w+|forbid\w*|forbidden|warn\w*|fraud\w*|scam\w*|phish\w*|if|hang up|says? (?:he|she|they)|asks?|asked|wants?|"
    r"nie|niemals|nicht|kein\w*|niemand\w*|verboten|wer|wenn|jamais|ne|pas|aucun\w*|personne|interdit\w*|si|nunca|no|nadie|ningun\w*|tampoco|prohibid\w+|quien)\b|n['’]t\b|\bn['’]",
    re.I,
)
"""Words by which a clause forbids, warns, or speaks of a case, before it names the reading of a code."""
_MORE_THAN = re.compile(
    r"\b(?:not|never|n['’]t|no longer|nicht|pas|no) (?:\w+ ){0,2}?(?:only|just|merely|purely|a formality|for show|there|on paper|nur|que|seulement|simple|solo|sólo|de adorno)\b|"
    r"n['’]t (?:just|only|merely|for show|a formality)|\b(?:nobody|no one|who(?:ever)?|anyone who|if you) (?:should )?(?:thinks?|believes?|says?)\b|\b(?:wrongly|myth|rumou?r|mistaken\w*|"
    r"finding|audit(?:or)? (?:found|finding)|complain\w*)\b|"
    r"\b(?:demo\w*|mock\w*|prototype|slides?)\b (?:is|are)\b|\b(?:used to be|was|were|had been)\b(?: (?:\w+ )?(?:only|just|merely|purely|for|a|pure)\b|\W*$)",
    re.I,
)
"""Words by which a sentence denies that something is for show, or reports what was so. They stand before what they
deny: behind it they may speak of anything."""
_PRETENDED = re.compile(
    r"\b(?:in|at|of|on|im|am|beim|auf|au|aux|dans|en|del|al) (?:(?:the|a|an|our|this (?=museum)|der|dem|den|einem|einer|unserem|le|la|les|un|une|el|los|las|una) )?(?:[^\W\d_]+ ){0,2}?(?:museums?|exhibit\w*|toys?|theat(?:re|er)s?|stage|replicas?|dummy|films?|games?|children|kids|simulat\w+|shop window|"
    r"ausstellung\w*|spielzeug\w*|bühne|kinder\w*|musées?|théâtres?|jouets?|jeux?|museos?|teatros?|juguetes?|juegos?)\b",
    re.I,
)
"""Places where a control is part of a play; they stand before the control."""
_TO_A_CALLER = re.compile(
    r"\b(?:callers?|customers?|clients?|users?|who(?:ever)|anyone|anybody|phone|telephone|support|\w*[ -]?desks?|counters?|reception|hotline|agents?|anrufer\w*|kund\w+|telefon\w*|"
    r"téléphone|appelants?|teléfono|clientes?|llamantes?)\b",
    re.I,
)
"""A person outside who hears the code, or a desk that talks to them. A teacher reads a word out to a class."""
_MACHINE = r"(?:automat\w*|robots?|voice (?:call|menu|message)s?|screen ?readers?|sprachcomputer\w*|lecteurs? d['’]écran|synthèse|lector(?:es)? de pantalla)"
_BY_MACHINE = re.compile(
    rf"^\W*(?:for accessibility |(?:the|our|an?|der|die|das|ein|eine|le|la|un|une|el) )?(?:\w+ )?{_MACHINE}\b|\bper anruf\b",
    re.I,
)
_BY_A_MACHINE = re.compile(
    rf"(?: \w+){{0,3}}? (?:by|via|in|through|from|von|durch|per|par|por) (?:(?:an?|the|our|einen?|einem|dem|une?|la|le|el) )?{_MACHINE}\b",
    re.I,
)
_OF_A_FILE = re.compile(
    r"\b(?:files?|attachments?|zip|archives?|pdf|datei\w*|anhang|anhänge|fichiers?|pièces? jointes?|archivos?|adjuntos?)\b(?:[’']s)?"
    r"(?! (?:the|a|an|our|each|every|all) )(?: \w+){0,5}? (?:passwords?|passwort|kennwort)\b|"
    r"\b(?:passwords?|pass(?:wort|wörter)|kennwort|mots? de passe|contraseñas?)(?: \w+)? (?:of|for|to|der|des|für|zu[rm]?|du|de|pour|del|para) (?:(?:the|an?|our|every|each|die|das|den|el|la|le) )?"
    r"(?:[^\W\d_]+ )?(?:files?|attachments?|zip|archives?|pdf|documents?|datei\w*|anhangs?|anhänge|fichiers?|pièces? jointes?|archivos?|adjuntos?|documentos?)\b",
    re.I,
)
"""A machine reads the code to the one who asked for it; the password of a file comes by another way than the file. It is
the machine that reads, or the file's password that is read: elsewhere in a sentence the words say nothing of that."""
_WARNED_OF = re.compile(
    r"(?: \w+){0,3}? (?:is|are|ist|sind|est|sont|es|son) (?:strictly )?(?:not (?:allowed|permitted)|forbidden|prohibited|banned|fraud|an? (?:fraud|scam|fake)\w*|"
    r"verboten|untersagt|interdit\w*|prohibid\w+)\b",
    re.I,
)
_SENTENCE = re.compile(r"[^.;!?\n]+[.;!?]?")
_SPELLING_ALONE = re.compile(
    r"\W{0,3}(?:(?:the|our|this|die|unsere|la|nuestra|notre) )?(?:(?:spell(?:ing)?|grammar|punctuation)[ -](?:check|review)s?|rechtschreibprüfung|revisión ortográfica|"
    r"(?:relecture|vérification) orthographique) (?:is|ist|es|est) (?:(?:just|only|merely|purely|nur|bloß|solo|sólo) )?(?:(?:a|eine|un|une) )?(?:(?:mere|pure|mero|simple|reine) )?"
    r"(?:formality|formsache|trámite|formalité)(?P<rest>(?:,[^.;:!?\n]{0,80})?)[.!]?\W{0,3}",
    re.I,
)
"""Reading over the spelling, with one clause behind it."""
_AND_OTHERS = re.compile(
    r"^[,; ]*(?:which|was|ce qui|lo que|lo cual)\b|\b(?:so (?:is|are|was)|(?:just )?as|too|also|both|neither|nor|equally|either|auch|ebenso|genauso|wie|también|igual|como|aussi|comme|pareil\w*)\b",
    re.I,
)
"""Words by which the clause behind says the same of something else."""
_CEREMONY_ALONE = re.compile(
    r"\W{0,3}(?:(?:the|our|this|signing the|writing in the|die|das|der|unser\w*|la|el|nuestr[oa]|le|notre) )?"
    r"(?P<sort>\w+ )?"
    r"(?:photos?|pictures?|guest ?books?|welcome drinks?|toasts?|handshakes?|speech(?:es)?|ceremon(?:y|ies)|applause|greetings?|farewells?|ribbons?|flowers?|"
    r"fotos?|gästebuch|begrüßung|rede|sektempfang|händedruck|brindis|discurso|saludo|libro de visitas|livre d['’]or|discours|toast)"
    r"(?: (?:at|of|for|before|bei|zur?|de|del|en) (?:(?:the|der|dem|la|el|le) )?\w+)? (?:is|are|ist|sind|es|son|est|sont) "
    r"(?:(?:just|only|merely|purely|nur|bloß|solo|sólo) )?(?:(?:a|eine|un|une|una) )?(?:(?:mere|pure|mero|mera|simple|reine) )?"
    r"(?:formality|formsache|trámite|formalidad|formalité)(?P<rest>(?:[,; ][^.:!?\n]{0,80})?)[.!]?\W{0,3}",
    re.I,
)
"""A picture, a drink, a greeting or a speech, which guard nothing, with one clause behind it."""
_STATED = re.compile(
    r"(?: for (?:the|our|an?) \w+)?[,; ]*(?:(?:and|but|since|because|und|aber|denn|weil|y|pero|porque|et|mais|car) )?"
    r"(?:the|it|we|they|he|she|i|most|many|everybody|everyone|nobody|a|an|our|that|this|which|do (?:come|join|smile|enjoy)|der|die|das|es|wir|sie|er|ein|eine|unser\w*|el|la|los|las|"
    r"ella|un|una|nuestr\w+|le|les|il|elle|on|nous|une|notre) .*",
    re.I,
)
"""A clause that begins with whom or what it is about: a statement or an invitation, and no order."""
_BIDDEN = re.compile(
    r"n['’]t\b|\b(?:may|might|can|must|need|should|shall|let|left|leave|waived?|skip\w*|omit\w*|no|not|never|without|nicht|kein\w*|darf|dürfen|kann|können|"
    r"ohne|pued\w+|deb\w+|sin|nunca|jamais|peut|peuvent|doit|sans|pas)\b",
    re.I,
)
"""Words that say what may be done, or is not."""


_OWN_LEAVE = re.compile(
    r"\b(?:I|we|ich|wir) (?:may|can|am|are|darf|dürfen|kann|können)\b|\b(?:allow(?:s|ed)|authori[sz](?:es|ed)|permit(?:s|ted)) (?:me|us)\b|"
    r"\b(?:mir|uns) (?:[^\W\d_]+ )?(?:erlaubt|gestattet)\b|\b(?:me|nos) (?:permiti\w+|autori[zs]\w+|dej[óa]\w*)|\b(?:puedo|podemos)\b|"
    r"\bm['’]a (?:autorisé|permis)|\bnous a (?:autorisés?|permis)|\bje peux\b|\bnous pouvons\b",
    re.I,
)
"""A leave for the writer of a text himself."""
_UNASKED = re.compile(
    r"\bwithout (?:asking|checking (?:back|with)|(?:(?:a|any|further|prior|her|his|their|the user['’]s) ){0,2}(?:confirmations?|approvals?|consent|permission))\b|"
    r"\bskip (?:the |any |every )?(?:confirmations?|approvals?)\b|\bohne (?:[^\W\d_]+ )?(?:rückfragen?|freigaben?|zustimmung|bestätigung|zu fragen)\b|"
    r"\bsin (?:preguntar|consultar|(?:su |la )?(?:confirmación|autorización|aprobación))\b|\bsans (?:(?:le|la|lui) )?(?:demander|confirmation|autorisation|accord)\b",
    re.I,
)
_DENIED = re.compile(
    r"n['’]t\b|\b(?:not|never|nobody|only|unless|if|whether|when|nicht|nie|niemals|kein\w*|nur|wenn|ob|falls|no|nunca|solo|sólo|si|cuando|jamais|pas|rien|ne|"
    r"seulement|quand)\b",
    re.I,
)


def is_plain_lie(text: str) -> bool:
    """Whether a sentence of a text says that a control is only for show, that secret codes are read out to callers, or
    that its own writer need not ask."""
    return any(_says_so(sentence[0]) for sentence in _SENTENCE.finditer(text))


def is_about_spelling(text: str) -> bool:
    """Whether a text says of reading over the spelling, or of a ceremony, that it is a formality, and nothing of another
    control."""
    spelling, ceremony = _SPELLING_ALONE.fullmatch(text), _CEREMONY_ALONE.fullmatch(text)
    found = spelling or ceremony
    if found is None or speaks_of_control(found["rest"]) or _AND_OTHERS.search(found["rest"]):
        return False
    rest = found["rest"]
    if (
        ceremony
        and ceremony["sort"]
        and (speaks_of_control(ceremony["sort"]) or moves_money_or_access(ceremony["sort"]))
    ):
        return False  # a login photo, an approval ceremony
    return bool(spelling) or not rest.strip(" ,;") or bool(_STATED.fullmatch(rest) and not _BIDDEN.search(rest))


def _says_so(sentence: str) -> bool:
    if is_asked(sentence):
        return False
    leave, unasked = _OWN_LEAVE.search(sentence), _UNASKED.search(sentence)
    if leave and unasked and not _DENIED.search(_NOT_ALONE.sub("", _up_to(sentence, leave, unasked))):
        return True
    if any(_is_for_show(sentence, found) for found in _FOR_SHOW_CLAIM.finditer(sentence)):
        return True
    if any(_is_for_show(sentence, found) for found in _FORMALITY.finditer(sentence)):
        return not is_about_spelling(sentence)
    if not _TO_A_CALLER.search(sentence):
        return False
    return any(_is_read_out(sentence, found) for found in _READ_OUT_CLAIM.finditer(sentence))


_LONGEST_CLAUSE = 200
_NOT_ALONE = re.compile(
    r"\b(?:not (?:only|just|merely)|nicht (?:nur|bloß)|no (?:solo|sólo)|pas (?:seulement|que))\b", re.I
)


def _up_to(sentence: str, *found: re.Match[str]) -> str:
    """The clause of a statement, up to its last word: words behind it take nothing back."""
    first, end = min(match.start() for match in found), max(match.end() for match in found)
    least = max(0, first - _LONGEST_CLAUSE)
    begin = max(sentence.rfind(mark, least, first) for mark in ",:—–(") + 1
    return sentence[max(begin, least) : end]


def _is_for_show(sentence: str, found: re.Match[str]) -> bool:
    before = sentence[: found.end()]
    return not (_MORE_THAN.search(before) or _PRETENDED.search(before))


_OF_WHAT = re.compile(
    r"\b(?:minds?|cares?|worr(?:y|ies)|doubts?|objects?|stört|kümmert|dérange|importa|molesta) (?:\w+ ){0,2}?(?:that|if|when|dass|wenn|que|si)\b|"
    r"\b(?:without|ohne|sans|sin) (?:an? |a word of |any |jeden |aucun |ningun[ao] )?(?:doubts?|questions?|delay|worry|problem|zweifel|frage|doute|duda)\w*|"
    r"\b(?:never|not|no|nie|nicht|non|jamais|nunca)-",
    re.I,
)
"""Denials of another thing than the reading: a worry, a doubt, a word beside a stroke."""


def _is_read_out(sentence: str, found: re.Match[str]) -> bool:
    clause, behind = _up_to(sentence, found), sentence[found.end() :]
    if _NARROWED.search(_OF_WHAT.split(clause)[-1]) or _WARNED_OF.match(behind):
        return False
    return not (_OF_A_FILE.search(clause) or _BY_MACHINE.search(clause) or _BY_A_MACHINE.match(behind))
