"""What the block list's picture likeness catches, and what it wrongly takes for the same, by distance.

Real drawings (Debian's openclipart, 1,200 of them) are compared with each other and with copies of themselves. Two
different files count as different pictures when their pixels, at 64 x 64 on white, differ by more than 6 of 255 on
average; many of the set are the same drawing filed twice.

    python lab/benchmarks/picture_likeness.py [--pictures ../shared/data/openclipart/png] [--write]
"""

from __future__ import annotations

import argparse
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from performance_page import write_section
from PIL import Image

from lazaretto.gates.blocklist import BlocklistSettings
from lazaretto.pictures.hashing import PerceptualHash
from lazaretto_lab.models.own_pictures import first_frame, first_frame_rgb

SEED = 7
SAMPLE = 300
DIFFERENT = 6.0
SHARED = Path(os.environ.get("LAZARETTO_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def copies(image: Image.Image, stream: np.random.Generator) -> Iterator[tuple[str, Image.Image]]:
    """Ways in which a picture travels, and small edits."""
    width, height = image.size
    yield "JPEG, quality 85", _through(image, "JPEG", quality=85)
    yield "JPEG, quality 50", _through(image, "JPEG", quality=50)
    yield "JPEG, quality 20", _through(image, "JPEG", quality=20)
    yield "WebP, quality 60", _through(image, "WEBP", quality=60)
    yield "half size", image.resize((max(1, width // 2), max(1, height // 2)))
    yield "one and a half size", image.resize((int(width * 1.5), int(height * 1.5)))
    yield "noise of ±8", _noisy(image, stream, 8)
    yield "noise of ±32", _noisy(image, stream, 32)
    yield "10 % darker", Image.eval(image, lambda value: int(value * 0.9))
    yield "frame of 6 pixels", _framed(image)
    yield "2 % cropped all round", image.crop((width // 50, height // 50, width - width // 50, height - height // 50))


def _through(image: Image.Image, kind: str, **more: int) -> Image.Image:
    made = io.BytesIO()
    image.save(made, kind, **more)
    return first_frame(made.getvalue())


def _noisy(image: Image.Image, stream: np.random.Generator, size: int) -> Image.Image:
    pixels = np.asarray(image).astype(int)
    return Image.fromarray((pixels + stream.integers(-size, size + 1, pixels.shape)).clip(0, 255).astype(np.uint8))


def _framed(image: Image.Image) -> Image.Image:
    pixels = np.asarray(image).copy()
    pixels[:6] = pixels[-6:] = pixels[:, :6] = pixels[:, -6:] = 128
    return Image.fromarray(pixels)


def false_matches(pictures: list[Image.Image], looks: list[PerceptualHash], gap: int) -> dict[int, tuple[int, int]]:
    """Distance -> pairs of different pictures within it, by the hash alone and with the colours compared too."""
    small = np.stack([np.asarray(p.resize((64, 64), Image.Resampling.BOX), dtype=np.float32).ravel() for p in pictures])
    hashes = np.array([look.hash for look in looks], dtype=np.uint64)
    bits = np.bitwise_count(hashes[:, None] ^ hashes[None, :])
    counts = {distance: [0, 0] for distance in range(0, 9)}
    for one, two in np.argwhere(np.triu(bits <= 8, 1)):
        if np.abs(small[one] - small[two]).mean() <= DIFFERENT:
            continue
        alike = looks[one].colour_gap(looks[two]) <= gap
        for distance in range(int(bits[one, two]), 9):
            counts[distance][0] += 1
            counts[distance][1] += alike
    return {distance: (hash_only, both) for distance, (hash_only, both) in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, default=SHARED / "data" / "openclipart" / "png")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    options = parser.parse_args()
    files = sorted(options.pictures.rglob("*.png"))
    if not files:
        print(f"no pictures in {options.pictures}; name a folder with --pictures")
        return
    settings = BlocklistSettings()
    pictures = [first_frame_rgb(file.read_bytes()) for file in files]
    looks = [PerceptualHash.of(picture) for picture in pictures]
    pairs = len(files) * (len(files) - 1) // 2
    lines = [
        "## Pictures that look alike",
        "",
        f"`python lab/benchmarks/picture_likeness.py --write`: {len(files):,} real drawings, {pairs:,} pairs. Pairs of",
        "different drawings that would be taken for the same (the block list uses distance "
        f"{settings.distance} and a colour gap of {settings.colour_gap}):",
        "",
        "| distance in bits | hash alone | with colours |",
        "|---|---|---|",
    ]
    for distance, (alone, both) in false_matches(pictures, looks, settings.colour_gap).items():
        lines.append(f"| {distance} | {alone} ({alone / pairs:.1e}) | {both} ({both / pairs:.1e}) |")
    lines += ["", f"Copies of {SAMPLE} of them that are recognised, by distance, colours compared too:", ""]
    lines += ["| copy | 0 | 2 | 4 |", "|---|---|---|---|"]
    stream, chosen = np.random.default_rng(SEED), random.Random(SEED).sample(range(len(files)), SAMPLE)
    found: dict[str, list[tuple[int, int]]] = {}
    for place in chosen:
        for name, copy in copies(pictures[place], stream):
            look = PerceptualHash.of(copy)
            found.setdefault(name, []).append((look.distance(looks[place]), look.colour_gap(looks[place])))
    for name, measured in found.items():
        shares = [sum(b <= d and g <= settings.colour_gap for b, g in measured) / SAMPLE for d in (0, 2, 4)]
        lines.append(f"| {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
    section = "\n".join(lines)
    print(section)
    if options.write:
        write_section("pictures that look alike", section)


if __name__ == "__main__":
    main()
