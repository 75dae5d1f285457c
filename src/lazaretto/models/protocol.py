"""Interfaces of model backends: one method that takes a batch, so that a backend can be as parallel as it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""(n, dimension), rows of length one."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str
    """system | user | assistant."""
    text: str
    images: tuple[bytes, ...] = ()
    """Encoded pictures (PNG, JPEG, ...)."""


@dataclass(frozen=True, slots=True)
class Request:
    """One completion asked for."""

    messages: tuple[Message, ...]
    max_tokens: int = 512
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None
    """A JSON schema the answer should follow, where the backend can enforce one."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer, or the reason why there is none."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """The part of ``prompt_tokens`` that the server says it took from its prompt cache."""
    ms: float = 0.0
    fault: str = ""
    """Empty on success; else the reason why this request failed, after retries."""


@runtime_checkable
class ChatModel(Protocol):
    """Answers in words, from words and pictures."""

    name: str

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order. A request that fails gets a ``fault``; it never takes others down."""
        ...


@runtime_checkable
class TextEmbedder(Protocol):
    """Turns texts into unit vectors."""

    name: str
    dimension: int

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One row per text."""
        ...


@runtime_checkable
class ImageTextEmbedder(TextEmbedder, Protocol):
    """Turns texts and pictures into unit vectors of one space, so that a plan can fetch a picture."""

    def embed_images(self, images: Sequence[bytes]) -> Vectors:
        """One row per encoded picture."""
        ...
