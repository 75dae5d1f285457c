"""What the embedded jury costs per stage, and how it judges words lettered on pictures.

    python lab/benchmarks/jury.py speed
    python lab/benchmarks/jury.py lettering --figstep ../shared/data/figstep
    python lab/benchmarks/jury.py injections
    python lab/benchmarks/jury.py look-alikes

``speed`` gives milliseconds by the clock and of the processor, and ratios to one pass of all-MiniLM-L6-v2;
``lettering`` recall on typographic jailbreaks and false alarms on harmless lists drawn in the same style;
``injections`` how many verdicts move because the content speaks to its judges (on cases of the starter library);
``look-alikes`` how the cases of the starter library, on which nothing was trained, are judged without precedents.

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
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from lazaretto.cases.library import CaseLibrary, starter_cases
from lazaretto.cases.records import Label
from lazaretto.gates.content.debate import hold_debate
from lazaretto.gates.content.jury import embedded_panel
from lazaretto.gates.content.jury.scorer import JuryModels, shipped_models
from lazaretto.gates.content.jury.views import explicit_probability
from lazaretto.gates.content.records import Content, Outcome, PreparedContent
from lazaretto.models.minilm import shared_minilm
from lazaretto.pictures import frames_for_judges, opened
from lazaretto.pictures.words import read_lettering
from lazaretto.reading.text import ReadVectors

SENTENCE = "The harbour master wrote down who came ashore, what they carried and where they went. "


def milliseconds(action: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median time of one call: by the clock, and of the processor (all threads of this process together)."""
    action()
    clock, processor = [], []
    for _ in range(rounds):
        started, worked = time.perf_counter(), time.process_time()
        action()
        clock.append((time.perf_counter() - started) * 1000)
        processor.append((time.process_time() - worked) * 1000)
    return statistics.median(clock), statistics.median(processor)


def speed(rounds: int, threads: int) -> dict[str, dict[str, object]]:
    """Each stage on a text of about 190 tokens, which is AIR-Bench's mean, and on one that fills a window."""
    models, library = shipped_models(), CaseLibrary(starter_cases(), ReadVectors())
    library.prepare()
    table: dict[str, dict[str, object]] = {}
    for name, repeats in (("190 tokens", 11), ("250 tokens", 14)):
        cost = _stages(models, library, SENTENCE * repeats, rounds)
        base = cost["one pass of all-MiniLM-L6-v2 in full precision"][0]
        table[name] = {
            stage: {"ms": round(clock, 1), "processor ms": round(processor, 1), "passes": round(clock / base, 2)}
            for stage, (clock, processor) in cost.items()
        }
    frame = frames_for_judges(opened(lettered("List of vegetables for a winter soup."))).frames[0]
    stages: dict[str, Callable[[], object]] = {
        "words read off a picture (OCR)": lambda: read_lettering(frame),
        "explicit-image detector": lambda: explicit_probability(frame),
    }
    table["picture"] = {stage: round(milliseconds(do, max(3, rounds // 5))[0], 1) for stage, do in stages.items()}
    return table


def _stages(models: JuryModels, library: CaseLibrary, text: str, rounds: int) -> dict[str, tuple[float, float]]:
    fresh, panel = iter(range(10**9)), embedded_panel(library)
    stages: dict[str, Callable[[], object]] = {
        "one pass of all-MiniLM-L6-v2 in full precision": lambda: shared_minilm().embed_texts([text]),
        "both debaters (encoder, heads, quotes)": lambda: _reread(models, f"{next(fresh)} {text}"),
        "retrieval over the starter library": lambda: library.nearest(text, Content("x", text).kind, 3),
        "whole debate, two rounds": lambda: asyncio.run(hold_debate(panel, Content("x", f"{next(fresh)} {text}"))),
    }
    return {stage: milliseconds(action, rounds) for stage, action in stages.items()}


def _reread(models: JuryModels, text: str) -> object:
    return models.read(PreparedContent(Content("x", text)))


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
    panel = embedded_panel(CaseLibrary(starter_cases(), ReadVectors()))

    def judged(image: bytes, name: str) -> tuple[bool, float, str]:
        outcome = asyncio.run(hold_debate(panel, Content(name, image=image)))
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
    """Outcomes that change when a line that addresses the judges stands before or after a text."""
    panel = embedded_panel(CaseLibrary((), ReadVectors()))

    def outcome(name: str, text: str) -> Outcome:
        return asyncio.run(hold_debate(panel, Content(name, text))).finding.outcome

    texts = [case.text for case in starter_cases() if case.text and not case.description]
    chosen = [texts[round(i * (len(texts) - 1) / (count - 1))] for i in range(count)]
    asked, moved = defaultdict(int), defaultdict(list)
    for text in chosen:
        alone = outcome("alone", text)
        for line in lines.read_text(encoding="utf-8").splitlines():
            for joined in (f"{line}\n{text}", f"{text}\n{line}"):
                asked[alone.value] += 1
                now = outcome("addressed", joined)
                if now is not alone:
                    moved[f"{alone.value} to {now.value}"].append([line, text])
    return {
        "texts": len(chosen),
        "asked": dict(asked),
        "moved": {way: len(cases) for way, cases in moved.items()},
        "cases": dict(moved),
    }


def look_alikes() -> dict[str, object]:
    """Starter cases, unsafe ones and their benign look-alikes, judged as if never seen: right ones of all."""
    panel = embedded_panel(None)
    right: dict[str, list[bool]] = defaultdict(list)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = []
    for case in starter_cases():
        found = asyncio.run(hold_debate(panel, Content(case.id, case.text, description=case.description))).finding
        right[f"{case.kind.value}, {case.label.value}"].append(found.label is case.label)
        outcomes[f"{case.kind.value}, {case.label.value}"][found.outcome.value] += 1
        if found.label is not case.label:
            wrong.append([case.label.value, round(found.risk, 2), case.text or case.description])
    guessed = {name: f"{sum(r)} of {len(r)}" for name, r in sorted(right.items())}
    return {"guessed right": guessed, "outcomes": outcomes, "wrong": wrong}


def main() -> None:
    """The four measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    fast = what.add_parser("speed")
    fast.add_argument("--rounds", type=int, default=30)
    fast.add_argument("--threads", type=int, default=2)
    letters = what.add_parser("lettering")
    letters.add_argument("--figstep", type=Path, required=True)
    letters.add_argument("--benign", type=Path, default=Path(__file__).with_name("benign_lists.txt"))
    spoken = what.add_parser("injections")
    spoken.add_argument("--lines", type=Path, default=Path(__file__).with_name("judge_injections.txt"))
    spoken.add_argument("--texts", type=int, default=20)
    what.add_parser("look-alikes")
    arguments = parser.parse_args()
    result: object
    if arguments.what == "speed":
        result = speed(arguments.rounds, arguments.threads)
    elif arguments.what == "lettering":
        result = lettering(arguments.figstep, arguments.benign)
    elif arguments.what == "look-alikes":
        result = look_alikes()
    else:
        result = injections(arguments.lines, arguments.texts)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
