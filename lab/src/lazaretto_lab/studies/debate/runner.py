"""Debates as experiments: any judges on labelled items, and learning from batch to batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from lazaretto.cases.library import CaseLibrary
from lazaretto.cases.records import Case, Label
from lazaretto.errors import InputError
from lazaretto.gates.content.debate import DebateSettings, Transcript, hold_debates, report_data
from lazaretto.gates.content.records import Panel
from lazaretto.learn.curate import LabelledContent
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.studies.debate.air_bench import figures, items_of
from lazaretto_lab.studies.debate.panels import library_of, panel_of, remembering_embedder

_KNOWN = {
    "kind", "part", "limit", "jury", "work", "library", "rounds", "adaptive", "without", "risk_first", "precedents",
    "models", "model", "max_tokens", "at_once", "batches", "learns", "quoted", "quick",
}  # fmt: skip
_COSTS = ("calls", "tokens", "prompt_chars", "dollars", "ms", "rounds")
"""What one debate takes; the figures are means over items."""
_LANGUAGE_MODELS = ("chat", "folder", "question")
"""Juries whose every answer is kept, with what it cost."""
_KEPT = ("id", "truth", "label", "outcome", "risk", "rule", "undecided", "rounds")
"""What is kept of an item that other juries judged."""


def _checked(settings: Mapping[str, Any]) -> None:
    unknown = sorted(set(settings) - _KNOWN)
    if unknown:
        raise InputError("settings", f"unknown: {', '.join(unknown)}", f"Use: {', '.join(sorted(_KNOWN))}")


def estimate(settings: Mapping[str, Any], seed: int) -> tuple[int, int]:
    """(items, calls of a language model at most) that one unit will ask for; asking again is not counted."""
    if "quoted" in settings:
        return 0, 0
    items = len(items_of(settings["kind"], settings.get("part", "dev"), int(settings.get("limit", 0)), seed))
    if settings.get("jury") not in _LANGUAGE_MODELS:
        return items, 0
    if settings["jury"] == "question":
        return items, items
    without = set(settings.get("without", ()))
    debaters = len({"strict", "loose"} - without)
    return items, items * (1 + ("supporter" not in without) + debaters * int(settings.get("rounds", 2)))


def _judge(
    panel: Panel, items: Sequence[LabelledContent], settings: Mapping[str, Any], context: RunContext
) -> list[dict[str, Any]]:
    """What came of every item. Each is written down when it is judged, so that an interrupted unit goes on from there;
    what language models said is kept beside it.
    """
    debate = DebateSettings(int(settings.get("rounds", 2)), bool(settings.get("adaptive", False)))
    kept = context.workdir / "outcomes.jsonl"
    found = _read_outcomes(kept)
    truth = {item.content.id: item.truth for item in items}
    left = [item.content for item in items if item.content.id not in found]

    async def run_all() -> None:
        async for content, outcome in hold_debates(panel, left, debate, at_once=int(settings.get("at_once", 16))):
            row = found[content.id] = outcome_row(content.id, truth[content.id], outcome)
            _append(kept, row)
            if settings.get("jury") in _LANGUAGE_MODELS and isinstance(outcome, Transcript):
                _append(context.workdir / "transcripts.jsonl", report_data(outcome))
            context.progress(len(found) / len(items), content.id)

    asyncio.run(run_all())
    return [found[item.content.id] for item in items]


def _read_outcomes(path: Path) -> dict[str, dict[str, Any]]:
    """Items judged before an interruption; a line that was not written to its end does not count."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else ():
        if line.endswith(b"\n"):
            row = orjson.loads(line)
            found[row["id"]] = row
    return found


def _append(path: Path, row: Mapping[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def outcome_row(item: str, truth: Label, outcome: Transcript | InputError) -> dict[str, Any]:
    """One item's line in the raw results. Content that cannot be judged at all is undecided, and said to be unsafe."""
    if isinstance(outcome, InputError):
        nothing = dict.fromkeys(_COSTS, 0)
        return {
            "id": item, "truth": truth.value, "label": "unsafe", "outcome": "review", "risk": 0.5, "rule": "undecided",
            "undecided": str(outcome), "scores": {}, "faults": [], **nothing,
        }  # fmt: skip
    finding, bills = outcome.finding, outcome.role_costs
    return {
        "id": item,
        "truth": truth.value,
        "label": finding.label.value,
        "outcome": finding.outcome.value,
        "risk": finding.risk,
        "rule": finding.rule,
        "undecided": finding.undecided,
        "scores": {role.value: list(scores) for role, scores in outcome.scores.items()},
        "faults": list(outcome.faults),
        "calls": outcome.cost.calls,
        "tokens": outcome.cost.tokens,
        "prompt_chars": sum(bill.prompt_chars for bill in bills),
        "dollars": sum(bill.dollars for bill in bills),
        "ms": outcome.ms,
        "rounds": outcome.rounds,
    }


def measures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures over every item of a row, and what one costs on average."""
    truth = [row["truth"] == Label.UNSAFE for row in rows]
    said = [row["label"] == Label.UNSAFE for row in rows]
    undecided = [bool(row["undecided"]) for row in rows]
    review = sum(row["outcome"] == "review" and not row["undecided"] for row in rows)
    costs = {name: sum(row[name] for row in rows) / max(1, len(rows)) for name in _COSTS}
    ranked = {"auc": auc(truth, [row["risk"] for row in rows])} if 0 < sum(truth) < len(truth) else {}
    return {**figures(truth, said, undecided), **ranked, "review": review, **costs}


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One table of judges on one kind of item: figures over every item, and what they cost.

    A row with ``quoted`` figures repeats what somebody published: nothing is run, and the table says so.
    """
    _checked(settings)
    if "quoted" in settings:
        return {**settings["quoted"], "items": 0, "measured": False}
    items = items_of(settings["kind"], settings.get("part", "dev"), int(settings.get("limit", 0)), seed)
    library = library_of(settings.get("library", "starter"), items)
    rows = _judge(panel_of(settings, library), items, settings, context)
    return {**measures(rows), "measured": True, "outcomes": kept(rows, settings)}


def kept(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The raw result of every item: what it was, what was ruled, and what language models took for it."""
    if settings.get("jury") in _LANGUAGE_MODELS:
        return [dict(row) for row in rows]
    return [{**{name: row[name] for name in _KEPT}, "risk": round(row["risk"], 5)} for row in rows]


def learning(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Batches in sequence from an empty library; what was judged enters it with its truth when ``learns`` is on."""
    _checked(settings)
    items = items_of(settings["kind"], settings.get("part", "dev"), int(settings.get("limit", 0)) or 10**9, seed)
    count = int(settings.get("batches", 4))
    batches = stratified(items, count, seed)
    learnt: list[Case] = []
    out: dict[str, Any] = {"curve": [], "outcomes": []}
    for number, batch in enumerate(batches, 1):
        library = CaseLibrary(learnt, remembering_embedder()) if learnt and settings.get("learns") else None
        rows = _judge(panel_of(settings, library), batch, settings, context)
        measured = measures(rows)
        out[f"f1_batch_{number}"] = measured["f1"]
        out["curve"].append(measured["f1"])
        out["outcomes"].append(kept(rows, settings))
        learnt += [Case(i.truth, i.content.text, i.content.description, source="batch") for i in batch]
    return {**out, "items": len(items), "f1_mean": sum(out["curve"]) / count}


def stratified(items: Sequence[LabelledContent], count: int, seed: int) -> list[list[LabelledContent]]:
    """Shuffled batches that all hold the same share of risky items."""
    import random

    rng = random.Random(seed)
    batches: list[list[LabelledContent]] = [[] for _ in range(count)]
    for label in Label:
        side = sorted((i for i in items if i.truth is label), key=lambda i: i.content.id)
        rng.shuffle(side)
        for position, item in enumerate(side):
            batches[position % count].append(item)
    return batches
