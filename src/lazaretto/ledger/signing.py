"""Keys that sign the end of a chain: write access to the database is not enough to forge a signed chain.

Ed25519, from ``cryptography``. With a key, every batch of events is signed; the public half, kept elsewhere, proves
who appended it. A key hands over to another by an event that it signs.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazaretto.errors import InputError, MissingExtra
from lazaretto.types import Draft, EventKind

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
