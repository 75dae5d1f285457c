"""Turns a trained reader into the file that ships: its changes at a lower rank, in four bits.

    python -m lazaretto_lab.training.reader.pack TRAINED.npz RANK OUT.safetensors

Prints which share of the changes (sum of squares) is lost.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.packed_changes import packed, unpacked_changes


def shrunk(trained: Path, rank: int) -> tuple[dict[str, NDArray[Any]], float]:
    """The arrays of the file, and the share that is lost."""
    found: dict[str, NDArray[Any]] = {}
    lost = total = 0.0
    with np.load(trained) as arrays:
        for name in arrays.files:
            if name.startswith("head."):
                found[name] = arrays[name]
            elif name.endswith(".lora_a"):
                at = name.removesuffix(".lora_a")
                down, up = arrays[name].astype(np.float32), arrays[f"{at}.lora_b"].astype(np.float32)
                left, values, right = _svd(up, down)
                root = np.sqrt(values[:rank])
                for part, rows in (("lora_a", right[:rank] * root[:, None]), ("lora_b", (left[:, :rank] * root).T)):
                    pairs, scale = packed(np.ascontiguousarray(rows))
                    found[f"{at}.{part}.q4"], found[f"{at}.{part}.scale"] = pairs, scale
                plain = unpacked_changes({k: v for k, v in found.items() if k.startswith(at)})
                lost += float(((plain[f"{at}.lora_b"] @ plain[f"{at}.lora_a"] - up @ down) ** 2).sum())
                total += float((values**2).sum())
    return found, lost / total


def _svd(up: NDArray[np.float32], down: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Singular values of ``up @ down``, without making it."""
    left, top = np.linalg.qr(up)
    right, low = np.linalg.qr(down.T)
    turned, values, back = np.linalg.svd(top @ low.T)
    return left @ turned, values, (right @ back.T).T


def main() -> None:
    """Write the file."""
    from safetensors.numpy import save_file

    arrays, lost = shrunk(Path(sys.argv[1]), int(sys.argv[2]))
    target = Path(sys.argv[3])
    target.parent.mkdir(parents=True, exist_ok=True)
    save_file(arrays, target)
    target.chmod(0o644)
    print(f"{target.name}: {target.stat().st_size:,} bytes, {lost:.1%} of the changes lost")


if __name__ == "__main__":
    main()
