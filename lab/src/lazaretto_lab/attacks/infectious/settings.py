"""What an attack picture is allowed to change, and how it is sought."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.targets import target

SIDE = 224
"""Side of the pocket world's pictures."""
RECIPE = 5
"""Counts up when the search itself changes, so that pictures kept from an older search are not taken for new ones."""
PAPER_SIDE = 336
"""Side of the pictures in the published attacks, whose frames are given in pixels."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of a picture may change: every pixel a little, or a frame at will."""

    kind: Literal["pixel", "border"]
    size: float
    """``pixel``: largest change of a channel, in 1/255; ``border``: width of the frame as published, of 336 pixels."""

    def __post_init__(self) -> None:
        if self.kind not in ("pixel", "border"):
            raise InputError("budget", f"{self.kind!r} is unknown", "Use pixel or border")
        largest = 255 if self.kind == "pixel" else PAPER_SIDE / 2
        if not 0 < self.size <= largest:
            raise InputError("size", f"{self.size} for a {self.kind} budget", f"Use more than 0, at most {largest:g}")

    @property
    def frame(self) -> int:
        """Width of the frame in the pocket world's pixels; 0 for a pixel budget."""
        return self.frame_of(SIDE)

    def frame_of(self, side: int) -> int:
        """Width of the frame of a picture with that side: the same share of it as published. 0 for a pixel budget."""
        return max(1, round(self.size * side / PAPER_SIDE)) if self.kind == "border" else 0

    @property
    def label(self) -> str:
        """Short name for tables: ``pixel-16``, ``border-6``."""
        return f"{self.kind}-{self.size:g}"


@dataclass(frozen=True, slots=True)
class Craft:
    """Everything that decides which attack picture comes out. Equal settings with equal models give equal pictures."""

    target: str
    """Name of a target in ``TARGETS``."""
    budget: Budget
    steps: int = 400
    restarts: int = 1
    """Independent starts sought side by side; the best on the training chats is kept."""
    batch: int = 6
    """Chats looked at in each step."""
    rule: Literal["auto", "adam", "sign"] = "auto"
    """How a gradient becomes a step: ``sign`` with momentum as published, ``adam``, or ``auto``: adam for pixel
    budgets, where it needs fewer steps, and sign for frames, where adam fails."""
    momentum: float = 0.95
    """Of the ``sign`` rule."""
    infected_share: float = 0.4
    """Share of training chats whose histories already hold the target, as they do once it spreads."""
    augment: tuple[str, ...] = ()
    """Any of ``jpeg``, ``flip``, ``resize``: what the picture should survive."""
    seed: int = 0

    def __post_init__(self) -> None:
        target(self.target)
        for name in ("steps", "restarts", "batch"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)} is too few", "Use 1 or more")
        if self.rule not in ("auto", "adam", "sign"):
            raise InputError("rule", f"{self.rule!r} is unknown", "Use auto, adam or sign")
        unknown = set(self.augment) - {"jpeg", "flip", "resize"}
        if unknown:
            raise InputError("augment", f"{', '.join(sorted(unknown))} is unknown", "Use jpeg, flip or resize")

    @property
    def signed(self) -> bool:
        """Whether steps follow the sign of the momentum."""
        return self.rule == "sign" or (self.rule == "auto" and self.budget.kind == "border")

    def key(self, *more: str) -> str:
        """A hash of the settings (and of ``more``: picture, models, chats) under which the result is kept."""
        data = json.dumps(asdict(self) | {"recipe": RECIPE}, sort_keys=True) + "\0" + "\0".join(more)
        return hashlib.sha256(data.encode()).hexdigest()[:24]
