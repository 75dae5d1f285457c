"""Makes ``wide-gap.json``: how far, and in which direction, texts are moved away from pictures (``pocket.wide_gap``).

    python -m lazaretto_lab.training.pocket.wide_gap                # writes the file and its sha256 into the manifest

The direction is Fisher's between captions and pictures of drawn scenes. The strength is the one at which their centres
are as far apart as CLIP's (.82: Liang et al., Mind the Gap, 2022). Nothing here has seen a virus or a defence: beside
the two stand the figures of benign life, how often a plan still fetches the same picture, of people and pictures that
the direction was not made from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.agents.model import AgentModel
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto_lab.attacks.infectious.recorded_chats import record_chats
from lazaretto_lab.pocket import PocketClip, PocketVlm, load_pocket_models
from lazaretto_lab.pocket.weights import FOLDER, WIDE_GAP_FILE
from lazaretto_lab.pocket.wide_gap import WideGapTexts
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

CLIP_GAP = 0.82
SCENES, LIFE, PEOPLE = 7101, 7102, 7103
"""Seeds: scenes the direction is made from, scenes of the benign life it is tried in, and who lives it."""
RIDGE = 0.01
"""Of the mean variance, added to every direction: three hundred pictures do not span 384 dimensions."""
Rows = NDArray[np.float64]


def discriminant(texts: Rows, pictures: Rows) -> Rows:
    """The unit direction in which texts differ most from pictures, against how pictures differ among themselves."""
    centred = pictures - pictures.mean(axis=0)
    scatter = centred.T @ centred / len(pictures)
    ridge = RIDGE * np.trace(scatter) / len(scatter) * np.eye(len(scatter))
    direction = np.linalg.solve(scatter + ridge, texts.mean(axis=0) - pictures.mean(axis=0))
    return np.asarray(direction / np.linalg.norm(direction))


def moved(texts: Rows, direction: Rows, strength: float) -> Rows:
    """Texts moved and brought back to length one."""
    there = texts + strength * direction
    return np.asarray(there / np.linalg.norm(there, axis=1, keepdims=True))


def gap(texts: Rows, pictures: Rows) -> float:
    """How far the centres are apart."""
    return float(np.linalg.norm(texts.mean(axis=0) - pictures.mean(axis=0)))


def strength_for(texts: Rows, pictures: Rows, direction: Rows, wanted: float) -> float:
    """The least strength at which the gap is as wide as wanted."""
    low, high = 0.0, 8.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(moved(texts, direction, middle), pictures) < wanted else (low, middle)
    return round(high, 4)


def geometry(texts: Rows, pictures: Rows) -> dict[str, float]:
    """Cosines that are published of CLIP too."""
    n = len(texts)
    both = texts @ pictures.T
    figures = {
        "gap": gap(texts, pictures),
        "text_text": float(((texts @ texts.T).sum() - n) / (n * (n - 1))),
        "picture_picture": float(((pictures @ pictures.T).sum() - n) / (n * (n - 1))),
        "own_caption": float(np.trace(both) / n),
        "other_caption": float((both.sum() - np.trace(both)) / (n * (n - 1))),
    }
    return {name: round(value, 4) for name, value in figures.items()}


def make(vlm: PocketVlm, clip: PocketClip, chats: int) -> dict[str, Any]:
    """The file's content."""
    scenes = scene_pictures(300, SCENES)
    texts = np.asarray(clip.embed_texts([scene.title for scene in scenes]), dtype=np.float64)
    pictures = np.asarray(clip.embed_images([scene.picture for scene in scenes]), dtype=np.float64)
    direction = discriminant(texts, pictures)
    strength = strength_for(texts, pictures, direction, CLIP_GAP)
    wide = WideGapTexts(clip.texts, direction.astype(np.float32), strength)
    kept = record_chats(
        AgentModel(CachedChat(vlm), EmbeddingCache(clip)), scene_pictures(300, LIFE), chats, LIFE, PEOPLE
    )
    return {
        "strength": strength,
        "narrow": geometry(texts, pictures),
        "wide": geometry(moved(texts, direction, strength), pictures),
        "benign": {"plans": len(kept), "fetch_the_same": same_picture(clip, wide, kept)},
        "direction": [round(float(value), 7) for value in direction],
    }


def same_picture(clip: PocketClip, wide: WideGapTexts, chats: Any) -> float:
    """Share of benign plans that fetch the same picture of their album with the wide gap."""
    plans = [chat.plan for chat in chats]
    same = 0
    for chat, narrow, far in zip(chats, clip.embed_texts(plans), wide.embed_texts(plans), strict=True):
        held = clip.embed_images([item.picture for item in chat.album])
        same += int(np.argmax(held @ narrow) == np.argmax(held @ far))
    return round(same / len(plans), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--chats", type=int, default=256)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    made = make(*load_pocket_models(options.device), options.chats)
    text = json.dumps(made) + "\n"
    (options.folder / WIDE_GAP_FILE).write_text(text)
    manifest = options.folder / "manifest.json"
    listed = json.loads(manifest.read_text()) if manifest.is_file() else {}
    listed[WIDE_GAP_FILE] = hashlib.sha256(text.encode()).hexdigest()
    manifest.write_text(json.dumps(listed, indent=2) + "\n")
    print(json.dumps({name: value for name, value in made.items() if name != "direction"}, indent=1))


if __name__ == "__main__":
    main()
