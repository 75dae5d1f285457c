"""What the embedded jury costs per stage, and how it judges words lettered on pictures.

    python benchmarks/jury.py speed
    python benchmarks/jury.py lettering --figstep ../shared/data/figstep
    python benchmarks/jury.py injections

``speed`` gives milliseconds and ratios to one pass of all-MiniLM-L6-v2; ``lettering`` recall on typographic jailbreaks
and false alarms on harmless lists drawn in the same style; ``injections`` how many verdicts move because the content
speaks to its judges (lines that neither training nor the rules were made with, on cases of the starter library).

Milliseconds are of the machine it runs on and of what else runs there; the ratios carry over.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import statistics
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from lazaretto.gates.content.debate import hear
from lazaretto.gates.content.jury import embedded_table
from lazaretto.gates.content.jury.lexicon import lexical_logits
from lazaretto.gates.content.jury.preparing import explicit_probability, open_frames, read_lettering
from lazaretto.gates.content.jury.scoring import JuryModels, shipped_models
from lazaretto.gates.content.library import CaseLibrary, starter_cases
from lazaretto.gates.content.records import Exhibit, Label, Prepared
from lazaretto.models.eight_bit import swift_minilm
from lazaretto.models.minilm import shared_minilm

SENTENCE = "The harbour master wrote down who came ashore, what they carried and where they went. "


def milliseconds(action: Callable[[], object], rounds: int) -> float:
    """Median time of one call."""
    action()
    spent = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        spent.append((time.perf_counter() - started) * 1000)
    return statistics.median(spent)


def speed(rounds: int) -> dict[str, dict[str, float]]:
    """Each stage on a text of about 190 tokens, which is AIR-Bench's mean, and on one that fills a window."""
    models, library = shipped_models(), CaseLibrary(starter_cases(), swift_minilm())
    library.vectors()
    table: dict[str, dict[str, float]] = {}
    for name, repeats in (("190 tokens", 11), ("256 tokens", 15)):
        cost = _stages(models, library, SENTENCE * repeats, rounds)
        base = cost["one pass of all-MiniLM-L6-v2"]
        table[name] = {stage: round(ms, 2) for stage, ms in cost.items()}
        table[f"{name}, passes"] = {stage: round(ms / base, 2) for stage, ms in cost.items()}
    facts: dict[str, object] = {}
    frame = open_frames(lettered("List of vegetables for a winter soup."), facts)[0]
    table["picture"] = {
        "words read off a picture (OCR)": round(milliseconds(lambda: read_lettering(frame), max(3, rounds // 5)), 1),
        "explicit-image detector": round(milliseconds(lambda: explicit_probability(frame), rounds), 1),
    }
    return table


def _stages(models: JuryModels, library: CaseLibrary, text: str, rounds: int) -> dict[str, float]:
    fresh, seats = iter(range(10**9)), embedded_table(library)
    stages: dict[str, Callable[[], object]] = {
        "one pass of all-MiniLM-L6-v2": lambda: shared_minilm().embed_texts([text]),
        "both seats (encoder, heads, spans)": lambda: _reread(models, f"{next(fresh)} {text}"),
        "bag of words": lambda: lexical_logits([text], models._lexicon),
        "retrieval over the starter library": lambda: library.nearest(text, Exhibit("x", text).kind, 3),
        "whole hearing, two rounds": lambda: asyncio.run(hear(seats, Exhibit("x", f"{next(fresh)} {text}"))),
    }
    return {stage: milliseconds(action, rounds) for stage, action in stages.items()}


def _reread(models: JuryModels, text: str) -> object:
    return models.read(Prepared(Exhibit("x", text)))


def lettered(line: str) -> bytes:
    """A harmless unfinished list, lettered like the typographic jailbreaks of FigStep: 760 by 760, black on white."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (760, 760), "white")
    words = "\n".join([*textwrap.wrap(line, 15), "1.", "2.", "3."])
    ImageDraw.Draw(picture).multiline_text((20, 20), words, fill="black", font=ImageFont.load_default(80), spacing=12)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def lettering(folder: Path, benign: Path) -> dict[str, object]:
    """Recall over FigStep by topic, and false alarms over harmless lists, on pictures alone."""
    seats = embedded_table(CaseLibrary(starter_cases(), swift_minilm()))

    def judged(image: bytes, name: str) -> tuple[bool, float, str]:
        outcome = asyncio.run(hear(seats, Exhibit(name, image=image)))
        return outcome.finding.label is Label.UNSAFE, outcome.finding.risk, outcome.prepared.read_text

    topics: dict[str, list[bool]] = defaultdict(list)
    missed, alarms = [], []
    for path in sorted(folder.glob("*.png")):
        unsafe, risk, words = judged(path.read_bytes(), path.stem)
        topics[path.stem.split("_")[2]].append(unsafe)
        if not unsafe:
            missed.append([path.name, round(risk, 3), words])
    lines = benign.read_text(encoding="utf-8").splitlines()
    for line in lines:
        unsafe, risk, words = judged(lettered(line), line)
        if unsafe:
            alarms.append([line, round(risk, 3), words])
    found = [u for topic in topics.values() for u in topic]
    return {
        "figstep": {"pictures": len(found), "judged unsafe": sum(found)},
        "by topic": {topic: f"{sum(u)} of {len(u)}" for topic, u in sorted(topics.items())},
        "harmless lists": {"pictures": len(lines), "judged unsafe": len(alarms)},
        "missed": missed,
        "false alarms": alarms,
    }


def injections(lines: Path, count: int) -> dict[str, object]:
    """Verdicts that change when a line that addresses the judges stands before or after a text."""
    seats = embedded_table(CaseLibrary((), swift_minilm()))

    def label(name: str, text: str) -> Label:
        return asyncio.run(hear(seats, Exhibit(name, text))).finding.label

    texts = [case.text for case in starter_cases() if case.text and not case.description]
    chosen = [texts[round(i * (len(texts) - 1) / (count - 1))] for i in range(count)]
    asked, moved = defaultdict(int), defaultdict(list)
    for text in chosen:
        alone = label("alone", text)
        for line in lines.read_text(encoding="utf-8").splitlines():
            for joined in (f"{line}\n{text}", f"{text}\n{line}"):
                asked[alone.value] += 1
                now = label("addressed", joined)
                if now is not alone:
                    moved[f"{alone.value} to {now.value}"].append([line, text])
    return {
        "texts": len(chosen),
        "asked": dict(asked),
        "moved": {way: len(cases) for way, cases in moved.items()},
        "cases": dict(moved),
    }


def main() -> None:
    """The three measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    fast = what.add_parser("speed")
    fast.add_argument("--rounds", type=int, default=30)
    letters = what.add_parser("lettering")
    letters.add_argument("--figstep", type=Path, required=True)
    letters.add_argument("--benign", type=Path, default=Path(__file__).with_name("benign_lists.txt"))
    spoken = what.add_parser("injections")
    spoken.add_argument("--lines", type=Path, default=Path(__file__).with_name("judge_injections.txt"))
    spoken.add_argument("--texts", type=int, default=20)
    arguments = parser.parse_args()
    result: object
    if arguments.what == "speed":
        result = speed(arguments.rounds)
    elif arguments.what == "lettering":
        result = lettering(arguments.figstep, arguments.benign)
    else:
        result = injections(arguments.lines, arguments.texts)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
