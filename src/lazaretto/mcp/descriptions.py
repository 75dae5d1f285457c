"""Descriptions of a server's tools, prompts and resources: may an agent read them, and did an operator approve.

The rules for instructions apply (``gates/instructions.py``) to every string, hidden words included. With the
``gates`` extra, the screener's head for descriptions is one more sign, or is enough where it is sure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError, ModelError
from lazaretto.files import write_file
from lazaretto.gates.instructions import tool_faults
from lazaretto.gates.structure import StructureSettings, text_findings
from lazaretto.ingest.strings import read_strings
from lazaretto.reading.text import reading_of
from lazaretto.types import Ruling

_FORM = StructureSettings()
_FEWEST_HIDDEN_WORDS = 4
_CODED = ("base64", "hex", "binary", "codes", "escapes", "percent")


def description_fault(described: Mapping[str, Any], *, quoted: bool = True) -> str:
    """The fault in a server's description, in one sentence; empty if there is none.

    ``quoted``: with the words themselves, for a person; an agent must not read them.
    """
    reading = read_strings(dict(described))
    if not reading.whole:
        return f"a part of its description cannot be read ({reading.unread[0].why})"
    for text in dict.fromkeys([*(found.text for found in reading.texts), reading.text]):
        fault = _fault(text, quoted)
        if fault:
            return fault
    return ""


def _fault(text: str, quoted: bool) -> str:
    hidden = next((d for d in text_findings(text, _FORM) if d.ruling > Ruling.WARN), None)
    if hidden is not None:
        return f"its description hides something ({hidden.rule})"
    for view in reading_of(text).views():
        coded = view.name.partition(" ")[0] in _CODED
        if coded and view.text != text and len(view.text.split()) >= _FEWEST_HIDDEN_WORDS:
            return f"its description hides words ({view.name})"
        for fault in tool_faults(view.text, _order()):
            quote = f": “{view.text[fault.start : fault.end][:120]}”" if quoted else ""
            return f"{fault.words.lower()} ({fault.rule}){quote}"
    return ""


@cache
def _order() -> Callable[[str], int] | None:
    """How much in a description reads like poison: 0, 1 or 2; None where the screener is not installed."""
    if any(find_spec(module) is None for module in ("onnxruntime", "safetensors", "tokenizers", "py3langid")):
        return None
    from lazaretto.gates.memory.text_screener import shared_screener

    try:
        screener = shared_screener()
    except ModelError:
        return None

    bars = screener.calibration.tools

    def order(text: str) -> int:
        logit = screener.poison_in_description(text)
        return int(logit > bars["sign"]) + int(logit > bars["refuse"])

    return order


# Descriptions that an operator approved, in a file: a server cannot change them between two starts.
#
# A tool or prompt that is not in the file, or is described differently now, is not offered until it is approved.

_MOST_BYTES = 50_000_000
NEW = "it was not approved yet"
CHANGED = "it is described differently from when it was approved"


@dataclass(frozen=True, slots=True)
class Described:
    """One tool or prompt, as its server describes it now."""

    server: str
    kind: str
    """tool | prompt."""
    name: str
    about: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name under which its approval is kept."""
        return f"{self.server}/{self.kind}/{self.name}"

    @property
    def digest(self) -> str:
        """A digest of the whole description."""
        return hashlib.sha256(orjson.dumps(dict(self.about), option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True)
class Pins:
    """Approved descriptions by key."""

    digests: Mapping[str, str] = field(default_factory=dict)

    def fault(self, described: Described) -> str:
        """Why it may not be offered; empty where it may."""
        approved = self.digests.get(described.key)
        return "" if approved == described.digest else NEW if approved is None else CHANGED


def read_pins(path: Path) -> Pins:
    """The pins in a file; ``InputError`` where it is missing or not such a file."""
    fix = "Make it with 'lazaretto mcp pins --approve --pins FILE -- COMMAND'"
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError("pins", f"{path} is too large", fix)
        found = orjson.loads(path.read_bytes())["approved"]
        return Pins({str(key): str(entry["sha256"]) for key, entry in found.items()})
    except FileNotFoundError:
        raise InputError("pins", f"there is no file {path}", fix) from None
    except OSError as error:
        raise InputError("pins", f"{path} cannot be read ({error.strerror})", fix) from None
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise InputError("pins", f"{path} is no file of pins", fix) from None


def write_pins(path: Path, several: list[Described]) -> None:
    """Approve these, and no others."""
    approved = {
        described.key: {"sha256": described.digest, "described": dict(described.about)} for described in several
    }
    data = orjson.dumps({"approved": approved}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    try:
        write_file(path, data + b"\n", durable=True)
    except OSError as error:
        raise InputError("pins", f"{path} cannot be written ({error.strerror})", "Name a folder that you own") from None
