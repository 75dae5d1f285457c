"""The secrets gate: no key, token or password may be kept in a memory or passed on in a message.

``detect-secrets`` knows the formats of issuers, and names that values of secrets are assigned to; ``told_secrets``
knows how prose names them. Strings that merely look random (commit hashes, checksums) are left alone. The verdict
carries the text without the secrets, and no evidence repeats one.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import Field

from lazaretto import processor_time
from lazaretto.errors import MissingExtra
from lazaretto.gates.protocol import UNREAD, GateContext
from lazaretto.gates.told_secrets import is_placeholder, looks_secret, may_tell, told_secrets
from lazaretto.models.built import built, source_of
from lazaretto.policy import CLOSED, RulingWord, read_settings
from lazaretto.policy.plugins import require
from lazaretto.processor_time import worked
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, Verdict

LINE, OVERLAP = 1_000, 300
"""Longer lines are read in pieces that overlap: no pattern can take long, and a secret is never cut."""
MOST_SECONDS = 2.0
"""Processor time of this thread for one text; the verdict reports an unread rest, which waits for a person."""
_SHARE = 0.15
"""Its largest share of the item's time: the gates that read the meaning come after it."""
NOT_USED = frozenset(
    {"Base64 High Entropy String", "Hex High Entropy String", "Public IP (ipv4)", "Secret Keyword", "Private Key"}
)
"""Detectors of the library that take ordinary notes for secrets, or that are done more exactly below."""
MARK = "[{kind} removed]"


@dataclass(frozen=True, slots=True)
class SecretsSettings:
    """The policy's ``[gates.secrets]`` table."""

    __pydantic_config__ = CLOSED
    ruling: Annotated[
        RulingWord, Field(description="Ruling for a text with a secret; rewrite offers the text without it.")
    ] = Ruling.REWRITE


@dataclass(frozen=True, slots=True)
class Secret:
    """The place and the kind of a secret; never its value."""

    start: int
    end: int
    kind: str


class SecretsGate:
    """Looks for credentials in texts."""

    name = "secrets"
    channels = frozenset(Channel)
    brief = True

    def __init__(self, settings: SecretsSettings) -> None:
        self.settings = settings

    def warm_up(self) -> None:
        """Read the library's detectors."""
        _formats()

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """Every secret is evidence by its kind and place."""
        started = time.perf_counter()
        found, read = _within_its_time(observation.text)
        ruling, rule = (self.settings.ruling, "credential") if found else (Ruling.ALLOW, "no_known_format")
        evidence = tuple(_evidence(secret) for secret in found[:10])
        whole = read >= len(observation.text)
        if not whole:
            evidence = (*evidence, Evidence("measure", processor_time.NOT_WHOLE, {"read": read}))
            if ruling < Ruling.REVIEW:
                ruling, rule = Ruling.REVIEW, UNREAD
            elif ruling is Ruling.REWRITE:  # the replacement may hold a secret that was not read
                ruling = Ruling.QUARANTINE
        return Verdict(
            gate=self.name,
            subject=observation.id,
            ruling=ruling,
            risk=0.9 if found else 0.02,
            interval=(0.5, 1.0) if found else (0.0, 0.3 if whole else 1.0),
            rule=rule,
            evidence=evidence,
            taxonomy=("LLM02",) if found else (),
            cost=Cost(ms=(time.perf_counter() - started) * 1000),
            replacement=without_secrets(observation.text, found) if found and whole else None,
        )


def _within_its_time(text: str) -> tuple[list[Secret], int]:
    """The secrets found, and how far the text was read."""
    with processor_time.counted():
        return search(text, processor_time.until(min(MOST_SECONDS, processor_time.left() * _SHARE)))


def make(settings: Mapping[str, Any]) -> SecretsGate:
    """The gate, from the policy's table; raises where its library is absent."""
    made = SecretsGate(read_settings(SecretsSettings, settings, key="gates.secrets"))
    require("the secrets gate", "gates", "detect_secrets")
    return made


def find_secrets(text: str) -> list[Secret]:
    """Secrets in a text, in order, none inside another."""
    return search(text)[0]


def search(text: str, until: float = math.inf) -> tuple[list[Secret], int]:
    """The same, and how many characters were read until a moment of ``processor_time.worked``."""
    found, read = [*_private_keys(text)], len(text)
    for offset, piece in _pieces(text):
        if worked() > until:
            read = offset
            break
        found += _in_piece(offset, piece)
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda s: (s.start, -s.end)):
        if kept and secret.start < kept[-1].end:
            kept[-1] = Secret(kept[-1].start, max(secret.end, kept[-1].end), kept[-1].kind)
        else:
            kept.append(secret)
    return kept, read


def _in_piece(offset: int, piece: str) -> Iterator[Secret]:
    """The secrets of a piece, line by line, by the patterns that match anywhere in it."""
    formats = [(kind, pattern) for kind, pattern in (*_formats(), *_NEWER) if pattern.search(piece)]
    others = [find for finds, find in _OTHERS if finds(piece)]
    if not formats and not others:
        return
    for line in piece.splitlines(keepends=True):
        for secret in (*_known_formats(line, formats), *(secret for find in others for secret in find(line))):
            yield Secret(secret.start + offset, secret.end + offset, secret.kind)
        offset += len(line)


def without_secrets(text: str, found: list[Secret]) -> str:
    """The text with a mark where each secret was."""
    parts, place = [], 0
    for secret in found:
        parts += [text[place : secret.start], MARK.format(kind=secret.kind)]
        place = secret.end
    return "".join((*parts, text[place:]))


def shown(text: str, most: int = 160) -> str:
    """Words of an item as a reason quotes them: without secrets, and not too many."""
    return cut if len(cut := without_secrets(text, find_secrets(text))) <= most else f"{cut[:most].rstrip()}…"


def _evidence(secret: Secret) -> Evidence:
    return Evidence("span", f"A credential stands in it: {secret.kind}.", {"start": secret.start, "end": secret.end})


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Short lines together, long ones in pieces that overlap: each pattern reads a few of these, not each line."""
    start = place = 0
    for line in text.splitlines(keepends=True):
        if place > start and place + len(line) - start > LINE:
            yield start, text[start:place]
            start = place
        place += len(line)
        if len(line) > LINE:
            for part in range(0, len(line) - OVERLAP, LINE - OVERLAP):
                yield start + part, line[part : part + LINE]
            start = place
    if place > start:
        yield start, text[start:place]


_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9 ]{0,30} )?PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]|-(?!----)){0,20000}(?:-----END [A-Z0-9 ]{0,40}-----)?"
    r"|PuTTY-User-Key-File-\d[^\x00]{0,20000}"
)


def _private_keys(text: str) -> Iterator[Secret]:
    for match in _PRIVATE_KEY.finditer(text):
        yield Secret(match.start(), match.end(), "private key")


# Vendor formats that the library's last release does not know.
_NEWER = (
    ("Google API key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("Anthropic key", re.compile(r"\bsk-ant-[0-9A-Za-z_-]{20,}")),
    ("OpenAI key", re.compile(r"\bsk-(?:[a-z]{2,10}-)?[0-9A-Za-z_]{20,}")),
    ("GitHub token", re.compile(r"\bgithub_pat_[0-9A-Za-z_]{50,}")),
    ("Hugging Face token", re.compile(r"\bhf_[0-9A-Za-z]{30,}")),
    ("Stripe key", re.compile(r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}")),
)
_REST = re.compile(r"(?:[\w=+/-]|\.(?=\w))*")
"""Characters that follow a secret without a gap belong to it: some patterns stop early."""
_CREDENTIALS_IN_ADDRESS = re.compile(r"://([^\s:/@]+):([^\s/]+)@(?=[\w.\[-])")


@cache
def _library() -> Mapping[str, Any]:
    """The library's patterns and names, kept as text: to read them it loads an HTTP client and much else."""
    library = find_spec("detect_secrets")
    if library is None or library.origin is None:
        raise MissingExtra("the secrets gate", "gates")
    detectors = sorted(str(file) for file in Path(library.origin).with_name("plugins").glob("*.py"))
    kept = built("secret-formats", (source_of(__file__, *detectors),), _read_library)
    found: Mapping[str, Any] = orjson.loads(kept["json"].tobytes())
    return found


def _read_library() -> dict[str, NDArray[np.uint8]]:
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.keyword import DENYLIST
    except ImportError:
        raise MissingExtra("the secrets gate", "gates") from None
    detectors: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    patterns = [
        (kind, pattern.pattern, pattern.flags)
        for kind, detector in detectors.items()
        if kind not in NOT_USED and kind != "Basic Auth Credentials"
        for pattern in getattr(detector(), "denylist", ())
    ]
    return {"json": np.frombuffer(orjson.dumps({"patterns": patterns, "names": DENYLIST}), np.uint8)}


@cache
def _formats() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The library's patterns of known issuers."""
    return tuple((kind, re.compile(pattern, flags)) for kind, pattern, flags in _library()["patterns"])


def _known_formats(line: str, formats: list[tuple[str, re.Pattern[str]]]) -> Iterator[Secret]:
    for kind, pattern in formats:
        for match in pattern.finditer(line):
            groups = [n for n in range(1, (pattern.groups or 0) + 1) if match[n] and len(match[n]) >= 16]
            start, end = match.span(groups[0]) if groups else match.span()
            end = _REST.match(line, end).end()  # type: ignore[union-attr]  # it matches nothing, too
            if any(c.isdigit() for c in line[start:end]):  # every issuer's have; long words in capitals have not
                yield Secret(start, end, kind)


def _in_addresses(line: str) -> Iterator[Secret]:
    for match in _CREDENTIALS_IN_ADDRESS.finditer(line):
        if not is_placeholder(match[2]):
            yield Secret(match.start(1), match.end(2), "credentials in an address")


@cache
def _assignment() -> re.Pattern[str]:
    """A secret-sounding name, a sign of assignment, and one word: names are the library's."""
    names = "|".join((*_library()["names"], "passphrase", "access_?token", "auth_?token", "bearer"))
    return re.compile(
        rf"({names})\w{{0,40}}[\]'\"`]{{0,2}}\s{{0,3}}(?::=|=>|={{1,3}}|:)\s{{0,3}}['\"`]?([^\s'\"`,;]+)", re.I
    )


def _assigned(line: str) -> Iterator[Secret]:
    for match in _assignment().finditer(line):
        shortest = 6 if match[1].lower().startswith(("pass", "pwd", "contra")) else 12
        if looks_secret(match[2].rstrip(".)]}"), shortest):
            yield Secret(match.start(2), match.start(2) + len(match[2].rstrip(".)]}")), "secret value")


def _in_prose(line: str) -> Iterator[Secret]:
    for start, end in told_secrets(line):
        yield Secret(start, end, "secret value")


_OTHERS: tuple[tuple[Callable[[str], object], Callable[[str], Iterator[Secret]]], ...] = (
    (_CREDENTIALS_IN_ADDRESS.search, _in_addresses),
    (lambda piece: _assignment().search(piece), _assigned),
    (may_tell, _in_prose),
)
"""Whether a piece may hold such secrets, and those of one line."""
