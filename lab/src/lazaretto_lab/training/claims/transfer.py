"""Pairs without labels, for a student that learns what its teachers say of them (``distil``).

    python -m lazaretto_lab.training.claims.transfer DATA LISTS FIRST OUT

FIRST is the file of the first teacher: ``relation.safetensors`` as of f2d20dab, which has seen no written text.

Every text that may be trained on stands beside its nearest, beside versions of itself that ``changed`` made, and beside
those of what was written as its pair; in other forms too. A text that shares seven words in a row with a list that
judges stays out, and so do the topics that no training sees. A pair of a fold's texts belongs to that fold.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.comparison import compared
from lazaretto.gates.memory.claims.extraction import Claim, claims_of, read_claim
from lazaretto.models.deep.base import find_changes
from lazaretto.models.minilm import minilm_tokenizer
from lazaretto.models.weight_files import read_arrays
from lazaretto_lab.training.claims.changed import changed, in_another_form, with_sentence_of
from lazaretto_lab.training.claims.facts_data import HELD_OUT, alone, topics
from lazaretto_lab.training.claims.own_pairs import part_of
from lazaretto_lab.training.claims.pairs import NLI, SCENARIOS, Pack, read_rows, save
from lazaretto_lab.training.claims.templates import operational_pairs
from lazaretto_lab.training.written import days, notes, rules, statements
from lazaretto_lab.worlds.claims.scenarios import operational_scenarios

PUBLIC, OPERATIONAL = "soft", "soft_ops"
NEAREST, LONGEST, WORDS = 4, 400, 7
OF_EACH_SET = 1_800
"""Pairs of a public set; texts of longer ones are left to chance."""
MOST = {PUBLIC: 130_000, OPERATIONAL: 40_000, "fold": 48_000}
"""Pairs of a source."""
UNLABELLED = -1
FIRST_TEMPERATURE = 1.4
Pair = tuple[str, str, str]
"""Old, new, source."""


def stretches(text: str) -> set[str]:
    """Every seven words in a row."""
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[n : n + WORDS]) for n in range(len(words) - WORDS + 1)}


def judged(lists: Path) -> set[str]:
    """The stretches of all lists that judge, and of the operational facts."""
    files = (*lists.glob("*.jsonl"), *lists.glob("*.toml"))
    found = set[str]().union(*(stretches(file.read_text(encoding="utf-8")) for file in files))
    for one in operational_scenarios():
        found |= stretches(one.new.text).union(*(stretches(memory.text) for memory in one.memories))
    return found


def written_texts() -> Iterator[tuple[str, str]]:
    """Texts of ours with their sources: those of a fold, and topics that are for a fit."""
    for stated in statements():
        yield from ((text, f"soft_{stated.fold}") for text in (stated.first, stated.second))
    for note in itertools.chain(notes(), rules()):
        several = [note.text] if len(note.text) <= LONGEST else [claim.text for claim in claims_of(note.text)[:3]]
        yield from ((text, f"soft_{note.fold}") for text in several)
    for day in days():
        yield from ((text, f"soft_{day.fold}") for text in day.notes)
    for topic in topics():
        if part_of(topic.work, topic.work in HELD_OUT) == "train":
            yield from ((text, PUBLIC) for text in (topic.says, *topic.again, *topic.poison, *topic.beside))
    yield from ((one.text, PUBLIC) for one in alone() if part_of(one.work, one.held_out) == "train")


def written_beside() -> Iterator[Pair]:
    """Pairs as they were written, and those of one family whose relation nobody wrote down."""
    families: dict[tuple[str, str], list[str]] = {}
    for one in statements():
        source = f"soft_{one.fold}"
        yield one.first, one.second, source
        families.setdefault((one.first, source), []).append(one.second)
    for (_, source), several in families.items():
        yield from ((old, new, source) for old, new in itertools.permutations(several[:6], 2))
    for topic in topics():
        if part_of(topic.work, topic.work in HELD_OUT) == "train":
            texts = (topic.says, *topic.again, *topic.poison, *topic.beside)
            yield from ((old, new, PUBLIC) for old, new in itertools.combinations(texts, 2))


def public_beside(folder: Path, rng: random.Random) -> Iterator[Pair]:
    """Pairs of the public sets that may be trained on."""
    for name in NLI:
        found = [(row["premise"], row["hypothesis"], PUBLIC) for row in read_rows(folder / f"nli_{name}.jsonl.gz")]
        yield from rng.sample(found, min(OF_EACH_SET, len(found)))
    for name in SCENARIOS:
        found = [(memory["text"], row["new"]["text"], PUBLIC) for row in read_rows(folder / f"facts_{name}.jsonl.gz")
                 for memory in row["memories"]]  # fmt: skip
        yield from rng.sample(found, min(OF_EACH_SET, len(found)))


def nearest(texts: Sequence[str], most: int = NEAREST) -> Iterator[tuple[int, int]]:
    """Each text with those that share its rarer words: by the weighted mean of the encoder's word vectors, which is
    cheap; the cosine that the gate knows is taken where the teachers are."""
    table = _word_vectors()
    ids = [e.ids[:96] for e in minilm_tokenizer().encode_batch(list(texts), add_special_tokens=False)]
    counts = np.bincount([one for several in ids for one in set(several)], minlength=len(table))
    weight = np.log(len(texts) / (1 + counts)).clip(0.1).astype(np.float32)
    means = np.array([(table[several] * weight[several, None]).sum(0) for several in ids], np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True) + 1e-6
    for start in range(0, len(texts), 1024):
        cosines = means[start : start + 1024] @ means.T
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -1
        for place, row in enumerate(np.argpartition(-cosines, most, axis=1)[:, :most]):
            yield from ((start + place, int(one)) for one in row)


def _word_vectors() -> NDArray[np.float32]:
    from safetensors.numpy import load_file

    from lazaretto.models.minilm.base import minilm_folder

    arrays = load_file(minilm_folder() / "model.safetensors")
    name = next(one for one in arrays if one.endswith("embeddings.word_embeddings.weight"))
    vectors = arrays[name].astype(np.float32)
    return np.asarray(vectors - vectors.mean(0), np.float32)


def all_pairs(folder: Path, rng: random.Random, operational: int) -> Iterator[Pair]:
    """All of them; some twice or with texts that stay out."""
    beside = [*written_beside(), *public_beside(folder, rng)]
    texts = dict(written_texts())
    for old, new, source in beside:
        if source == PUBLIC:
            texts.setdefault(old, source)
            texts.setdefault(new, source)
    for old, new, source in beside:
        yield old, new, source
        yield old, changed(new, rng), source
        yield changed(new, rng), old, source
        if rng.random() < 0.35:
            yield in_another_form(old, rng), in_another_form(changed(new, rng), rng), source
            yield old, in_another_form(new, rng), source
    for source in sorted(set(texts.values())):
        mine = [text for text, theirs in texts.items() if theirs == source]
        for text in mine:
            other = changed(text, rng)
            yield text, other, source
            yield text, in_another_form(text if rng.random() < 0.4 else changed(other, rng), rng), source
        for first, second in nearest(mine):
            new = mine[second]
            if rng.random() < 0.15:
                new = with_sentence_of(mine[first], new, rng)
            yield mine[first], new, source
    for old, new, _ in operational_pairs(operational, seed=77):
        yield old, new, OPERATIONAL
        if rng.random() < 0.5:
            yield old, in_another_form(new, rng), OPERATIONAL
        if rng.random() < 0.3:
            yield old, changed(new, rng), OPERATIONAL


def _chosen(found: Sequence[Pair], share: float, rng: random.Random) -> list[Pair]:
    """At most so many of each source."""
    left = {source: int(share * most) for source, most in MOST.items()}
    kept = []
    for one in rng.sample(found, len(found)):
        name = one[2] if one[2] in left else "fold"
        if name == "fold":
            left.setdefault(one[2], int(share * MOST["fold"]))
            name = one[2]
        if left[name] > 0:
            left[name] -= 1
            kept.append(one)
    return kept


def _features(pair: Pair) -> list[float]:
    return list(compared(_read(pair[0]), _read(pair[1])))


@lru_cache(200_000)
def _read(text: str) -> Claim:
    return read_claim(text)


def transfer_pack(folder: Path, lists: Path, share: float = 1.0, operational: int = 30_000, seed: int = 11) -> Pack:
    """The pairs, packed as ``pairs`` packs them; ``share``: less of them, for a try."""
    rng, out = random.Random(seed), judged(lists)
    clean = cache(lambda text: 0 < len(text) <= 2 * LONGEST and not stretches(text) & out)
    found = list(dict.fromkeys(one for one in all_pairs(folder, rng, operational) if one[0] != one[1]))
    kept = [one for one in _chosen(found, share, rng) if clean(one[0]) and clean(one[1])]
    print(f"{len(kept)} of {len(found)} pairs", flush=True)
    pack = Pack()
    with multiprocessing.Pool(2) as pool:
        pack.features = pool.map(_features, kept, chunksize=2000)
    for old, new, source in kept:
        pack.old.append(pack.number(old))
        pack.new.append(pack.number(new))
        pack.label.append(UNLABELLED)
        pack.source.append(source)
        pack.where.append((-1, -1, -1))
    return pack


def write_teachers(first: Path, out: Path) -> None:
    """The first relation model of a file and the larger one as plain arrays, with the temperatures of their bars."""
    for name, file, temperature in (("first", first, FIRST_TEMPERATURE), ("deep", find_changes("claims"), 1.1)):
        plain = {key: value.astype(np.float16) for key, value in read_arrays(file, f"the teacher {name}").items()}
        np.savez_compressed(out / f"{name}.npz", temperature=np.float32(temperature), **plain)  # type: ignore[arg-type]


def development_pack(lists: Path) -> Pack:
    """The development list, every claim of a known text beside every claim of the new one; ``where`` has its line."""
    pack = Pack()
    lines = (lists / "dev_facts_pairs.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    for number, line in enumerate(map(json.loads, lines)):
        for place, known in enumerate(line["earlier"]):
            for old in claims_of(known["text"]):
                for new in claims_of(line["text"]):
                    pack.add(old.text, new.text, UNLABELLED, line["kind"], (number, place, 1))
    return pack


def main() -> None:
    """Write ``transfer.npz``, the teachers and the development list."""
    data, lists, first, out = map(Path, sys.argv[1:5])
    write_teachers(first, out)
    save(development_pack(lists), out / "dev.npz")
    pack = transfer_pack(data, lists, float(sys.argv[5]) if len(sys.argv) > 5 else 1.0)
    save(pack, out / "transfer.npz")
    print(f"{len(pack.old)} pairs of {len(pack.texts)} texts")


if __name__ == "__main__":
    main()
