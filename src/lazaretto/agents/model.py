"""The model of an agent: a chat model, an embedder, and a meter that counts both.

It holds no agent's state, so a rehearsal may share it with the world.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.prompts import TURN_TOKENS
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, Request, TextEmbedder, Vectors

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
LONGEST_SPEECH = 600
"""Characters of one plan, question or answer that are kept: a model that never stops cannot flood the ledger."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of calls of the chat model so far; subtract two readings to get the calls in between."""

    calls: int = 0
    """Completions asked for."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    faults: int = 0
    """Completions that failed."""

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.calls - other.calls,
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
            self.faults - other.faults,
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.faults + other.faults,
        )


@dataclass(frozen=True, slots=True)
class Utterance:
    """The result of one completion."""

    text: str
    fault: str = ""
    """Empty when the model answered; an empty text without a fault is an answer too."""


class AgentModel:
    """A chat model and an embedder, counted and made safe for a world."""

    def __init__(self, chat: ChatModel, embedder: TextEmbedder, max_tokens: int = TURN_TOKENS) -> None:
        """``embedder`` finds notes by their words, and pictures by their pixels where it can see, else by title."""
        self.chat = chat
        self.embedder = embedder if isinstance(embedder, EmbeddingCache) else EmbeddingCache(embedder)
        self.max_tokens = max_tokens
        self.spent = Usage()
        """Everything asked of the chat model since this model was made; the embedder counts its own encodings."""

    async def say(self, requests: Sequence[Request]) -> list[Utterance]:
        """One batch of completions, cleaned: control characters gone, endless text cut; a failure is a fault."""
        if not requests:
            return []
        completions = await self.chat.complete(requests)
        if len(completions) != len(requests):
            short = f"{self.chat.name} gave {len(completions)} answers to {len(requests)} requests"
            return [Utterance("", short) for _ in requests]
        self.spent += Usage(
            calls=len(requests),
            prompt_tokens=sum(c.prompt_tokens for c in completions),
            completion_tokens=sum(c.completion_tokens for c in completions),
            faults=sum(bool(c.fault) for c in completions),
        )
        return [Utterance("", c.fault) if c.fault else Utterance(cleaned(c.text)) for c in completions]

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        return self.embedder.embed_texts(texts)

    def album_item_vectors(self, album_items: Sequence[AlbumItem]) -> Vectors:
        """One unit row per album item: pictures through the picture tower (by title where there is none), notes
        through the text tower."""
        rows = np.zeros((len(album_items), self.embedder.dimension), dtype=np.float32)
        pictures = [i for i, k in enumerate(album_items) if not k.is_note]
        notes = [i for i, k in enumerate(album_items) if k.is_note]
        held = [album_items[i] for i in pictures]
        if held and self.embedder.sees:
            rows[pictures] = self.embedder.embed_keyed([k.key for k in held], [k.picture for k in held])
        elif held:
            rows[pictures] = self.embedder.embed_texts([k.title or "a picture" for k in held])
        if notes:
            rows[notes] = self.embedder.embed_texts([album_items[i].note for i in notes])
        return rows


def cleaned(text: str) -> str:
    """Model output as an agent may say it."""
    return _CONTROL.sub("", text).strip()[:LONGEST_SPEECH]
