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
from lazaretto_lab.studies.outbreak.bank import INDEX, entries, write_index
from lazaretto_lab.studies.outbreak.settings import read_settings


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bank")
    for place, entry in enumerate(entries()[:32]):
        data = f"picture {entry.name}".encode()
        (folder / f"{entry.name}.png").write_bytes(data)
        row = {"name": entry.name, "part": entry.part, "title": "a boat", "target": entry.target, "beta": place / 31}
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
    met = [viruses_for(settings, seed)[0] for seed in range(20)]
    rows = {row["sha256"]: row for row in json.loads((bank / INDEX).read_text())}
    assert {virus.album_item.key for virus in met} == {key for key, row in rows.items() if row["part"] == "test"}
    assert all(virus.target == TARGETS[rows[virus.album_item.key]["target"]] for virus in met)
    two = viruses_for(read_settings({"attack": {"bank": str(bank), "betas": [0.5, 1.0], "variants": 2}}), 3)
    assert len({virus.album_item.key for virus in two}) == 2
    assert all(rows[virus.album_item.key]["beta"] >= 0.5 for virus in two)


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
    assert {row.attack.part for row in rows} == {"test"} and all(row.attack.bank for row in rows)
