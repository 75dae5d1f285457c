"""Leave one source out: which sources go together, and the texts each of them is tested on."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from lazaretto.errors import InputError
from lazaretto_lab.training.screener import corpora, material
from lazaretto_lab.training.screener.corpora import Sample

FOLDS: dict[str, tuple[str, ...]] = {
    "bipia": ("bipia_email", "bipia_table", "bipia_code", "tau_bench", "todo_comments_dev", "owasp_cheatsheets",
              *material.written_sources(0)),
    "injecagent": ("injecagent", "memorybank", "tldr_pages", "mts_dialog", *material.written_sources(1)),
    "asb": ("asb", "reflexion", "k8s_runbooks", "c4_sample", *material.written_sources(2)),
    "purplellama": ("purplellama", "locomo", "cursorrules", "germeval2018"),
    "templates": ("templates_dev", "xquad_pairs", "commit_messages_dev"),
    "xsafety": ("xsafety_goal_hijacking", "xsafety", "giskard", "clinc150", "persistbench_memories",
                *material.written_sources(3)),
    "jailbreaks": ("jailbreak_in_the_wild", "pyrit_templates", "ifeval", "security_docs_mentions", "xquad"),
    "triggers": ("tasktracker", "prompt_shield", "hinglish_stealth", "hinglish_clean", "banking77",
                 *material.written_sources(4)),
}  # fmt: skip
"""Sources that share attacks or templates are left out together, each with honest sources of other styles."""
TEST_SEED = 1000
PAIRS, ALONE = 400, 500
"""At most so many pairs, or texts of one label that stand alone, of a source are tested."""
_TEXTS = {"owasp_cheatsheets", "mts_dialog", "c4_sample", "xquad"}
_PAIRED = {"bipia_email", "bipia_table", "bipia_code", "injecagent", "asb"}
_TRAFFIC = {"tau_bench", "memorybank", "reflexion", "locomo"}
_SAFE = {
    "germeval2018": "mod_hate_multilingual",
    "xsafety": "mod_xsafety_multilingual",
    "banking77": "mod_benign_questions",
}
ALSO_OUT = {
    "injecagent": ("tool_outputs",),
    "templates": ("tasktracker",),
    "triggers": ("templates_dev", "xquad_pairs"),
}
"""Sources that share texts with those of a fold, and are therefore not trained on in it."""


def held_out(data: Path, source: str, more: Sequence[material.Case] = ()) -> list[tuple[Sample, str]]:
    """The samples a source is tested on, each with its language; languages that are not trained are left out.

    ``more``: descriptions of real tools, which are no part of this project.
    """
    return [(sample, language) for sample, language in _held_out(data, source, more) if language in material.KNOWN]


def _held_out(data: Path, source: str, more: Sequence[material.Case]) -> Iterator[tuple[Sample, str]]:
    rng = random.Random(f"test/{source}")
    if source in material.WRITTEN:
        for one in material.written_texts(source, more):
            kind = material.REAL if one.kind == material.REAL else "written"
            yield Sample(one.text, one.bad, source, kind), one.language
    elif source in _PAIRED:
        yield from ((s, "en") for s in corpora.load_source(source, data, TEST_SEED, PAIRS))
    elif source in _TRAFFIC:
        yield from ((s, "en") for s in corpora.load_source(source, data, TEST_SEED, 1000))
    elif source == "purplellama":
        yield from _purplellama(data, rng)
    elif source == "xquad_pairs":
        for name, triple in material.triples(data).items():
            for row in triple.values():
                poisoned = row["label"] == "order"
                yield Sample(row["text"], poisoned, source, row["context"].partition("+")[2], pair=name), row["lang"]
    else:
        yield from _alone(data, source, rng)


def _purplellama(data: Path, rng: random.Random) -> Iterator[tuple[Sample, str]]:
    """Each injection in a context, beside the same context without it; translated ones in a context of their
    language where there is one."""
    english = [s.text for name in ("tau_bench", "memorybank") for s in corpora.load_source(name, data, TEST_SEED, 400)]
    english = [text for text in english if 60 < len(text) < 1500]
    others: dict[str, list[str]] = {}
    for row in material.rows_of(data / "moderation" / "mod_benign_texts.jsonl.gz"):
        if row["lang"] != "en" and len(row["text"]) > 60:
            others.setdefault(row["lang"], []).append(row["text"])
    for n, row in enumerate(material.purplellama_rows(data)):
        language = material.PURPLE_LANGUAGES[row["speaking_language"]]
        if language != "en" and language not in others:
            continue
        context = rng.choice(english if language == "en" else others[language])
        position = rng.choice((0.0, rng.random(), 1.0))
        text, span = corpora.poison(context, row["user_input"], position)
        kind = row["injection_variant"]
        yield Sample(text, True, "purplellama", kind, (span,), f"p{n}"), language
        yield Sample(context, False, "purplellama", "context", (), f"p{n}"), language


def _alone(data: Path, source: str, rng: random.Random) -> Iterator[tuple[Sample, str]]:
    if source in _TEXTS:
        rows = material.rows_of(data / "moderation" / "mod_benign_texts.jsonl.gz")
    elif source in _SAFE:
        rows = [r for r in material.rows_of(data / "moderation" / f"{_SAFE[source]}.jsonl.gz") if r["label"] == "safe"]
    else:
        rows = material.screening_rows(data)
    mine = [row for row in rows if row["source"] == source]
    for poisoned in (True, False):
        chosen = [row for row in mine if (row["label"] == "order") == poisoned]
        most = ALONE if source != "templates_dev" else 10_000
        for row in rng.sample(chosen, min(most, len(chosen))):
            yield Sample(row["text"], poisoned, source, row.get("context", "text")), row["lang"]


def family_of(source: str) -> str:
    """The fold that leaves a source out."""
    for fold, sources in FOLDS.items():
        if source in sources:
            return fold
    known = ", ".join(sorted(s for sources in FOLDS.values() for s in sources))
    raise InputError("source", f"{source!r} is not tested", f"Use one of {known}")
