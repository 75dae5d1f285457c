"""The provenance graph at one million edges, against recursive SQL over the same tables in the same file.

    python lab/benchmarks/graph.py [--edges 1000000] [--write] [--json FILE] [--ledger FILE]

Builds a real ledger in a temporary folder, opens the graph on it, asks the same questions of all and checks that the
answers agree. There are two peers, both with a warm cache and no layer between them and SQLite: SQL over the tables as
the store keeps them, which is given up after a few seconds, and SQL with covering indexes added for it in both
directions. ``--write`` puts the table into docs/performance.md. Takes about two minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from performance_page import write_section

from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Draft, EventKind

SEED = 20261
AGENTS = 2_000
QUERIES = 300
PATIENCE_S = 6.0
"""Processor time after which a question to the peer without indexes is given up; its ratio is then a lower bound."""
BARE_CASES = 2


# ---- a ledger of the wanted shape


def outbreak_drafts(edges: int) -> Iterator[Draft]:
    """A crew's life: notes derived from notes with a heavy tail, one hub of 100,000 descendants, one long chain.

    At 1,000,000 edges: 300,000 items, 2,000 agents, 10,000 decisions.
    """
    rng = np.random.default_rng(SEED)
    scale = edges / 1_000_000
    ordinary, hub, chain = int(180_000 * scale), int(100_000 * scale), int(20_000 * scale)
    clock = iter(range(1 << 40))
    yield from _notes(rng, [f"it_o{n:07d}" for n in range(ordinary)], _derivations(rng, ordinary), clock)
    yield from _notes(rng, [f"it_h{n:07d}" for n in range(hub + 1)], _tree(rng, hub + 1), clock)
    yield from _notes(rng, [f"it_c{n:07d}" for n in range(chain)], ([n - 1] if n else [] for n in range(chain)), clock)


def _derivations(rng: np.random.Generator, count: int) -> Iterator[list[int]]:
    """Parents per note: a fifth are fresh; the others copy what popular notes are made from, or use a recent note."""
    used: list[int] = []
    fresh, how_many, popular = (
        rng.random(count) < 0.2,
        rng.choice([1, 2, 3], count, p=[0.65, 0.25, 0.1]),
        rng.random(count),
    )
    for note in range(count):
        parents: list[int] = []
        if note and not fresh[note]:
            for _ in range(int(how_many[note])):
                copied = used and popular[note] < 0.5
                parents.append(
                    used[int(rng.integers(len(used)))] if copied else max(0, note - 1 - int(rng.exponential(500)))
                )
        used.extend(parents)
        yield list(dict.fromkeys(parents))


def _tree(rng: np.random.Generator, count: int) -> Iterator[list[int]]:
    """Half of the hub's descendants are made from it directly, half from another descendant."""
    direct = rng.random(count) < 0.5
    for note in range(count):
        yield [] if not note else [0] if direct[note] else [int(rng.integers(note))]


def _notes(
    rng: np.random.Generator, names: Sequence[str], parents: Iterable[list[int]], clock: Iterator[int]
) -> Iterator[Draft]:
    """The notes, and about one reading per note, a message now and then, and a decision on every thirtieth."""
    busy = rng.lognormal(0, 1, AGENTS)
    agents = [f"agent-{n:04d}" for n in rng.choice(AGENTS, len(names) * 3, p=busy / busy.sum())]
    chance = rng.random((len(names), 3))
    for place, (name, made_from) in enumerate(zip(names, parents, strict=True)):
        who, reader, other = agents[3 * place : 3 * place + 3]
        body = {"channel": "memory", "source": "agent_message", "text": "", "parents": [names[p] for p in made_from]}
        yield Draft(EventKind.SEEN, name, who, body, float(next(clock)))
        if chance[place, 0] < 0.95:
            yield Draft(EventKind.RETRIEVED, name, reader, {}, float(next(clock)))
        if chance[place, 1] < 0.25:
            yield Draft(EventKind.SENT, name, who, {"to": other}, float(next(clock)))
        if chance[place, 2] < 1 / 30:
            rests_on = [name, *body["parents"]]
            yield Draft(
                EventKind.REPORTED,
                f"de_{name}",
                reader,
                {"what": "decided", "success": None, "rests_on": rests_on},
                float(next(clock)),
            )


def build(path: Path, edges: int) -> Ledger:
    """A ledger file with about ``edges`` edges."""
    ledger = Ledger.open(f"sqlite:///{path}")
    batch: list[Draft] = []
    for draft in outbreak_drafts(edges):
        batch.append(draft)
        if len(batch) == 10_000:
            ledger.append(batch)
            batch = []
    if batch:
        ledger.append(batch)
    return ledger


# ---- the peers: SQL over the same table. CROSS JOIN keeps SQLite's join order the good one.

INDEXES = {
    "peer_by_source": "lz_edges (source, kind, target, time)",
    "peer_by_target": "lz_edges (target, kind, source, time)",
}
REACH = """
WITH RECURSIVE r(id) AS (
    SELECT :item
    UNION SELECT e.source FROM r CROSS JOIN lz_edges e ON e.target = r.id AND e.kind = 'derived_from'
    UNION SELECT e.target FROM r CROSS JOIN lz_edges e ON e.source = r.id AND e.kind = 'influenced')
"""
REACH_WITH_HOPS = """
WITH RECURSIVE r(id, hops) AS (
    SELECT :item, 0
    UNION SELECT e.source, r.hops + 1 FROM r CROSS JOIN lz_edges e ON e.target = r.id AND e.kind = 'derived_from'
    UNION SELECT e.target, r.hops + 1 FROM r CROSS JOIN lz_edges e ON e.source = r.id AND e.kind = 'influenced')
"""
RADIUS_IDS = (
    REACH + "SELECT id FROM r",
    REACH + "SELECT e.target, min(e.time) FROM r CROSS JOIN lz_edges e ON e.source = r.id"
    " AND e.kind IN ('retrieved_by', 'sent_to') GROUP BY e.target",
)
RADIUS_HOPS = (
    REACH_WITH_HOPS + "SELECT r.id, min(r.hops), min(w.time) FROM r"
    " LEFT JOIN lz_edges w ON w.source = r.id AND w.kind = 'written_by' GROUP BY r.id",
    REACH_WITH_HOPS + "SELECT e.target, min(r.hops) + 1, min(e.time) FROM r CROSS JOIN lz_edges e ON e.source = r.id"
    " AND e.kind IN ('retrieved_by', 'sent_to') GROUP BY e.target",
)
ZERO = """
WITH RECURSIVE r(given, id) AS (
    SELECT value, value FROM json_each(:items)
    UNION SELECT r.given, e.target FROM r CROSS JOIN lz_edges e ON e.source = r.id AND e.kind = 'derived_from'
    UNION SELECT r.given, e.source FROM r CROSS JOIN lz_edges e ON e.target = r.id AND e.kind = 'influenced'),
best AS (SELECT id, count(*) AS covered FROM r GROUP BY id)
SELECT b.id, b.covered FROM best b LEFT JOIN lz_edges w ON w.source = b.id AND w.kind = 'written_by'
WHERE b.covered = (SELECT max(covered) FROM best)
ORDER BY EXISTS (SELECT 1 FROM lz_edges p WHERE p.source = b.id AND p.kind = 'derived_from'), w.time, b.id LIMIT 1
"""
CONTACTS = """
SELECT w.target, x.source, 'in', x.time FROM lz_edges x
CROSS JOIN lz_edges w ON w.source = x.source AND w.kind = 'written_by'
WHERE x.target = :agent AND x.kind IN ('retrieved_by', 'sent_to') AND w.target <> :agent
UNION
SELECT x.target, x.source, 'out', x.time FROM lz_edges w
CROSS JOIN lz_edges x ON x.source = w.source AND x.kind IN ('retrieved_by', 'sent_to')
WHERE w.target = :agent AND w.kind = 'written_by' AND x.target <> :agent
"""


# ---- measuring


@dataclass(frozen=True)
class Question:
    """One question, in the form each side is asked it."""

    name: str
    cases: Sequence[Any]
    ours: Callable[[Any], Any]
    rows: Callable[[Any], Any]
    """Makes every row of our answer, which else are columns until somebody looks."""
    sql: Callable[[sqlite3.Connection, Any], Any]
    same: Callable[[Any, Any], tuple[bool, int]]
    """Whether two answers agree, and how large they are."""
    sql_cases: int


@dataclass(frozen=True)
class Row:
    """How one question was answered; milliseconds by the clock, ratios of processor time."""

    question: str
    asked: int
    typical_size: int
    largest_size: int
    median_ms: float
    p99_ms: float
    p99_cpu_ms: float
    """Processor time: what the clock would say on a machine with nothing else to do."""
    rows_median_ms: float
    rows_p99_ms: float
    rows_p99_cpu_ms: float
    sql_median_ms: float
    sql_p99_ms: float
    ratio: float
    """Processor time of SQL with indexes over the questions both were asked, divided by ours."""
    ratio_rows: float
    """The same when all our rows are made."""
    bare_ms: float
    """Median processor time of SQL over the tables as they are."""
    bare_given_up: bool
    bare_ratio: float
    """Its processor time divided by ours with all rows made; a lower bound when it was given up."""


Taken = tuple[float, float]


def timed(ask: Callable[[], Any]) -> tuple[Taken, Any]:
    """Milliseconds by the clock and of the processor, and the answer."""
    begun, begun_work = time.perf_counter(), time.thread_time()
    answer = ask()
    worked = time.thread_time() - begun_work
    return ((time.perf_counter() - begun) * 1e3, worked * 1e3), answer


def p99(values: Iterable[float]) -> float:
    """The 99th percentile; the largest of fewer than a hundred."""
    return float(np.quantile(list(values), 0.99, method="higher"))


def ask_bare(question: Question, peer: sqlite3.Connection) -> tuple[list[float], bool]:
    """Processor milliseconds of SQL without indexes, and whether it was given up."""
    given_up, taken = False, []
    for case in question.cases[:BARE_CASES]:
        begun = time.thread_time()

        def tired(begun: float = begun) -> int:
            return int(time.thread_time() - begun > PATIENCE_S)

        peer.set_progress_handler(tired, 20_000)
        try:
            question.sql(peer, case)
        except sqlite3.OperationalError:
            given_up = True
        taken.append((time.thread_time() - begun) * 1e3)
    peer.set_progress_handler(None, 0)
    return taken, given_up


def compare(question: Question, peer: sqlite3.Connection, bare: tuple[list[float], bool]) -> Row:
    """Ask ours, ours with all rows made, and SQL with indexes, taking turns; SQL only the first ``sql_cases``."""
    print(f"... {question.name}", file=sys.stderr, flush=True)
    question.rows(question.ours(question.cases[0]))
    question.sql(peer, question.cases[0])
    plain, full, sql, sizes = [], [], [], []
    for place, case in enumerate(question.cases):
        taken, mine = timed(lambda case=case: question.ours(case))
        plain.append(taken)
        taken, _ = timed(lambda case=case: question.rows(question.ours(case)))
        full.append(taken)
        if place < question.sql_cases:
            taken, theirs = timed(lambda case=case: question.sql(peer, case))
            sql.append(taken)
            agreed, size = question.same(mine, theirs)
            if not agreed:
                sys.exit(f"{question.name}: the answers for {case!r} differ")
            sizes.append(size)
    both, sql_work = len(sql), sum(work for _, work in sql)
    bare_taken, given_up = bare
    return Row(
        question.name,
        len(question.cases),
        int(statistics.median(sizes)),
        max(sizes),
        statistics.median(wall for wall, _ in plain),
        p99(wall for wall, _ in plain),
        p99(work for _, work in plain),
        statistics.median(wall for wall, _ in full),
        p99(wall for wall, _ in full),
        p99(work for _, work in full),
        statistics.median(wall for wall, _ in sql),
        p99(wall for wall, _ in sql),
        sql_work / sum(work for _, work in plain[:both]),
        sql_work / sum(work for _, work in full[:both]),
        statistics.median(bare_taken),
        given_up,
        sum(bare_taken) / sum(work for _, work in full[: len(bare_taken)]),
    )


def same_ids(radius: Any, rows: Any) -> tuple[bool, int]:
    """Whether both reached the same items and decisions, and the same agents at the same earliest times."""
    ours = {r.id for r in radius.items + radius.decisions} | {radius.origin}
    agents = {r.id: r.time for r in radius.agents}
    return ours == {row[0] for row in rows[0]} and agents == dict(rows[1]), len(ours)


def same_hops(radius: Any, rows: Any) -> tuple[bool, int]:
    """Whether hops and times agree as well."""
    ours = {tuple(r) for r in radius.items + radius.decisions}
    theirs = {tuple(row) for row in rows[0] if row[0] != radius.origin}
    return ours == theirs and {tuple(r) for r in radius.agents} == {tuple(row) for row in rows[1]}, len(ours) + 1


def radius_rows(radius: Any) -> Any:
    return tuple(radius.items), tuple(radius.agents), tuple(radius.decisions)


def ids(peer: sqlite3.Connection, item: str) -> Any:
    return [peer.execute(query, {"item": item}).fetchall() for query in RADIUS_IDS]


def hops(peer: sqlite3.Connection, item: str) -> Any:
    return [peer.execute(query, {"item": item}).fetchall() for query in RADIUS_HOPS]


def zero(peer: sqlite3.Connection, items: Sequence[str]) -> Any:
    return peer.execute(ZERO, {"items": json.dumps(list(items))}).fetchone()


def contacts(peer: sqlite3.Connection, agent: str) -> Any:
    return peer.execute(CONTACTS, {"agent": agent}).fetchall()


def same_zero(mine: Any, theirs: Any) -> tuple[bool, int]:
    return (mine.item, len(mine.covers)) == tuple(theirs), len(mine.covers)


def same_contacts(mine: Any, theirs: Any) -> tuple[bool, int]:
    return {tuple(c) for c in mine} == {tuple(row) for row in theirs}, len(mine)


def questions(graph: ProvenanceGraph, peer: sqlite3.Connection, edges: int) -> list[Question]:
    """Every row of the table."""
    rng = np.random.default_rng(SEED + 1)
    last = int(180_000 * edges / 1_000_000)
    notes = [f"it_o{n:07d}" for n in rng.integers(0, last, QUERIES)]
    candidates = (f"it_o{n:07d}" for n in rng.integers(0, last, 400 * QUERIES))
    spreading = list(islice((n for n in candidates if len(graph.blast_radius(n).items) > 100), QUERIES))
    infected = []
    for origin in spreading:
        tree = [r.id for r in graph.blast_radius(origin).items]
        infected.append([tree[int(n)] for n in rng.integers(0, len(tree), 50)])
    crew = [row[0] for row in peer.execute("SELECT DISTINCT target FROM lz_edges WHERE kind = 'written_by' ORDER BY 1")]
    agents = [crew[int(n)] for n in rng.integers(0, len(crew), QUERIES)]
    busiest = peer.execute(
        "SELECT target FROM lz_edges WHERE kind = 'retrieved_by' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    ).fetchone()[0]
    hub, chain, busy = ["it_h0000000"] * 20, ["it_c0000000"] * 20, [busiest] * 30
    radius, zeros, met = graph.blast_radius, graph.patient_zero, graph.contacts
    return [
        Question("blast radius, any note", notes, radius, radius_rows, hops, same_hops, 300),
        Question("blast radius, spreading note (> 100 items)", spreading, radius, radius_rows, hops, same_hops, 150),
        Question("the same, SQL without hops and items' times", spreading, radius, radius_rows, ids, same_ids, 100),
        Question("blast radius, hub of 100,000", hub, radius, radius_rows, hops, same_hops, 2),
        Question("blast radius, chain of 20,000", chain, radius, radius_rows, hops, same_hops, 3),
        Question("patient zero of 50 infected notes", infected, zeros, lambda one: one, zero, same_zero, 150),
        Question("contacts, any agent", agents, met, tuple, contacts, same_contacts, 300),
        Question("contacts, busiest agent", busy, met, tuple, contacts, same_contacts, 10),
    ]


def measure(graph: ProvenanceGraph, peer: sqlite3.Connection, edges: int) -> list[Row]:
    """Ask everything: first of SQL without indexes, then of the others, with the indexes made in between."""
    asked = questions(graph, peer, edges)
    bare = [ask_bare(question, peer) for question in asked]
    for name, columns in INDEXES.items():
        peer.execute(f"CREATE INDEX {name} ON {columns}")
    # No ANALYZE: with statistics SQLite builds a Bloom filter over the whole index for every recursive query, which
    # costs 170 ms where 1 ms will do and would flatter us.
    gc.collect()
    return [compare(question, peer, without) for question, without in zip(asked, bare, strict=True)]


def resident() -> float:
    """Resident memory in MB after a collection."""
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1e6


def run(edges: int, kept: Path | None) -> dict[str, Any]:
    """Build, open, measure."""
    with tempfile.TemporaryDirectory() as folder:
        path = kept or Path(folder) / "graph.db"
        if not path.exists():
            build(path, edges).close()
        facts: dict[str, Any] = {}
        before, begun, worked = resident(), time.perf_counter(), time.thread_time()
        ledger = Ledger.open(f"sqlite:///{path}", read_only=True)
        graph = ProvenanceGraph(ledger)
        graph.refresh()
        facts["open_cpu_s"] = time.thread_time() - worked
        facts |= {"open_s": time.perf_counter() - begun, "graph_mb": resident() - before, **graph.stats()}
        peer = sqlite3.connect(path)
        peer.execute("PRAGMA cache_size = -1000000")
        for name in INDEXES:
            peer.execute(f"DROP INDEX IF EXISTS {name}")
        peer.execute("SELECT sum(length(source)) FROM lz_edges").fetchone()
        facts["rows"] = [asdict(row) for row in measure(graph, peer, edges)]
        facts["machine"] = f"{platform.machine()}, {psutil.cpu_count()} cores, Python {platform.python_version()}"
        facts["load"] = psutil.getloadavg()[0]
        facts["sqlite"] = sqlite3.sqlite_version
        peer.close()
        ledger.close()
        return facts


def table(facts: dict[str, Any]) -> str:
    """The section of docs/performance.md."""
    lines = [
        "## Provenance graph",
        "",
        f"{facts['edges']:,} edges: {facts['items']:,} items, {facts['agents']:,} agents, {facts['decisions']:,} "
        f"decisions, in a SQLite ledger. Opening the graph takes {facts['open_s']:.1f} s "
        f"({facts['open_cpu_s']:.1f} s of processor time) and {facts['graph_mb']:.0f} MB of resident memory. "
        f"Measured on {facts['machine']}, load average {facts['load']:.1f}, with `python lab/benchmarks/graph.py`.",
        "",
        "The graph's answers are columns whose rows are made when looked at; *with rows* makes all of them. *p99* is "
        "by the clock, with processor time in brackets; fewer than a hundred questions give their largest.",
        "",
        "| question | size: median, largest | median ms | p99 ms (CPU) | with rows: median ms | p99 ms (CPU) |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in facts["rows"]:
        if "SQL" not in row["question"]:
            lines.append(
                f"| {row['question']} | {row['typical_size']:,}, {row['largest_size']:,} | {row['median_ms']:.2f} "
                f"| {row['p99_ms']:.1f} ({row['p99_cpu_ms']:.1f}) "
                f"| {row['rows_median_ms']:.2f} | {row['rows_p99_ms']:.1f} ({row['rows_p99_cpu_ms']:.1f}) |"
            )
    lines += [
        "",
        "Beside it, the same questions in SQL (recursive but for contacts) over `lz_edges` in SQLite "
        f"{facts['sqlite']}, warm, asked through Python's `sqlite3` alone, while the graph asks the store whether it "
        "is current. *As kept*: the tables as the store kept them before schema step 11, without an index by source or "
        f"target; given up after {PATIENCE_S:.0f} s of processor time ({BARE_CASES} questions "
        "each), so that its ratio is a lower bound. *Indexed*: with covering indexes added for it in both directions. "
        "Ratios are processor time of SQL divided by that of the graph over the same questions; every answer of "
        "*indexed* is compared with the graph's.",
        "",
        "| question | as kept: ms | times faster, with rows | indexed: median ms | p99 ms | times faster | with rows |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in facts["rows"]:
        least = "> " if row["bare_given_up"] else ""
        lines.append(
            f"| {row['question']} | {least}{row['bare_ms']:,.0f} | {least}{row['bare_ratio']:,.0f} "
            f"| {row['sql_median_ms']:.2f} | {row['sql_p99_ms']:.1f} | {row['ratio']:.1f} | {row['ratio_rows']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    parser.add_argument("--json", type=Path, help="also keep the figures here")
    parser.add_argument("--ledger", type=Path, help="build the ledger here, or use the one an earlier run left here")
    options = parser.parse_args()
    facts = run(options.edges, options.ledger)
    print(table(facts))
    if options.json:
        options.json.write_text(json.dumps(facts, indent=2))
    if options.write:
        write_section("graph", table(facts))


if __name__ == "__main__":
    main()
