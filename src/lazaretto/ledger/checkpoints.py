"""Checkpoints: signed statements about a chain's end that others keep, so that rewriting or cutting it is detected.

A checkpoint names the last event and the root of the tree over all events, signed where the ledger has a key. Two of
them and a short proof show that the later chain only added to the earlier one. Checkpoints are sent to witnesses: a
file, a second store, an HTTP endpoint, or standard output for a log collector.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from lazaretto.errors import InputError, MissingExtra
from lazaretto.ledger import chain
from lazaretto.types import Draft, EventKind, Head, plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
        return chain.consistent(old.seq, new.seq, bytes.fromhex(old.root), bytes.fromhex(new.root), path)


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


# Keys that sign the end of a chain: write access to the database is not enough to forge a signed chain.
#
# Ed25519, from ``cryptography``. With a key, every batch of events is signed; the public half, kept elsewhere, proves
# who appended it. A key hands over to another by an event that it signs.

HANDOVER = "key:"
"""Prefix of the subject of an event by which a key hands over to another."""
_HEAD = b"lazaretto head v1\0"


def _crypto() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra("signing the record", "sign") from None
    return ed25519


def head_statement(namespace: str, seq: int, prev: int, digest: bytes) -> bytes:
    """The signed statement: the chain of this namespace has this event, with this hash, at this place.

    ``prev`` is the event that was signed before, so that no signature can be taken out unseen.
    """
    name = namespace.encode()
    places = seq.to_bytes(8, "big") + prev.to_bytes(8, "big")
    return b"".join((_HEAD, len(name).to_bytes(4, "big"), name, places, digest))


def key_id(public: bytes) -> str:
    """The short name of a public key."""
    return hashlib.sha256(public).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public half, which checks signatures."""

    raw: bytes

    @classmethod
    def from_hex(cls, text: str) -> PublicKey:
        """Read the 64 characters that ``ledger key`` prints."""
        try:
            raw = bytes.fromhex(text.strip())
        except ValueError:
            raw = b""
        if len(raw) != 32:
            raise InputError("public key", f"{text[:80]!r} is not one", "Give the 64 characters 'ledger key' printed")
        return cls(raw)

    @property
    def id(self) -> str:
        """Its short name."""
        return key_id(self.raw)

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether its owner signed the message."""
        from cryptography.exceptions import InvalidSignature

        try:
            _crypto().Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes(signature), message)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """The secret half, from a file that only its owner may read."""

    def __init__(self, secret: Ed25519PrivateKey) -> None:
        self._secret = secret
        self.public = PublicKey(secret.public_key().public_bytes_raw())

    @classmethod
    def create(cls, path: Path) -> SigningKey:
        """A new key in a new file, readable by its owner alone."""
        if not path.absolute().parent.is_dir():
            raise InputError("key", f"{path} cannot be written (there is no such folder)", "Check the path")
        secret = _crypto().Ed25519PrivateKey.generate()
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InputError(
                "key", f"{path} is already there", "Choose another file: a key is never overwritten"
            ) from None
        except OSError as error:
            raise InputError("key", f"{path} cannot be written ({error.strerror})", "Check the path") from None
        with os.fdopen(handle, "wb") as file:
            file.write(secret.private_bytes_raw().hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return cls(secret)

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """The key in a file; refused when others may read it too."""
        try:
            mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise InputError(
                "key", f"{path} cannot be read ({error.strerror})", "Make one: lazaretto ledger key"
            ) from None
        if mode & 0o077:
            raise InputError("key", f"{path} can be read by others", f"Run: chmod 600 {path}")
        try:
            return cls(_crypto().Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.strip())))
        except ValueError:
            raise InputError("key", f"{path} holds no key", "Make one: lazaretto ledger key") from None

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._secret.sign(message)


def handover(old: PublicKey, new: PublicKey) -> Draft:
    """The event by which ``old`` names its successor; written and signed with ``old``."""
    return Draft(EventKind.NOTED, HANDOVER + new.id, body={"public": new.raw.hex(), "replaces": old.id})


class SigningKeys:
    """The keys that may have signed here, as the chain itself hands over from key to key."""

    def __init__(self, keys: tuple[PublicKey, ...]) -> None:
        self._keys = {key.id: key for key in keys}
        self._next: dict[str, PublicKey] = {}
        self.ever = list(keys)
        """Keys that were trusted at any time."""

    def fault_in(self, key: str, message: bytes, signature: bytes) -> str | None:
        """Why a signature proves nothing; None when it does."""
        known = self._keys.get(key)
        if known is None:
            return f"it is signed with key {key!r}, which is not trusted here"
        if not known.signed(message, signature):
            return "its signature does not fit: this part of the chain was written without the key"
        if self._next:  # the batch that handed over has now proved to be the old key's
            for old, new in self._next.items():
                self._keys.pop(old, None)
                self._keys[new.id] = new
                self.ever.append(new)
            self._next = {}
        return None

    def follow(self, subject: str, body: Any) -> None:
        """Note a handover; it counts once the batch it stands in has a good signature."""
        if subject.startswith(HANDOVER) and isinstance(body, dict) and body.get("replaces") in self._keys:
            self._next[str(body["replaces"])] = PublicKey.from_hex(str(body.get("public", "")))
