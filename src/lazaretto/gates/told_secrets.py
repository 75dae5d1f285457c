"""Secrets that prose names, in English, German, Spanish, French, Portuguese and Italian.

A sentence that names a password counts with any word in it that is written for no other reason (letters, digits and
one of ``!?%&$*#`` inside). Other words need a phrase that gives them: "the password is ...", "use ... as the password".
Keys and tokens have to switch between letters and digits as often as one that a machine made; the PIN of a card is
digits, a passphrase words that describe nothing; short notes ("pw staging = ...", "Wifi: ...") have forms of their own.
A description of a secret ("12-characters-long") is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PLACEHOLDERS = frozenset(
    {"password", "passwd", "pass", "pwd", "secret", "token", "changeme", "example", "xxx", "xxxx", "yourpassword"}
)
_VARIABLE = re.compile(
    r"[<{\[(].*|\$(?:[A-Z0-9_]+|[a-z0-9_]+|[A-Za-z_]+\d*|[\d.,]+\w*)(?:[/:.].*)?|\$[{(].*"
    r"|%(?:\w+%|[a-z]|\(.*|(?:[0-9A-Fa-f]{2}%?)+.*)|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[\w.]+\(.*"
    r"|[\w-]+(?:\.[\w-]+)*\.[a-z]{1,4}|[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+|[^A-Z]*/[^A-Z]*"
)
"""Words in the place of a secret that are none: variables, placeholders, calls, file names, attributes and paths."""
_HOLDS_VALUES = re.compile(
    r"pass|pwd|pw\d|key|token|secret|cred|auth|user|name|value|your|here|insert|replace|random|bytes|chars?\b|hex|uuid|hash"
    r"|config|conf\b|cfg|setting|option|param|arg|env|var|vault|store|field|self|this|input|request|data|db|sql|api|url|id\b"
    r"|example|sample|dummy|placeholder|xxx", re.I
)  # fmt: skip
"""Words for what holds a value: a name with a number is a variable where it has one of these."""
_CALL = re.compile(r"[\w.]+(?=\()")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]{1,4}")
_WRITTEN_OUT = re.compile(r"(?:[^\W\d_]+\d*|\d+)(?:[_./-](?:[^\W\d_]+\d*|\d+))*")
"""Words, each with a number at its end or none: ``api_keys_2025``."""


def is_variable(word: str) -> bool:
    """Whether a word has the form of a variable, and no number that only a secret would have in it."""
    if not _VARIABLE.fullmatch(word):
        return False
    bare, call = word.strip("<>{}[]()$%"), _CALL.match(word)
    if call:
        return ")" in word or not _is_mixture(call[0])
    if not (any(map(str.isdigit, bare)) and any(map(str.isalpha, bare))) or len(bare) < 8:
        return True
    if word[0] in "{[(" or (word[0] == "<" and is_variable(bare)):
        return True
    if len(_SWITCH.findall(bare)) >= _SWITCHES and not _WRITTEN_OUT.fullmatch(bare):
        return False
    return bool(_HOLDS_VALUES.search(bare) or (_FILE.fullmatch(word) and not _is_mixture(word.rpartition(".")[0])))


def _is_mixture(word: str) -> bool:
    return all(any(map(kind, word)) for kind in (str.isupper, str.islower, str.isdigit))


def looks_secret(word: str, shortest: int) -> bool:
    """Whether a word is no ordinary one: digits among letters, or very long and joined."""
    if len(word) < shortest or is_placeholder(word) or is_variable(word) or "://" in word:
        return False
    mixed = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return mixed or (len(word) >= 20 and not word.isalpha())


def is_placeholder(word: str) -> bool:
    """Whether a word is a placeholder for a secret."""
    bare = word.strip("<>{}[]()*").lower()
    return not bare or bare in _PLACEHOLDERS or len(set(bare)) <= 2


_PASS = (
    r"\b(?:[^\W\d_]{0,12}pass(?:words?|wort|wörter|phrase|codes?)|passwd|pwd|pw|mdp|[^\W\d_]{0,12}kennwort|mot de passe"
    r"|contraseñas?|palavra[ -]passe|senha)(?![ -](?:manage|hash|polic|field|generat|vault|store|rule))"
    r"(?: (?:hint|reset|prompt)\b)?"
)
"""Names of secrets that people choose."""
_KEY = (
    r"\b(?:secrets?|(?<!page )(?<!next )(?<!sync )(?<!continuation )(?<!cursor )tokens?|jeton|credentials?"
    r"|(?:api|access|secret|signing|encryption|private|master|deploy|service|auth)[ -]?keys?|api[ -]?secret"
    r"|geheimnis|(?:api-?|zugangs)?schlüssel|(?:clé|clave|chave|chiave) (?:api|secr[eè]ta?|segreta"
    r"|d[e'i] ?acc\w{2,5}))\b"
)
"""Names of secrets that machines make."""
_WEAK = (
    r"\b(?:clave|contra|pass|credentials|login|log(?:s|ged)?[ -]?in|signs? in|gets? in|unlocks?"
    r"|zugangsdaten|anmelde\w{1,8}"
    r"|einloggen|entsperr\w{1,3}|identifiants?|connecte[rz]?|accès|credenciales|credenciais|credenziali"
    r"|entra|acced\w{1,3})\b"
)
"""Words around secrets that say little by themselves."""
_OF = (
    r"(?:\s(?:(?:for|of|to|on|in|at|für|von|vom|zu|zum|im|der|des|meine[sr]|unsere[sr]|pour|de|du|des|del"
    r"|della|dello|do|da|dos|das"
    r"|para|per)\s|d['’]|de l['’]|dell['’])[^.;:!?\n]{1,60}?)?"
)
_WORD = r"['\"`«“„]?(?P<word>[^\s'\"`,;»”]{6,200})"
_IS = (
    r"(?:\s?:\s{1,3}|(?:\s(?:has )?changed)?,?\s(?:(?:now|jetzt|agora|ora|ahora)\s)?"
    r"(?:(?:was |is |has been )?(?:changed|set|reset|rotated) to|is|was|it['’]s|it is|ist|lautet|heißt"
    r"|est|c['’]est|es|é|è|are|sind|son|sont|são|sono"
    r"|reads)(?:\s(?:now|still|jetzt|nun|ab heute|ahora|maintenant|agora|ora|adesso))?[:\s]\s{0,3})"
)
_STATED = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"(?:(?P<pass>{_PASS})|{_KEY}){_OF}{_IS}{_WORD}",
        rf"\b(?:use|take|nimm|nehmt|verwende|usa|usad|utiliza|prends|utilise|utilisez|usate"
        rf"|utilizza)\s{_WORD}['\"`»”]?"
        rf"\s(?:as|als|como|comme|come)\s(?:[^\W\d_]{{1,12}}\s){{0,2}}(?P<pass>{_PASS})",
        rf"\b(?:with|mit|avec|con|com)\s(?:[^\W\d_]{{1,8}}\s){{0,2}}(?P<pass>{_PASS})\s{_WORD}",
    )
)
"""Prose that names a secret and gives its value."""
_NUMBERED = re.compile(
    r"(?i:\d+-[^\W\d_]+|\d+[^\W\d_]{1,8}|(?:sha|md|base|utf|aes|rsa|des|hs|rs|es|bcrypt|argon|ascii|oauth|rfc)-?\d{1,4}"
    r"(?:[-_/:.]\S*)?)|\d[^!?%&$*#A-Z]*-[^!?%&$*#A-Z]*|[A-Z]{2,}-\d+"
    r"|(?i:[a-z-]{0,20}\d+(?:\.\d+)+[a-z]{0,3}(?:[-+:/]\S*)?)", re.S
)  # fmt: skip
"""Words that describe a secret, and are none: ``12-character``, ``base64``, ``SHA256-hashed``, a ticket, a version."""
_DESCRIBING = re.compile(
    r"(?:characters?|chars?|digits?|letters?|words?|long|longer|days?|hours?|minutes?|times?|least|most"
    r"|min|max|only|valid"
    r"|random|different|\w+ed|\w+able|\w+ible|based|sensitive|zeichen|stellig|tage|stunden|lang|gültig"
    r"|wörter|caracteres"
    r"|caractères|caratteri|días|dias|jours|giorni|cifras|cifre|chiffres|dígitos|mots|palabras|palavras|parole)", re.I
)  # fmt: skip
_SWITCH = re.compile(r"[^\W\d_](?=\d)|\d(?=[^\W\d_])")
_SWITCHES = 3
"""Least changes between letters and digits in a key that a machine made; names and numbers of cases have fewer."""
_MARKED = re.compile(r"(?<![^\s'\"`«“(:])[^\s'\"`,;»”]{1,60}?[!?%&$*#][^\s'\"`,;»”]{1,60}")
_NAMED = re.compile(rf"{_PASS}|{_KEY}", re.I)
_FAINTLY_NAMED = re.compile(_WEAK, re.I)
_BEFORE, _AFTER = 90, 40
"""Characters around a marked word in which its sentence has to name a secret."""
_ORDINARY_MARKS = re.compile(
    r"(?:bcrypt|argon2(?:id|i|d)?|scrypt|pbkdf2(?:_sha\d{1,3})?|crypt|sha\d{1,3}|md5)\$[\w$=.,]{0,12}|[\w./-]+#\d+(?:\.\d+)*|[A-Z]{1,3}\$[\d.,]+.*|[<>~≥≤+]?[\d.,]+%.*|[^?]*\?[^=]*=.*|.*://.*|.*&(?:#\d|amp|quot"
    r"|lt|gt|nbsp|apos).*"
    r"|[\w.]*\*+[\w.]*|[a-z_]+[%&][a-z0-9_]+|[^/.%]*[/.][^%]*%[0-9A-Fa-f]{2}.*|.*\b[A-Z]&[A-Z].*|.*[\\{}\[\]|<>].*"
    r"|[\w.-]+(?:[!<>+-]?=).*|[^()]*\([^()]*\).*|\w+\(.*|\(.*|.*\)"
)
"""Numbers of issues, money, shares, addresses, entities, file patterns and code."""
_ENDS = re.compile(r"[.!?:;]\s")
_TRAILING = ".)]}>!?:…“"
_BRACKETS = "([{<"
_LAST = r"(?=['\"`»”“]?(?:[.,;:!?)]|\s*$|\s*\n))"
_ANOTHER = re.compile(
    r"['\"`»”“]?(?:,|,?\s(?:and|or|und|oder|y|o|et|ou|e))(?:\s(?:then|dann|luego|puis))?\s['\"`«“„]?"
    rf"(?P<word>[^\s'\"`,;:»”“]{{6,60}}){_LAST}"
)
"""A second secret after the first: "A or B", "A, then B"; a sentence does not go on behind it."""
_SPACED = re.compile(
    rf"{_PASS}{_OF}{_IS}(?P<word>(?:[^\W\d_]{{2,12}}\s){{0,4}}[^\W\d_]{{2,12}}\d{{1,4}}(?:\s[^\W\d_]{{2,12}}){{0,4}})"
    r"(?=[.,;!\n]|\s*$)", re.I
)  # fmt: skip
"""Words with spaces between them, one with a number at its end."""
_JOINS = re.compile(
    r"(?:on|in|at|by|for|from|of|with|under|after|before|since|until|than|per|if|when|and|or|but|to|again|laut|auf|bei|im"
    r"|am|für|von|mit|seit|bis|nach|wie|und|oder|en|de|del|por|para|con|desde|hasta|según|y|o|dans|sur|pour|depuis|selon|et|ou"
    r"|em|na|no|com|desde|até|e|su|nel|da|per|secondo|only|wrong|falsch|gleich|same|igual|case|version)", re.I
)  # fmt: skip
"""Words that a sentence about a secret has, and a secret of plain words has not."""
_REST = re.compile(r"(?:[,;](?=[^\s,;]{0,60}[\d!?%&$*#])[^\s'\"`,;»”=:]{1,60}(?![^\s'\"`,;»”]))+")
"""More of a secret after a comma or semicolon; never a word that names a value of its own."""

_SIGN = r"\s?(?::=|={1,2}>?|->|→|:)\s{0,3}"
_NOTED = re.compile(
    rf"(?:{_PASS}|(?P<pass>\bpass\b))(?:\s[^\W\d_][\w.-]{{0,20}}){{0,4}}{_SIGN}{_WORD}"
    rf"|\b(?:wi-?fi|wlan)\b(?:\s[^\W\d_][\w.-]{{0,20}}){{0,2}}{_SIGN}['\"`«“„]?(?P<network>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    rf"|\b(?:wi-?fi|wlan)\b[^.;!?\n]{{0,60}}?\b(?:key|code|schlüssel|clave|clé|chave|chiave){_IS}"
    rf"['\"`«“„]?(?P<key>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    rf"|\b(?:log-?in|zugang|acceso|accès|accesso)\b:?\s(?P<who>[\w.@-]{{2,30}})\s?/\s?(?P<login>[^\s'\"`,;»”]{{8,60}}){_LAST}",
    re.I,
)
"""Secrets as notes give them: "pw staging = ...", "Wifi: ...", "login admin / ..."."""
_PLACE = (
    r"\b(?:\s(?:in|of|at|on|for|im|am|auf|für|vom|von|en|de|del|di|da|do|dans|du|para|pour|per)\s[^.:;!?\n]{1,40}?)?"
)
"""Where a network is; other words behind it name a thing, as in "the wifi poster"."""
_BESIDE = re.compile(
    rf"{_PASS}\s(?:for|to|of|für|fürs|zum|zur|vom|para|de|del|pour|per|da|do)\s(?:(?:the|das|den|die|der|el|la|le|il|o|a)\s|l['’])?"
    r"(?:intranet|extranet|vpn|web-?mail|e-?mail|mailbox|portal|portail|till|cash (?:desk|register)|kasse|alarm|safe"
    r"|tresor|caja|coffre)"
    rf"\s['\"`«“„]?(?P<place>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    r"|\b(?:user(?:name)?|benutzer(?:name)?|usuario|utilisateur|utente|usuário|log-?in|account)\b:?\s[\w.@-]{2,30}\s?[,;/]\s?"
    rf"(?:(?:and|und|y|et|e)\s)?(?:\bpass\b|{_PASS}):?\s['\"`«“„]?(?P<user>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    r"|\b(?:log-?in|zugang|acceso|accès|accesso)\b(?!\s(?:page|form|screen|window|seite|maske|formul|página|halle|hall|tor|gate|puerta|porte"
    r"|quai|livraison|nord|süd|ost|west|sur|este|oeste|est|ouest|sud|main|principal)\w{0,6}\b)(?:\s[^\W\d_][\w.-]{0,20}){1,3}\s?:\s"
    rf"(?P<who>[\w.@-]{{2,30}})\s?/\s?(?P<login>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    r"|\b(?:vault|safe|strongbox|tresor|caja fuerte|coffre(?:-fort)?|cofre|laptop|tablet|archive|drive)\s"
    r"(?:opens|unlocks|öffnet sich|se abre|s['’]ouvre|abre)\s(?:with|mit|con|avec|com)\s"
    rf"['\"`«“„]?(?P<opener>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    rf"|\b(?:the|my|our|new)\spass{_OF}{_IS}['\"`«“„]?(?P<pass>[^\s'\"`,;»”]{{8,60}}){_LAST}"
    r"|\b(?:key|code|schlüssel|clave|clé|chave|chiave)\s(?:of|for|to|zum|vom|fürs|für|del?|du|pour|para|per|do)\s"
    rf"(?:(?:the|das|el|la|le|il|o)\s)?(?:wi-?fi|wlan){_PLACE}{_IS}['\"`«“„]?(?P<key>[^\s'\"`,;»”]{{8,60}}){_LAST}",
    re.I,
)
"""Secrets beside what they open: without a sign, after a user's name, or behind the network."""
_FOLLOWED = frozenset({"user", "key"})
"""Groups whose words say that a secret follows; the others could be followed by a name."""
_JOINED = re.compile(r"[^\W\d_]{2}[_-]?(?!(?:19|20)\d\d)\d{1,4}[_-]?[^\W\d_]{2}")
"""Words with a number between them, and no year; things and versions have theirs at the end."""
_TICKET = re.compile(
    r"\b(?:ski|lift|bus|tram|train|rail|travel|boarding|day|week(?:ly|end)?|month(?:ly)?|annual|season|parking|guest|visitor|press|museum"
    r"|gate|hall|swim(?:ming)?|mountain|fan)\b", re.I
)  # fmt: skip
"""Words by which a pass is a ticket."""
_NETWORK = re.compile(
    r"guest|visitor|g(?:a|ä|ae)st|besucher|invit|ospit|net|roam|wi-?fi|wlan|ssid|hotel|caf[eé]|public|open", re.I
)
"""Parts of the names of networks; a name is no secret."""
_THAT_IS_IT = re.compile(
    rf"\W{{1,4}}(?:that|this|it|das|dies|eso|esto|es|ça|c|isso|questa)(?:['’]s|['’]est)?(?: (?:is|was|ist|es|é|è))?"
    rf" (?:the |das |die |la |le |a )?{_PASS}", re.I
)  # fmt: skip
"""A sentence that says that what stands before it is the password."""
_OPENED = re.compile(
    r"\b(?:unlock|open|log (?:in|on)|sign in|get in|entsperr|öffne|einlogg|anmeld|melde|desbloque|abr[ea]|entr[ae]"
    r"|acced|déverrouill|ouvr|connecte|sblocca|apri|acess)[^\W\d_]{0,6}\s[^.;:!?\n]{1,50}?\s(?:with|using|mit|con|avec"
    rf"|com)\s['\"`«“„]?(?P<word>[^\s'\"`,;»”]{{8,60}}){_LAST}", re.I
)  # fmt: skip
"""Things that open others: a key's number, a program or a word that is written for no other reason."""
_CODES = re.compile(r"[0-9a-fA-F-]+|[^a-z]+")
"""Digests, and numbers of models and parts."""
_PHRASED = re.compile(
    rf"{_PASS}{_OF}{_IS}(?P<word>\"[^\"\n]{{8,80}}|«[^»\n]{{8,80}}|“[^”\n]{{8,80}}|'[^'\n]{{8,80}})", re.I
)
_NUMBER = re.compile(r"\d{1,4}")
"""A number between the words of a quoted secret."""

_PIN = re.compile(
    r"\b(?:PIN|(?:[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur|[Cc]ard|SIM|phone) pin)(?:[ -][Cc]odes?)?\b"
    rf"{_OF}(?:\s?:\s{{0,3}}|\s(?i:is|was|ist|lautet|est|es|é|è)(?:\s(?:now|jetzt|ahora|maintenant|agora"
    rf"|ora|le|el|o|il))?"
    r"[:\s]\s{0,3})(?P<word>\d{4,8})(?![\w%€$-]|[.,:/]\d|\s?(?:€|EUR|USD))"
    r"(?!\s+(?!(?:and|or|but|until|since|for|if|now|please|so|in|on|und|oder|aber|bis|seit|für|bitte|y|o|pero|hasta|desde|para"
    r"|et|ou|mais|depuis|pour|e|mas|até|ma|fino|per)\b)[^\W\d_])"
)
"""Codes of cards, where a clause ends behind the number: "PIN: 1234 visitors" counts something. Those of doors are no
secrets among the crew that opens them: notes are full of them."""
_MY_PIN = re.compile(
    r"\b(?i:my|his|her|our|mein|meine|mi|mon|il mio|o meu) PIN (?:is|was|ist|lautet|es|est|è|é) (?P<word>\d{4,8})"
    r"(?=\s[^\W\d_])(?!\s(?:m|km|ft|feet|met(?:er|re)s?|miles|years?|times|euros?|dollars?|eur|usd|people|visitors)\b)"
)
"""A person's own, with any words behind it: nobody has a PIN of so many things."""
_OTHER_PIN = re.compile(
    r"(?:,|,?\s(?:and|und|y|et|e))\s(?:hers|his|theirs|mine|yours|ours|seine|ihre|meine|deine"
    r"|the (?:PUK|old one|new one|other)|die PUK|el de \w{2,12}|la de \w{2,12}|el suyo|el PUK)"
    r"(?:\s(?:is|was|ist|es))?\s(?P<word>\d{4,8})(?![\w%€$-]|[.,:/]\d)"
)
"""Another person's PIN, behind the first."""
_QUOTED = r"\"[^\"\n]{8,240}|«[^»\n]{8,240}|“[^”\n]{8,240}|'(?:[^'\n]|(?<=\w)'(?=\w)){8,240}"
_PHRASE = re.compile(
    r"\b(?:pass[ -]?phrase|(?:recovery|seed) phrase|phrase (?:secrète|de passe|de récupération)|frase[ -]senha"
    r"|frase (?:de paso|secreta|segreta|de recuperación|de recuperação|di recupero))\b"
    rf"{_OF}{_IS}(?P<word>{_QUOTED}|(?:[^\W\d_]{{2,12}} ){{3,23}}[^\W\d_]{{2,12}}(?=[.,;!\n]|$))", re.I
)  # fmt: skip
_OPENS = re.compile(
    r"(?:a|an|the|as|in|on|at|by|for|from|not|no|never|always|also|still|now|only|too|very|quite|so|up"
    r"|under|with|what|that|your"
    r"|my|our|one|some|somewhere|kept|known|set|see|ask|to|part|der|die|das|den|ein|eine|im|in|auf|bei"
    r"|von|nicht|nie|nur|noch|sehr"
    r"|zu|siehe|für|mit|el|la|los|las|un|una|en|de|por|para|no|solo|muy|más|tan|siempre|parte|le|les|une"
    r"|dans|sur|pas|ne|très"
    r"|trop|toujours|celle|o|os|as|um|uma|em|na|não|sempre|muito|il|lo|gli|nel|nella|non|sempre|molto|troppo|quella"
    r"|(?:scritt|not|mess|escrit|hech|fatt|dit)[oa]|écrite?|connue?|\w+(?:ed|iert|ado|ada|ido|ida|ato|ata"
    r"|ito|ita|uta)|ge\w+(?:t|en)|\w{3,}(?:é|ée|ie|ue))\b",
    re.I,
)
"""Words that follow "passphrase" in a sentence about it."""
_ARTICLE = re.compile(
    r"a|an|the|one|my|our|your|der|die|das|den|ein|eine|el|la|los|las|un|una|le|les|une|o|os|as|um|uma|il|lo|gli", re.I
)
"""Words that a phrase may begin with, too."""
_HINTS = (
    "pass", "pw", "mdp", "kennwort", "contra", "senha", "secr", "segr", "token", "jeton", "credential", "key", "clé",
    "geheimnis", "schlüssel", "clave", "chave", "chiave", "log", "sign", "gets in", "get in", "unlock", "zugang",
    "anmeld", "einlog", "entsperr", "identif", "connect", "accès", "credenc", "credenz", "entra", "acced", "pin",
    "phrase", "frase", "wifi", "wi-fi", "wlan", "open", "öffne", "desbloque", "abr", "déverrouill", "ouvr", "sblocca",
    "apri", "acess", "acces",
)  # fmt: skip
"""Every text with a secret that prose names holds one of these."""


def may_tell(text: str) -> bool:
    """Whether a text may name a secret at all."""
    lowered = text.lower()
    return any(hint in lowered for hint in _HINTS)


def told_secrets(piece: str) -> Iterator[tuple[int, int]]:
    """The places of secrets that a line names; two may overlap."""
    if not may_tell(piece):
        return
    for pattern in _STATED:
        for match in pattern.finditer(piece):
            yield from _stated(piece, match)
    for match in _SPACED.finditer(piece):
        words = match["word"].split()
        if len(words) > 1 and not _OPENS.match(match["word"]) and not any(map(_tells_about, words)):
            yield match.span("word")
    for match in _MARKED.finditer(piece):
        word = match[0].rstrip(_TRAILING)
        own = _sentence_around(piece, match.start(), match.start() + len(word))
        marks = "!?%&$*#" if _NAMED.search(own) else "!?%$*" if _FAINTLY_NAMED.search(own) else ""
        if _is_marked(word, marks):
            yield match.start(), match.start() + len(word)
    yield from _in_notes(piece)
    for match in (*_PIN.finditer(piece), *_MY_PIN.finditer(piece)):
        yield match.span("word")
        if other := _OTHER_PIN.match(piece, match.end("word")):
            yield other.span("word")
    for match in _PHRASE.finditer(piece):
        words = match["word"].lstrip("'\"«“ ")
        if words[:1] not in "[<{" and not _goes_on(words):  # a mark or a placeholder
            yield match.end("word") - len(words), match.end("word")


def _goes_on(words: str) -> bool:
    """Whether words go on a sentence about a passphrase: they begin like one, or two of them describe one."""
    parts = [part.strip("\"'«»“”,;") for part in words.split()]
    article = _ARTICLE.fullmatch(parts[0]) if parts else None
    if article is None and _OPENS.match(words):
        return True
    count = sum(map(_tells_about, parts)) - bool(article)
    return count >= 1 if article else any(map(_DESCRIBING.fullmatch, parts)) and count >= 2


def _in_notes(piece: str) -> Iterator[tuple[int, int]]:
    """Secrets in the short forms of notes, those that open something, and quoted words with numbers between them."""
    for match in _NOTED.finditer(piece):
        group = next(name for name in ("word", "network", "key", "login") if match[name])
        word = match[group].rstrip(_TRAILING)
        named = group == "word" and not match["pass"]
        if match["pass"] and _TICKET.search(piece, max(0, match.start() - 20), match.start(group)):
            continue
        named_after = _NAMED.search(piece, match.end(), match.end() + _AFTER)
        other = named_after and not _THAT_IS_IT.match(piece, match.end())
        if group == "network" and (_NETWORK.search(word) or other):
            continue  # where a note speaks of a password, too, this is the network
        if (group == "network" and names_a_place(word)) or _is_way_in(match, word):
            continue
        if "\\" not in word and (_may_be_secret(word, people=True) if named else _is_chosen(word)):
            yield match.start(group), match.start(group) + len(word)
    for match in _BESIDE.finditer(piece):
        group = next(name for name in ("place", "user", "login", "opener", "pass", "key") if match[name])
        word = match[group].rstrip(_TRAILING)
        if group == "pass" and _TICKET.search(piece, max(0, match.start() - 20), match.start(group)):
            continue
        if (group == "opener" and names_a_key(word)) or _is_way_in(match, word):
            continue
        if _is_chosen(word) and (group in _FOLLOWED or _JOINED.search(word)):
            yield match.start(group), match.start(group) + len(word)
    for match in _OPENED.finditer(piece):
        word = match["word"].rstrip(_TRAILING)
        if len(_SWITCH.findall(word)) >= _SWITCHES and looks_secret(word, 8) and not _CODES.fullmatch(word):
            yield match.start("word"), match.start("word") + len(word)
    for match in _PHRASED.finditer(piece):
        words = match["word"][1:].strip()
        parts = words.split()
        if len(parts) >= 3 and any(map(_NUMBER.fullmatch, parts)) and not _goes_on(words):
            yield match.start("word") + 1, match.end("word")


def _is_way_in(match: re.Match[str], word: str) -> bool:
    """Whether a note about a way in says where it is: ``Login desk: north / Hall5entrance``."""
    return match["login"] is not None and is_a_place(match["who"]) and names_a_place(word)


def _stated(piece: str, match: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The secret that a sentence states, without brackets around it, and a second one beside it."""
    start, word, people = match.start("word"), match["word"].rstrip(_TRAILING), bool(match["pass"])
    if word[:1] in _BRACKETS and word:
        placeholder = word[0] != "<" or is_variable(word)
        start, word = start + 1, word[1:]
        if placeholder and not _is_chosen(word):
            return
    if not _may_be_secret(word, people=people):
        return
    end = _with_the_rest(piece, start + len(word))
    yield start, end
    while people and (other := _ANOTHER.match(piece, end)) and _is_chosen(other["word"].rstrip(_TRAILING)):
        yield other.span("word")
        end = other.end("word")


def _is_chosen(word: str) -> bool:
    """Whether a word has capitals, small letters and a digit, as neither a placeholder nor a reference has them."""
    kinds = (any(c.isupper() for c in word), any(c.islower() for c in word), any(c.isdigit() for c in word))
    return len(word) >= 8 and all(kinds) and not _NUMBERED.fullmatch(word) and not is_variable(word)


def _tells_about(word: str) -> bool:
    """Whether a word belongs to a sentence about a secret."""
    return bool(_JOINS.fullmatch(word) or _DESCRIBING.fullmatch(word) or _OPENS.fullmatch(word))


def _with_the_rest(piece: str, end: int) -> int:
    """End of a secret with a comma or semicolon inside it: its rest follows without a gap and is no ordinary word."""
    rest = _REST.match(piece, end)
    return end if rest is None else end + len(rest[0].rstrip(_TRAILING))


def _may_be_secret(word: str, *, people: bool) -> bool:
    """Whether a word that a sentence calls a secret may be one: chosen by people, or made by a machine."""
    if not people and (len(word) < 12 or len(_SWITCH.findall(word)) < _SWITCHES):
        return False
    return looks_secret(word, 6) and not _is_described(word) and not _NUMBERED.fullmatch(word)


def _is_described(word: str) -> bool:
    """Whether a joined word describes a secret: one of its parts does so, and no other could be part of one."""
    parts = re.split(r"[-_/]", word)
    others = [part for part in parts if not _DESCRIBING.fullmatch(part)]
    plain = all(part.islower() or part.isupper() or part.isdigit() or _HOLDS_VALUES.search(part) for part in others)
    return len(parts) > 1 and len(others) < len(parts) and plain


def _is_marked(word: str, marks: str) -> bool:
    """Whether a word is a mixture that is written for no other reason, with one of these marks inside. Where a secret
    is named faintly, ``&`` and ``#`` do not count: they join words of courses and channels."""
    word = word.strip("*_~#")  # of Markdown
    if len(word) < 8 or is_placeholder(word) or is_variable(word) or _ORDINARY_MARKS.fullmatch(word):
        return False
    marked = any(c in marks for c in word[1:-1])
    return marked and any(c.isdigit() for c in word) and sum(c.isalpha() for c in word) >= 3


def _sentence_around(piece: str, start: int, end: int) -> str:
    """The sentence of a word, without the word, as far as it is looked at."""
    before = piece[max(0, start - _BEFORE) : start]
    ends = [match.end() for match in _ENDS.finditer(before) if not match[0].startswith(":")]
    after = piece[end : end + _AFTER]
    stop = _ENDS.search(after)
    return before[ends[-1] if ends else 0 :] + " " + after[: stop.start() if stop else len(after)]


# Names of places and of keys that are written like secrets: Hall5entrance, Rampe5Süd, Schluessel4Keller.


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


_PLACES = _words(
    "hall halle sala salle room rooms raum zimmer aula habitación chambre camera stanza office büro buero oficina "
    "bureau ufficio floor etage stock stockwerk planta étage piano level ebene building gebäude gebaeude haus "
    "edificio bâtiment batiment wing flügel fluegel ala aile annex anbau gate tor gates door doors tür tuer puerta "
    "porte porta dock docks ramp rampe rampa quay kai quai muelle molo berth shelf regal rack estante étagère "
    "scaffale aisle gang pasillo allée corridor flur entrance eingang entrada entrée entree ingresso exit ausgang "
    "salida sortie uscita lobby reception empfang recepción réception foyer desk counter schalter mostrador guichet "
    "sportello till kasse platform gleis andén voie binario stairs treppe escalera escalier scala lift elevator "
    "aufzug ascensor ascenseur cellar basement keller sótano cave cantina yard hof patio cour cortile parking "
    "parkplatz parkhaus garage padiglione pabellón pavillon pavilion stand booth locker spind zone bereich sector "
    "sektor north south east west nord süd sued ost norte sur este oeste sud est ouest ovest left right links "
    "rechts izquierda derecha gauche droite sinistra destra front back rear vorne hinten upper lower oben unten "
    "arriba abajo haut bas "
)
"""Parts of buildings and directions, in the languages in which notes name secrets."""
_KEYS = _words("key keys schlüssel schluessel llave llaves clé clés cle chiave chave badge chip karte tarjeta carte")
_PART = re.compile(r"[^\W\d_]?[^\W\d_A-ZÀ-ÖØ-Þ]+|[^\W\d_]+")
"""A word inside a word: a capital begins another one."""


def names_a_place(word: str) -> bool:
    """Whether a part of a word is a part of a building, or a direction."""
    return any(part in _PLACES for part in _parts(word))


def is_a_place(word: str) -> bool:
    """Whether a word is nothing else, but for a number: ``north``, ``Tor3``."""
    parts = _parts(word)
    return bool(parts) and all(part in _PLACES for part in parts)


def names_a_key(word: str) -> bool:
    """Whether a part of a word is a key or a card that opens things."""
    return any(part in _KEYS for part in _parts(word))


def _parts(word: str) -> list[str]:
    return [part.casefold() for part in _PART.findall(word)]
