# ruff: noqa: E501
"""Words of four languages around a measure: those that say nothing of it, its bounds, another case, the past."""

from __future__ import annotations

import re

FRAME = re.compile(
    r"about|after|akzept\w*|allow\w*|always|amount\w*|approx\w*|at|back|before|being|beträgt|betragen|brauch\w*|bleib\w*|cab\w+|charge\w*|"
    r"circa|cobra\w*|cost\w*|coût\w*|cuesta\w*|dauer\w*|dur(?:a|e|ent|an)|enough|entran?|entramos|erlaubt|exact\w*|figure|genau|"
    r"get|gets|give\w*|gilt|go|goes|hält|heißt|hold|holds|immer|just|kept|keep\w*|kost\w+|lasts?|läuft|last|lieg\w*|"
    r"long|lang\w*|made|make\w*|measure\w*|need\w*|nehm\w*|nimmt|normal\w*|okay|paid|paie\w*|pass\w*|pay\w*|pays|perm\w*|pes\w+|pès\w+|plenty|"
    r"price\w*|prix|precio|preis\w*|provid\w*|raison|reich\w*|require\w*|room|run|runs|set|setting|sit|sits|stand|stands|stay\w*|"
    r"store[ds]?|stored|suffi\w*|tak\w+|tard\w+|time|times|toujours|tout|une?|us|usual\w*|uses?|vale|value|valeur|valor|vaut|"
    r"wait\w*|weigh\w*|wieg\w*|zahl\w*|zeit|siempre|fois|mal|vez|veces|c|d|l|qu|s|n|each|jede\w*|jeder|every|per|pro|je|"
    r"maxim\w*|máximo|minim\w*|mínimo|höchst\w*|mindest\w*|limit\w*|llega\w*|reach\w*|"
    r"open\w*|start\w*|begin\w*|close[sd]?|ends?|öffn\w*|beginn\w*|schließ\w*|ende\w*|commenc\w*|ouvr\w*|fermen?t?|"
    r"empi?e[zc]\w*|abr\w+|cierr\w*|termina\w*|"
    r"up|around|ungefähr|etwa|environ|unos|unas|ici|hier|aquí|bei|uns|nous|nos|notre|unser\w*|nuestr\w*|our|do|done|says?|item",
    re.I,
)
"""Words around a measure that say nothing of what is measured."""
_BEGIN = r"\b(?:open\w*|start\w*|begin\w*|from|since|ab|öffn\w*|beginn\w*|commenc\w*|ouvr\w*|empiez\w*|empez\w*|comienz\w*|abr\w+|desde|depart\w*|leav\w*)\b"
_ENDS = r"\b(?:clos\w*|ends?|ended|until|till|shut\w*|finish\w*|bis|schließ\w*|schließt|endet|ferm\w*|fini\w*|termin\w*|jusqu\w*|cierr\w*|cerr\w*|hasta|arriv\w*)\b"
_LEAST = (
    r"\b(?:least|minimum|mindestens|(?:au|al) (?:moins|menos)|mínimo|from|ab|more than|over|mehr als|plus de|más de)\b"
)
_MOST = r"\b(?:most|maximum|max|höchstens|maximal|(?:au|como) (?:plus|máximo|mucho)|máximo|up to|bis zu|jusqu\w*|hasta|under|below|less than|within|weniger als|moins de|menos de)\b"
SIDES = tuple((re.compile(a, re.I), re.compile(b, re.I)) for a, b in ((_BEGIN, _ENDS), (_LEAST, _MOST)))
PAST = re.compile(
    r"\b(?:was|were|had|used to|war|waren|hatten?|était|étaient|avait|era|eran|estaba|tenía|fue|until last|"
    r"formerly|früher|hizo|hicieron|(?:a|ont) (?:fait|eu|pris|mis|\w+é)|(?:ha|han|hemos) \w+[aei]do)\b",
    re.I,
)
ASIDE = re.compile(
    r"\b(?:except|unless|but|also|too|another|other|extra|additional\w*|more|less|first|second|last|next|new|old|sometimes|if|when|außer|"
    r"auch|noch|zusätzlich|weitere\w*|andere\w*|wenn|falls|sauf|aussi|encore|autre|si|quand|salvo|también|otr[oa]s?|"
    r"cuando|today|tonight|yesterday|tomorrow|heute|gestern|morgen|hier|demain|aujourd|hoy|ayer|mañana|currently|gerade|"
    r"still|left|remaining|noch|reste\w*|quedan?|average|durchschnitt\w*|moyenne|media)\b",
    re.I,
)
"""Words by which a claim may speak of another case or another day."""
LASTING = re.compile(
    r"\b(?:paien?t?|coûten?t?|kosten|zahl(?:t|en)|cuestan|pagan?|valen?|vaut|duren?t?|duran?|dauert|dauern|läuft|laufen|"
    r"ouvren?t?|fermen?t?|abren?|cierran?|empiezan?|öffnet|schließt|beginnt|endet|commencent?|settings?|réglages?|ajuste|"
    r"sollwert|grenzwert|höchstens|maximal|maximum|máximo|mindestens|minimum|mínimo)\b", re.I
)  # fmt: skip
"""Words of a lasting statement beside those of ``occasions``."""
