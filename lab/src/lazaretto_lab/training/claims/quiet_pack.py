"""Packs the texts on which a reader of quiet lies is trained and scored (``quiet_training.py``).

    python -m lazaretto_lab.training.claims.quiet_pack NOTES OUT --free TRANSFER

NOTES is ``scr_clean_notes.jsonl.gz`` of the screening data, TRANSFER a pack of pairs without labels
(``quiet_texts.npz`` then holds some of their texts, for which a teacher's word counts).
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np

from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.training.claims.facts_data import HELD_OUT, quiet_dev, quiet_more, quiet_twins
from lazaretto_lab.training.claims.quiet import FOLDS, HONEST, Line, lines
from lazaretto_lab.training.claims.quiet_training import NEVER

TOKENS = 128
FREE = 40_000
WEIGHT = {"dev": 4.0, "twins": 4.0, "lie": 2.0, "honest": 2.0, "P": 0.5}
"""How often a text of a group is drawn beside the others of its kind."""
RULES = ("lies", "lie", "P", "rules", "honest", "dev", "twins", "S", "R", "C")


def packed_lines(notes: Path) -> list[Line]:
    """Everything with a label, in the order of the pack."""
    dev = [Line(a.text, int(a.lie), a.work, a.language, "dev", NEVER if a.kept else -1) for a in quiet_dev()]
    twins = [Line(a.text, int(a.lie), a.work, a.language, "twins") for a in (*quiet_twins(), *quiet_more())]
    return [one for one in lines(notes) if one.label >= 0] + dev + twins


def fold_of(one: Line) -> int:
    """Of its kind of work; what judges is in none."""
    if one.fold == NEVER or (one.group != "dev" and one.work in HELD_OUT):
        return NEVER
    return one.fold if one.fold >= 0 else zlib.crc32(one.work.encode()) % FOLDS


def main() -> None:
    """Write the pack."""
    parser = argparse.ArgumentParser()
    parser.add_argument("notes", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--free", type=Path)
    given = parser.parse_args()
    read = packed_lines(given.notes)
    ids = [e.ids[:TOKENS] for e in minilm_tokenizer().encode_batch([x.text for x in read], add_special_tokens=False)]
    fold = [fold_of(one) for one in read]
    label, rule = [one.label for one in read], [one.group in RULES for one in read]
    weight = [WEIGHT.get(one.group, 1.0) for one in read]
    print({name: sum(one.group == name for one in read) for name in (*RULES, *HONEST, "notes")})
    if given.free:
        with np.load(given.free) as pack:
            ends = np.cumsum(pack["lengths"].astype(np.int64))
            some = np.random.default_rng(0).permutation(len(ends))[:FREE]
            tokens, lengths = pack["tokens"], pack["lengths"].astype(int)
            ids += [tokens[ends[n] - lengths[n] : ends[n]].tolist() for n in some if lengths[n]]
        more = len(ids) - len(read)
        fold, label, rule, weight = fold + [0] * more, label + [-1] * more, rule + [False] * more, weight + [0.0] * more
    given.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        given.out / "quiet_texts.npz", tokens=np.array([t for several in ids for t in several], np.uint16),
        lengths=np.array([len(several) for several in ids], np.uint8), label=np.array(label, np.int8),
        fold=np.array(fold, np.int8), rule=np.array(rule, np.int8), weight=np.array(weight, np.float32),
    )  # fmt: skip


if __name__ == "__main__":
    main()
