"""How far scores move when the low-rank changes of the screener and the jury are stored in fewer bits.

    git archive cd76dfa1 src/lazaretto/models/weights | tar x -C OLD     # the last commit with sixteen bits
    python lab/benchmarks/packed_scores.py OLD/src/lazaretto/models/weights --write eight_bits
    python lab/benchmarks/packed_scores.py BEFORE --now AFTER --every 20 --data ../shared/data
    python lab/benchmarks/packed_scores.py BEFORE --floor --write floor

Every string of the stored lists (tests/data, lab/benchmarks), every ``--every`` th text written for training, and with
``--data`` as many of the development data, is scored with both weights: the screener's three heads, and the log-odds
with which a debate of the jury ends without precedents. A side changes where a score crosses a bar that ships. Raw
scores, without the texts, go to lab/results/packed/NAME.jsonl.gz, the figures to NAME.json beside it.

``--floor`` says what any change does: 240 windows of the lists, read by the screener in full precision and in the eight
bits of the runtime, with changes stored in eight bits, and with changes of sixteen bits whose every number is moved by
a ten-thousandth of itself.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.gates.content.gate import ContentSettings
from lazaretto.gates.content.jury.debaters import log_odds_after_debate
from lazaretto.gates.content.jury.scorer import JuryModels
from lazaretto.gates.content.records import Content, PreparedContent, Role
from lazaretto.gates.memory.text_screener import GRAY, TOP_TOKENS, WEIGHTS, TextScreener
from lazaretto.models.minilm import Encoder, split_heads
from lazaretto.models.weight_files import packed_changes, read_arrays, unpacked_changes
from lazaretto.reading.text import reading_of

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "packed"
WRITTEN = REPOSITORY / "lab" / "src" / "lazaretto_lab" / "training" / "written"
LISTS = (REPOSITORY / "tests" / "data", REPOSITORY / "lab" / "benchmarks")
DEVELOPMENT = ("moderation/mod_*.jsonl.gz", "screening/scr_*.jsonl.gz", "air_bench/dev_*.jsonl")
RATES = (0.001, 0.005, 0.01, 0.05)
SHORT, LONG = 15, 6000
"""Characters: shorter strings are names, and longer ones meet limits of time."""
NOISE = 1e-4
SEATS = (Role.STRICT, Role.LOOSE)


def strings(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        if SHORT <= len(value) <= LONG and " " in value:
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def stored(file: Path) -> Iterator[str]:
    """Every text of a file."""
    import tomllib

    said = (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).decode()
    if file.suffix == ".toml":
        yield from strings(tomllib.loads(said))
    elif file.suffix == ".txt":
        yield from strings(said.splitlines())
    else:
        yield from (text for line in said.split("\n") if line for text in strings(json.loads(line)))


def texts(every: int, data: Path | None) -> Iterator[tuple[str, str]]:
    """(list, text): each text once."""
    judged = [file for folder in LISTS for pattern in ("*.toml", "*.jsonl", "*.txt") for file in folder.glob(pattern)]
    trained = list(WRITTEN.glob("*.jsonl"))
    if data is not None:
        trained += [file for pattern in DEVELOPMENT for file in data.glob(pattern)]
    seen = set[str]()
    for file in [*sorted(judged), *sorted(trained)]:
        fresh = [text for text in dict.fromkeys(stored(file)) if text not in seen]
        seen.update(fresh)
        kind = "list" if file in judged else "training"
        yield from ((f"{kind} {file.name.split('.')[0]}", text) for text in fresh[:: 1 if kind == "list" else every])


class Scores:
    """The models of one folder."""

    def __init__(self, weights: Path) -> None:
        self.screener, self.jury = TextScreener(weights / "screener"), JuryModels(weights / "jury")

    def __call__(self, text: str) -> dict[str, float]:
        """The scores of one text; none of a model that had no time for all of it."""
        found: dict[str, float] = {}
        screened = self.screener.screen([text])[0]
        if screened.whole:
            found["orders"] = screened.logit
        found |= {"quiet": self.screener.quiet_lie(text), "tools": self.screener.poison_in_description(text)}
        read = self.jury.read(PreparedContent(Content("one", text)))
        if read is not None and not read.cut:
            odds = {role: one.odds for role, one in read.debaters.items()}
            settings = self.jury.settings[read.head]
            found["jury"] = sum(log_odds_after_debate(settings, role, odds, 0.0) for role in SEATS) / len(SEATS)
        return {name: round(score, 4) for name, score in found.items() if np.isfinite(score)}

    def bars(self) -> dict[str, list[float]]:
        """Score -> where something is decided otherwise."""
        calibration, given = self.screener.calibration, ContentSettings()
        gray = float(np.interp(GRAY, calibration.risk, calibration.logits))
        jury = self.jury.settings["text"].bars(given.false_alarms, given.misses)
        return {
            "orders": [*(calibration.threshold(rate) for rate in RATES), gray],
            "tools": list(calibration.tools.values()),
            "quiet": [],
            "jury": list(jury),
        }


def figures(rows: Iterable[dict[str, Any]], bars: dict[str, list[float]]) -> dict[str, Any]:
    """Kind of texts -> score -> how far it moved, and how many texts changed sides of a bar."""
    pairs = defaultdict[tuple[str, str], list[tuple[float, float]]](list)
    for row in rows:
        for name in row["before"].keys() & row["now"].keys():
            pairs[row["list"].split()[0], name].append((row["before"][name], row["now"][name]))
    found: dict[str, Any] = {}
    for (kind, name), several in sorted(pairs.items()):
        before, now = np.array(several).T
        moved = np.abs(now - before)
        crossed = [((before >= bar) != (now >= bar)) for bar in bars[name]]
        found.setdefault(kind, {})[name] = {
            "texts": len(moved), "mean": round(float(moved.mean()), 4),
            "at 99 %": round(float(np.quantile(moved, 0.99)), 4), "most": round(float(moved.max()), 4),
            "drift": round(float((now - before).mean()), 4),
            "changed sides": {f"{bar:.3f}": int(one.sum()) for bar, one in zip(bars[name], crossed, strict=True)},
        }  # fmt: skip
    return found


def floor(weights: Path) -> dict[str, Any]:
    """How far the screener's scores move, by what was done to its changes and by how they are read."""
    arrays = read_arrays(weights / "screener" / "screener.safetensors", "the screener")
    draw = np.random.default_rng(0)
    moved = {
        name: value * (1 + NOISE * draw.standard_normal(value.shape)).astype(np.float32) if "lora" in name else value
        for name, value in arrays.items()
    }
    windows = [reading_of(text).first_window.ids for name, text in texts(1, None) if name.startswith("list")][::10]
    full, quick = (_marked(arrays, windows[:240], int8) for int8 in (False, True))
    eight = unpacked_changes(packed_changes(arrays, 8))
    found = {
        "read in eight bits, beside full precision": (quick, full),
        "stored in eight bits, read in full precision": (_marked(eight, windows[:240], False), full),
        "stored in eight bits, read in eight": (_marked(eight, windows[:240], True), quick),
        f"moved by {NOISE}, read in eight bits": (_marked(moved, windows[:240], True), quick),
    }
    return {name: _moved(*pair) for name, pair in found.items()}


def _marked(arrays: Mapping[str, Any], windows: Sequence[Sequence[int]], int8: bool) -> Any:
    """The score of each window for orders."""
    adapter, heads = split_heads(arrays)
    encoder = Encoder(adapter, int8=int8)
    found = []
    for window in windows:
        marks = encoder.token_states([window])[0][1:] @ heads["weight"][0] + heads["bias"][0]
        found.append(float(np.sort(marks)[-TOP_TOKENS:].mean()))
    return np.array(found)


def _keep(name: str, figures: Mapping[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _moved(one: Any, other: Any) -> dict[str, float]:
    far = np.abs(one - other)
    return {
        "windows": len(far), "mean": round(float(far.mean()), 4), "at 95 %": round(float(np.quantile(far, 0.95)), 4),
        "most": round(float(far.max()), 4), "drift": round(float((one - other).mean()), 4),
    }  # fmt: skip


def main() -> None:
    """Score, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a folder with screener/ and jury/")
    parser.add_argument("--now", type=Path, default=WEIGHTS.parent, help="default: the weights that ship")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("N", "OF"), help="for several runs")
    parser.add_argument("--write", metavar="NAME", default="")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--join", nargs="+", metavar="NAME", default=(), help="parts to put together instead")
    asked = parser.parse_args()
    if asked.floor:
        found = floor(asked.before)
        print(json.dumps(found, indent=1))
        if asked.write:
            _keep(asked.write, found)
        return
    before, now = Scores(asked.before), Scores(asked.now)
    if asked.join:
        parts = [gzip.decompress((RESULTS / f"{name}.jsonl.gz").read_bytes()) for name in asked.join]
        rows = [json.loads(line) for part in parts for line in part.splitlines()]
    else:
        part = list(texts(asked.every, asked.data))[asked.part[0] :: asked.part[1]]
        rows = [{"list": name, "before": before(text), "now": now(text)} for name, text in part]
    found = {"texts": len(rows), "figures": figures(rows, now.bars())}
    print(json.dumps(found, indent=1))
    if asked.write:
        _keep(asked.write, found)
        lines = "".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: str(row["list"])))
        (RESULTS / f"{asked.write}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()
