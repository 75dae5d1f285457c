"""Debates as experiments: any judges on labelled items, and learning from batch to batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lazaretto.errors import InputError
from lazaretto.gates.content.debate import DebateSettings, Transcript, hold_debates
from lazaretto.gates.content.library import CaseLibrary
from lazaretto.gates.content.panel import Panel
from lazaretto.gates.content.records import Case, Label
from lazaretto.learn.curate import LabelledContent
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.debate.air_bench import figures, items_of
from lazaretto_lab.studies.debate.panels import library_of, panel_of, remembering_embedder

_KNOWN = {
    "kind", "part", "limit", "jury", "work", "library", "rounds", "adaptive", "without", "risk_first", "precedents",
    "models", "at_once", "batches", "learns", "quoted",
}  # fmt: skip


def _checked(settings: Mapping[str, Any]) -> None:
    unknown = sorted(set(settings) - _KNOWN)
    if unknown:
        raise InputError("settings", f"unknown: {', '.join(unknown)}", f"Use: {', '.join(sorted(_KNOWN))}")


def estimate(settings: Mapping[str, Any], seed: int) -> tuple[int, int]:
    """(items, calls of a language model at most) that one unit will ask for; asking again is not counted."""
    if "quoted" in settings:
        return 0, 0
    items = len(items_of(settings["kind"], settings.get("part", "dev"), int(settings.get("limit", 0)), seed))
    if settings.get("jury") != "chat":
        return items, 0
    without = set(settings.get("without", ()))
    debaters = len({"strict", "loose"} - without)
    return items, items * (1 + ("supporter" not in without) + debaters * int(settings.get("rounds", 2)))


def _judge(
    panel: Panel, items: Sequence[LabelledContent], settings: Mapping[str, Any], context: RunContext
) -> dict[str, Transcript | InputError]:
    debate = DebateSettings(int(settings.get("rounds", 2)), bool(settings.get("adaptive", False)))
    found: dict[str, Transcript | InputError] = {}

    async def run_all() -> None:
        contents: Iterable[Any] = (item.content for item in items)
        async for content, outcome in hold_debates(panel, contents, debate, at_once=int(settings.get("at_once", 16))):
            found[content.id] = outcome
            context.progress(len(found) / len(items), content.id)

    asyncio.run(run_all())
    return found


def _measures(items: Sequence[LabelledContent], found: Mapping[str, Transcript | InputError]) -> dict[str, Any]:
    truth = [item.truth is Label.UNSAFE for item in items]
    said, undecided = [], []
    for item in items:
        outcome = found[item.content.id]
        transcript = outcome if isinstance(outcome, Transcript) else None
        said.append(transcript is None or transcript.finding.label is Label.UNSAFE)
        undecided.append(transcript is None or bool(transcript.finding.undecided))
    transcripts = [t for t in found.values() if isinstance(t, Transcript)]
    per_item = max(1, len(transcripts))
    return {
        **figures(truth, said, undecided),
        "calls": sum(t.cost.calls for t in transcripts) / per_item,
        "tokens": sum(t.cost.tokens for t in transcripts) / per_item,
        "prompt_chars": sum(c.prompt_chars for t in transcripts for c in t.role_costs) / per_item,
        "dollars": sum(c.dollars for t in transcripts for c in t.role_costs) / per_item,
        "ms": sum(t.ms for t in transcripts) / per_item,
        "rounds": sum(t.rounds for t in transcripts) / per_item,
    }


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One table of judges on one kind of item: figures over every item, and what they cost.

    A row with ``quoted`` figures repeats what somebody published: nothing is run, and the table says so.
    """
    _checked(settings)
    if "quoted" in settings:
        return {**settings["quoted"], "items": 0, "measured": False}
    items = items_of(settings["kind"], settings.get("part", "dev"), int(settings.get("limit", 0)), seed)
    library = library_of(settings.get("library", "starter"), items)
    return {**_measures(items, _judge(panel_of(settings, library), items, settings, context)), "measured": True}


def learning(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Batches in sequence from an empty library; what was judged enters it with its truth when ``learns`` is on."""
    _checked(settings)
    items = items_of(settings["kind"], settings.get("part", "dev"), int(settings.get("limit", 0)) or 10**9, seed)
    count = int(settings.get("batches", 4))
    batches = stratified(items, count, seed)
    learnt: list[Case] = []
    out: dict[str, Any] = {"curve": []}
    for number, batch in enumerate(batches, 1):
        library = CaseLibrary(learnt, remembering_embedder()) if learnt and settings.get("learns") else None
        measured = _measures(batch, _judge(panel_of(settings, library), batch, settings, context))
        out[f"f1_batch_{number}"] = measured["f1"]
        out["curve"].append(measured["f1"])
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
