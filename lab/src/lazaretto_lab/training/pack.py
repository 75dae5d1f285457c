"""Turns trained low-rank changes into the file that ships: in four or eight bits, at a lower rank where one is given.

    python -m lazaretto_lab.training.pack TRAINED OUT.safetensors --bits 8
    python -m lazaretto_lab.training.pack TRAINED OUT.safetensors --bits 4 --rank 12

``TRAINED`` is an ``.npz`` or a ``.safetensors`` file. Prints which share of the changes (sum of squares) is lost.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.weight_files import packed_changes, unpacked_changes

Arrays = Mapping[str, NDArray[Any]]


def read_trained(file: Path) -> dict[str, NDArray[Any]]:
    """What a training wrote."""
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            return {name: arrays[name] for name in arrays.files}
    from safetensors.numpy import load_file

    return dict(load_file(file))


def shrunk(arrays: Arrays, rank: int) -> dict[str, NDArray[Any]]:
    """The same changes at a lower rank."""
    found = dict(arrays)
    for name in arrays:
        if name.endswith(".lora_a"):
            other = f"{name.removesuffix('.lora_a')}.lora_b"
            left, values, right = _svd(arrays[other].astype(np.float32), arrays[name].astype(np.float32))
            root = np.sqrt(values[:rank])
            found[name], found[other] = right[:rank] * root[:, None], left[:, :rank] * root
    return found


def lost(trained: Arrays, shipped: Arrays) -> float:
    """The share of the changes that the file which ships does not have."""
    plain, gone, total = unpacked_changes(shipped), 0.0, 0.0
    for name in trained:
        if name.endswith(".lora_a"):
            other = f"{name.removesuffix('.lora_a')}.lora_b"
            whole = trained[other].astype(np.float32) @ trained[name].astype(np.float32)
            gone += float(np.square(plain[other] @ plain[name] - whole).sum())
            total += float(np.square(whole).sum())
    return gone / total


def _svd(up: NDArray[np.float32], down: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Singular values of ``up @ down``, without making it."""
    left, top = np.linalg.qr(up)
    right, low = np.linalg.qr(down.T)
    turned, values, back = np.linalg.svd(top @ low.T)
    return left @ turned, values, (right @ back.T).T


def write(arrays: Arrays, target: Path) -> None:
    """A safetensors file that everybody may read."""
    from safetensors.numpy import save_file

    target.parent.mkdir(parents=True, exist_ok=True)
    save_file(dict(arrays), target)
    target.chmod(0o644)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--bits", type=int, choices=(4, 8), required=True)
    parser.add_argument("--rank", type=int, default=0, help="default: that of the training")
    given = parser.parse_args()
    trained = read_trained(given.trained)
    shipped = packed_changes(shrunk(trained, given.rank) if given.rank else trained, given.bits)
    write(shipped, given.target)
    size, share = given.target.stat().st_size, lost(trained, shipped)
    print(f"{given.target.name}: {size:,} bytes, {share:.3%} of the changes lost")


if __name__ == "__main__":
    main()
