"""Signs that a text gives orders to machines that read it, in the languages that the screener reads.

It asks to be passed on (the order that makes a worm), speaks to machines that read, wants something kept from a person
or its own trace removed, asks for a secret, or takes the reader's task away. Honest texts say such things too
("forward this mail to everyone"), so a sign alone holds nothing: it counts where the screener also finds the text
faintly like an order, and two different signs where it finds it more faintly still. One thing needs no doubt of the
screener: an order to change or report a value which is to be kept from the person who controls it.
"""

from __future__ import annotations

import re

# ruff: noqa: E501

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


_PEOPLE = (
    r"(?:anyone|anybody|(?:any|some)one else|(?:the|your|our|their|his|her) (?:\w{1,12} )?(?:users?|team|crew|operators?|owners?|"
    r"principal|colleagues?|client|customers?|boss|humans?|person|people|others?|admins?|administrators?|support)"
    r"|niemand(?:em|en)?|keine[mn]|(?:de[mnr]|die|das|eure[mnr]?|deine[mnr]?|ihre[mnr]?|euer|dein) (?:\w{1,14} )?(?:team|nutzern?|benutzern?"
    r"|auftraggebern?|kunden|kollegen|betreibern?|besitzern?|menschen|chef|crew|anderen)"
    r"|nadie|ning[uú]n\w*|(?:al|el|los?|las?|tus?|su|sus|vuestro) (?:\w{1,12} )?(?:usuari[oa]s?|equipo|crew|cliente|due[ñn][oa]"
    r"|compa[ñn]er[oa]s|jef[ea]|operador\w*|person\w+|dem[aá]s)"
    r"|personne|(?:l['’]|le|la|les|ton|ta|tes|votre|vos|leur|à l['’]|au|aux) ?(?:\w{1,12} )?(?:utilisat\w+|[eé]quipe|client\w*|propri[eé]taire"
    r"|coll[eè]gues?|chef|responsable|op[eé]rateur\w*|autres|humains?)"
    r"|nessuno|(?:il|la|l['’]|al|alla|all['’]|i|gli|tuo|vostro) ?(?:\w{1,12} )?(?:utente|squadra|team|cliente|colleghi|capo|fondazione|altri)"
    r"|ningu[eé]m|(?:o|a|ao|à|os|teu|seu|vosso) (?:\w{1,12} )?(?:utilizador\w*|usu[aá]rio\w*|equipa|equipe|cliente|colegas|chefe|outros)"
    r"|niemand|(?:de|het|je|jouw|uw) (?:\w{1,12} )?(?:gebruiker|team|klant|collega['’]?s|baas|anderen))"
)
"""People whom an honest text does not keep from what their agents do."""
_HIDES = re.compile(
    rf"\b(?:(?:do not|don['’]t|never|avoid|without) (?:tell|telling|inform|informing|notify|notifying|alert|alerting|warn|warning"
    rf"|show|showing|ask|asking|mention\w* (?:it|this|that|any of this|the \w{{1,12}}) to|say\w* (?:it|this|anything|a word) to)"
    rf" (?:it |this |them )?(?:to )?{_PEOPLE}"
    rf"|(?:keep|stay|remain) (?:silent|quiet) (?:about|on|towards?)|say (?:nothing|not a word) (?:about|of|to)"
    rf"|(?:do not|don['’]t|never) (?:mention|reveal|disclose|say) (?:that you|why|where (?:you|it|this)|who (?:asked|told)|having)"
    rf"|verschweig\w{{0,4}}|(?:sag|sagt|sagen|erz[äa]hl\w{{0,2}}|meld\w{{0,3}}|informier\w{{0,3}}|zeig\w{{0,2}}|unterrichte\w?|verrat\w{{0,2}}) "
    rf"(?:sie |es |das |davon |bitte ){{0,2}}(?:niemand(?:em|en)?|keine[mn]|{_PEOPLE} (?:davon |etwas |bitte ){{0,2}}(?:nichts?|kein\\w{{0,2}}))"
    rf"|(?:ohne|sin|sans|senza|sem|zonder) (?:\w{{1,12}} ){{0,4}}?{_PEOPLE}"
    rf"|(?:no|não|non|ne|n['’]|niet) (?:\w{{1,8}} ){{0,2}}?(?:avis|avvis|inform|dig|dec|dic|dit|dis|dir|cuent|cont|mencion|menzion|mention"
    rf"|pr[eé]v|avert|muestr|mostr|montr|comuni|revel|zeg|vertel)\w{{0,6}} (?:\w{{1,8}} ){{0,2}}?{_PEOPLE}"
    rf"|(?:guard\w{{1,4}}|garde\w?|mant[eé]n\w*|mantenga\w*) (?:\w{{1,8}} )?(?:silenc\w+|en secreto|le secret|secret|segredo))\b",
    re.I,
)
_TRACE = re.compile(
    r"\b(?:delet|eras|wip|remov|clear|l[öo]sch|entfern|vernicht|borr|elimin|effac|supprim|cancell|apag|wis)\w{0,5}\b[^.!?\n]{0,30}?"
    r"\b(?:(?:this|the|your|that|dies\w{0,2}|de[nr]|die|das|est[aeo]|la|el|le|ce|cette|il|questo|questa|esta|o|dit|het)) "
    r"(?:\w{1,12} )?(?:conversation|chat|log|logs|history|trace|transcript|protokoll|verlauf|eintrag|spuren?|unterhaltung"
    r"|conversaci[óo]n|registro|historial|rastro|journal|historique|fil|conversazione|cronologia|conversa|hist[óo]rico|gesprek"
    r"|logboek)\b",
    re.I,
)
_READERS = re.compile(
    r"\b(?:as|als|como|en tant qu['’]?e?|come|qua) (?:an? |ein\w{0,2} |un\w? |uma )?(?:ai|ki|ia|language model|sprachmodell\w*|llm"
    r"|modelo de lenguaje|mod[eè]le de langage|modello linguistico|assistant|assistent\w*|asistente|agent\w*|agente)\b"
    r"|\b(?:instructions?|consignes?|instrucciones|anweisung\w*|hinweis\w*|note|notes|notice|message)[ _-](?:(?:for|to|an|f[üu]r|para|pour|aux?|per)[ _-])?"
    r"(?:the[ _-]|die[ _-]|los[ _-]|les[ _-])?(?:all[ _-]|alle[ _-])?(?:ai|ki|ia|llms?|bots?|agents?|agenten?|agentes?|agenti|assist\w{3,8})\b"
    r"|\b(?:merci aux|les|chers|aux) (?:agents?|assistants?) (?:de|d['’]|sont|doivent|qui)\b"
    r"|\b(?:dear|liebe|hello|attention|achtung|atenci[óo]n|attenzione|aten[çc][ãa]o)[, ]+(?:an )?(?:all |alle |todos los |tutti gli )?"
    r"(?:ai |ki-?|reading |automated )?(?:agents?|agenten|agentes|agenti|assistants?|assistenten|asistentes|bots?|models?)\b"
    r"|\bwhoever (?:reads|summari[sz]es|processes|indexes|ingests)\b|\bwer (?:das|dies|diese\w?|dieses)\b[^.!?\n]{0,40}?\b(?:liest|zusammenfasst)\b"
    r"|\bquien (?:lea|resuma|procese)\b|\bceux? qui (?:lit|lisent|r[eé]sume\w*)\b|\bchi (?:legge|riassume)\b",
    re.I,
)
_GIVES = (
    r"(?:send|sends|paste|post|show|give|tell|list|put|share|reveal|print|repeat|provide|e-?mail|write|attach|need|include"
    r"|schick\w{0,2}|send\w{0,2}|leg\w{0,2}|gib|gebt|zeig\w{0,2}|nenn\w{0,2}|teil\w{0,2}|schreib\w{0,2}|kopier\w{0,2}|f[üu]g\w{0,2}"
    r"|env[ií]\w{1,4}|muestr\w{1,3}|d(?:a|ad|e|en|ime|inos|adnos)|pega\w{0,3}|escrib\w{1,4}|pon\w{0,3}|indi\w{2,4}|revel\w{1,3}"
    r"|envoy\w{1,3}|affich\w{1,3}|donn\w{1,3}|montr\w{1,3}|coll\w{1,3}|communiqu\w{1,3}|[ée]cri\w{1,4}|quels?|quelles?"
    r"|invi\w{1,3}|mostr\w{1,4}|incoll\w{1,3}|comunic\w{1,4}|mand\w{1,4}|stuur\w?|geef\w?|toon\w?)"
)
_SECRET_THINGS = (
    r"(?:system (?:prompt|message|instructions?)|systemprompt|systemnachricht|mensaje (?:de|del) sistema|message syst[eè]me|prompt (?:di|de) sistema"
    r"|api[ -]?(?:keys?|schl[üu]ssel|tokens?)|passwords?|passwort|passw[öo]rter|kennw[öo]rt\w{0,3}|zugangsdaten|credentials?|contrase[ñn]as?|claves? de acceso"
    r"|mots? de passe|identifiants|cl[eé]s? (?:api|d['’]acc[eè]s)|senhas?|credenciais|credenziali|wachtwoord\w{0,2}|inloggegevens|private keys?|access tokens?"
    r"|session cookies?|ssh[ -]keys?|secrets)"
)
_WANTS_SECRET = re.compile(
    rf"\b{_GIVES}\b[^.!?\n]{{0,60}}?\b{_SECRET_THINGS}\b|\b{_SECRET_THINGS}\b[^.!?\n]{{0,50}}?[.:,;]?\s(?:\w{{1,10}} )?"
    r"\b(?:paste|send|post) (?:it|them|those|all)\b",
    re.I,
)
_NEW_TASK = re.compile(
    r"\b(?:forget|ignore|disregard|drop|stop|abandon|vergiss|vergesst|ignorier\w{0,2}|olvid\w{1,3}|ignor[ae]\w{0,2}|dej[ae]\w?|oubli\w{1,3}"
    r"|laisse\w?|dimentic\w{1,4}|ignor[ai]|lascia\w{0,2}|esque[çc]\w{1,3}|vergeet|negeer)\b[^.!?\n]{0,30}?"
    r"\b(?:what (?:you|they) (?:were|was|have been|had been) (?:told|asked|given|doing)|you(?:r|rself)? (?:were|was)? ?(?:asked|told|task|tasks|role|rules"
    r"|instructions|charter|guidelines|orders|assignment)|(?:previous|earlier|all|prior) (?:task|tasks|instructions|orders)"
    r"|auftrag|aufgabe\w?|anweisungen|rolle|was (?:man|dir|euch|du)|lo que (?:te|os|se te|le)|tu (?:tarea|funci[óo]n|papel)|encarg\w+|instrucciones"
    r"|ta (?:charte|mission|t[âa]che|consigne)|tes (?:r[eè]gles|consignes|instructions)|vos (?:r[eè]gles|consignes|instructions)|ce qu['’]on (?:t|vous)"
    r"|le (?:tue|vostre) (?:istruzioni|regole)|(?:il tuo|il vostro) (?:compito|ruolo)|as (?:tuas|suas) (?:instru\w+|regras)|a (?:tua|sua) tarefa"
    r"|je (?:taak|opdracht|instructies))\b"
    r"|\b(?:from now on|as of now|from this moment|ab jetzt|von jetzt an|ab sofort|desde (?:ahora|este momento)|a partir de (?:ahora|agora)|d[eè]s maintenant"
    r"|[àa] partir de maintenant|d['’]ora in poi|vanaf nu)\b[^.!?\n]{0,20}?\b(?:you (?:are|work|answer|obey|serve)|bist du|seid ihr|arbeitest du|antwortest du"
    r"|eres|sois|trabajas|respondes|obedeces|tu es|vous [êe]tes|tu travailles|tu r[eé]ponds|sei|lavori|[eé]s|trabalhas|ben je|werk je)\b"
    r"|\b(?:your|eure|deine|tu|votre|ton) (?:previous |bisherige |anterior |earlier |old )(?:role|task|rolle|aufgabe|tarea|papel|r[ôo]le|t[âa]che)\b",
    re.I,
)
_COPIES = re.compile(
    r"\b(?:so i ask|please|i ask you)\b[^.!?\n]{0,20}?\b(?:repeat|copy|quote) me\b|\bpass (?:on|along) (?:the|this|that) (?:asking|request|wish)\b"
    r"|\brecop(?:ie[zr]?|ier) (?:ce|cette|ces)\b[^.!?\n]{0,60}?\b(?:tou[st]\w{0,3}|chaque)\b",
    re.I,
)


_WARNS = re.compile(
    r"\b(?:never|not|don['’]t|won['’]t|no ?one|nobody|nie(?:mals|mand\w*)?|kein\w{0,2}|nicht|nunca|no|nadie|jamais|ne|personne|mai"
    r"|nessuno|non|nunca|não|ningu[eé]m|nooit|niet|niemand)\b",
    re.I,
)
"""Words of a warning: a text that warns of giving a secret away asks for none."""
_BEFORE = 40


def _wants_secret(text: str) -> bool:
    return any(
        not _WARNS.search(text, max(0, found.start() - _BEFORE), found.end() + _BEFORE // 2)
        for found in _WANTS_SECRET.finditer(text)
    )


def order_signs(text: str) -> frozenset[str]:
    """The signs of an order that stand in a text, by name."""
    found = {name for name, pattern in _BY_NAME.items() if pattern.search(text)}
    if _wants_secret(text):
        found.add("secrets")
    if _SECRECY.search(text):
        found.add("hides")
    if _MACHINES.search(text):
        found.add("readers")
    if asks_to_be_copied(text):
        found.add("copies")
    return frozenset(found)


_BY_NAME = {
    "hides": _HIDES,
    "trace": _TRACE,
    "readers": _READERS,
    "new task": _NEW_TASK,
    "copies": _COPIES,
}
