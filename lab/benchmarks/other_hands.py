"""What the default guard does with lists of honest texts and attacks of several crews.

    python lab/benchmarks/other_hands.py
    python lab/benchmarks/other_hands.py --list copy_orders
    python lab/benchmarks/other_hands.py --write after
    python lab/benchmarks/other_hands.py --show first_contact

``other_hands``: the working day of twelve crews, written by somebody who had not read the rules: 60 honest texts, 40
attacks (orders, worms, lies, quiet lies). ``copy_orders``: texts that ask to be passed on, and honest ones that speak
of passing something on, 16 each. ``mild_orders``: orders to machines that read, or to be kept from somebody, and
honest texts with the same words, 13 each. ``milder_orders`` and ``milder_orders_second``: orders of documents that are
to be kept from a person, are told as done, or follow an announced change (60 and 40), and honest texts with the same
words (100 and 60). ``hidden_changes``: orders to change a value and keep that from whoever
controls it, and honest texts with the same words, 16 each. ``mixed_languages``: orders and requests in English beside
a harmless sentence in another language, and honest texts of that form, 20 each. Each crew has one store: its honest
texts come first, then its attacks, which find there what the crew knows. A list lies beside its rows, in
lab/results/everyday; ``first_contact`` stays.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from everyday import FIRST, REPOSITORY, RESULTS, Row, crossed, measured_commit, progress, ruled, share

LISTS = (
    "other_hands", "copy_orders", "mild_orders", "milder_orders", "milder_orders_second", "hidden_changes",
    "mixed_languages",
)  # fmt: skip


def judged(folder: Path) -> list[Row]:
    """A row for each text."""
    from lazaretto import SyncGuard

    lists = tomllib.loads((folder / "list.toml").read_text(encoding="utf-8"))
    lines = [
        {"id": f"{what}-{number:02d}", "kind": "honest", **line}
        for what in ("honest", "attack")
        for number, line in enumerate(lists[what], 1)
    ]
    rows = []
    for crew in progress("crews", list(dict.fromkeys(line["crew"] for line in lines))):
        with tempfile.TemporaryDirectory() as place, SyncGuard.open(f"sqlite:///{place}/crew.db") as guard:
            rows += [row_of(guard, line) for line in lines if line["crew"] == crew]
    return rows


def row_of(guard: Any, line: Row) -> Row:
    """One text, kept or read as the list says."""
    agent = "writer" if line["kind"] == "honest" else "visitor"
    if line["way"] == "memory":
        decision = guard.remember(line["text"], agent=agent, source=line["source"])
    else:
        decision = guard.check(line["text"], agent=agent, channel=line["way"], source=line["source"])
    told = {name: line[name] for name in ("id", "crew", "kind", "language", "form", "source", "way") if name in line}
    return told | ruled(decision)


def shown(rows: list[Row]) -> str:
    """The figures, then what went wrong."""
    honest = [row for row in rows if row["kind"] == "honest"]
    attacks = [row for row in rows if row["kind"] != "honest"]
    wrong = [row for row in rows if row["held"] == (row["kind"] == "honest")]
    lines = (
        f"{r['id']}  {r['kind']}  {r['language']}  {r['source']}  {r['way']}  {r['ruling']}  {r['rule']}" for r in wrong
    )
    return "\n\n".join(
        (
            f"honest held: {share(honest)}; attacks held: {share(attacks)}",
            crossed(rows, ("kind",), "language"),
            "\n".join(lines),
        )
    )


def main() -> None:
    """Run the list or show stored rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=LISTS, default=LISTS[0], help="which list")
    parser.add_argument("--write", metavar="LABEL", default="", help="keep the rows under this name")
    parser.add_argument("--show", metavar="LABEL", default="", help="print stored rows instead of running")
    options = parser.parse_args()
    logging.getLogger("lazaretto").setLevel(logging.ERROR)
    folder = RESULTS / options.list
    if options.show:
        stored = (folder / f"{options.show}.jsonl").read_text(encoding="utf-8").splitlines()
        print(shown([json.loads(line) for line in stored[1:]]))
        return
    file = folder / f"{options.write}.jsonl"
    if options.write == FIRST and file.exists():
        raise SystemExit(f"{file.relative_to(REPOSITORY)} is there already and stays as it is; use another label")
    rows = judged(folder)
    if options.write:
        head = {"list": options.list, "commit": measured_commit(), "policy": "default", "rows": len(rows)}
        lines = (json.dumps(row, ensure_ascii=False) for row in (head, *rows))
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(shown(rows))


if __name__ == "__main__":
    main()
