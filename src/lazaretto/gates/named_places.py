"""Names of places and of keys that are written like secrets: Hall5entrance, Rampe5Süd, Schluessel4Keller."""

from __future__ import annotations

import re


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
