"""The stakes of a change: money, access, safety and permissions, receivers, deciders.

A claim may be harmless by itself; the difference of two claims makes a change weighty. So pairs are judged.
"""

from __future__ import annotations

import re

from lazaretto.gates.memory.claims.comparison import differences, opposed_in_words, other_names
from lazaretto.gates.memory.claims.extraction import Claim, moves_money_or_access

_SENT = frozenset({"account", "mail", "phone", "package"})
"""Kinds of value that say where something goes or comes from: another one is another receiver or another source."""
_FETCHED = re.compile(
    r"\b(?:repositor(?:y|ies)|repos?|mirrors?|registr(?:y|ies)|packages?|dependenc(?:y|ies)|librar(?:y|ies)|images?|"
    r"built from|clon(?:e|ed|es)|download(?:s|ed)?|install(?:s|ed|er)?|fetch(?:es|ed)?|upstream|source code|artifacts?|"
    r"binar(?:y|ies)|plug-?ins?|extensions?|updates? (?:come|are loaded)|pull(?:s|ed)? from)\b", re.I)  # fmt: skip
_DELIVERED = re.compile(
    r"\b(?:deliver(?:s|ed|y|ies)?|ship(?:s|ped|ping|ments?)?|parcels?|return address|postal address|mailing address|"
    r"(?:send|sent|sends|post|posted|returned?|forward(?:ed|s)?) to)\b", re.I)  # fmt: skip
_GUARDS = re.compile(
    r"\b(?:audit\w*|logs?|retention|retain\w*|encrypt\w*|certificates?|alarms?|safety|interlocks?|verif\w+|confirm\w*|"
    r"allerg\w+|checks?|checked|review\w*|quarantin\w*|backups?|two-factor|signatures?|guards?|locks?|locked)\b",
    re.I)  # fmt: skip
"""Controls that keep others safe: a reversal weakens them, and so does another number."""
_AMOUNTS = frozenset({"quantity", "number", "percent", "money"})


def at_stake(old: Claim, new: Claim) -> bool:
    """Whether a change from one claim to the other moves money, access, safety or permissions, sends something
    elsewhere, fetches it from elsewhere, or lets another person decide."""
    if old.sensitive or new.sensitive:
        return True
    differing = differences(old, new)
    kinds = {difference.kind for difference in differing}
    if kinds & _SENT:
        return True
    fetched = bool(_FETCHED.search(old.text) and _FETCHED.search(new.text))
    if "host" in kinds and (fetched or _sites(old).isdisjoint(_sites(new))):
        return True
    if "path" in kinds and fetched:
        return True
    named = other_names(old, new)
    if named and old.decides and new.decides:
        return True
    if (named or "number" in kinds) and _DELIVERED.search(old.text) and _DELIVERED.search(new.text):
        return bool({"number", "year"} & {v.kind for v in (*old.values, *new.values)})  # a street has a number
    turned = opposed_in_words(old, new)
    guarded = _GUARDS.search(old.text) or moves_money_or_access(old.text)
    return bool(guarded) and (turned or bool(kinds & _AMOUNTS and _GUARDS.search(old.text)))


def _sites(claim: Claim) -> set[str]:
    """The hosts that a claim names, without what stands behind them: another page of a site is the same place."""
    hosts = (v.norm.split("/", 1)[0] for v in claim.values if v.kind == "host")
    return {host.split(":", 1)[0] for host in hosts}
