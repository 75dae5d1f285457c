"""Attack pictures by their settings: searched for once, then taken from the folder where they are kept."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lazaretto.agents.album import AlbumItem
from lazaretto.files import write_file
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import Craft

if TYPE_CHECKING:
    from lazaretto_lab.attacks.infectious.craft import CraftedPicture, Progress
    from lazaretto_lab.attacks.infectious.differentiable import Differentiable


@dataclass(frozen=True, slots=True)
class SavedPicture:
    """An attack picture as it lies in a folder."""

    path: Path
    data: bytes
    """The PNG."""
    alpha_train: float
    beta_train: float
    losses: tuple[float, ...]
    fresh: bool
    """False when it was already there."""


def crafted_picture(
    models: Differentiable,
    base: AlbumItem,
    chats: Sequence[Chat],
    settings: Craft,
    folder: Path,
    report: Callable[[Progress], None] = lambda _: None,
    seek: Callable[..., CraftedPicture] | None = None,
) -> SavedPicture:
    """The picture for these settings, base, models and chats; sought only if it is not in ``folder`` yet.

    An ordinary search that was interrupted goes on where it was; ``seek`` takes its place.
    """
    key = settings.key(base.key, _chats_key(chats), models.vlm.fingerprint, models.clip.fingerprint)
    path, facts = folder / f"{key}.png", folder / f"{key}.json"
    if path.is_file() and facts.is_file():
        known = json.loads(facts.read_text())
        return SavedPicture(path, path.read_bytes(), known["alpha"], known["beta"], tuple(known["losses"]), False)
    from PIL import Image

    from lazaretto_lab.attacks.infectious.craft import craft

    folder.mkdir(parents=True, exist_ok=True)
    begun = folder / f"{key}.part"
    pixels = np.array(models.pixels(base.picture))
    found = (
        seek(models, pixels, chats, settings, report)
        if seek is not None
        else craft(models, pixels, chats, settings, report, begun)
    )
    buffer = io.BytesIO()
    Image.fromarray(found.pixels).save(buffer, format="PNG")
    # the picture comes last and whole: whoever finds it finds all of it
    write_file(facts, json.dumps({"alpha": found.alpha, "beta": found.beta, "losses": found.losses}))
    write_file(path, buffer.getvalue())
    begun.unlink(missing_ok=True)
    return SavedPicture(path, buffer.getvalue(), found.alpha, found.beta, found.losses, True)


def _chats_key(chats: Sequence[Chat]) -> str:
    facts = [(c.plan, c.questioner, c.questioner_history, c.answerer, c.answerer_history, c.album) for c in chats]
    return hashlib.sha256(repr(facts).encode()).hexdigest()
