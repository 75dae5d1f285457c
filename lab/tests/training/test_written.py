"""The texts that were written for training: whole, and apart from the lists that judge."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lazaretto_lab.training import written
from lazaretto_lab.training.claims.facts_data import dialogue_pairs, quiet_dev, quiet_more, quiet_twins
from lazaretto_lab.training.mild import FORMS, mild_texts
from lazaretto_lab.training.screener.days import HANDS, ORDERS, day_texts
from lazaretto_lab.training.screener.noise import FORMS as NOISE
from lazaretto_lab.training.screener.noise import noise
from lazaretto_lab.worlds.claims.scenarios import operational_scenarios

LISTS = Path(__file__).parents[3] / "tests" / "data"
EVERYDAY = LISTS.parents[1] / "lab" / "results" / "everyday"
JUDGING = (
    "everyday_notes.toml", "everyday_prompts.toml", "poisoned_tool_results.toml", "tool_descriptions_poisoned.jsonl",
    "facts_pairs.jsonl", "facts_third.jsonl", "facts_fourth.jsonl", "first_ten_minutes.toml",
)  # fmt: skip
_WORDS = 7
STOCK = (
    "Result 0-1 1. e4 c5 2. Nf3 d6 3. d4 cxd4 4. Nxd4 Nf6 5. Nc3 a6 6. Bg5 e6 7. f4",
    "06 02 11 +0000 DKIM-Signature: v=1; a=rsa-sha256; c=relaxed",
    "MIME-Version: 1.0 Content-Type: text/plain; charset",
    "please pass this letter on to anyone",
    "I don't want to make a",
    "put your name on the sheet in the",
    "don't put it in the shared",
    "the meeting room with the broken blinds",
    "on the number you have always used",
    "say so in the pull request, don't delete it",
    "run make check before you propose a change",
    "Salaries are paid on the 25th; if that is a weekend, on the Friday before",
    "meets on the first Tuesday of the month",
    "due on the first of each month",
    "you have to be a member to",
    "cada socio puede llevarse hasta seis libros",
    "Nobody steps on the track before the",
    "What went badly: the script asked are you sure and everyone",
    "y luego vacía la carpeta de enviados",
    "put two of them in the basket",
    "at the end of what they write next",
)
"""A famous opening, headers of mails and eighteen phrases of later lists, which stand in texts of training, too."""


def _stretches(text: str, size: int = _WORDS) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[n : n + size]) for n in range(len(words) - size + 1)}


def _texts() -> list[str]:
    files = sorted(Path(written.__file__).parent.glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found = [row[name] for row in rows for name in ("text", "host", "order", "first", "second") if row.get(name)]
    pairs = [text for one in dialogue_pairs() for text in (one.old, one.new)]
    return [*found, *(one.text for one in (*quiet_dev(), *quiet_twins(), *quiet_more())), *pairs]


def test_no_written_text_shares_a_stretch_with_a_list_that_judges() -> None:
    judged = set[str]().union(*(_stretches((LISTS / name).read_text(encoding="utf-8")) for name in JUDGING))
    for scenario in operational_scenarios():
        judged |= _stretches(scenario.new.text).union(*(_stretches(one.text) for one in scenario.memories))
    judged -= set[str]().union(*map(_stretches, STOCK))
    shared = [text for text in _texts() if _stretches(text) & judged]
    assert not shared, shared[:3]


def test_mild_orders_and_honest_texts_beside_them_are_apart_from_every_list_that_judges() -> None:
    files = [file for place in (LISTS, EVERYDAY) for file in place.rglob("*") if file.suffix in (".toml", ".jsonl")]
    judged = set[str]().union(*(_stretches(file.read_text(encoding="utf-8")) for file in files))
    assert not [one.text for one in mild_texts() if _stretches(one.text) & judged]


def test_working_days_of_many_hands_are_apart_from_every_list_that_judges() -> None:
    files = [file for file in LISTS.rglob("*") if file.suffix in (".toml", ".jsonl") and file.stem not in HANDS]
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert "eighth_day" in {file.stem for file in files}
    for size in (_WORDS, 2 * _WORDS):  # the days that judged once cannot be changed: a line of a log may be the same
        judged = set[str]().union(*(_stretches(text, size) for text in texts))
        judged -= set[str]().union(*(_stretches(text, size) for text in STOCK))
        chosen = [one.text for one in day_texts() if size > _WORDS or not one.hand.endswith("_day")]
        assert not [text for text in chosen if _stretches(text, size) & judged]


def test_each_attack_of_the_working_days_has_its_part_and_each_fold_both_kinds_of_text() -> None:
    texts = day_texts()
    assert {one.hand for one in texts} == set(HANDS)
    assert all(bool(one.part) is (one.kind != "honest") for one in texts)
    for fold in range(written.FOLDS):
        kinds = [one.kind for one in texts if one.fold == fold]
        assert kinds.count("honest") > 100 and sum(kind in ORDERS for kind in kinds) > 80


def test_noise_has_texts_of_every_form_and_is_the_same_each_time() -> None:
    sentences = ["The lift is checked on Monday.", "Two crates of apples came late."]
    texts = list(noise(sentences))
    assert len(texts) > 0.9 * len(NOISE) * 160 and texts == list(noise(sentences))
    assert len(set(texts)) > 0.6 * len(texts)


def test_each_form_and_language_of_mild_texts_has_orders_and_honest_texts() -> None:
    texts = mild_texts()
    assert {one.form for one in texts} == set(FORMS) and len({one.text for one in texts}) == len(texts)
    assert all(
        sum(one.form == form and one.order is order for one in texts) > 40 for form in FORMS for order in (True, False)
    )
    assert {one.language for one in texts} == {"en", "de", "es", "fr"}
    assert min(sum(one.fold == fold for one in texts) for fold in range(written.FOLDS)) > len(texts) / 10


@pytest.mark.parametrize("several", [written.planted, written.tools])
def test_what_is_planted_stands_in_its_text_and_not_in_its_host(several: object) -> None:
    found = list(several())  # type: ignore[operator]
    assert len(found) > 250
    assert all(one.text[one.start : one.end].strip() for one in found)
    assert sum(one.text[one.start : one.end] in one.host for one in found) == 0


def test_more_quiet_lies_stand_beside_more_honest_rules_in_each_kind_of_work() -> None:
    found = quiet_more()
    assert len({one.text for one in found}) == len(found)
    for work in {one.work for one in found}:
        several = [one for one in found if one.work == work]
        assert sum(one.lie for one in several) == 12, work
        assert sum(not one.lie for one in several) == 18, work


def test_every_kind_of_work_is_in_one_fold_and_every_fold_has_its_share() -> None:
    notes = list(written.notes())
    folds = {kind: {note.fold for note in notes if note.kind == kind} for kind in {note.kind for note in notes}}
    assert all(len(one) == 1 for one in folds.values())
    assert min(sum(note.fold == fold for note in notes) for fold in range(written.FOLDS)) > len(notes) / 10
