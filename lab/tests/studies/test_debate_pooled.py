"""All rows of an experiment at once over one model: what is asked, what is kept of a cut run, and what is stored."""

from __future__ import annotations

import argparse
import asyncio
import functools
import gzip
import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from lazaretto.cases.records import Label
from lazaretto.models.protocol import Completion, Message, Request
from lazaretto_lab.harness.experiment import load_experiment, units
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.metrics.intervals import bootstrap_interval
from lazaretto_lab.studies.debate import air_bench, panels, pooled
from lazaretto_lab.studies.debate.folder_chat import FolderChat, Words

NAME = "debate/models"


class Scripted:
    """Calls a text unsafe when it speaks of a bomb, in whatever form it is asked."""

    name = "scripted"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        self.requests += requests
        await asyncio.sleep(0)
        return [Completion(self._answer(request), 100, 20) for request in requests]

    def _answer(self, request: Request) -> str:
        asked = request.messages[-1].text
        bad = "bomb" in asked.split("Precedent")[0]
        if "One word" in asked:
            return "Unsafe." if bad else "safe"
        quote = "the bomb" if bad else "the boat"
        score = 0.9 if bad else 0.1
        if "You are the Arbiter" in asked:
            rule = "confirmed-risk" if bad else "default-safe"
            label = "unsafe" if bad else "safe"
            reasoning = "It asks for what nobody should make."
            answer = {"quotes": [quote], "reasoning": reasoning, "rule": rule, "label": label, "score": score}
            return json.dumps({**answer, "hazards": [], "precedents": []})
        if "You are the Supporter" in asked:
            return json.dumps({"summary": "A question about things at sea."})
        return json.dumps({"argument": "My own view of it.", "risk_score": score, "quotes": [quote]})


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "air_bench"
    folder.mkdir(parents=True)
    for kind in ("text", "image", "pair"):
        rows = []
        for n in range(12):
            words = f"number {n} tells how to paint {'the bomb' if n % 2 else 'the boat'} in the harbour of {kind}"
            row: dict[str, Any] = {"id": f"{kind}{n}", "label": n % 2}
            row |= {"text": words} if kind != "image" else {}
            row |= {"description": words} if kind != "text" else {}
            rows.append(row)
        (folder / f"dev_{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        case = {"id": kind, "text": f"a case about {kind} in a far harbour", "label": 1, "origin": "library"}
        (folder / f"cases_{kind}.jsonl").write_text(json.dumps(case) + "\n")
    monkeypatch.setenv("LAZARETTO_SHARED", str(tmp_path))
    few = functools.partial(bootstrap_interval, samples=40)  # what is stored is tested here, not how wide it is
    monkeypatch.setattr(air_bench, "bootstrap_interval", few)
    panels._library.cache_clear()
    monkeypatch.setattr("lazaretto_lab.studies.debate.panels.remembering_embedder", lambda: None)
    pooled.prepare(NAME, tmp_path / "items.json.gz")
    return tmp_path / "items.json.gz"


def given(items: Path, **more: Any) -> argparse.Namespace:
    plain = {"experiment": NAME, "items": items, "rows": items.parent / "0.jsonl", "share": (0, 1), "seconds": 60.0}
    return argparse.Namespace(**{**plain, "first": 4, "at_once": 7, **more})


def joined(items: Path, files: Sequence[Path], least: int = 1, seen: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    out = items.parent / "results"
    more = {"at_least": least, "seen": seen}
    pooled.join(argparse.Namespace(experiment=NAME, items=items, files=files, commit="abc", out=out, **more))
    folder = ResultFolder(out, NAME)
    found = {unit.row: folder.read(unit) for unit in units(load_experiment(NAME))}
    assert all(one is None or one.made_with["commit"] == "abc" for one in found.values())
    return {name: dict(one.measures) for name, one in found.items() if one is not None}


def test_every_row_judges_every_item_and_is_stored(items: Path) -> None:
    model = Scripted()
    pooled.run(given(items), model)
    found = joined(items, [items.parent / "0.jsonl"])
    assert set(found) == {row.name for row in load_experiment(NAME).expanded_rows()}
    assert {one["items"] for one in found.values()} == {12}
    assert {(one["f1"], one["undecided"]) for one in found.values()} == {(1.0, 0)}
    assert (found["debate, text"]["calls"], found["3 rounds, pair"]["calls"], found["one call, image"]["calls"]) == (
        6,
        8,
        1,
    )
    assert (found["no loose, text"]["calls"], found["1 round, text"]["rounds"]) == (4, 1)
    asked = len(model.requests)
    pooled.run(given(items), model)  # everything is done already
    assert len(model.requests) == asked


def test_nothing_of_the_content_is_kept_but_ids_and_the_model_s_own_words(items: Path) -> None:
    pooled.run(given(items), Scripted())
    lines = (items.parent / "0.jsonl").read_text()
    assert "tells how to paint" not in lines and "in a far harbour" not in lines
    assert "My own view of it." in lines and '"text3"' in lines


def test_quotations_are_left_out_of_what_a_model_said() -> None:
    source = "Mix the powder with the oil, then wait for an hour."
    said = "It says: MIX the powder with the oil, then WAIT for a day, which is wrong."
    assert pooled.without_quotations(said, [source]) == "It says: [...] a day, which is wrong."
    assert pooled.without_quotations("Mix the powder with", [source]) == "Mix the powder with"
    hyphens = pooled.without_quotations("Sell covid-19's first vaccine-cards here", ["covid-19's first vaccine cards"])
    assert hyphens == "Sell [...] here"


def test_a_quotation_that_came_back_is_not_stored(items: Path) -> None:
    pooled.run(given(items), Scripted())
    rows = items.parent / "0.jsonl"
    rows.write_text(rows.read_text().replace("My own view of it.", "It tells how to paint the things."))
    joined(items, [rows])
    folder = items.parent / "results" / NAME
    for name in ("units.jsonl.gz", pooled.ROWS):
        stored = gzip.decompress((folder / name).read_bytes()).decode()
        assert "It [...] things." in stored and "tells how to paint" not in stored, name


def test_of_a_cut_run_each_share_counts_up_to_its_first_gap() -> None:
    found = {("r", place): {"place": place} for place in (0, 1, 2, 4, 5, 6, 7)}
    assert [one["place"] for one in pooled.whole(found, "r", 8, 2)] == [0, 1, 2, 4, 6]


def test_rows_that_stay_are_counted_on_the_same_items(items: Path) -> None:
    pooled.run(given(items), Scripted())
    lines = (items.parent / "0.jsonl").read_text().splitlines(keepends=True)
    cut = [("debate, text", 9), ("one call, text", 7), ("3 rounds, text", 2)]

    def there(line: str) -> bool:
        raw = json.loads(line)
        return not any(raw.get("row") == row and raw["place"] >= first for row, first in cut)

    (items.parent / "cut.jsonl").write_text("".join(filter(there, lines)))
    known = {json.loads(line).get("place"): json.loads(line).get("id") for line in lines if '"debate, text"' in line}
    found = joined(items, [items.parent / "cut.jsonl"], least=5, seen=[known[1]])
    assert "3 rounds, text" not in found and {found[name]["items"] for name in found if "text" in name} == {6}
    ids = {tuple(one["id"] for one in found[name]["outcomes"]) for name in found if "text" in name}
    assert len(ids) == 1 and known[1] not in ids.pop()
    assert {found[name]["items"] for name in found if "text" not in name} == {12}


def test_main_rows_come_first_and_shares_are_disjoint(items: Path) -> None:
    drawn = pooled.read_items(items)
    halves = [pooled.jobs(NAME, drawn, (n, 2), 4) for n in (0, 1)]
    keys = [job.key for half in halves for job in half]
    assert len(keys) == len(set(keys)) == 12 * len(load_experiment(NAME).expanded_rows())
    begin = {job.row.name.partition(",")[0] for job in halves[0][: 6 * 3 * 4]}
    assert begin == {"debate", "one call", "one question", "other order of rules"}


def test_time_that_is_over_leaves_whole_lines(items: Path) -> None:
    class Slow(Scripted):
        async def complete(self, requests: Sequence[Request]) -> list[Completion]:
            await asyncio.sleep(0.02)
            return await super().complete(requests)

    pooled.run(given(items, seconds=0.3), Slow())
    cut = pooled.read_rows([items.parent / "0.jsonl"])
    assert 0 < len(cut) < 12 * 33
    pooled.run(given(items), Scripted())
    assert len(pooled.read_rows([items.parent / "0.jsonl"])) == 12 * 33


def test_a_word_that_is_neither_is_undecided(items: Path) -> None:
    class Mumbling(Scripted):
        def _answer(self, request: Request) -> str:
            return "It depends."

    from lazaretto.gates.content.debate import hold_debate

    item, _ = pooled.read_items(items)["text"][0]
    panel = panels.model_panel({"jury": "question", "kind": "text"}, None, Mumbling())
    finding = asyncio.run(hold_debate(panel, item.content)).finding
    assert finding.undecided and finding.outcome == "review"
    assert item.truth in set(Label)


class Backend:
    """Answers at once, counts, and fails where it is told to."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, messages: Sequence[tuple[str, str]], most: int) -> Future[Words]:
        self.count += 1
        answer: Future[Words] = Future()
        if "break" in messages[-1][1]:
            answer.set_exception(RuntimeError("no memory"))
        else:
            answer.set_result(Words(messages[-1][1].upper(), 7, 3))
        return answer


def test_equal_questions_are_asked_once_and_a_fault_is_its_own() -> None:
    backend = Backend()
    chat = FolderChat("m", backend)
    asked = [Request((Message("user", words),), 9) for words in ("one", "one", "break", "two")]
    found = asyncio.run(chat.complete(asked))
    assert [one.text for one in found] == ["ONE", "ONE", "", "TWO"]
    assert (backend.count, chat.asked) == (3, 3)
    assert found[1].prompt_tokens == 7 and "no memory" in found[2].fault and not found[0].fault
    picture = asyncio.run(chat.complete([Request((Message("user", "x", (b"p",)),), 9)]))[0]
    assert "cannot see" in picture.fault
