"""The bank of viruses: what it holds, how it is split, and how a run draws from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.targets import TARGETS
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.studies.outbreak.attack import viruses_for
from lazaretto_lab.studies.outbreak.bank import INDEX, drawn, entries, searches, write_index
from lazaretto_lab.studies.outbreak.settings import read_settings

SILENT = 7


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bank")
    for place, entry in enumerate(entries()[:32]):
        data = f"picture {entry.name}".encode()
        (folder / f"{entry.name}.png").write_bytes(data)
        row = {"name": entry.name, "part": entry.part, "title": "a boat", "target": entry.target, "beta": place / 31}
        row |= {"base": entry.base, "budget": entry.budget.label, "alpha": 0.1 if place == SILENT else 1.0}
        row["sha256"] = hashlib.sha256(data).hexdigest()
        (folder / f"{entry.name}.json").write_text(json.dumps(row))
    assert len(write_index(folder)) == 32
    return folder


def test_eight_bases_four_sentences_eight_budgets_and_parts_share_no_base() -> None:
    every = entries()
    assert len({entry.name for entry in every}) == 256
    assert Counter(entry.part for entry in every) == {"design": 96, "test": 160}
    parts = {part: {entry.base for entry in every if entry.part == part} for part in ("design", "test")}
    assert not parts["design"] & parts["test"]


def test_seeds_draw_all_viruses_of_a_part_and_no_other(bank: Path) -> None:
    settings = read_settings({"attack": {"bank": str(bank), "part": "test"}})
    met = [viruses_for(settings, seed)[0] for seed in range(32)]
    rows = {row["sha256"]: row for row in json.loads((bank / INDEX).read_text())}
    assert {virus.album_item.key for virus in met} == {key for key, row in rows.items() if row["alpha"] > 0.5}
    assert all(virus.target == TARGETS[rows[virus.album_item.key]["target"]] for virus in met)
    two = viruses_for(read_settings({"attack": {"bank": str(bank), "betas": [0.5, 1.0], "variants": 2}}), 3)
    assert len({virus.album_item.key for virus in two}) == 2
    assert all(rows[virus.album_item.key]["beta"] >= 0.5 for virus in two)


def test_wherever_the_search_stops_the_test_part_is_covered_evenly() -> None:
    every = searches()
    assert all(entry.part == "test" for together in every[:40] for entry in together)
    for stop in (5, 10, 20):
        begun = every[:stop]
        for facet in ("base", "target"):
            times = Counter(getattr(together[0], facet) for together in begun)
            assert len(times) == (5 if facet == "base" else 4) and max(times.values()) - min(times.values()) <= 1
        kinds = Counter(together[0].budget.kind for together in begun)
        assert min(kinds.values()) >= 0.4 * stop


def test_a_family_shares_base_and_budget_and_says_different_things(bank: Path) -> None:
    rows = json.loads((bank / INDEX).read_text())
    for seed in range(6):
        kin = drawn(rows, "test", (0.0, 1.0), seed, 2, family=True)
        assert len({row["target"] for row in kin}) == 2
        assert len({(row["base"], row["budget"]) for row in kin}) == 1
    with pytest.raises(InputError, match="5 sentences"):
        drawn(rows, "test", (0.0, 1.0), 0, 5, family=True)
    settings = read_settings({"mutates": True, "attack": {"bank": str(bank), "variants": 2}})
    assert len({virus.target for virus in viruses_for(settings, 1)}) == 2


def test_a_bank_that_is_another_or_not_there_is_said(bank: Path, tmp_path: Path) -> None:
    def draw(**attack: object) -> None:
        viruses_for(read_settings({"attack": attack}))

    with pytest.raises(InputError, match=r"virus_bank\.py"):
        draw(bank=str(tmp_path))
    with pytest.raises(InputError, match="not the bank"):
        draw(bank=str(bank), sha256="0" * 64)
    with pytest.raises(InputError, match="0 viruses"):
        draw(bank=str(bank), betas=[0.999, 0.9991])


def test_the_experiment_on_many_viruses_names_the_test_part_alone() -> None:
    experiment = load_experiment("foresight/many")
    rows = [read_settings({**experiment.settings, **row.settings}) for row in experiment.rows]
    assert {(row.models.gap, row.attack.bank) for row in rows} == {("", "runs/bank"), ("wide", "runs/bank-wide")}
    assert {row.attack.part for row in rows} == {"test"}
    every_round = [row for row in rows if row.defence == "flp" and not row.defence_settings]
    assert len(every_round) == 8 and all(row.rounds <= 44 for row in every_round)  # thirteen times the world's calls
