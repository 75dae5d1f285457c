"""The jury's score and ``mpnet``'s as one: weights, bars and the band of doubt, and what they are worth, left out.

    python lab/benchmarks/fused_harm.py             # seconds: nothing is trained or read, all scores are stored
    python lab/benchmarks/fused_harm.py --write     # also lab/results/content/fused_harm.json
    python lab/benchmarks/fused_harm.py --ship      # also src/lazaretto/models/weights/reader/with_jury.json
    python lab/benchmarks/fused_harm.py --work WORK --write --out FILE      # by a training's own scores

Every score is of a model that saw nothing of the item's source (AIR-Bench: not the item); ``mpnet`` was run on three
folds of five, and only their items count. What ships is fitted on the texts of all sources but AIR-Bench. What is said
of a source was fitted without its fold; what is said of AIR-Bench, without any of its items.

The rule: where one look of one model settles a text (its bar is lower than without the reader: at most ``LOST`` of the
harmful texts that the sum finds lie below it), or the jury is sure of harm (its own bar), nobody is asked. Else the
log-odds of both are added. Unsafe: past the sum's bar, or past the reader's own bar at half the rate. Gray: past the
middle cut. The sum's bar is the lowest at which all three ways to be unsafe together call at most the wanted share of
harmless texts unsafe (mean over sources), and the sum alone at most twice that in any source that was not made to look
harmful.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from air_bench_deep import KINDS, RESULTS, Floats, from_other_data, reader_scores
from numpy.typing import NDArray

from lazaretto.gates.content.jury.second_opinion import NUMBERS, Joint, joint
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.studies.debate.air_bench import figures
from lazaretto_lab.studies.debate.held_out import development
from lazaretto_lab.training.jury.bundle import FOLDS
from lazaretto_lab.training.jury.evaluation import RATES, Items, bars, debate_odds, fit

READER = "mpnet"
RATE, MISSED = 0.01, 0.15
"""The defaults of ``false_alarms`` and ``misses``."""
LOST = 0.002
"""Share of harmful texts that the sum finds and that one look may settle as harmless, mean over sources: as much as the
jury gives away by one look (``quick_bar``)."""
REQUESTS = ("ailuminate_demo", "catqa", "dangerousqa", "harmfulqa_filtered", "sap200", "xsafety")
EVERYDAY = (
    "clinc150", "dolly15k_sample", "hwu64", "ifeval", "koala", "medquad", "mt_bench", "oasst_sample", "vicuna_bench",
)  # fmt: skip
"""Harmless sources that are requests of ordinary users."""
AREAS = {
    "safe but scary": ("phtest", "twins", "xsafety"),
    "moderation": ("pyrit_scorer", "wikipedia_talk"),
    "hate": ("identity_templates", "stormfront_vicomtech", "toxigen_prompts"),
}
"""Sources that stand for what others judge by. phtest has no harmful texts: those of REQUESTS stand against it."""
LOOK_ALIKE = ("phtest", "twins")
"""Harmless sources that were made to look harmful: they count in the mean, but do not set a bar alone."""
LEAST = 70
"""Texts of one label from which on a source counts."""
Mask = NDArray[np.bool_]


def by_source_and_label(items: Items, label: int) -> dict[str, NDArray[np.int64]]:
    """Where the texts of each source with enough of a label are."""
    found = {str(s): np.flatnonzero((items.source == s) & (items.label == label)) for s in np.unique(items.source)}
    return {source: rows for source, rows in found.items() if len(rows) >= LEAST}


@dataclass(frozen=True, slots=True)
class Scored:
    """Items of one kind with both scores, each of models that had not seen them."""

    items: Items
    jury: Floats
    """Log-odds after the debate."""
    sure: Floats
    """The jury's own bar for each."""
    gray: Mask
    """By the jury alone."""
    glanced: Mask
    """Settled by one look where there is no reader."""
    look: Floats
    """Log-odds of one look, by one model; pictures and pairs never are settled by it."""
    score: Floats
    """The reader's log-odds."""

    def pick(self, rows: Mask) -> Scored:
        """Some of them."""
        rest = (getattr(self, name)[rows] for name in ("jury", "sure", "gray", "glanced", "look", "score"))
        return Scored(self.items.pick(rows), *rest)


def scored(kind: str, work: Path | None = None) -> Scored:
    """All items of a kind that both scored; ``work``: of that training, else as stored."""
    items, _ = development(work)
    here, score = items.pick(items.head == kind), reader_scores(READER, items)[items.head == kind]
    count = len(here.label)
    odds, sure, look = np.zeros(count), np.zeros(count), np.full(count, np.inf)
    gray, glanced = np.zeros(count, bool), np.zeros(count, bool)
    for fold in range(FOLDS):
        settings, out = fit(here.pick(here.fold != fold), kind), here.fold == fold
        allow, block = settings.bars(RATE, MISSED)
        odds[out], sure[out] = debate_odds(settings, here.logits[out]), block
        gray[out] = (odds[out] >= allow) & (odds[out] < block)
        offset, slope = settings.calibration["strict"]
        if kind == "text":
            look[out] = offset + slope * here.logits[out, 0]
            glanced[out] = look[out] < settings.quick
    return Scored(here, odds, sure, gray, glanced, look, score).pick(~np.isnan(score))


def fitted(data: Scored) -> Joint:
    """Weights, cut, bars and the band, from these texts."""
    items, features = data.items, np.column_stack([data.jury, data.score])
    slopes, cut = from_other_data(features, np.zeros(len(items.label), bool), items)
    both = features @ slopes - cut
    alone, (_, allow) = bars(items, data.score)[0], bars(items, both)
    half = {rate: float(np.interp(np.log(rate / 2), np.log(RATES), [x for _, x in alone])) for rate in RATES}
    own = dict(bars(items, data.jury)[0])
    block = [(rate, _bar(items, both, (data.jury >= own[rate]) | (data.score >= half[rate]), rate)) for rate in RATES]
    quick = _quick(data, both)
    slope, level = np.polyfit(data.look[data.look < quick], both[data.look < quick], 1)
    return Joint(
        READER, round(-cut, 4), round(float(slopes[0]), 4), round(float(slopes[1]), 4), quick,
        (round(float(level), 4), round(float(slope), 4)), _rounded(block), _rounded(list(half.items())),
        _rounded(allow),
    )  # fmt: skip


def _rounded(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple((rate, round(odds, 4)) for rate, odds in points)


def _bar(items: Items, both: Floats, alone: Mask, rate: float) -> float:
    """The sum's bar for a rate; ``alone``: what is unsafe without it."""
    harmless = by_source_and_label(items, 0)
    ordinary = [rows for source, rows in harmless.items() if source not in LOOK_ALIKE]
    steps = np.unique(np.quantile(both[items.label == 0], np.linspace(0.8, 1, 4000)))
    every = [np.sort(np.where(alone[rows], np.inf, both[rows])) for rows in harmless.values()]
    shares = np.mean([1 - np.searchsorted(one, steps, side="left") / len(one) for one in every], axis=0)
    worst = np.max(
        [1 - np.searchsorted(np.sort(both[rows]), steps, side="left") / len(rows) for rows in ordinary], axis=0
    )
    fits = (shares <= rate) & (worst <= 2 * rate)
    return float(steps[np.argmax(fits)]) if fits.any() else float(steps[-1]) + 0.5


def _quick(data: Scored, both: Floats) -> float:
    """The highest bar for one look that loses hardly any harmful text that the sum finds."""
    harmful = by_source_and_label(data.items, 1).values()
    found, steps = (both >= 0) & (data.jury < data.sure), np.arange(-2.5, -1.0, 0.05)
    lost = [np.mean([(found & (data.look < step))[rows].mean() for rows in harmful]) for step in steps]
    return round(float(steps[np.flatnonzero(np.array(lost) <= LOST)[-1]]), 2)


@dataclass(frozen=True, slots=True)
class Ruled:
    """What becomes of items."""

    unsafe: Mask
    gray: Mask
    asked: Mask
    risk: Floats
    """The log-odds that are shown."""


def by_both(data: Scored, numbers: Joint, band: Mask | None = None) -> Ruled:
    """As the gate rules with the reader set up; ``band``: others that are asked about, where the jury is not sure."""
    sure = data.jury >= data.sure
    asked = (data.look >= numbers.quick if band is None else band) & ~sure
    odds = np.array([numbers.ruled(j, s, RATE) for j, s in zip(data.jury, data.score, strict=True)])
    allow, block = numbers.bars(RATE, MISSED)
    settled = numbers.settled[0] + numbers.settled[1] * np.minimum(data.look, 0)
    risk = np.where(asked, odds, np.where(data.look < numbers.quick, settled, data.jury))
    unsafe = np.where(asked, odds >= block, sure)
    return Ruled(unsafe, np.where(asked, (odds >= allow) & ~unsafe, False), asked, risk)


def by_jury(data: Scored) -> Ruled:
    """As the gate rules without it."""
    sure = data.jury >= data.sure
    return Ruled(sure, data.gray & ~data.glanced, np.zeros(len(sure), bool), data.jury)


def before(data: Scored) -> Ruled:
    """As it was with the reader set up: gray texts are held or cleared by the reader's bars alone."""
    reader = json.loads((RESULTS / "reader" / f"{READER}.json").read_text())["harm"]["bars"]
    alone = by_jury(data)
    held = alone.gray & (data.score > reader["0.01"])
    return Ruled(alone.unsafe | held, alone.gray & ~held & (data.score >= reader["0.05"]), alone.gray, data.jury)


def summary(data: Scored, ruled: Ruled) -> dict[str, Any]:
    """Of texts of foreign sources: what is unsafe, gray and asked, mean over sources."""
    harmless, harmful = (by_source_and_label(data.items, label) for label in (0, 1))
    ordinary = {name: rows for name, rows in harmless.items() if name not in LOOK_ALIKE}
    groups = {
        "harmful requests": [harmful[name] for name in REQUESTS],
        "all harmful sources": list(harmful.values()),
        "everyday requests": [harmless[name] for name in EVERYDAY],
        "ordinary harmless sources": list(ordinary.values()),
        "all harmless sources": list(harmless.values()),
    }
    found: dict[str, Any] = {
        name: {part: round(float(np.mean([getattr(ruled, part)[rows].mean() for rows in several])), 4)
               for part in ("unsafe", "gray", "asked")}
        for name, several in groups.items()
    }  # fmt: skip
    worst = max(ordinary, key=lambda name: ruled.unsafe[ordinary[name]].mean())
    found["worst ordinary source"] = [worst, round(float(ruled.unsafe[ordinary[worst]].mean()), 4)]
    scary = np.concatenate([harmless["phtest"], *(harmful[name] for name in REQUESTS)])
    labels = data.items.label
    found["auc"] = {
        area: {
            name: round(auc(labels[rows] > 0, ruled.risk[rows]), 4)
            for name in names
            for rows in [scary if name == "phtest" else np.concatenate([harmless[name], harmful[name]])]
        }
        for area, names in AREAS.items()
    }
    return found


def bands(numbers: Joint, work: Path | None = None) -> dict[str, Any]:
    """What other bands of doubt would cost and give: F1 of AIR-Bench's texts, and who would be asked."""
    every, found = scored("text", work), dict[str, Any]()
    several = {
        "gray to the jury": every.gray & ~every.glanced,
        "not settled by a look at the old bar": ~every.glanced,
        "as shipped": every.look >= numbers.quick,
        "always": np.ones(len(every.gray), bool),
    }
    dev, harmless = every.items.source == "dev", by_source_and_label(every.items, 0)
    truth, none = [bool(x) for x in every.items.label[dev] > 0], [False] * int(dev.sum())
    for name, band in several.items():
        ruled = by_both(every, numbers, band)
        share = {source: float(ruled.asked[rows].mean()) for source, rows in harmless.items() if source != "dev"}
        found[name] = {
            "f1": figures(truth, [bool(x) for x in (ruled.unsafe | ruled.gray)[dev]], none)["f1"],
            "everyday requests asked": round(float(np.mean([share[source] for source in EVERYDAY])), 4),
            "all harmless asked": round(float(np.mean(list(share.values()))), 4),
        }
    return found


def left_out(data: Scored) -> tuple[Ruled, dict[int, Joint]]:
    """Every foreign text by numbers that were fitted without its fold."""
    count, made = len(data.items.label), dict[int, Joint]()
    whole = Ruled(*(np.zeros(count, bool) for _ in range(3)), np.zeros(count))
    for fold in np.unique(data.items.fold):
        out = data.items.fold == fold
        made[int(fold)] = fitted(data.pick(~out))
        one = by_both(data.pick(out), made[int(fold)])
        for name in Ruled.__dataclass_fields__:
            getattr(whole, name)[out] = getattr(one, name)
    return whole, made


def air_bench(numbers: Joint, work: Path | None = None) -> dict[str, Any]:
    """F1 of what is not safe, and at the middle of the risk, with the band and without it."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        every = scored(kind, work)
        data = every.pick(every.items.source == "dev")
        truth, none = [bool(x) for x in data.items.label > 0], [False] * len(data.items.label)
        both, alone, earlier = by_both(data, numbers), by_jury(data), before(data)
        always = numbers.offset + numbers.jury * data.jury + numbers.score * data.score >= 0
        said = {
            "jury alone, unsafe or gray": alone.unsafe | alone.gray,
            "before: unsafe": earlier.unsafe,
            "before: unsafe or gray": earlier.unsafe | earlier.gray,
            "both, always asked": always,
            "both, as shipped: unsafe or gray": both.unsafe | both.gray,
            "both, as shipped: unsafe": both.unsafe,
        }
        found[kind] = {
            "items": len(truth), "asked": round(float(both.asked.mean()), 4),
            "auc": round(auc(data.items.label > 0, both.risk), 4),
            **{name: figures(truth, [bool(x) for x in one], none) for name, one in said.items()},
        }  # fmt: skip
    return found


def measured(work: Path | None = None) -> tuple[dict[str, Any], Joint]:
    """All of it, and the numbers that ship."""
    every = scored("text", work)
    texts = every.pick(every.items.source != "dev")
    numbers = fitted(texts)
    ruled, folds = left_out(texts)
    result = {
        "reader": READER,
        "texts": len(texts.items.label),
        "sources": len(np.unique(texts.items.source)),
        "shipped": asdict(numbers),
        "fitted without fold": {str(fold): asdict(one) for fold, one in folds.items()},
        "jury alone": summary(texts, by_jury(texts)),
        "before": summary(texts, before(texts)),
        "both": summary(texts, ruled),
        "bands": bands(numbers, work),
        "air_bench": air_bench(numbers, work),
    }
    return result, numbers


def main() -> None:
    """Print the figures; store them with ``--write``, and what ships with ``--ship``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--ship", action="store_true")
    parser.add_argument("--work", type=Path, help="a training's folder")
    parser.add_argument(
        "--out", type=Path, help="where --write writes", default=RESULTS / "content" / "fused_harm.json"
    )
    asked = parser.parse_args()
    result, numbers = measured(asked.work)
    print(json.dumps({k: v for k, v in result.items() if k != "air_bench"}, indent=1))
    for kind in KINDS:
        one = result["air_bench"][kind]
        print(kind, one["items"], "asked", one["asked"], "auc", one["auc"])
        for name, row in one.items():
            if isinstance(row, dict):
                print(f"  {name}: {row['f1']:.3f} ({row['f1_low']:.3f} to {row['f1_high']:.3f})")
    if asked.ship:
        NUMBERS.write_text(json.dumps(asdict(numbers), indent=1) + "\n")
        joint.cache_clear()
    if asked.write:
        asked.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
