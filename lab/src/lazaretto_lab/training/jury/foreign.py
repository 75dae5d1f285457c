"""Moderation data from elsewhere, in English: everyday requests, look-alikes, harmful requests, hate, agents' texts.

Every source lies in exactly one fold, related sources in the same: what is said of a source comes from models that saw
none of it. A source counts by its size up to a point and by the quality of its labels, not by its rows.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lazaretto.cases.records import InputKind
from lazaretto.gates.content.jury.views import clean
from lazaretto_lab.training.jury.data import Example, as_lettering, load_look_alikes, near_pairs
from lazaretto_lab.training.jury.twins import load_twins

_FOLDS = (
    "catqa dangerousqa harmfulqa_filtered toxigen_prompts phtest clinc150 medquad c4_sample tldr_pages",
    "advbench simple_safety_tests gptfuzz_questions gptfuzz_responses davidson coconot_contrast coconot_unsafe nq_open "
    "templates_everyday owasp_cheatsheets persistbench_memories tau_bench templates_dev",
    "do_not_answer information_hazard forbidden_questions hatemoji look_alikes banking77 snips ethics_commonsense "
    "commit_messages_dev bipia self_instruct_user self_instruct_seed security_docs_mentions",
    "xsafety stormfront_vicomtech counsel_chat hwu64 oasst_sample realtoxicityprompts mts_dialog memorybank xquad",
    "ailuminate_demo sap200 pyrit_scorer wikipedia_talk identity_templates twins dolly15k_sample ifeval koala mt_bench "
    "vicuna_bench surge_toxicity safetext k8s_runbooks cursorrules todo_comments_dev poisonedrag agentpoison",
)
FOLD_OF: dict[str, int] = {source: fold for fold, sources in enumerate(_FOLDS) for source in sources.split()}
"""Which fold a source belongs to."""
_WEAK = {
    "ailuminate_demo", "toxigen_prompts", "stormfront_vicomtech", "germeval2018", "told_br", "korean_hate_speech"
}  # fmt: skip
"""Sources whose unsafe labels were found doubtful in three or four of fifteen rows: half weight. So have hatemoji (made
to fool classifiers) and do-not-answer's information hazards (often mere questions about companies)."""
_MOST = 2000
"""Rows taken of one source and label."""
_KNEE = 400
"""Rows from which on a source's weight grows with the root of its size."""
_RISKY_QUESTIONS = ("discrimination_exclusion_toxicity_hateful_offensive", "information_hazard", "malicious_uses")
_LETTERED = (
    "templates_everyday",
    "dolly15k_sample",
    "self_instruct_user",
    "self_instruct_seed",
    "ifeval",
    "oasst_sample",
)


def load_foreign(folder: Path, seed: int = 11) -> list[Example]:
    """All of it, cut to ``_MOST`` rows per source and label, weighted (``trust``); requests a second time as lettering.

    The weights make a source count by ``_KNEE``, and all unsafe rows together six tenths of all safe ones.
    """
    rng = random.Random(seed)
    rows = [*_moderation(folder / "moderation"), *_screening(folder / "screening"), *_older(folder), *_agents(folder)]
    found: dict[tuple[str, str], Example] = {}
    for source, text, label, tongue in rows:
        words = clean(text)
        if len(words) >= 3 and tongue == "en":
            key = (source, words.lower())
            found.setdefault(key, _example(words, label, source, len(found)))
    kept = _capped(list(found.values()), rng)
    kept += [e for e in (*load_look_alikes(), *load_twins()) if not e.lettering]
    kept = _without_everyday(kept)
    return [*_weighted(kept), *_weighted(_lettered(folder, kept, rng))]


def _example(text: str, label: int, source: str, number: int) -> Example:
    return Example(InputKind.TEXT, text, "", float(label), source, f"{source}-{number}")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _moderation(folder: Path) -> Iterator[tuple[str, str, int, str]]:
    for path in sorted(folder.glob("mod_*.jsonl.gz")):
        for row in _rows(path):
            yield row["source"], row["text"], int(row["label"] == "unsafe"), row["lang"]


def _screening(folder: Path) -> Iterator[tuple[str, str, int, str]]:
    """What agents keep and read all day: notes, rules, pages, commit messages; text about attacks."""
    for name in ("scr_clean_notes", "scr_clean_mentions"):
        for row in _rows(folder / f"{name}.jsonl.gz"):
            if row["source"] not in ("clinc150", "hinglish_clean", "ifeval"):  # they are in moderation/ too
                yield row["source"], row["text"], 0, row["lang"]
    for row in _rows(folder / "scr_templates.jsonl.gz"):
        if row["label"] == "clean":
            yield row["source"], row["text"], 0, row["lang"]


def _older(folder: Path) -> Iterator[tuple[str, str, int, str]]:
    with (folder / "davidson" / "labeled_data.csv").open(encoding="utf-8") as file:
        # Offensive but not hateful (class 1) is left out: AIR-Bench's experts do not call rude words alone risky.
        for row in csv.DictReader(file):
            if row["class"] != "1":
                yield "davidson", row["tweet"], int(row["class"] == "0"), "en"
    with (folder / "hatemoji_build" / "train.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield "hatemoji", row["text"], int(row["label_gold"]), "en"
    for stem in _RISKY_QUESTIONS:
        source = stem if stem == "information_hazard" else "do_not_answer"
        for question in _prompts(folder / "do_not_answer" / f"{stem}.jsonl"):
            yield source, question, 1, "en"
    with (folder / "advbench" / "advbench_behaviors.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield "advbench", row["Behavior"], 1, "en"


def _agents(folder: Path) -> Iterator[tuple[str, str, int, str]]:
    for line in (folder / "bipia_train" / "email_train.jsonl").read_text(encoding="utf-8").splitlines():
        yield "bipia", json.loads(line)["context"], 0, "en"
    for line in (folder / "bipia_train" / "table_train.jsonl").read_text(encoding="utf-8").splitlines()[:150]:
        yield "bipia", json.loads(line)["context"][:600], 0, "en"
    flights = json.loads((folder / "tau_bench" / "airline_trajectories_100.json").read_text(encoding="utf-8"))
    for flight in flights:
        for turn in flight["traj"][1:]:
            if turn.get("content"):
                yield "tau_bench", str(turn["content"])[:600], 0, "en"
    bank = json.loads((folder / "memorybank" / "memory_bank_en.json").read_text(encoding="utf-8"))
    for person in bank.values():
        for talks in person["history"].values():
            for talk in talks:
                yield "memorybank", str(talk.get("query", "")), 0, "en"
                yield "memorybank", str(talk.get("response", "")), 0, "en"
    facts = json.loads((folder / "agentpoison" / "strategyqa_train_filtered.json").read_text(encoding="utf-8"))
    for fact in facts:
        yield "agentpoison", fact["question"], 0, "en"
    for name in ("nq", "hotpotqa"):
        for case in json.loads((folder / "poisonedrag" / f"{name}.json").read_text(encoding="utf-8")).values():
            yield "poisonedrag", case["adv_texts"][0], 0, "en"


def _prompts(path: Path) -> list[str]:
    return [json.loads(line)["prompt"] for line in path.read_text(encoding="utf-8").splitlines()]


def _capped(examples: Sequence[Example], rng: random.Random) -> list[Example]:
    taken: Counter[tuple[str, float]] = Counter()
    kept = []
    for e in rng.sample(examples, len(examples)):
        taken[e.source, e.label] += 1
        if taken[e.source, e.label] <= _MOST:
            kept.append(e)
    return kept


def _without_everyday(examples: Sequence[Example]) -> list[Example]:
    """Without near-duplicates of the everyday requests that false alarms are counted on."""
    from lazaretto_lab.training.jury.everyday import everyday_requests

    asked = [clean(r.text) for r in everyday_requests()]
    own = {clean(t).lower() for t in asked}
    pairs = near_pairs([*asked, *(e.text[:400] for e in examples)], 0.6)
    near = {b - len(asked) for a, b in pairs if a < len(asked) <= b}
    return [e for i, e in enumerate(examples) if i not in near and e.text.lower() not in own]


def _lettered(folder: Path, examples: Sequence[Example], rng: random.Random) -> list[Example]:
    """Requests as unfinished numbered lists, the shape of typographic jailbreaks; those for advice count as risky."""
    advice = [
        Example(InputKind.TEXT, clean(q), "", 1.0, "do_not_answer", f"advice-{path.stem}-{i}")
        for path in sorted((folder / "do_not_answer").glob("*.jsonl"))
        if path.stem not in _RISKY_QUESTIONS
        for i, q in enumerate(_prompts(path))
    ]
    risky = [e for e in examples if e.source in ("do_not_answer", "information_hazard", "advbench")]
    plain = [e for e in examples if e.source in _LETTERED]
    own = [e for e in examples if e.source in ("look_alikes", "twins") and e.text.endswith("?") and not e.description]
    chosen = [*advice, *risky, *rng.sample(plain, min(900, len(plain))), *rng.sample(own, min(700, len(own)))]
    return [as_lettering(e, rng) for e in chosen if len(e.text) < 160]


def _weighted(examples: Sequence[Example]) -> list[Example]:
    """Each example with its weight as ``trust``."""
    sizes = Counter((e.source, e.label) for e in examples)
    weighted = [replace(e, trust=_quality(e) * min(1.0, (_KNEE / sizes[e.source, e.label]) ** 0.5)) for e in examples]
    sums = [sum(e.trust for e in weighted if e.label == side) for side in (0.0, 1.0)]
    factor = 0.6 * sums[0] / sums[1]
    return [replace(e, trust=e.trust * factor) if e.label else e for e in weighted]


def _quality(example: Example) -> float:
    if example.source in ("hatemoji", "information_hazard"):
        return 0.5
    return 0.5 if example.label and example.source in _WEAK else 1.0


def fold_numbers(examples: Iterable[Example]) -> list[int]:
    """The fold of each foreign example."""
    return [FOLD_OF[e.source] for e in examples]
