"""A store with rows in every derived table, and a hand that alters them behind the ledger's back."""

from __future__ import annotations

import contextlib
import sqlite3

import numpy as np

from lazaretto.ledger import Ledger, seen_draft
from lazaretto.ledger.vectors import DIMENSION, ClaimRow
from lazaretto.types import Channel, Observation


def vector(seed: int) -> np.ndarray:
    made = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made), np.float32)


def fill(ledger: Ledger) -> list[str]:
    """More than a block of events: memories with claims, one whose claims are read later, one that is erased."""
    notes = [Observation("ann", Channel.MEMORY, f"note {n} of the harbour") for n in range(70)]
    ids = [note.id for note in notes]
    for n in (0, 7):
        ledger.append_item(notes[n], claims=[ClaimRow(0, 4, vector(n)), ClaimRow(5, 9, vector(n + 500))])
    ledger.append([seen_draft(note) for n, note in enumerate(notes) if n not in (0, 7)])
    ledger.keep_claims(ids[1], [ClaimRow(0, 6, vector(1))])
    ledger.erase(ids[0], "asked")
    assert ledger.verify().ok
    return ids


def alter(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            file.executescript(statement)
            file.commit()
        return
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as direct:
        direct.execute(statement)
