"""How many secrets that prose names are found, and how many honest sentences are taken for one.

    python lab/benchmarks/secrets_in_prose.py
    python lab/benchmarks/secrets_in_prose.py --write after
    python lab/benchmarks/secrets_in_prose.py --list secrets_and_numbers

The lists, secrets_in_prose.toml, secrets_and_numbers.toml and secrets_in_notes.toml in tests/data, were written before
the rules were changed. A secret counts as found where no part of four characters of its value is left in the text that
the gate offers instead.
``--write LABEL`` keeps a row for each sentence in lab/results/everyday under the list's name; ``first_contact`` stays.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterable, Sequence

from everyday import DATA, FIRST, REPOSITORY, RESULTS, Row, measured_commit, share

from lazaretto.gates.secrets import find_secrets, without_secrets

LISTS = ("secrets_in_prose", "secrets_and_numbers", "secrets_in_notes")
LEAST = 4


def hidden(value: str, kept: str, text: str) -> bool:
    """Whether no part of the value that its text holds once only is left."""
    parts = {value[place : place + LEAST] for place in range(max(1, len(value) - LEAST + 1))}
    return not any(part in kept for part in parts if text.count(part) == 1)


def judged(sentences: Iterable[Sequence[str]], what: str) -> list[Row]:
    """A row for each sentence."""
    rows = []
    for number, (language, text, *value) in enumerate(sentences, 1):
        found = find_secrets(text)
        kept = without_secrets(text, found)
        gone = hidden(value[0], kept, text) if value else bool(found)
        rows.append({"id": f"{what}-{number:02d}", "what": what, "language": language, "found": gone, "kept": kept})
    return rows


def main() -> None:
    """Print the figures, keep the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="LABEL", default="", help="keep the rows under this name")
    parser.add_argument("--list", choices=LISTS, default=LISTS[0], help="default: %(default)s")
    options = parser.parse_args()
    lists = tomllib.loads((DATA / f"{options.list}.toml").read_text(encoding="utf-8"))
    rows = [row for what in ("honest", "secret") for row in judged(lists[what], what)]
    if options.write:
        file = RESULTS / options.list / f"{options.write}.jsonl"
        if options.write == FIRST and file.exists():
            raise SystemExit(f"{file.relative_to(REPOSITORY)} is there already and stays as it is; use another label")
        file.parent.mkdir(parents=True, exist_ok=True)
        head = {"list": options.list, "commit": measured_commit(), "rows": len(rows)}
        lines = (json.dumps(row, ensure_ascii=False) for row in (head, *rows))
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for what in ("honest", "secret"):
        mine = [row for row in rows if row["what"] == what]
        languages = dict.fromkeys(row["language"] for row in mine)
        by = "; ".join(f"{one} {share((r for r in mine if r['language'] == one), 'found')}" for one in languages)
        print(f"{what}: found in {share(mine, 'found')} ({by})")


if __name__ == "__main__":
    main()
