"""All rows of a debate experiment at once over one model, on a machine that has it for a while.

    python -m lazaretto_lab.studies.debate.pooled prepare debate/models --to items.json.gz
    python -m lazaretto_lab.studies.debate.pooled run debate/models --items items.json.gz --rows 0.jsonl --share 0/4
    python -m lazaretto_lab.studies.debate.pooled join debate/models *.jsonl --items items.json.gz --out lab/results

The first where the data are, the second where the model is, once for each share, the third where results are stored.
Rows of one experiment ask many equal questions, and a GPU answers a hundred as fast as one: unit after unit, as
``bench run`` does it, takes several times as long. Items come in the random order of the draw. Of a run that was cut,
``join`` counts for each row and share the items before the first that is missing: which were finished early says
nothing about them. Rows with too few are left out, and the others of a kind are counted on the items that all of them
have.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from lazaretto.cases.library import read_case
from lazaretto.cases.records import InputKind, Label, Precedent
from lazaretto.errors import InputError
from lazaretto.gates.content.debate import DebateSettings, Transcript, hold_debate
from lazaretto.gates.content.records import Content, Panel
from lazaretto.learn.curate import LabelledContent
from lazaretto.models.protocol import ChatModel
from lazaretto.types import plain
from lazaretto_lab.harness.context import Outcome
from lazaretto_lab.harness.experiment import Row, load_experiment, units
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.unit import clean_measures, finished, made_with
from lazaretto_lab.studies.debate.air_bench import items_of
from lazaretto_lab.studies.debate.panels import library_of, model_panel, words_of
from lazaretto_lab.studies.debate.runner import kept, measures, outcome_row

AT_ONCE = 112
"""Debates under way in one process."""
TOLD = 10
"""Items of each kind whose debates are kept in words."""
ROWS = "rows.jsonl.gz"
"""Beside the units: every debate that was finished, also those of rows and items that do not count."""
_RUN = 5
"""Words in a row that also stand in the content: from here on they are a quotation, and are left out."""


class FoundBefore:
    """Precedents that were looked up where the library is."""

    def __init__(self, found: Mapping[str, Sequence[Precedent]]) -> None:
        self._found = found

    def nearest(self, words: str, kind: InputKind, limit: int) -> tuple[Precedent, ...]:
        """As found then."""
        return tuple(self._found[words][:limit])


def prepare(name: str, to: Path) -> None:
    """The items of an experiment and the precedents of each, as one file."""
    drawn: dict[str, Any] = {}
    for row in _rows(name):
        kind, settings = str(row.settings["kind"]), row.settings
        if kind in drawn:
            continue
        items = items_of(kind, str(settings.get("part", "dev")), int(settings.get("limit", 0)), 0)
        library = library_of(str(settings["library"]), items)
        drawn[kind] = [_written(item, InputKind(kind), library) for item in items]
    to.write_bytes(gzip.compress(orjson.dumps(drawn), 9, mtime=0))


def _written(item: LabelledContent, kind: InputKind, library: Any) -> dict[str, Any]:
    near = library.nearest(words_of(item.content), kind, 3) if library is not None else ()
    body = {"id": item.content.id, "text": item.content.text, "description": item.content.description}
    return body | {"truth": item.truth.value, "near": [[plain(one.case), one.similarity] for one in near]}


def read_items(path: Path) -> dict[str, list[tuple[LabelledContent, tuple[Precedent, ...]]]]:
    """What ``prepare`` wrote, by kind."""
    return {
        kind: [
            (
                LabelledContent(Content(e["id"], e["text"], description=e["description"]), Label(e["truth"])),
                tuple(Precedent(read_case(case), similarity) for case, similarity in e["near"]),
            )
            for e in rows
        ]
        for kind, rows in orjson.loads(gzip.decompress(path.read_bytes())).items()
    }


def _rows(name: str) -> list[Row]:
    return [row for row in load_experiment(name).expanded_rows() if "quoted" not in row.settings]


@dataclass(frozen=True, slots=True)
class Job:
    """One debate of one row."""

    row: Row
    place: int
    """Of the item in the draw."""
    item: LabelledContent

    @property
    def key(self) -> tuple[str, int]:
        """What it is known by."""
        return self.row.name, self.place


def jobs(name: str, items: Mapping[str, Sequence[Any]], share: tuple[int, int], first: int) -> list[Job]:
    """All work of one share: the ``first`` rows of each kind for every item, then the other rows; item by item."""
    by_kind: dict[str, list[Row]] = {}
    for row in _rows(name):
        by_kind.setdefault(str(row.settings["kind"]), []).append(row)
    found = []
    for part in (slice(None, first), slice(first, None)):
        for place in range(share[0], max(map(len, items.values())), share[1]):
            for kind, rows in by_kind.items():
                if place < len(items[kind]):
                    found += [Job(row, place, items[kind][place][0]) for row in rows[part]]
    return found


async def hold(todo: Iterable[Job], panels: Mapping[str, Panel], to: Path, at_once: int) -> None:
    """Every debate, in order, so many at a time; each is written down when it is over."""
    slots = asyncio.Semaphore(at_once)
    began = time.perf_counter()

    async def one(job: Job) -> None:
        try:
            settings = job.row.settings
            debate = DebateSettings(int(settings.get("rounds", 2)), bool(settings.get("adaptive", False)))
            transcript = await hold_debate(panels[job.row.name], job.item.content, debate)
            row = outcome_row(job.item.content.id, job.item.truth, transcript)
            if job.place < TOLD:
                row["said"] = _said(transcript)
            line = {"row": job.row.name, "place": job.place, "at": round(time.perf_counter() - began, 2), **row}
            with to.open("ab") as file:
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        for job in todo:
            await slots.acquire()
            group.create_task(one(job))


def _said(transcript: Transcript) -> list[dict[str, Any]]:
    """What the model said, without what it quotes at length from the content or from precedents."""
    sources = [transcript.prepared.words, *(near.case.words for near in transcript.briefing.precedents)]
    summary = transcript.briefing.summary
    rows: list[dict[str, Any]] = [{"role": "supporter", "words": summary}] if summary else []
    rows += [
        {
            "role": one.role.value,
            "round": one.round,
            "score": one.score,
            "concedes": one.conceded,
            "words": one.argument,
        }
        for one in transcript.speeches
        if not one.fault
    ]
    rows.append({"role": "arbiter", "words": transcript.finding.reasoning})
    return [{**row, "words": without_quotations(str(row["words"]), sources)[:1200]} for row in rows]


def without_quotations(words: str, sources: Sequence[str]) -> str:
    """A text whose runs of five words and more that also stand in a source are left out."""
    known = {run for source in sources for run in _runs(_plain(source))}
    parts = words.split()
    heard = [(place, word) for place, part in enumerate(parts) for word in _plain(part)]
    gone: set[int] = set()
    for first, run in enumerate(_runs([word for _, word in heard])):
        if run in known:
            gone.update(place for place, _ in heard[first : first + _RUN])
    kept_parts = []
    for place, part in enumerate(parts):
        if place not in gone:
            kept_parts.append(part)
        elif place - 1 not in gone:
            kept_parts.append("[...]")
    return " ".join(kept_parts)


def _plain(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _runs(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(_RUN)), strict=False)


def read_rows(paths: Iterable[Path]) -> dict[tuple[str, int], dict[str, Any]]:
    """What was finished, by row and place; a line that was not written to its end does not count."""
    found = {}
    for path in paths:
        data = path.read_bytes() if path.is_file() else b""
        for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines(keepends=True):
            if line.endswith(b"\n"):
                row = orjson.loads(line)
                if "row" in row:
                    found[row["row"], row["place"]] = row
    return found


def run(given: argparse.Namespace, model: ChatModel) -> None:
    """One share of the work, until it is done or the time is over."""
    items = read_items(given.items)
    library = FoundBefore({words_of(item.content): near for rows in items.values() for item, near in rows})
    panels = {
        row.name: model_panel(row.settings, None if row.settings["library"] == "none" else library, model)
        for row in _rows(given.experiment)
    }
    known = read_rows([given.rows])
    todo = [job for job in jobs(given.experiment, items, given.share, given.first) if job.key not in known]
    with given.rows.open("ab") as file:
        told = {"made_with": {**made_with(), "device": _device()}, "share": given.share, "to_do": len(todo)}
        file.write(orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))

    async def until() -> None:
        await asyncio.wait_for(hold(todo, panels, given.rows, given.at_once), given.seconds)

    began = time.perf_counter()
    try:
        asyncio.run(until())
    except TimeoutError:
        print("time is over", flush=True)
    asked = getattr(model, "asked", 0)
    print(f"{len(read_rows([given.rows]))} debates, {asked} questions, {time.perf_counter() - began:.0f} s", flush=True)


def _device() -> str:
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "cpu"


def join(given: argparse.Namespace) -> None:
    """What came back as units of the experiment."""
    items, found = read_items(given.items), read_rows(given.files)
    made, shares = _told(given.files)
    _drop_quotations(found.values(), items)
    if given.commit:
        made["commit"] = given.commit
    folder = ResultFolder(given.out, given.experiment)
    folder.path.mkdir(parents=True, exist_ok=True)
    common: dict[str, list[Any]] = {}
    for kind, drawn in items.items():
        names = [row.name for row in _rows(given.experiment) if row.settings["kind"] == kind]
        kept_rows = {name: whole(found, name, len(drawn), shares) for name in names}
        unseen = {name: [one for one in rows if one["id"] not in given.seen] for name, rows in kept_rows.items()}
        common |= same_items(unseen, given.at_least)
    for unit in units(load_experiment(given.experiment)):
        if "quoted" in unit.settings:
            result = finished(unit, Outcome.HELD, "", {**unit.settings["quoted"], "items": 0, "measured": False})
        else:
            rows = common.get(unit.row, [])
            if not rows:
                print(f"{unit.row}: left out")
                continue
            raw = [{k: v for k, v in row.items() if k not in ("row", "at")} for row in rows]
            measured = clean_measures({**measures(rows), "measured": True, "outcomes": kept(raw, unit.settings)})
            result = finished(unit, Outcome.HELD, "", measured, max(row["at"] for row in rows))
        folder.write(replace(result, made_with={**result.made_with, **made}))
        print(f"{unit.row}: {result.measures['items']} items")
    folder.pack()
    told = {"made_with": made, "share": [0, shares]}
    lines = b"".join(orjson.dumps(row) + b"\n" for row in (told, *(found[key] for key in sorted(found))))
    (folder.path / ROWS).write_bytes(gzip.compress(lines, 9, mtime=0))


def _drop_quotations(rows: Iterable[dict[str, Any]], items: Mapping[str, Sequence[Any]]) -> None:
    """Once more where results are stored: what ran elsewhere may have known fewer ways to quote."""
    sources = {
        item.content.id: [words_of(item.content), *(one.case.words for one in near)]
        for drawn in items.values()
        for item, near in drawn
    }
    for row in rows:
        for one in row.get("said", ()):
            one["words"] = without_quotations(one["words"], sources[row["id"]])


def whole(found: Mapping[tuple[str, int], Any], row: str, count: int, shares: int) -> list[Any]:
    """Of every share the items before the first that is missing."""
    kept_rows = []
    for share in range(shares):
        for place in range(share, count, shares):
            if (row, place) not in found:
                break
            kept_rows.append(found[row, place])
    return sorted(kept_rows, key=lambda one: int(one["place"]))


def same_items(rows: Mapping[str, Sequence[Any]], least: int) -> dict[str, list[Any]]:
    """Rows of one kind that have so many items or more, each with the items that all of these have."""
    long = {name: found for name, found in rows.items() if len(found) >= least}
    places = [{one["place"] for one in found} for found in long.values()]
    both = set.intersection(*places) if places else set()
    return {name: [one for one in found if one["place"] in both] for name, found in long.items()}


def _told(paths: Iterable[Path]) -> tuple[dict[str, str], int]:
    """What made the rows, and in how many shares."""
    for path in paths:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in data.splitlines():
            if line.startswith(b'{"made_with"'):
                told = orjson.loads(line)
                return told["made_with"], told["share"][1]
    raise InputError("files", "none says what made it", "Name the files that run wrote")


def _share(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    return int(number), int(count or 1)


def main() -> None:
    """The three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True, dest="step")
    for step in ("prepare", "run", "join"):
        steps.add_parser(step).add_argument("experiment")
    one, two, three = (steps.choices[step] for step in ("prepare", "run", "join"))
    one.add_argument("--to", type=Path, required=True)
    two.add_argument("--items", type=Path, required=True)
    two.add_argument("--rows", type=Path, required=True, help="file that finished debates are added to")
    two.add_argument("--share", type=_share, default=(0, 1), help="0/4: the first of four")
    two.add_argument("--seconds", type=float, default=480.0, help="until the end, loading the model included")
    two.add_argument("--first", type=int, default=4, help="rows of each kind that every item gets before the others")
    two.add_argument("--at-once", type=int, default=AT_ONCE)
    three.add_argument("files", nargs="+", type=Path)
    three.add_argument("--items", type=Path, required=True)
    three.add_argument("--commit", default="", help="of the code that ran, where it could not tell")
    three.add_argument("--at-least", type=int, default=1, help="items that a row must have to count")
    three.add_argument("--seen", nargs="*", default=(), help="ids of items that are not counted")
    three.add_argument("--out", type=Path, default=Path("lab/results"))
    given = parser.parse_args()
    if given.step == "prepare":
        prepare(given.experiment, given.to)
    elif given.step == "join":
        join(given)
    else:
        from lazaretto_lab.studies.debate.folder_chat import folder_chat

        began = time.monotonic()
        model = folder_chat(str(_rows(given.experiment)[0].settings["model"]))
        given.seconds -= time.monotonic() - began
        run(given, model)
        os._exit(0)  # the model's thread never ends


if __name__ == "__main__":
    main()
