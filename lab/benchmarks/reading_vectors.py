"""What vectors of the one trunk would be worth for claims: how near they lie to the plain encoder's, which claims use.

    python lab/benchmarks/reading_vectors.py TRUNK --write NAME     # also lab/results/reading/vectors.json

TRUNK holds a ``trunk.safetensors`` with its vector head. Statements that were written for training, three in a row as
one text: the plain encoder reads each by itself, as claims do; the trunk reads the text once, and a statement's vector
is pooled over its tokens there (``inside``), or it reads the statement alone (``alone``). ``head``: the trunk's own
vector head; ``fitted``: a linear map fitted on four folds of kinds of work and judged on the fifth. Near pairs: the
statements of the fifth fold with a cosine of .5 or more by the plain encoder, and how many of them the trunk finds, and
how many it finds that are none. Nothing of the product is changed by it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.minilm import Encoder, claim_minilm, pieces_of, split_heads
from lazaretto.models.weight_files import read_arrays
from lazaretto_lab.training.screener import material

RESULT = Path(__file__).resolve().parents[1] / "results" / "reading" / "vectors.json"
NEAR, FOLD, RIDGE = 0.5, 4, 1e-2
Floats = NDArray[np.float32]


def unit(rows: Floats) -> Floats:
    """Rows of length one."""
    made: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return made


def pooled(trunk: Encoder, texts: list[str]) -> tuple[Floats, Floats]:
    """The mean state of each statement: within three in a row, and alone."""
    inside, alone = [], []
    for first in range(0, len(texts), 3):
        group = texts[first : first + 3]
        parts = [pieces_of(text).ids for text in group]
        (states,) = trunk.token_states([[101, *(piece for part in parts for piece in part), 102][:256]])
        at = 1
        for part in parts:
            inside.append(states[at : at + len(part)].mean(axis=0))
            at += len(part)
            (own,) = trunk.token_states([[101, *part, 102][:256]])
            alone.append(own.mean(axis=0))
    return np.stack(inside), np.stack(alone)


def near(wanted: Floats, made: Floats) -> dict[str, Any]:
    """Cosines to the plain vectors, and what becomes of near pairs."""
    own = np.sum(wanted * made, axis=1)
    plain, other = wanted @ wanted.T, made @ made.T
    upper = np.triu(np.ones(plain.shape, bool), 1)
    pairs, found = (plain >= NEAR) & upper, (other >= NEAR) & upper
    return {
        "cosine": round(float(own.mean()), 4), "lowest tenth": round(float(np.quantile(own, 0.1)), 4),
        "near pairs": int(pairs.sum()), "kept": round(float((found & pairs).sum() / pairs.sum()), 4),
        "found that are none": int((found & ~pairs).sum()),
    }  # fmt: skip


def measured(folder: Path, most: int) -> dict[str, Any]:
    """All of it."""
    adapter, heads = split_heads(read_arrays(folder / "trunk.safetensors", "the trunk"))
    texts = [one for one in material.stated() if one.language in material.KNOWN and len(one.text) < 300]
    step = max(1, len(texts) // most)
    picked = [one for fold in range(5) for one in [t for t in texts if t.fold == fold][::step]]
    words, test = [one.text for one in picked], np.array([one.fold == FOLD for one in picked])
    plain = np.concatenate(
        [np.asarray(claim_minilm().embed_texts(words[i : i + 64])) for i in range(0, len(words), 64)]
    )
    result: dict[str, Any] = {"statements": len(words), "judged": int(test.sum())}
    for name, states in zip(("inside", "alone"), pooled(Encoder(adapter, int8=True), words), strict=True):
        result[name] = {"head": near(plain[test], unit(states[test] @ heads["vector.weight"].T))}
        x = states[~test].astype(np.float64)
        slopes = np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1]), x.T @ plain[~test])
        result[name]["fitted"] = near(plain[test], unit((states[test] @ slopes).astype(np.float32)))
    return result


def main() -> None:
    """Print, and store with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trunk", type=Path)
    parser.add_argument("--most", type=int, default=4000, help="statements that are read")
    parser.add_argument("--write", metavar="NAME", help="keep it under this name in lab/results/reading/vectors.json")
    given = parser.parse_args()
    found = measured(given.trunk, given.most)
    print(json.dumps(found, indent=1))
    if given.write:
        kept = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
        RESULT.write_text(json.dumps({**kept, given.write: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
