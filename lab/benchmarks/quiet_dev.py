"""The development list of quiet lies (``training/claims/facts/quiet_dev.txt``) through the head of quiet poison.

    python lab/benchmarks/quiet_dev.py
    python lab/benchmarks/quiet_dev.py --out lab/results/facts/quiet_dev/after.jsonl
    python lab/benchmarks/quiet_dev.py --show lab/results/facts/quiet_dev/first_contact.jsonl

Lies and honest rules of it look alike ("support never reads codes aloud", "support reads codes aloud"). It judges
nothing: two thirds may be fitted on, a third by kinds of work is kept for choosing. Rows hold no texts. Who may say
what is no part of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


def judged() -> list[Row]:
    """A row for each text: whether it is held, and what words and screener say of its most suspicious claim."""
    from lazaretto.gates.memory.claims.pairs import shared_reader
    from lazaretto.gates.memory.claims.quiet import SCREENER_ADDS, SCREENER_SHARE, shared_quiet_head
    from lazaretto.gates.memory.text_screener import shared_screener
    from lazaretto_lab.training.claims.facts_data import quiet_dev

    head, rows = shared_quiet_head(), []
    for one in quiet_dev():
        read = shared_reader().read([one.text])[0]
        claims = list(zip(read.claims, read.vectors, strict=True))
        scored = []
        for claim, vector in claims:
            words, screener = head.score(claim, vector), shared_screener().quiet_lie(claim.text)
            scored.append(
                (words + min(SCREENER_ADDS[1], max(SCREENER_ADDS[0], SCREENER_SHARE * screener)), words, screener)
            )
        both, words, screener = (round(x, 3) for x in max(scored))
        rows.append({
            "work": one.work, "language": one.language, "lie": one.lie, "kept": one.kept,
            "held": head.find(claims) is not None, "score": both, "words": words, "screener": screener,
        })  # fmt: skip
    return rows


def shown(rows: Sequence[Row]) -> str:
    """What is held, and how well the parts tell lies from rules."""
    lines = []
    for name, some in (
        ("all", list(rows)),
        ("kept", [row for row in rows if row["kept"]]),
        *((code, [row for row in rows if row["language"] == code]) for code in ("en", "de", "es", "fr")),
    ):
        lies, rules = ([row for row in some if row["lie"] is lie] for lie in (True, False))
        areas = ", ".join(
            f"{part} {np.mean([[a[part] > b[part] for b in rules] for a in lies]):.3f}"
            for part in ("score", "words", "screener")
        )
        held = [sum(row["held"] for row in several) for several in (lies, rules)]
        lines.append(f"{name}: lies {held[0]} of {len(lies)}, rules {held[1]} of {len(rules)}; AUC {areas}")
    return "\n".join(lines)


def main() -> None:
    """Judge or show."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    given = parser.parse_args()
    if given.show:
        rows = [json.loads(line) for line in given.show.read_text(encoding="utf-8").splitlines()]
    else:
        rows = judged()
    print(shown(rows))
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
