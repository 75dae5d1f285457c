"""The screener that ships is the average of its members, and its left-out scores are theirs on its own scale."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("safetensors", reason="needs the gates extra")

from lazaretto.models.weight_files import read_arrays
from lazaretto_lab.training.screener import averaged

NAME = "encoder.layer.0.output.dense.weight"


def _product(arrays: dict[str, NDArray[np.float16]]) -> NDArray[np.float32]:
    return arrays[f"{NAME}.lora_b"].astype(np.float32) @ arrays[f"{NAME}.lora_a"].astype(np.float32)


def _member(seed: int) -> dict[str, NDArray[np.float16]]:
    rng = np.random.default_rng(seed)
    shapes = {f"{NAME}.lora_a": (4, 24), f"{NAME}.lora_b": (20, 4), "head.bias": (3,)}
    return {name: rng.normal(size=shape).astype(np.float16) for name, shape in shapes.items()}


def test_the_change_of_the_average_is_the_average_of_the_changes() -> None:
    members = [_member(seed) for seed in range(3)]
    made = averaged.average(members)
    assert np.allclose(_product(made), np.mean([_product(one) for one in members], axis=0), atol=0.02)
    assert np.allclose(made["head.bias"], np.mean([one["head.bias"] for one in members], axis=0), atol=0.002)


def test_no_rank_is_larger_than_that_of_one_training() -> None:
    members = [_member(seed) for seed in range(12)]
    made = averaged.average(members)
    assert made[f"{NAME}.lora_a"].shape == (20, 24) and made[f"{NAME}.lora_b"].shape == (20, 20)


def test_left_out_scores_are_the_members_mean_on_the_scale_of_the_average() -> None:
    columns = {
        "label": np.array([1, 0]), "source": np.array(["asb", "tools_0"]), "language": np.array(["en", "en"]),
        "kind": np.array(["", ""]), "crc": np.array([1, 2]),
        "logit_a": np.array([1.0, 3.0]), "logit_b": np.array([3.0, 5.0]),
        "quiet_a": np.array([0.0, 0.0]), "quiet_b": np.array([2.0, 4.0]),
    }  # fmt: skip
    agrees = {"orders": [2.0, 1.0], "quiet": [1.0, 0.5], "tools": [1.0, -1.0]}
    found = averaged.left_out(columns, ("a", "b"), agrees)
    assert found["logit"].tolist() == [5.0, 3.0] and found["quiet"].tolist() == [1.5, 2.5]


def _table(*rows: tuple[str, int, str, float]) -> averaged.Columns:
    source, crc, kind, logit = zip(*rows, strict=True)
    columns = {"source": np.array(source), "crc": np.array(crc), "kind": np.array(kind), "logit": np.array(logit)}
    return {
        **columns,
        "label": np.zeros(len(rows)),
        "language": np.array(["en"] * len(rows)),
        "quiet": -np.array(logit),
    }


def test_rows_of_members_meet_by_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was tested on texts of its day: a row counts where all have it, and equal texts keep their order."""
    tables = {
        "older": _table(("a", 1, "", 1.0), ("a", 2, "", 2.0), ("a", 1, "", 3.0), ("tools_0", 7, averaged.REAL, 4.0)),
        "newer": _table(("tools_0", 8, averaged.REAL, 5.0), ("a", 1, "", 6.0), ("a", 3, "", 7.0), ("a", 1, "", 8.0)),
    }
    monkeypatch.setattr(averaged, "scores_of", lambda member: tables[member.name])
    names = (("older", "s"), ("weights alone", ""), ("newer", "s"))
    found = averaged.scores([averaged.Member(name, "w", scores) for name, scores in names])
    assert found["crc"].tolist() == [8, 1, 1]
    assert found["logit_older"].tolist() == [4.0, 1.0, 3.0] and found["logit_newer"].tolist() == [5.0, 6.0, 8.0]
    assert found["quiet_newer"].tolist() == [-5.0, -6.0, -8.0] and "logit_weights alone" not in found


def test_what_ships_is_the_average_of_its_members() -> None:
    for member in averaged.MEMBERS:
        command = ["git", "cat-file", "-e", member.weights]
        if subprocess.run(command, cwd=averaged.REPOSITORY, capture_output=True).returncode:
            pytest.skip(f"this checkout has no history with the member {member.name}")
    made = averaged.average([averaged.weights_of(one) for one in averaged.MEMBERS])
    ships = read_arrays(averaged.REPOSITORY / averaged.WEIGHTS, "the screener")
    assert set(made) == set(ships)
    for name in (f"{NAME}.lora", f"{averaged.WORDS}.lora"):
        mine, theirs = (
            one[f"{name}_b"][:400].astype(np.float32) @ one[f"{name}_a"].astype(np.float32) for one in (made, ships)
        )
        assert np.allclose(mine, theirs, atol=1e-3)
    assert np.array_equal(made["head.weight"].astype(np.float32), ships["head.weight"].astype(np.float32))
