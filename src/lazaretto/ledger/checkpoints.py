"""Checkpoints: short statements about a chain that others keep, so that rewriting or cutting it is detected.

A checkpoint names the last event and the root of the tree over all events, signed where the ledger has a key. Two of
them and a short proof show that the later chain only added to the earlier one. Checkpoints are sent to witnesses: a
file, a second store, an HTTP endpoint, or standard output for a log collector.
"""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError
from lazaretto.ledger import merkle
from lazaretto.ledger.signing import PublicKey
from lazaretto.types import Draft, EventKind, Head, plain

WITNESSED = "checkpoint:"
"""Prefix of the subject of an event by which one store keeps a checkpoint of another."""
_STATEMENT = b"lazaretto checkpoint v1\0"
_HTTP_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a chain at one moment."""

    namespace: str
    seq: int
    hash: str
    root: str
    """Root of the Merkle tree over the hashes of all events so far."""
    time: float
    key: str = ""
    """Short name of the key that signed it; empty: nobody did."""
    signature: str = ""

    @property
    def head(self) -> Head:
        """The end of the chain that it names."""
        return Head(self.namespace, self.seq, self.hash)

    def statement(self) -> bytes:
        """The bytes that are signed."""
        return _STATEMENT + orjson.dumps([self.namespace, self.seq, self.hash, self.root, self.time])

    def signed_by(self, keys: Sequence[PublicKey]) -> bool:
        """Whether one of ``keys`` signed it."""
        return any(key.id == self.key and key.signed(self.statement(), bytes.fromhex(self.signature)) for key in keys)


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """Proof that one chain is the beginning of another."""

    old: int
    new: int
    path: tuple[str, ...]

    def holds(self, old: Checkpoint, new: Checkpoint) -> bool:
        """Whether ``new`` only added to ``old``; needs neither database nor key."""
        if (self.old, self.new) != (old.seq, new.seq) or old.namespace != new.namespace:
            return False
        path = [bytes.fromhex(node) for node in self.path]
        return merkle.consistent(old.seq, new.seq, bytes.fromhex(old.root), bytes.fromhex(new.root), path)


def checkpoint_from(data: Any, where: str) -> Checkpoint:
    """A checkpoint from JSON data."""
    try:
        made = Checkpoint(
            str(data["namespace"]), int(data["seq"]), str(data["hash"]), str(data["root"]), float(data["time"]),
            str(data.get("key", "")), str(data.get("signature", "")),
        )  # fmt: skip
        for text in (made.hash, made.root, made.signature):
            bytes.fromhex(text)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError("witness", f"{where} holds no checkpoint", "Use what 'ledger checkpoint' wrote") from None
    return made


def read_checkpoints(path: Path) -> list[Checkpoint]:
    """All checkpoints of a witness file, oldest first."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError("witness", f"{path} cannot be read ({error.strerror})", "Check the path") from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise InputError(
                "witness", f"{path}, line {number} is not JSON", "Use what 'ledger checkpoint' wrote"
            ) from None
        found.append(checkpoint_from(data, f"{path}, line {number}"))
    return found


Witness = Callable[[Checkpoint], None]
Keep = Callable[[str, Draft], None]
"""Appends an event to the store at a URL."""


def witness_at(where: str, keep: Keep) -> Witness:
    """The witness that a setting names: ``stdout``, ``file:PATH``, ``http(s)://...``, or the URL of a second store,
    to which ``keep`` appends."""
    kind, _, rest = where.partition(":")
    if where == "stdout":
        return _to_stdout
    if kind == "file" and rest:
        return _ToFile(Path(rest))
    if kind in ("http", "https"):
        return _ToHttp(where)
    if kind in ("sqlite", "postgresql", "postgres"):
        return _ToStore(where, keep)
    raise InputError("witness", f"{where!r} is unknown", "Use stdout, file:PATH, https://... or a store URL")


def _to_stdout(checkpoint: Checkpoint) -> None:
    sys.stdout.write(orjson.dumps({"lazaretto_checkpoint": plain(checkpoint)}).decode() + "\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class _ToFile:
    path: Path

    def __call__(self, checkpoint: Checkpoint) -> None:
        import os

        with self.path.open("ab") as file:
            file.write(orjson.dumps(plain(checkpoint)) + b"\n")
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class _ToHttp:
    url: str

    def __call__(self, checkpoint: Checkpoint) -> None:
        body = orjson.dumps(plain(checkpoint))
        request = urllib.request.Request(self.url, body, {"content-type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as answer:
            answer.read(1_000)


@dataclass(frozen=True, slots=True)
class _ToStore:
    url: str
    keep: Keep

    def __call__(self, checkpoint: Checkpoint) -> None:
        self.keep(self.url, Draft(EventKind.NOTED, WITNESSED + checkpoint.namespace, body=plain(checkpoint)))
