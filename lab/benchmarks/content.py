"""What the content gate does to people who ask ordinary things, and whether its reasons are reasons.

    python lab/benchmarks/content.py everyday
    python lab/benchmarks/content.py faithfulness --data ../shared/data
    python lab/benchmarks/content.py languages    --data ../shared/data
    python lab/benchmarks/content.py cost         --data ../shared/data
    python lab/benchmarks/content.py precedents   --data ../shared/data
    python lab/benchmarks/content.py learning     --work runs/jury

``everyday`` puts the hundred everyday requests through the guard with its default policy, and through the gate alone;
``faithfulness`` takes the quoted phrases out of texts that were not called safe, and as many random phrases of the same
length; ``languages`` shows what becomes of other languages; ``cost`` times the gate on AIR-Bench's items, beside one
pass of the encoder; ``precedents`` brings cases to forty items and counts what a reader said of each (``--read FILE``
writes them out to be read; the judgements are in ``precedents_by_hand.json``); ``learning`` what corrections by a
person change. Every command writes its raw rows to ``lab/results/content/NAME.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import statistics
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from lazaretto.cases.library import starter_cases
from lazaretto.gates.content.debate import Transcript, hold_debate
from lazaretto.gates.content.gate import content_settings, make_panel, ready_library
from lazaretto.gates.content.jury.scorer import phrases
from lazaretto.gates.content.records import Content, Outcome, Panel, Role
from lazaretto_lab.training.jury.everyday import everyday_requests

RESULTS = Path(__file__).parents[1] / "results" / "content"
BY_HAND = Path(__file__).with_name("precedents_by_hand.json")


def gate_panel(**table: Any) -> Panel:
    """The judges a new user has."""
    return make_panel(content_settings(table), ready_library(starter_cases()))


def judged(panel: Panel, text: str, description: str = "") -> Transcript:
    return asyncio.run(hold_debate(panel, Content("item", text, description=description)))


def everyday(_: argparse.Namespace) -> dict[str, Any]:
    """Outcomes by topic."""
    import tempfile

    from lazaretto.guard.sync_guard import SyncGuard

    panel, rows = gate_panel(), []
    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/everyday.db") as guard:
        for request in everyday_requests():
            finding = judged(panel, request.text).finding
            decision = guard.check(request.text, agent="user", channel="message")
            row = {"topic": request.topic, "text": request.text, "outcome": finding.outcome.value}
            rows.append({**row, "risk": round(finding.risk, 4), "guard": decision.ruling.label, "rule": decision.rule})
    counts = {k: Counter(r[k] for r in rows) for k in ("outcome", "guard")}
    by_topic = {t: Counter(r["outcome"] for r in rows if r["topic"] == t) for t in {r["topic"] for r in rows}}
    return {"counts": counts, "by topic": by_topic, "rows": rows}


def faithfulness(arguments: argparse.Namespace) -> dict[str, Any]:
    """How far the log-odds fall without the quoted phrases, and without random ones of the same length."""
    import math

    panel, rng, rows = gate_panel(quick=False, without=["retrieval"]), random.Random(7), []
    for text in _harmful_texts(arguments.data, arguments.items):
        transcript = judged(panel, text)
        if transcript.finding.outcome is Outcome.SAFE:
            continue
        speech = next(s for s in transcript.speeches if s.role is Role.STRICT and s.round == 1)
        places = [(q.data["start"], q.data["end"]) for q in speech.quotes if "start" in q.data]
        every = phrases(text, 0, len(text))
        if not places or len(every) < 2 * len(places):
            continue
        others = rng.sample([p for p in every if p not in places] or every, min(len(places), len(every) - len(places)))
        odds = math.log(max(transcript.finding.risk, 1e-6) / max(1 - transcript.finding.risk, 1e-6))
        falls = []
        for cut in (places, others):
            risk = judged(panel, _without(text, cut)).finding.risk
            falls.append(odds - math.log(max(risk, 1e-6) / max(1 - risk, 1e-6)))
        share = sum(e - s for s, e in places) / len(text)
        rows.append({"quoted": round(falls[0], 3), "random": round(falls[1], 3), "share": round(share, 3)})
    quoted, other = ([r[k] for r in rows] for k in ("quoted", "random"))
    return {
        "texts": len(rows),
        "mean fall without the quoted phrases": round(statistics.mean(quoted), 3),
        "mean fall without random phrases": round(statistics.mean(other), 3),
        "risk falls": round(statistics.mean(q > 0 for q in quoted), 3),
        "falls more than with random ones": round(
            statistics.mean(q > o for q, o in zip(quoted, other, strict=True)), 3
        ),
        "share of the text": round(statistics.mean(r["share"] for r in rows), 3),
        "rows": rows,
    }


def _without(text: str, places: list[tuple[int, int]]) -> str:
    for start, end in sorted(places, reverse=True):
        text = text[:start] + text[end:]
    return text


def _harmful_texts(data: Path, count: int) -> list[str]:
    rows = [json.loads(line) for line in (data / "air_bench" / "dev_text.jsonl").read_text().splitlines()]
    texts = [r["text"] for r in rows if r["label"] == 1 and 12 <= len(r["text"].split()) <= 120]
    with gzip.open(data / "moderation" / "mod_harm_requests.jsonl.gz", "rt") as lines:
        more = [r["text"] for r in map(json.loads, lines) if r["lang"] == "en" and len(r["text"].split()) >= 10]
    return random.Random(3).sample(texts, min(count, len(texts))) + random.Random(3).sample(more, min(count, len(more)))


def languages(arguments: argparse.Namespace) -> dict[str, Any]:
    """Outcomes of the same prompts in several languages: what is not English must not be called safe or unsafe."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    panel = gate_panel(without=["retrieval"])
    with gzip.open(arguments.data / "moderation" / "mod_xsafety_multilingual.jsonl.gz", "rt") as lines:
        rows = [r for r in map(json.loads, lines) if r["lang"] in ("en", "de", "fr", "es", "zh", "ar", "hi")]
    random.Random(5).shuffle(rows)
    for row in rows:
        taken = found[row["lang"]]
        if sum(taken.values()) < arguments.items:
            finding = judged(panel, row["text"]).finding
            word = "undecided" if finding.undecided else finding.outcome.value
            taken[f"{row['label']}: {word}"] += 1
    return {language: dict(counts) for language, counts in sorted(found.items())}


def cost(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds per item, by items; and the same in passes of the encoder over a text of AIR-Bench's mean length."""
    from lazaretto.models.minilm import shared_minilm

    table: dict[str, Any] = {}
    text = "The harbour master wrote down who came ashore, what they carried and where they went. " * 11
    shared_minilm().embed_texts([text])
    passes = []
    for _ in range(9):
        started = time.perf_counter()
        shared_minilm().embed_texts([text])
        passes.append(time.perf_counter() - started)
    unit = statistics.median(passes)
    table["one pass of the encoder over 190 tokens, ms"] = round(unit * 1000, 1)
    sets = {
        kind: [
            (r.get("text") or "", r.get("description") or "")
            for r in map(json.loads, (arguments.data / "air_bench" / f"dev_{kind}.jsonl").read_text().splitlines())
        ]
        for kind in ("text", "image", "pair")
    }
    sets["everyday requests"] = [(r.text, "") for r in everyday_requests()]
    for name, items in sets.items():
        chosen = random.Random(2).sample(items, min(arguments.items, len(items)))
        for quick in (False, True):
            panel = gate_panel(quick=quick)
            judged(panel, "warm up")
            spent, settled = [], 0
            for words, description in chosen:
                started = time.perf_counter()
                marked = (f"{words} {int(quick)}" * bool(words), f"{description} {int(quick)}" * bool(description))
                settled += judged(panel, *marked).rounds == 0  # marked: models remember what they read
                spent.append(time.perf_counter() - started)
            table[f"{name}, {'quick' if quick else 'always a debate'}"] = {
                "mean ms": round(1000 * statistics.mean(spent), 1),
                "median ms": round(1000 * statistics.median(spent), 1),
                "mean in passes": round(statistics.mean(spent) / unit, 2),
                "settled by one look": round(settled / len(chosen), 3),
            }
    return table


def precedents(arguments: argparse.Namespace) -> dict[str, Any]:
    """Cases brought to forty items of AIR-Bench by two libraries, each with a reader's judgement.

    With ``--read`` they are brought anew and written out for a reader; without, those of the last time are counted.
    """
    if arguments.read is not None:
        rows = _brought(arguments)
    else:
        rows = json.loads((RESULTS / "precedents.json").read_text(encoding="utf-8"))["rows"]
    said = json.loads(BY_HAND.read_text(encoding="utf-8")) if BY_HAND.is_file() else {}
    rows = [{**row, "judged": said.get(f"{row['item']} {row['case']}", "not judged")} for row in rows]
    table: dict[str, Any] = {}
    for name in ("starter", "imported"):
        here = [row for row in rows if row["library"] == name]
        table[name] = {"items with precedents": len({row["item"] for row in here}), "precedents": len(here)}
        for word in sorted({row["judged"] for row in here}):
            alike = [row for row in here if row["judged"] == word]
            right = sum(row["ruled"] == row["truth"] for row in alike)
            table[name][word] = {"precedents": len(alike), "ruled as the item's truth": right}
    return {"items": 40, **table, "rows": rows}


def _brought(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from lazaretto.learn.curate import labelled_rows
    from lazaretto_lab.studies.debate.panels import library_of

    chosen = []
    for kind, count in (("text", 20), ("image", 10), ("pair", 10)):
        items = labelled_rows(arguments.data / "air_bench" / f"dev_{kind}.jsonl")
        chosen += random.Random(40).sample(items, count)
    rows, pages = [], []
    for name in ("starter", "imported"):
        panel = make_panel(content_settings({"quick": False}), library_of(name, chosen))
        for item in chosen:
            transcript = asyncio.run(hold_debate(panel, item.content))
            pages.append(f"# {name} {item.content.id} ({item.truth.value})\n{transcript.prepared.words[:700]}\n")
            for found in transcript.briefing.precedents:
                row = {"library": name, "item": item.content.id, "truth": item.truth.value, "case": found.case.id}
                row |= {"ruled": found.case.label.value, "similarity": round(found.similarity, 3), "why": found.why}
                rows.append(row)
                known = f"- {item.content.id} {found.case.id} {found.case.label.value} {found.similarity:.2f}"
                pages.append(f"{known} {found.why}\n  {found.case.words[:400]}\n")
    arguments.read.write_text("\n".join(pages), encoding="utf-8")
    return rows


def learning(arguments: argparse.Namespace) -> dict[str, Any]:
    """Errors of the best guess on foreign sources, by models that never saw them, after N corrections by a person.

    Corrections are random rows of the same sources with their true label, as cases of the library; the rest is judged.
    """
    import numpy as np

    from lazaretto.cases.records import Case, Label, Precedent
    from lazaretto.gates.content.jury.debaters import precedent_evidence
    from lazaretto.reading.text import ReadVectors
    from lazaretto_lab.training.jury.evaluation import PULL, debate_odds, fit, load_items

    items = load_items(arguments.work)
    lines = (arguments.work / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    rng, sources = np.random.default_rng(4), ("coconot_contrast", "phtest", "catqa", "davidson", "toxigen_prompts")
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero((items.source == s) & (items.head == "text")))[:400] for s in sources]
    )
    rng.shuffle(chosen)
    taught, asked = chosen[:1000], chosen[1000:]
    texts = [json.loads(lines[items.rows[i]])["text"] for i in chosen]
    vectors = ReadVectors().embed_texts(texts)
    near = vectors[1000:] @ vectors[:1000].T
    odds = np.zeros(len(asked))
    for fold in np.unique(items.fold[asked]):
        here = items.fold[asked] == fold
        odds[here] = debate_odds(fit(items.pick(items.fold != fold), "text"), items.logits[asked][here])
    labels, table = items.label[asked], {}
    cases = [Case(Label.UNSAFE if items.label[i] else Label.SAFE, "x") for i in taught]
    for count in (0, 50, 200, 1000):
        evidence = np.zeros(len(asked))
        for row in range(len(asked)) if count else ():
            best = np.argsort(-near[row, :count])[:3]
            found = [Precedent(cases[c], float(near[row, c])) for c in best if near[row, c] >= 0.4]
            evidence[row] = precedent_evidence(found) if found else 0.0
        wrong = ((odds + PULL * evidence) >= 0) != (labels > 0)
        table[f"{count} corrections"] = {
            "errors": round(float(wrong.mean()), 4),
            "harmless guessed unsafe": round(float(wrong[labels == 0].mean()), 4),
            "harmful guessed safe": round(float(wrong[labels == 1].mean()), 4),
            "asked": len(asked),
        }
    return table


def main() -> None:
    """One command, its result shown and kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {f.__name__: f for f in (everyday, faithfulness, languages, cost, precedents, learning)}
    parser.add_argument("command", choices=sorted(commands))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--work", type=Path, default=Path("runs/jury"), help="the folder of a training (learning)")
    parser.add_argument("--read", type=Path, help="where to write what a reader must see (precedents)")
    arguments = parser.parse_args()
    found = commands[arguments.command](arguments)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{arguments.command}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({k: v for k, v in found.items() if k != "rows"}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
