"""Public corpora as matched pairs: the same context with and without an attack.

Mixing an attack corpus with an unrelated benign one measures style, not poisoning. So every poisoned sample here has a
clean twin: the same context with a harmless line, or nothing, where the attack stood. The twin shares ``pair``; an
evaluation keeps both on the same side of every split.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lazaretto.errors import InputError
from lazaretto_lab.training.screener import phrases


@dataclass(frozen=True, slots=True)
class Sample:
    """One text with its truth."""

    text: str
    poisoned: bool
    source: str
    """The corpus it comes from; leave-one-source-out splits by this."""
    kind: str
    """Attack kind, or the kind of benign text."""
    spans: tuple[tuple[int, int], ...] = ()
    """Where the attack stands."""
    pair: str = ""
    """Twins share it; empty for benign traffic that has no twin."""


TRAIN_LINES, TEST_LINES = phrases.BENIGN_LINES[0::2], phrases.BENIGN_LINES[1::2]
"""Harmless lines of clean twins: those of an evaluation were never seen in training."""
PAIRED_SOURCES = ("bipia_email", "bipia_table", "bipia_code", "injecagent", "asb", "purplellama")
BENIGN_SOURCES = ("tau_bench", "memorybank", "reflexion", "locomo")


def load_source(name: str, data: Path, seed: int, pairs: int = 400, train: bool = False) -> list[Sample]:
    """Matched pairs (or benign traffic) of one source; ``data`` is the folder of development data."""
    if name not in _LOADERS:
        raise InputError("source", f"{name!r} is not a corpus", f"Use one of {', '.join(_LOADERS)}")
    try:
        return list(_LOADERS[name](data, _Dice(f"{name}/{seed}/{train}", TRAIN_LINES if train else TEST_LINES), pairs))
    except FileNotFoundError as error:
        raise InputError("data", f"{error.filename} does not exist", "Name the folder of development data") from None


_BOUNDARY = re.compile(r"\n|[.!?] ")


class _Dice(random.Random):
    """A seeded stream that also knows which harmless lines may be drawn."""

    def __init__(self, seed: str, lines: Sequence[str]) -> None:
        super().__init__(seed)
        self.lines = lines

    def harmless(self) -> str:
        """A harmless line for a clean twin."""
        return self.choice(self.lines)


def poison(context: str, attack: str, position: float) -> tuple[str, tuple[int, int]]:
    """``context`` with ``attack`` as a line of its own, at the natural boundary nearest to ``position`` in [0, 1]."""
    aim = round(position * len(context))
    cuts = [0, len(context), *(m.end() for m in _BOUNDARY.finditer(context))]
    at = min(cuts, key=lambda c: abs(c - aim))
    before, after = context[:at], context[at:]
    lead = "" if not before or before[-1] in "\n " else ("\n" if "\n" in context else " ")
    tail = "" if not after or after[0] in "\n " else ("\n" if before.endswith("\n") else " ")
    start = len(before) + len(lead)
    return before + lead + attack + tail + after, (start, start + len(attack))


def twins(context: str, attack: str, where: tuple[str, str, str], rng: _Dice) -> tuple[Sample, Sample]:
    """The poisoned text and its clean twin; half of the twins get a harmless line in the same place, so that the
    mere presence of a foreign line is no clue. ``where`` is (source, kind, pair)."""
    source, kind, pair = where
    position = rng.choice((0.0, rng.random(), 1.0))
    text, span = poison(context, attack, position)
    clean = context if rng.random() < 0.5 else poison(context, rng.harmless(), position)[0]
    return Sample(text, True, source, kind, (span,), pair), Sample(clean, False, source, "context", (), pair)


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return json.loads(text)


def _bipia(part: str) -> Callable[[Path, _Dice, int], Iterator[Sample]]:
    def load(data: Path, rng: _Dice, pairs: int) -> Iterator[Sample]:
        folder = data / "bipia_train"
        table = _read(folder / ("code_attack_train.json" if part == "code" else "text_attack_train.json"))
        attacks = [(kind, attack) for kind, items in table.items() for attack in items]
        contexts = [_joined(row["context"]) for row in _read(folder / f"{part}_train.jsonl")]
        contexts = [c for c in contexts if len(c) > 40]
        for n in range(pairs):
            kind, attack = attacks[n % len(attacks)]
            yield from twins(rng.choice(contexts), attack, (f"bipia_{part}", kind, f"bipia_{part}/{n}"), rng)

    return load


def _joined(context: str | Sequence[str]) -> str:
    return context if isinstance(context, str) else "\n".join(context).strip()


def _injecagent(data: Path, rng: _Dice, pairs: int) -> Iterator[Sample]:
    cases = injecagent_cases(data)
    rng.shuffle(cases)
    slot = "<Attacker Instruction>"
    for n, case in enumerate(cases[:pairs]):
        template, attack = case["Tool Response Template"], case["Attacker Instruction"]
        start = template.index(slot)
        poisoned = template.replace(slot, attack)
        clean = template.replace(slot, rng.harmless())
        span = (start, start + len(attack))
        yield Sample(poisoned, True, "injecagent", case["Attack Type"], (span,), f"injecagent/{n}")
        yield Sample(clean, False, "injecagent", "context", (), f"injecagent/{n}")


def injecagent_cases(data: Path) -> list[dict[str, Any]]:
    """Tool responses with a slot for an injected instruction, and the instruction."""
    folder = data / "injecagent_base"
    cases: list[dict[str, Any]] = _read(folder / "test_cases_dh_base.json") + _read(folder / "test_cases_ds_base.json")
    return cases


def asb_contexts(data: Path) -> list[str]:
    """What the normal tools of ASB return."""
    return [_tool_output(tool) for tool in _read(data / "asb" / "all_normal_tools.jsonl")]


def _tool_output(tool: dict[str, Any]) -> str:
    return f"{tool['Tool Name']} ({tool['Description']}) returned: {tool['Expected Achievements']}"


def _asb(data: Path, rng: _Dice, pairs: int) -> Iterator[Sample]:
    attacks = _read(data / "asb" / "all_attack_tools.jsonl")
    tools = _read(data / "asb" / "all_normal_tools.jsonl")
    rng.shuffle(attacks)
    for n, row in enumerate(attacks[:pairs]):
        agent = row["Corresponding Agent"].rsplit("/", 1)[-1]
        own = [t for t in tools if t.get("Corresponding Agent", "").rsplit("/", 1)[-1] == agent] or tools
        context = _tool_output(rng.choice(own))
        yield from twins(context, row["Attacker Instruction"], ("asb", row["Attack Type"], f"asb/{n}"), rng)


def _purplellama(data: Path, rng: _Dice, pairs: int) -> Iterator[Sample]:
    rows = _read(data / "purplellama" / "prompt_injection.json")
    contexts = [s.text for s in _tau_bench(data, rng, 400)] + [s.text for s in _memorybank(data, rng, 400)]
    contexts = [c for c in contexts if 60 < len(c) < 1500]
    rng.shuffle(rows)
    for n, row in enumerate(rows[:pairs]):
        where = ("purplellama", row["injection_variant"], f"purplellama/{n}")
        yield from twins(rng.choice(contexts), row["user_input"], where, rng)


def _tau_bench(data: Path, rng: _Dice, count: int) -> Iterator[Sample]:
    runs = _read(data / "tau_bench" / "airline_trajectories_100.json")
    texts = {
        str(m["content"]).strip()
        for run in runs
        for m in run["traj"]
        if m["role"] != "system" and m.get("content") and len(str(m["content"])) > 20
    }
    yield from _benign("tau_bench", texts, rng, count)


def _memorybank(data: Path, rng: _Dice, count: int) -> Iterator[Sample]:
    people = _read(data / "memorybank" / "memory_bank_en.json")
    texts = {
        f"User: {turn['query']} Assistant: {turn['response']}"
        for person in people.values()
        for day in person["history"].values()
        for turn in day
    }
    yield from _benign("memorybank", texts, rng, count)


def _reflexion(data: Path, rng: _Dice, count: int) -> Iterator[Sample]:
    texts: set[str] = set()
    for path in sorted((data / "reflexion_alfworld").glob("*.json")):
        texts.update(memory.strip() for env in _read(path) for memory in env["memory"])
    yield from _benign("reflexion", texts, rng, count)


def _locomo(data: Path, rng: _Dice, count: int) -> Iterator[Sample]:
    texts: set[str] = set()
    for dialogue in _read(data / "locomo" / "locomo8.json"):
        for session in dialogue["observation"].values():
            texts.update(str(row[0]) for rows in session.values() for row in rows)
        for name, turns in dialogue["conversation"].items():
            if name.startswith("session_") and isinstance(turns, list):
                texts.update(f"{t['speaker']}: {t['text']}" for t in turns if t.get("text"))
    yield from _benign("locomo", texts, rng, count)


def tool_outputs(data: Path, seed: int, count: int = 1500) -> list[str]:
    """Benign tool outputs (JSON and the like) for training contexts."""
    rows = sorted(set(_read(data / "injecagent_base" / "attacker_simulated_responses.json").values()))
    return random.Random(f"tool_outputs/{seed}").sample(rows, min(count, len(rows)))


def prose(data: Path, seed: int, count: int = 4000) -> list[str]:
    """Plain statements of many styles, for training contexts: facts, passages, picture descriptions, posts."""
    rng = random.Random(f"prose/{seed}")
    facts = [f"{r['term']}: {r['description']}" for r in _read(data / "agentpoison" / "strategyqa_train_filtered.json")]
    facts += [" ".join(r.get("facts", ())) for r in _read(data / "agentpoison" / "strategyqa_dev.json")]
    passages = [
        t
        for f in ("nq", "hotpotqa")
        for r in _read(data / "poisonedrag" / f"{f}.json").values()
        for t in r["adv_texts"]
    ]
    described = [r["description"] for r in _read(data / "air_bench" / "cases_image.jsonl")]
    with (data / "davidson" / "labeled_data.csv").open(encoding="utf-8", newline="") as file:
        posts = [row["tweet"] for row in csv.DictReader(file)]
    share = count // 4
    kinds = (facts, passages, described, posts)
    return [text for kind in kinds for text in rng.sample([t for t in kind if len(t) > 30], min(share, len(kind) // 2))]


def _benign(source: str, texts: set[str], rng: _Dice, count: int) -> Iterator[Sample]:
    ordered = sorted(texts)
    for text in rng.sample(ordered, min(count, len(ordered))):
        yield Sample(text, False, source, "traffic")


_LOADERS: dict[str, Callable[[Path, _Dice, int], Iterator[Sample]]] = {
    "bipia_email": _bipia("email"),
    "bipia_table": _bipia("table"),
    "bipia_code": _bipia("code"),
    "injecagent": _injecagent,
    "asb": _asb,
    "purplellama": _purplellama,
    "tau_bench": _tau_bench,
    "memorybank": _memorybank,
    "reflexion": _reflexion,
    "locomo": _locomo,
}
