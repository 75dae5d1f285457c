"""The gate before protected keys: it decides who may write the memories on an agent's identity and permissions.

Crews that keep memories under keys pass the key along (``remember(text, agent=..., key="identity.role")``). Only some
source classes may write a protected key, and only from their own words: a text made from a web page is not theirs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import Field

from lazaretto.gates.protocol import GateContext
from lazaretto.names import look_of
from lazaretto.policy import CLOSED, RulingWord, read_settings
from lazaretto.types import Channel, Evidence, Observation, Ruling, SourceClass, Verdict


@dataclass(frozen=True, slots=True)
class ProtectedSettings:
    """The policy's ``[gates.protected]`` table."""

    __pydantic_config__ = CLOSED
    keys: Annotated[
        tuple[str, ...],
        Field(description="Protected keys; * stands for anything. Case, signs and look-alike letters do not matter."),
    ] = (
        "system", "system.*", "system_prompt", "*.system_prompt", "identity", "identity.*", "*.identity",
        "role", "roles", "*.role", "*.roles", "permissions", "*.permissions", "privileges", "*.privileges",
        "guardrails", "guardrails.*",
    )  # fmt: skip
    may_write: Annotated[tuple[SourceClass, ...], Field(description="Source classes that may write them.")] = (
        SourceClass.SYSTEM,
        SourceClass.DIRECT_USER,
    )
    ruling: Annotated[RulingWord, Field(description="Ruling when anybody else writes one.")] = Ruling.QUARANTINE


class ProtectedGate:
    """Looks at the key a memory is written under, and who writes it."""

    name = "protected"
    channels = frozenset(Channel)
    brief = True

    def __init__(self, settings: ProtectedSettings) -> None:
        self.settings = settings
        self._patterns = tuple(tuple(map(read, settings.keys)) for read in (plain_key, key_look))

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """A protected key, written from a source that may not: the writer's own, or one it was made from."""
        named = dict.fromkeys((observation.key, observation.ref.key if observation.ref else ""))
        key = next((name for name in named if self._is_protected(name)), "")
        if not key:
            return Verdict(self.name, observation.id, Ruling.ALLOW, 0.02, (0.0, 0.2), "not_protected")
        foreign = self._foreign(observation, context)
        if foreign is None:
            return Verdict(self.name, observation.id, Ruling.ALLOW, 0.05, (0.0, 0.3), "may_write")
        words = f"The key {key!r} is protected; {foreign.value} may not write it."
        evidence = Evidence("match", words, {"key": key, "source": foreign.value})
        return Verdict(
            self.name,
            observation.id,
            self.settings.ruling,
            0.9,
            (0.6, 1.0),
            "protected_key",
            (evidence,),
            ("ASI03", "ASI06"),
        )

    def _is_protected(self, key: str) -> bool:
        read = (plain_key(key), key_look(key))
        return bool(read[0]) and any(
            fnmatchcase(name, pattern)
            for name, patterns in zip(read, self._patterns, strict=True)
            for pattern in patterns
        )

    def _foreign(self, observation: Observation, context: GateContext) -> SourceClass | None:
        """The first source that may not write here: the item's own, or that of anything it was made from."""
        allowed = self.settings.may_write
        if observation.source not in allowed:
            return observation.source
        made_from = context.graph.ancestors(observation.parents)
        sources = (item.source for item in context.ledger.items(ids=made_from, any_state=True, limit=None))
        return next((source for source in sources if source not in allowed), None) if made_from else None


def plain_key(key: str) -> str:
    """A key as it is compared: folded, its parts parted by dots."""
    return re.sub(r"[\s/:]+", ".", unicodedata.normalize("NFKC", key).casefold().strip()).strip(".")


def key_look(key: str) -> str:
    """A key as people and models read it: its parts parted by dots, each in plain letters without signs between."""
    parts = _PARTED.sub(".", unicodedata.normalize("NFKC", key)).strip(".")
    return _PART.sub(lambda part: look_of(part[0]), parts)


_PARTED, _PART = re.compile(r"[^\w.*?\[\]!-]+"), re.compile(r"[^.*?\[\]!]+")


def make(settings: Mapping[str, Any]) -> ProtectedGate:
    """The gate for the policy's table."""
    return ProtectedGate(read_settings(ProtectedSettings, settings, key="gates.protected"))
