"""Descriptions that an operator approved, in a file: a server cannot change them between two starts.

A tool or prompt that is not in the file, or is described differently now, is not offered until it is approved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError
from lazaretto.files import write_file

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
