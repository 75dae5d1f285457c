"""Low-rank changes in four and eight bits: what they take and lose; files of sixteen bits are read too."""

from __future__ import annotations

import numpy as np
import pytest

from lazaretto.models.weight_files import packed_changes, unpacked_changes

DRAW = np.random.default_rng(0)
TRAINED = {
    "layer.weight.lora_a": DRAW.normal(size=(4, 256)).astype(np.float16),
    "layer.weight.lora_b": DRAW.normal(size=(128, 4)).astype(np.float16),
    "head.weight": DRAW.normal(size=(2, 256)).astype(np.float16),
}


@pytest.mark.parametrize(("bits", "smaller", "lost"), [(4, 3.7, 0.03), (8, 1.9, 2e-4)])
def test_fewer_bits_keep_changes_nearly(bits: int, smaller: float, lost: float) -> None:
    stored = packed_changes(TRAINED, bits)
    taken = sum(value.nbytes for name, value in stored.items() if "lora" in name)
    assert taken < sum(value.nbytes for name, value in TRAINED.items() if "lora" in name) / smaller
    found = unpacked_changes(stored)
    assert {name: (value.shape, value.dtype) for name, value in found.items()} == {
        name: (value.shape, np.float32) for name, value in TRAINED.items()
    }
    for name, value in TRAINED.items():
        error = np.square(found[name] - value.astype(np.float32)).sum() / np.square(value.astype(np.float32)).sum()
        assert error < (lost if "lora" in name else 1e-12), name


def test_each_row_has_its_own_scale() -> None:
    uneven = np.array([[1000.0, -1000.0], [0.01, 0.02]], np.float32)
    found = unpacked_changes(packed_changes({"one.lora_a": uneven}, 8))["one.lora_a"]
    assert found == pytest.approx(uneven, rel=0.01)


def test_a_row_of_nothing_stays_nothing() -> None:
    found = unpacked_changes(packed_changes({"one.lora_b": np.zeros((64, 2), np.float32)}, 8))
    assert not found["one.lora_b"].any() and found["one.lora_b"].shape == (64, 2)


def test_a_file_of_sixteen_bits_is_read_as_it_is() -> None:
    found = unpacked_changes(TRAINED)
    assert all(np.array_equal(found[name], value.astype(np.float32)) for name, value in TRAINED.items())
