"""A whole store in a folder: one export per namespace, and the heads that prove none of them was cut or exchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from lazaretto.errors import ChainBroken, InputError
from lazaretto.files import write_file
from lazaretto.ledger import transfer
from lazaretto.ledger.checkpoints import PublicKey
from lazaretto.ledger.ledger import Ledger
from lazaretto.ledger.store import Store
from lazaretto.types import Head

HEADS = "heads.json"


@dataclass(frozen=True, slots=True)
class Saved:
    """One namespace of a back-up."""

    file: str
    head: Head
    sha256: str
    """Digest of the file."""


def back_up(url: str | None, folder: Path) -> tuple[Saved, ...]:
    """Write every namespace of a store. The list of heads is written last: a folder without it is no back-up."""
    store = Store.open(url, create=False, upgrade=False)
    try:
        names = store.namespaces()
    finally:
        store.close()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InputError("folder", f"{folder} cannot be written ({error.strerror})", "Choose another place") from None
    if taken:
        raise InputError("folder", f"{folder} is not empty", "Name a new folder for each back-up")
    saved = []
    for number, name in enumerate(names):
        path = folder / f"{number:04}.jsonl"
        with Ledger.open(url, name, create=False, read_only=True) as ledger:
            ledger.export(path)
        saved.append(Saved(path.name, transfer.read_head(path), _sha256(path)))
    rows = [
        {
            "file": entry.file,
            "sha256": entry.sha256,
            **{k: getattr(entry.head, k) for k in ("namespace", "seq", "hash")},
        }
        for entry in saved
    ]
    write_file(folder / HEADS, orjson.dumps(rows, option=orjson.OPT_INDENT_2) + b"\n")
    return tuple(saved)


def bring_back(
    url: str | None, folder: Path, keys: Sequence[PublicKey] = (), *, unsigned: bool = False
) -> tuple[Saved, ...]:
    """Read a back-up into a store that holds nothing, and verify each namespace; ``keys``: as for ``import_``.

    Every file is looked at before the first is read in.
    """
    saved = _read(folder)
    for entry in saved:
        if _sha256(folder / entry.file) != entry.sha256:
            raise ChainBroken(entry.head.namespace, 0, f"{entry.file} is not the file that was backed up")
    store = Store.open(url)
    try:
        if store.namespaces():
            raise InputError("store", "is not empty", "Restore into a new store, then point the service at it")
    finally:
        store.close()
    for entry in saved:
        with Ledger.import_(folder / entry.file, url, keys=keys, head=entry.head, unsigned=unsigned) as ledger:
            found = ledger.verify(entry.head)
            if not found.ok:
                raise ChainBroken(entry.head.namespace, 0, "the restored copy does not verify")
    return saved


def _read(folder: Path) -> tuple[Saved, ...]:
    try:
        rows = orjson.loads((folder / HEADS).read_bytes())
        return tuple(
            Saved(
                Path(row["file"]).name,
                Head(str(row["namespace"]), int(row["seq"]), str(row["hash"])),
                str(row["sha256"]),
            )
            for row in rows
        )
    except (OSError, ValueError, KeyError, TypeError):
        words = f"{folder} holds no back-up"
        raise InputError("folder", words, "Name a folder that 'lazaretto ledger backup' wrote to its end") from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError as error:
        raise InputError("folder", f"{path} cannot be read ({error.strerror})", "Is the back-up whole?") from None
    return digest.hexdigest()
