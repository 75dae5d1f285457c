"""The judgements of a scan so far, on disk, so that a killed one goes on where it stopped.

Judgements are kept by a hash of text and settings, so a store may change in between.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import orjson
import platformdirs

from lazaretto.errors import InputError
from lazaretto.scan.claims import ClaimMark
from lazaretto.scan.judge import JudgedText, ScanSettings
from lazaretto.scan.records import Hit, Level

_FORMAT = 3
"""Format of a journal; one of another format is started again."""


def journal_path(target: str, settings: ScanSettings) -> Path:
    """The path of a scan's journal: in the user's cache folder, one for each target and settings."""
    name = hashlib.sha256(orjson.dumps([target, asdict(settings), version("lazaretto")])).hexdigest()[:24]
    return Path(platformdirs.user_cache_dir("lazaretto")) / "scans" / f"{name}.sqlite"


def digest_of(text: str, instructions: bool) -> bytes:
    """The key of a text in the journal."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, salt=b"i" * instructions).digest()


class Journal:
    """Judgements by the digest of the judged text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # it quotes memories: only the owner may read it
            self._database = sqlite3.connect(path, timeout=5)
            self._database.execute("PRAGMA journal_mode = WAL")
            if self._database.execute("PRAGMA user_version").fetchone() != (_FORMAT,):  # written by another version
                self._database.execute("DROP TABLE IF EXISTS judged")
                self._database.execute(f"PRAGMA user_version = {_FORMAT}")
            self._database.execute("CREATE TABLE IF NOT EXISTS judged (digest BLOB PRIMARY KEY, found BLOB NOT NULL)")
            self.resumed = self._database.execute("SELECT 1 FROM judged LIMIT 1").fetchone() is not None
        except (OSError, sqlite3.Error) as error:
            raise InputError("journal", f"{path} cannot be used ({error})", "Name another with --journal") from None

    def known(self, digests: Sequence[bytes]) -> dict[bytes, JudgedText]:
        """The texts that were judged before, with their judgements."""
        marks = ",".join("?" * len(digests))
        rows = self._database.execute(f"SELECT digest, found FROM judged WHERE digest IN ({marks})", list(digests))
        return {bytes(digest): _read(found) for digest, found in rows}

    def keep(self, judged: Mapping[bytes, JudgedText] | Iterable[tuple[bytes, JudgedText]]) -> None:
        """Add judgements, all or none of them."""
        pairs = judged.items() if isinstance(judged, Mapping) else judged
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO judged VALUES (?, ?)", [(digest, _written(judged)) for digest, judged in pairs]
            )

    def close(self, *, finished: bool = False) -> None:
        """Let it go; a finished scan needs it no more."""
        self._database.close()
        if finished:
            for end in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)


def _written(judged: JudgedText) -> bytes:
    hits = [[h.kind, h.rule, h.level, h.message, h.start, h.end, h.risk] for h in judged.hits]
    return orjson.dumps([hits, [[c.start, c.end, c.words, c.about] for c in judged.claims]])


def _read(found: bytes) -> JudgedText:
    hits, claims = orjson.loads(found)
    return JudgedText(
        tuple(Hit(kind, rule, Level(level), *more) for kind, rule, level, *more in hits),
        tuple(ClaimMark(start, end, tuple(words), about) for start, end, words, about in claims),
    )
