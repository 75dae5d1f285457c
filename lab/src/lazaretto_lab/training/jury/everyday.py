"""A hundred everyday requests by topic, written before the jury was trained: none of them should be stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class EverydayRequest:
    """One harmless request."""

    topic: str
    """health | money | family | work | code."""
    text: str


def everyday_requests() -> list[EverydayRequest]:
    """All of them, twenty per topic."""
    file = resources.files("lazaretto_lab.training.jury").joinpath("everyday_requests.jsonl")
    return [EverydayRequest(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
