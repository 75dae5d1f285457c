"""What reading costs: a note with and without the models, tokens encoded per text, sessions and memory of a process.

    python lab/benchmarks/reading_cost.py --label after          # writes lab/results/reading_cost/after.json
    PYTHONPATH=OTHER/src python lab/benchmarks/reading_cost.py --label before     # the same of another tree
    python lab/benchmarks/reading_cost.py --table                # the section of docs/performance.md from both

Notes of thirteen words (``reading_notes.txt``; no two speak of the same) go through `recommended` and `minimal` in
turn, warm, in one process; the ratio is of processor time. Tokens are counted where the encoder runs: those of pairs
of claims apart, those of texts against the text's own tokens ([CLS] and [SEP] included).

``parts`` says where the time of a note goes: processor milliseconds of each part without the parts it calls, counted in
its own thread; ``rest`` is the loops, threads and the ledger, of which `minimal` has most, too.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import json
import platform
import resource
import statistics
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from performance_page import write_section

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "reading_cost"
NOTES = (HERE / "reading_notes.txt").read_text(encoding="utf-8").splitlines()
DEV_NOTES = HERE.parents[1] / "tests" / "data" / "dev_work_notes.toml"
WARM = 6
_MEMORY, _CLAIMS, _JURY = "gates.memory", "gates.memory.claims", "gates.content.jury"
PARTS = (
    ("views", "reading.text", "views"),
    ("languages", "reading.text", "Languages"),
    ("languages", "reading.text", "Reading.unknown"),
    ("languages", "reading.text", "Reading.language"),
    ("word pieces", "models.minilm.encoder", "window_texts"),
    ("word pieces", f"{_JURY}.scorer", "JuryModels._tokens"),
    ("word pieces", "reading.text", "pieces_of"),
    ("screener, else", f"{_MEMORY}.text_screener", "TextScreener._screen"),
    ("claims, cut out", f"{_CLAIMS}.pairs", "claims_of"),
    ("claims, missing ones", f"{_CLAIMS}.pairs", "ClaimReader.catch_up"),
    ("claims, the nearest", f"{_CLAIMS}.judge", "ClaimJudge._near"),
    ("claims, else", f"{_CLAIMS}.judge", "ClaimJudge.judge"),
    ("memory gate, else", f"{_MEMORY}.gate", "MemoryGate._examine_text"),
    ("jury, case library", "gates.content.gate", "ContentGate.panel_for"),
    ("jury, preparing", f"{_JURY}.views", "JuryPreprocessor._prepare"),
    ("jury, looks", f"{_JURY}.scorer", "JuryModels.glance"),
)
"""What is counted by itself: label, module and name; those that an older tree does not have are named and left out."""


def sample_texts() -> dict[str, str]:
    """The texts whose tokens are counted: prose, and a note of four lines."""
    prose = " ".join(NOTES)
    return {
        "13-word note": "A gull took the sandwich of the mayor while she opened the fair.",
        "four-line note": "\n".join(line.replace("the", "our") for line in NOTES[:4]),
        "1,000 characters": prose[200:1200],
        "8 kB": " ".join(" ".join(NOTES[n::step]) for step in (1, 3, 7) for n in range(step))[:8000],
    }


READERS = {
    "gates.memory.text_screener": "screener", "gates.content.jury.scorer": "jury", "reading.text": "plain encoder",
    "gates.memory.claims.relation": "pairs of claims", "models.deep.network": "second reader",
}  # fmt: skip
"""Who has something read, by the module that asks the encoder."""


def asking() -> str:
    """Who has something read right now."""
    frame = sys._getframe(2)
    while frame is not None:
        name = READERS.get(str(frame.f_globals.get("__name__", "")).removeprefix("lazaretto."))
        if name is not None:
            return name
        frame = frame.f_back  # type: ignore[assignment]
    return "others"


@contextmanager
def counted(by_reader: dict[str, Counter[str]] | None = None) -> Iterator[Counter[str]]:
    """Windows and tokens that encoders read meanwhile; ``pairs``: those of pairs of claims. ``by_reader`` is told who
    had them read, and how many tokens an encoder read again that it had read already."""
    from lazaretto.gates.memory.claims import relation
    from lazaretto.models.minilm.encoder import Encoder

    found, seen = Counter[str](), set[tuple[int, tuple[int, ...]]]()
    shared = ("shared_relation_model", "shared_second_model")  # a tree may have one of them alone
    models, plain = [getattr(relation, name)() for name in shared if hasattr(relation, name)], Encoder.token_states

    def counting(self: Encoder, windows: Any) -> Any:
        pairs = [vars(model).get(name) for model in models for name in ("_quick", "_full")]
        kind = "pairs" if any(self is one for one in pairs) else "texts"
        found[f"{kind} windows"] += len(windows)
        found[f"{kind} tokens"] += sum(map(len, windows))
        if by_reader is not None:
            who = by_reader.setdefault(asking(), Counter())
            for window in map(tuple, windows):
                again = (id(self), window) in seen
                seen.add((id(self), window))
                who.update({"windows": 1, "tokens": len(window), "tokens again": len(window) * again})
        return plain(self, windows)

    Encoder.token_states = counting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Encoder.token_states = plain  # type: ignore[method-assign]


class Parts:
    """Processor time by part, in whatever thread it is spent."""

    def __init__(self) -> None:
        self.ms: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._here = threading.local()

    def wrap(self, owner: Any, name: str, label: str) -> None:
        """Count what a function does from now on."""
        plain = getattr(owner, name)
        given: Any = plain.fget if isinstance(plain, property) else plain

        @functools.wraps(given, updated=())
        def counting(*args: Any, **kwargs: Any) -> Any:
            inner: list[float] = self._here.__dict__.setdefault("inner", [])
            inner.append(0.0)
            started = time.thread_time()
            try:
                return given(*args, **kwargs)
            finally:
                took = time.thread_time() - started
                self.ms[label] += (took - inner.pop()) * 1000
                self.calls[label] += 1
                if inner:
                    inner[-1] += took

        setattr(owner, name, property(counting) if isinstance(plain, property) else counting)

    def wrap_all(self) -> None:
        """Every part that this tree has, and each encoder's passes."""
        from lazaretto.models.minilm.encoder import Encoder

        for label, module, path in PARTS:
            try:
                owner: Any = importlib.import_module(f"lazaretto.{module}")
                *outer, name = path.split(".")
                for one in outer:
                    owner = getattr(owner, one)
                getattr(owner, name)
            except (ImportError, AttributeError):
                print(f"not in this tree, so not counted by itself: {module}.{path} ({label})", file=sys.stderr)
                continue
            self.wrap(owner, name, label)
        self.wrap(Encoder, "token_states", "encoder passes")


def parts_of(guard: Any) -> dict[str, Any]:
    """Where the time of a note goes, in milliseconds, and how often each part is asked; in a store of its own, of other
    notes than those of ``note_times``."""
    from lazaretto import kept_texts

    parts = Parts()
    parts.wrap_all()
    kept_texts.forget()
    notes = [line.replace("The ", "Our ").replace(" the ", " that ") for line in NOTES]
    whole = 0.0
    for text in notes:
        started = time.process_time()
        guard.remember(text, agent="dan")
        whole += (time.process_time() - started) * 1000
    found = {
        label: {"ms": round(ms / len(notes), 2), "calls": round(parts.calls[label] / len(notes), 2)}
        for label, ms in sorted(parts.ms.items(), key=lambda one: -one[1])
    }
    rest = (whole - sum(parts.ms.values())) / len(notes)
    return {**found, "rest": {"ms": round(rest, 2), "calls": 1.0}}


def note_times(guards: dict[str, Any]) -> dict[str, list[float]]:
    """Processor milliseconds of each note by each guard, taking turns."""
    taken: dict[str, list[float]] = {name: [] for name in guards}
    for text in NOTES:
        for name, guard in guards.items():
            started = time.process_time()
            guard.remember(text, agent="ada")
            taken[name].append((time.process_time() - started) * 1000)
    return {name: several[WARM:] for name, several in taken.items()}


def crew_notes(guard: Any) -> dict[str, float]:
    """Notes of crews that work with their facts in other words each time (those of ``service_load.py``): processor
    milliseconds of a note, and how many pairs of claims are read for it."""
    from service_load import note

    every = [(f"clerk{client}", note(client, number)) for number in range(1, 31) for client in (201, 202, 203)]
    taken = list[float]()
    with counted() as counts:
        for agent, text in every:
            started = time.process_time()
            guard.remember(text, agent=agent)
            taken.append((time.process_time() - started) * 1000)
    later = taken[len(taken) // 3 :]
    return {
        "notes": len(every),
        "mean_ms": round(statistics.mean(later), 2),
        "pairs": round(counts["pairs windows"] / len(every), 2),
        "texts": round(counts["texts windows"] / len(every), 2),
    }


def tokens_of(guard: Any) -> dict[str, dict[str, Any]]:
    """Per text: its own tokens, those encoded, the ratio, and who had them read."""
    from lazaretto import kept_texts
    from lazaretto.models.minilm import minilm_tokenizer

    found = {}
    for name, text in sample_texts().items():
        kept_texts.forget()  # its sentences were read as notes
        own = len(minilm_tokenizer().encode(text).ids)
        readers: dict[str, Counter[str]] = {}
        with counted(readers) as counts:
            guard.remember(text, agent="bea")
        ratio = round(counts["texts tokens"] / own, 2)
        found[name] = {"own": own, **counts, "ratio": ratio, "readers": {who: dict(n) for who, n in readers.items()}}
    return found


def second_reader_share(guard: Any) -> dict[str, float]:
    """Of the development notes, the share that is asked of the second reader: mere traffic here, nothing is judged."""
    tables = tomllib.loads(DEV_NOTES.read_text(encoding="utf-8"))
    notes = [note for table in tables.values() for note in table["notes"]]
    asked = answered = 0
    for note in notes:
        decision = guard.check(note, agent="cy", channel="message", source="agent_message")
        run = next((one for one in decision.runs if one.gate == "second_reader"), None)
        asked += run is not None and run.status.value == "ran"
        answered += any(one.gate == "second_reader" and one.rule != "no_opinion" for one in decision.verdicts)
    return {"notes": len(notes), "asked": asked, "answered": answered}


def sessions() -> int:
    """Sessions of onnxruntime that live in this process."""
    import onnxruntime

    return sum(isinstance(one, onnxruntime.InferenceSession) for one in gc.get_objects())


def measured() -> dict[str, Any]:
    """All of it, in this process."""
    from lazaretto import Policy, SyncGuard

    with tempfile.TemporaryDirectory() as folder:
        guards = {
            name: SyncGuard.open(f"sqlite:///{Path(folder) / f'{name}.db'}", getattr(Policy, name)())
            for name in ("minimal", "recommended")
        }
        times = note_times(guards)
        medians = {name: round(statistics.median(several), 2) for name, several in times.items()}
        found = {
            "ratio": round(medians["recommended"] / medians["minimal"], 2),
            "median_ms": medians,
            "tokens": tokens_of(guards["recommended"]),
            "crew_notes": crew_notes(guards["recommended"]),
            "second_reader": second_reader_share(guards["recommended"]),
            "sessions": sessions(),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "machine": platform.machine(),
            "processor_ms": times,
        }
        guards["parts"] = SyncGuard.open(f"sqlite:///{Path(folder) / 'parts.db'}", Policy.recommended())
        found["parts"] = parts_of(guards["parts"])
        for guard in guards.values():
            guard.close()
    return found


def table(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Both side by side."""
    rows = [
        ("13-word note, `recommended` / `minimal`, processor time", "ratio"),
        ("sessions of onnxruntime", "sessions"),
        ("peak memory, MB", "peak_mb"),
    ]
    lines = [
        "## One reading of a text",
        "",
        "`python lab/benchmarks/reading_cost.py --label after`, then `--table` (raw: lab/results/reading_cost).",
        "*Before* every gate took a text apart by itself. Tokens are those of texts, without pairs of claims.",
        f"Measured on {after['machine']}, beside other work.",
        "",
        "| | before | after |",
        "|---|---|---|",
        *(f"| {words} | {before[key]} | {after[key]} |" for words, key in rows),
    ]
    for name in after["tokens"]:
        cells = [f"{one['tokens'][name]['texts tokens']} ({one['tokens'][name]['ratio']})" for one in (before, after)]
        own = after["tokens"][name]["own"]
        lines.append(f"| tokens encoded, {name} of {own} tokens (ratio) | {cells[0]} | {cells[1]} |")
    for name, one in after["tokens"].items():
        words = ", ".join(f"{who} {n['tokens'] / one['own']:.2f}" for who, n in one.get("readers", {}).items())
        lines.append(f"| of which by reader, tokens per token, {name} | | {words} |")
    asked = [f"{one['second_reader']['answered']} of {one['second_reader']['notes']}" for one in (before, after)]
    lines.append(f"| development notes that a second reader read | {asked[0]} | {asked[1]} |")
    crews = [one.get("crew_notes") for one in (before, after)]
    cells = [f"{one['mean_ms']} ({one['pairs']:g} pairs)" if one else "" for one in crews]
    lines.append(f"| note of a crew, processor ms (pairs of claims read for it) | {cells[0]} | {cells[1]} |")
    lines += ["", "Where a note's processor time goes, milliseconds (times asked):", "", "| | before | after |"]
    lines.append("|---|---|---|")
    for label in dict.fromkeys((*before["parts"], *after["parts"])):
        both = (one["parts"].get(label) for one in (before, after))
        cells = [f"{one['ms']} ({one['calls']:g})" if one else "" for one in both]
        lines.append(f"| {label} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", help="write the result under this name")
    parser.add_argument("--table", action="store_true", help="renew the section of docs/performance.md")
    options = parser.parse_args()
    if options.table:
        before, after = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("before", "after"))
        write_section("one reading", table(before, after))
        return
    found = measured()
    print(json.dumps({key: value for key, value in found.items() if key != "processor_ms"}, indent=1))
    if options.label:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{options.label}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
