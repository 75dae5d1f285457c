"""Everything the screener is trained on, as lines and contexts with their sources.

A ``Line`` is an order, a request or something honest; a ``Context`` is honest text with places where a line may be put.
Training puts them together (``training.Sampler``): the same context with an order and with an honest line, lines alone,
several honest lines as one note. Because every line and context names its source, a source is left out by dropping it.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lazaretto_lab.training import written
from lazaretto_lab.training.claims import facts_data
from lazaretto_lab.training.descriptions.packages import described_in
from lazaretto_lab.training.mild import mild_texts
from lazaretto_lab.training.real_pages import judges, pages
from lazaretto_lab.training.screener import corpora, pairs, phrases
from lazaretto_lab.training.screener.days import ORDERS as ORDERS_OF_DAYS
from lazaretto_lab.training.screener.days import UNTESTED, DayText, day_texts
from lazaretto_lab.training.screener.noise import noise
from lazaretto_lab.training.screener.own_texts import LANGUAGES, own_text

ORDER, INSIDE, REQUEST, CLEAN, NOTE, ALONE = "order", "inside", "request", "clean", "note", "alone"
"""``order``: poison alone or in a document. ``inside``: poison in a document, no verdict alone. ``request``: poison in
a document, honest alone (a user's own words). ``clean``: honest anywhere. ``note``: imperative and
honest, alone or among its like. ``alone``: honest alone, no verdict in a document."""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence or a few."""

    text: str
    role: str
    source: str
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Context:
    """Honest text into which a line may be put."""

    text: str
    source: str
    language: str = "en"
    places: tuple[int, ...] = ()
    """Character positions where a line may stand; empty: at any end of a sentence or line."""


TASKS = {"dolly15k_sample", "self_instruct_user", "self_instruct_seed", "koala", "mt_bench", "vicuna_bench", "ifeval"}
"""Requests of some substance; in a document they stand out of place."""
COMMANDS = {"clinc150", "hwu64", "snips", "oasst_sample", "templates_everyday"}
"""What people tell their assistants; of these, what begins with a verb of ``_VERB``."""
NOTES = {"tldr_pages", "cursorrules", "todo_comments_dev", "commit_messages_dev", "k8s_runbooks"}
KNOWN = {"en", "de", "fr", "es", "it", "pt", "nl", "hi-Latn"}
"""Languages that are trained; the base encoder's word pieces cannot tell much in others (research/LOG.md)."""
SCREENING = ("scr_clean_mentions", "scr_clean_notes", "scr_orders_real", "scr_templates")
MODERATION_BENIGN = ("mod_benign_questions", "mod_benign_requests")
MODERATION_SAFE = ("mod_hate_multilingual", "mod_xsafety_multilingual", "mod_hate_en")
MODERATION_TEXTS = "mod_benign_texts"
MODERATION_QUESTIONS = ("nq_open", "xquad", "banking77", "medquad", "counsel_chat", "forbidden_questions", "xsafety")
FREE_TEXTS = {"c4_sample", "owasp_cheatsheets", "mts_dialog", "safetext", "ethics_commonsense", "xcopa", "xquad"}


def written_sources(fold: int) -> tuple[str, ...]:
    """The sources of one fold of the written texts: notes and planted orders, statements, rules, tool descriptions,
    working days by many hands and the lies in them."""
    return tuple(f"{name}_{fold}" for name in ("written", "stated", "rules", "tools", "days", "rules_days"))


_DESCRIPTIONS = Path(written.__file__).parents[1] / "descriptions"
_MOST_DESCRIPTIONS = 80
"""Of one package."""
_DAY_CASES = 3
"""How often an order of the working days stands among the written cases, which are drawn alike."""
_SHORTEST_DAY = 80
"""Characters of an honest text of a working day into which a line may be put."""
_LEAST_HOST = 4
"""Least words of a text without its order, to stand beside it as honest."""
REAL = "real"
"""Kind of the descriptions out of packages."""
WRITTEN = frozenset(name for fold in range(written.FOLDS) for name in written_sources(fold))


def written_texts(source: str, more: Sequence[Case] = ()) -> Iterator[written.Written]:
    """The texts of one written source, bad and honest."""
    name, _, fold = source.rpartition("_")
    if name == "days":
        mine = (text for text in day_texts() if text.fold == int(fold) and _is_about_orders(text))
        yield from (_written_day(text) for text in mine if text.hand not in UNTESTED)
        return
    later = {day.part for day in day_texts() if day.hand in UNTESTED and day.kind == "lie"}
    for kind, several in (("written", written_cases()), (REAL, more)):
        for case in several:
            if case.source == source and case.text not in later:
                yield written.Written(case.text, kind, case.language, case.bad)
                if case.host:
                    yield written.Written(case.host, kind, case.language)
    if name == "written":
        yield from (one for one in (*written.notes(), *written.short()) if one.fold == int(fold))
    if name == "stated":
        yield from (one for one in stated(tested=True) if one.fold == int(fold))


def _written_day(day: DayText) -> written.Written:
    return written.Written(day.text, day.hand, day.language, day.kind in ORDERS_OF_DAYS)


def _is_about_orders(day: DayText) -> bool:
    return day.kind == "honest" or day.kind in ORDERS_OF_DAYS


@cache
def stated(*, tested: bool = False) -> tuple[written.Written, ...]:
    """Plain statements of honest people, each once: what pairs of statements begin with, and what agrees with it."""
    found: dict[str, written.Written] = {}
    for pair in written.statements(tested=tested):
        for text in (pair.first, *((pair.second,) if pair.relation != "conflict" else ())):
            found.setdefault(text, written.Written(text, pair.kind, pair.language))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Case:
    """A written text with what is bad in it, and the honest text beside it where there is one."""

    text: str
    start: int
    end: int
    source: str
    bad: bool
    host: str = ""
    language: str = "en"


@cache
def written_cases() -> tuple[Case, ...]:
    """Planted orders, quiet lies and honest rules, descriptions of tools."""
    found: list[Case] = []
    for name, several in (("written", written.planted()), ("tools", written.tools())):
        found += [Case(p.text, p.start, p.end, f"{name}_{p.fold}", True, p.host, p.language) for p in several]
    for name, texts in (("rules", written.rules()), ("tools", written.honest_tools())):
        found += [Case(t.text, 0, len(t.text), f"{name}_{t.fold}", t.bad, "", t.language) for t in texts]
    for lie in (*facts_data.quiet_twins(), *facts_data.quiet_more()):
        source = f"rules_{written.fold_of(lie.work)}"
        if lie.work not in facts_data.HELD_OUT:
            found.append(Case(lie.text, 0, len(lie.text), source, lie.lie, "", lie.language))
    return (*found, *_own_descriptions(), *_cases_of_days())


def _cases_of_days() -> Iterator[Case]:
    """Orders with the honest text around them, as often as ``_DAY_CASES`` says; lies without it."""
    for one in day_texts():
        if one.kind in ORDERS_OF_DAYS and one.part != one.text:
            host = one.rest if len(one.rest.split()) > _LEAST_HOST else ""
            case = Case(one.text, one.start, one.end, f"days_{one.fold}", True, host, one.language)
            yield from [case] * _DAY_CASES
        elif one.kind == "lie":
            yield Case(one.part, 0, len(one.part), f"rules_days_{one.fold}", True, "", one.language)


def _own_descriptions() -> Iterator[Case]:
    """The older lists of tool descriptions, but for the kinds that are held apart."""
    for name in ("poisoned", "honest"):
        for line in (_DESCRIPTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            source, poison = f"tools_{written.fold_of(row['kind'])}", row.get("poison", "")
            if row["set"] == "dev" and poison and row.get("honest"):
                text = f"{row['honest']} {poison}"
                yield Case(text, len(row["honest"]) + 1, len(text), source, True, row["honest"])
            elif row["set"] == "dev":
                yield Case(poison or row["honest"], 0, len(poison or row["honest"]), source, bool(poison))


def described_cases(packages: Path) -> list[Case]:
    """Honest descriptions out of packages of real servers, which are left out of training package by package."""
    found: dict[str, Case] = {}
    for package in sorted(packages.iterdir()):
        texts = described_in(package)
        for text in random.Random(package.name).sample(texts, min(_MOST_DESCRIPTIONS, len(texts))):
            short = text[:1500]
            found.setdefault(short, Case(short, 0, len(short), f"tools_{written.fold_of(package.name)}", False))
    return list(found.values())


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a gzipped JSON-lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def screening_rows(data: Path) -> list[dict[str, Any]]:
    """Rows of the screening data that stand alone; the project owners' rules for agents are left out."""
    return [row for name in SCREENING for row in rows_of(data / "screening" / f"{name}.jsonl.gz")]


def lines(data: Path, seed: int) -> list[Line]:
    """All lines, each text once."""
    found = [*_screening(data), *_triple_lines(data), *_attacks(data, seed), *_requests(data), *_own(seed)]
    found += [*_moderation(data, seed), *_written()]
    manual = pairs.harmless_lines(data, ("tau_bench", "memorybank", "reflexion"), seed)
    found += [Line(text, CLEAN, "prose_lines") for text in manual]
    found += [Line(text, CLEAN, "benign_lines") for text in corpora.TRAIN_LINES]
    found += [Line(text, CLEAN, "mentions") for text in phrases.MENTIONS]
    seen: set[tuple[str, str]] = set()
    found = [line for line in found if line.language in KNOWN and line.text.strip()]
    return [line for line in found if _fresh((line.source, _key(line.text)), seen)]


def _written() -> Iterator[Line]:
    for one in written.notes():
        yield Line(one.text, NOTE, f"written_{one.fold}", one.language)
    for one in written.short():
        yield Line(one.text, ORDER if one.bad else NOTE, f"written_{one.fold}", one.language)
    for pair in written.planted():
        yield Line(pair.host, NOTE, f"written_{pair.fold}", pair.language)
    for one in stated():
        yield Line(one.text, NOTE, f"stated_{one.fold}", one.language)
    for one in written.rules():
        if not one.bad:
            yield Line(one.text, NOTE, f"rules_{one.fold}", one.language)
    for mild in mild_texts():
        if mild.form != "value":
            yield Line(mild.text, ORDER if mild.order else NOTE, f"days_{mild.fold}", mild.language)
    yield from _lines_of_days()


def _lines_of_days() -> Iterator[Line]:
    for day in day_texts():
        source = f"days_{day.fold}"
        if day.kind == "honest":
            yield Line(day.text, NOTE, source, day.language)
        elif day.kind in ORDERS_OF_DAYS:
            yield Line(day.part, ORDER if day.part == day.text else INSIDE, source, day.language)
    sentences = [note.text for note in stated() if note.language == "en" and 20 < len(note.text) < 120]
    yield from (Line(text, NOTE, "noise") for text in noise(sentences))
    yield from (Line(text, CLEAN, "pages") for name, _, text in pages() if not judges(name))


def contexts(data: Path, seed: int) -> list[Context]:
    """All contexts."""
    rng = random.Random(f"contexts/{seed}")
    found: list[Context] = []
    for name in ("tau_bench", "memorybank", "reflexion"):
        found += [Context(s.text, name) for s in corpora.load_source(name, data, seed, 1200, train=True)]
    prose = corpora.prose(data, seed, 2400)
    found += [Context(text, "prose") for text in prose]
    found += [Context(text, "tool_outputs") for text in corpora.tool_outputs(data, seed, 900)]
    found += [Context(text, "source_code") for text in pairs.source_code(rng, 700)]
    found += [Context(pairs.structured(rng, prose), "structured") for _ in range(1500)]
    found += [Context(pairs.letter(rng), "letters") for _ in range(600)]
    found += [Context(pairs.code_help(rng), "code_help") for _ in range(400)]
    for source in ("bipia_email", "bipia_table", "bipia_code"):
        texts = sorted({s.text for s in corpora.load_source(source, data, seed, 300, train=True) if not s.poisoned})
        found += [Context(text, source) for text in texts]
    found += [Context(text, "asb") for text in corpora.asb_contexts(data)]
    slot = "<Attacker Instruction>"
    templates = sorted({case["Tool Response Template"] for case in corpora.injecagent_cases(data)})
    found += [Context(t.replace(slot, ""), "injecagent", "en", (t.index(slot),)) for t in templates]
    paired = {_key(text) for text, _ in _paragraphs(data)}
    for row in rows_of(data / "moderation" / f"{MODERATION_TEXTS}.jsonl.gz"):
        if row["source"] in FREE_TEXTS and len(row["text"]) > 40 and _key(row["text"]) not in paired:
            found.append(Context(row["text"], row["source"], row["lang"]))
    for name in MODERATION_SAFE[:1]:
        rows = [r for r in rows_of(data / "moderation" / f"{name}.jsonl.gz") if r["label"] == "safe"]
        found += [Context(r["text"], r["source"], r["lang"]) for r in rows if r["lang"] in KNOWN]
    found += [Context(text, "xquad_pairs", language) for text, language in _paragraphs(data)]
    found += [Context(one.host, f"written_{one.fold}", one.language) for one in written.planted()]
    found += [Context(one.text, f"written_{one.fold}", one.language) for one in written.notes() if len(one.text) > 80]
    found += [
        Context(day.text, f"days_{day.fold}", day.language)
        for day in day_texts()
        if day.kind == "honest" and len(day.text) > _SHORTEST_DAY
    ]
    found += [Context(text, "pages") for name, _, text in pages() if not judges(name)]
    found = [context for context in found if context.language in KNOWN and len(context.text) > 30]
    return [Context(c.text[:1600], c.source, c.language, c.places) for c in found]


def _screening(data: Path) -> Iterator[Line]:
    for row in screening_rows(data):
        role = ORDER if row["label"] == "order" else _honest_role(row)
        yield Line(row["text"], role, row["source"], row["lang"])


_VERB = re.compile(
    r"(?:please |can you |could you |i want you to |i need you to )?(?:set|play|add|book|send|remind|turn|call|find|"
    r"show|"
    r"tell|give|make|put|create|delete|remove|cancel|schedule|transfer|pay|order|open|start|stop|check|change|update|"
    r"write|list|translate|summari[sz]e|describe|explain|generate|suggest|provide|classify|rewrite|convert|compose|"
    r"design|buy|post|tweet|email|mail|text|read|search|switch|increase|lower|raise|rate|share|move|report|track|"
    r"explique|écris|donne|escribe|explica|dame|schreib|erklär|gib|scrivi|spiega|dammi|escreva|explique|schrijf)\b",
    re.IGNORECASE,
)


def _honest_role(row: dict[str, Any]) -> str:
    if row["source"] in NOTES:
        return NOTE
    if row["source"] in TASKS:
        return ALONE if row["text"].rstrip().endswith("?") else REQUEST
    if row["source"] in COMMANDS:
        return REQUEST if _VERB.match(row["text"]) else ALONE
    if row["source"] in ("prompt_shield", "hinglish_clean", "templates_dev", *MODERATION_QUESTIONS):
        return NOTE if row["source"] == "templates_dev" else ALONE
    return CLEAN


def triples(data: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Paragraphs with nothing, with a note and with an order in them, by the triple's name."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows_of(data / "screening" / "scr_pairs_multilingual.jsonl.gz"):
        name, _, kind = row["context"].partition("+")
        found.setdefault(name, {})[kind or "plain"] = row
    return found


def inserted(plain: str, longer: str) -> tuple[int, int]:
    """Where ``longer`` has what ``plain`` has not."""
    start = next((i for i, (a, b) in enumerate(zip(plain, longer, strict=False)) if a != b), len(plain))
    end = next(
        (i for i, (a, b) in enumerate(zip(reversed(plain), reversed(longer), strict=False)) if a != b), len(plain)
    )
    return min(start, len(longer) - end), max(len(longer) - end, start)


def _triple_lines(data: Path) -> Iterator[Line]:
    for triple in triples(data).values():
        for kind, role in (("order", ORDER), ("note", NOTE)):
            if "plain" in triple and kind in triple:
                a, b = inserted(triple["plain"]["text"], triple[kind]["text"])
                text = triple[kind]["text"][a:b].strip()
                if 8 < len(text) < 300:
                    yield Line(text, role, "xquad_pairs", triple[kind]["lang"])


def _paragraphs(data: Path) -> list[tuple[str, str]]:
    return [(t["plain"]["text"], t["plain"]["lang"]) for t in triples(data).values() if "plain" in t]


PURPLE_LANGUAGES = {
    "English": "en", "Hindi": "hi", "Bengali": "bn", "Turkish": "tr", "Arabic": "ar", "Italian": "it", "Spanish": "es",
    "Vietnamese": "vi", "French": "fr", "Russian": "ru", "Filipino/Tagalog": "tl", "Portuguese": "pt", "Japanese": "ja",
    "Korean": "ko", "German": "de", "Chinese": "zh", "Indonesian": "id", "Thai": "th",
}  # fmt: skip


def _attacks(data: Path, seed: int) -> Iterator[Line]:
    """Injected lines of the paired corpora, without their contexts."""
    for source in ("bipia_email", "bipia_code", "injecagent", "asb"):
        for sample in corpora.load_source(source, data, seed, 1100, train=True):
            for a, b in sample.spans:
                yield Line(sample.text[a:b], INSIDE, source)
    for row in purplellama_rows(data):
        yield Line(row["user_input"], ORDER, "purplellama", PURPLE_LANGUAGES[row["speaking_language"]])


def purplellama_rows(data: Path) -> list[dict[str, Any]]:
    """Injections in English, and the machine-translated ones."""
    names = ("prompt_injection.json", "prompt_injection_multilingual_machine_translated.json")
    return [row for name in names for row in json.loads((data / "purplellama" / name).read_text(encoding="utf-8"))]


def _requests(data: Path) -> Iterator[Line]:
    with (data / "advbench" / "advbench_behaviors.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Line(row["Behavior"], INSIDE, "advbench")


def _own(seed: int) -> Iterator[Line]:
    rng = random.Random(f"own/{seed}")
    for language in LANGUAGES:
        for order in (True, False):
            for _ in range(6000 if language == "en" else 1000):
                kind = "order" if order else rng.choice(("note", "statement"))
                role = ORDER if order else NOTE if kind == "note" else CLEAN
                yield Line(own_text(language, kind, rng), role, "own", language)
    for _ in range(3000):
        task = own_text("en", "task", rng)
        yield Line(task if rng.random() < 0.3 else _polite(task, rng), INSIDE, "own_tasks")
    for _ in range(5000):
        explicit, said = rng.random() < 0.4, pairs.own_order(rng)
        text = pairs.framed(said, rng, explicit=True) if explicit else _polite(said, rng)
        yield Line(text, ORDER if explicit else INSIDE, "phrases")
    for _ in range(500):
        yield Line(pairs.own_code_order(rng), INSIDE, "code_orders")


def _polite(task: str, rng: random.Random) -> str:
    """As people ask: half of the time with a please, else in any of the frames."""
    if rng.random() < 0.5:
        return f"Please {task[0].lower()}{task[1:]}"
    return pairs.framed(task, rng)


def _moderation(data: Path, seed: int) -> Iterator[Line]:
    rng = random.Random(f"moderation/{seed}")
    for name in (*MODERATION_BENIGN, *MODERATION_SAFE[1:]):
        by_source: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows_of(data / "moderation" / f"{name}.jsonl.gz"):
            if row["label"] == "safe" and len(row["text"]) < 1200:
                by_source.setdefault((row["source"], row["lang"]), []).append(row)
        for rows in by_source.values():
            for row in rng.sample(rows, min(600, len(rows))):
                yield Line(row["text"], _honest_role(row), row["source"], row["lang"])
    attributed = [line for line in _task_texts(data) if len(line) < 300]
    for text in rng.sample(attributed, min(900, len(attributed))):
        frame = rng.choice(phrases.ATTRIBUTIONS)
        yield Line(frame.format(request=text, name=rng.choice(phrases.NAMES)), CLEAN, "attributed")


def _task_texts(data: Path) -> list[str]:
    rows = rows_of(data / "moderation" / "mod_benign_requests.jsonl.gz")
    return [row["text"] for row in rows if row["source"] in TASKS - {"ifeval"}]


_SPACE = re.compile(r"\W+")


def _key(text: str) -> str:
    return _SPACE.sub(" ", text).strip().lower()


def key_of(text: str) -> str:
    """A text without case, punctuation and spacing: texts with the same key count as the same."""
    return _key(text)


def _fresh(key: tuple[str, str], seen: set[tuple[str, str]]) -> bool:
    if key in seen:
        return False
    seen.add(key)
    return True
