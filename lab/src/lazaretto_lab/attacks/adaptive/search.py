"""The infectious search with losses bent by a strategy. Torch at the top: import this module from inside functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lazaretto.agents.persona import Persona
from lazaretto.agents.prompts import ChatRecord, answer_request
from lazaretto_lab.attacks.adaptive.strategies import (
    FETCHING_HOBBIES,
    MODEST,
    MODEST_PULL,
    PLAIN_QUESTION,
    SEVERAL,
    SLEEPERS,
    AdaptiveCraft,
    sentence_of,
    sentences,
)
from lazaretto_lab.attacks.infectious.craft import CONTEST_TEMPERATURE, CraftedPicture, Progress, Search, finished
from lazaretto_lab.attacks.infectious.differentiable import UNSAID, Differentiable, sentence_loss
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import Craft
from lazaretto_lab.attacks.infectious.targets import target

SILENCE = 4.0
"""Cross-entropy from which a sleeping virus counts as silent: the target is no longer what anybody would say."""
SHY = 0.05
"""By how much (in cosine) a partial virus should lose where it is not to be fetched."""

FAITHFUL, FAITH = 0.65, 20.0
"""How close (in cosine) a named picture stays to its title, as benign ones are, and what it is worth to the search."""


class AdaptiveSearch(Search):
    """One search. What a strategy changes is what it wants of speech and retrieval; the rest is as before."""

    def __init__(
        self, models: Differentiable, base: NDArray[np.uint8], chats: Sequence[Chat], settings: AdaptiveCraft
    ) -> None:
        self.strategy = settings.strategy
        wakes = SLEEPERS.get(self.strategy, 0)
        if wakes:
            chats = [_with_past(c, settings, wakes) if i % 2 else _short(c, i % wakes) for i, c in enumerate(chats)]
            settings = replace(settings, infected_share=0.0)
        super().__init__(models, base, chats, settings)
        awake = [i % 2 == 1 or not wakes for i in range(len(chats))]
        self.awake = torch.tensor(awake, device=models.device)
        wanted = [self.strategy != "partial" or c.questioner["hobby"] in FETCHING_HOBBIES for c in chats]
        self.wanted = torch.tensor(wanted, device=models.device)
        if not any(wanted):
            self.wanted[:] = True
        named = models.clip.embed_texts([settings.title]) if settings.title else None
        self.title = torch.from_numpy(named.T).to(models.device) if named is not None else None
        if self.strategy in SEVERAL:
            self._paraphrase(chats, sentences(self.strategy, settings.target))
        if self.strategy == "diverse":
            asked = [answer_request(c.answerer, c.answerer_history, PLAIN_QUESTION, image=b"picture") for c in chats]
            answer = models.situations(asked, target(settings.target))
            self.lessons = replace(self.lessons, ask=answer, answer=answer)

    def _paraphrase(self, chats: Sequence[Chat], texts: Sequence[str]) -> None:
        def said(lesson: Any, persons: Sequence[Persona]) -> Any:
            rows = [self.models.coded(sentence_of(person, self.strategy, texts)) for person in persons]
            length = max(map(len, rows))
            padded = [[*row, *[UNSAID] * (length - len(row))] for row in rows]
            return replace(lesson, said=torch.tensor(padded, device=self.models.device))

        self.lessons = replace(
            self.lessons,
            ask=said(self.lessons.ask, [c.questioner for c in chats]),
            answer=said(self.lessons.answer, [c.answerer for c in chats]),
        )

    def _speech(self, features: Tensor, rows: Tensor) -> Tensor:
        if self.strategy not in SLEEPERS:
            return super()._speech(features, rows)
        awake, asleep = rows[self.awake[rows]], rows[~self.awake[rows]]
        loss = super()._speech(features, awake) if len(awake) else torch.zeros(len(features), device=features.device)
        for lesson in (self.lessons.ask, self.lessons.answer) if len(asleep) else ():
            spoken = sentence_loss(self.models.scores(features, lesson, asleep), lesson, asleep)
            loss = loss + (SILENCE - spoken).clamp(min=0)
        return loss

    def _contest(self, features: Tensor) -> Tensor:
        every = super()._contest(features)
        if self.wanted.all() and self.strategy not in MODEST:
            return every
        placed = self.models.place(features)
        mine = placed @ self.lessons.plans.t()
        winning = ((mine - self.lessons.rivals + SHY) / CONTEST_TEMPERATURE).clamp(min=0)
        if self.strategy in MODEST:
            held = torch.where(_share(mine > self.lessons.rivals) < MODEST_PULL, every, winning)
            return held if self.title is None else held + FAITH * (FAITHFUL - placed @ self.title).clamp(min=0)
        return torch.where(self.wanted, every, winning)

    def _spoke(self, said: Tensor, rows: Tensor) -> Tensor:
        return said == self.awake[rows]

    def _won(self, wins: Tensor) -> Tensor:
        if self.strategy in MODEST:
            return (1 - (_share(wins) - MODEST_PULL).abs()).expand_as(wins)
        return wins == self.wanted


def _share(wins: Tensor) -> Tensor:
    return wins.float().mean(dim=1, keepdim=True)


def seek(
    models: Differentiable,
    base: NDArray[np.uint8],
    chats: Sequence[Chat],
    settings: Craft,
    report: Callable[[Progress], None] = lambda _: None,
) -> CraftedPicture:
    """Search to the end; the place of ``craft`` for settings with a strategy."""
    if not isinstance(settings, AdaptiveCraft):
        raise TypeError("an adaptive search takes settings with a strategy")
    return finished(AdaptiveSearch(models, base, chats, settings), report)


def _short(chat: Chat, records: int) -> Chat:
    """The chat with at most so many past records, as before it wakes."""

    def cut(history: tuple[ChatRecord, ...]) -> tuple[ChatRecord, ...]:
        return history[len(history) - min(records, len(history)) :]

    return replace(chat, questioner_history=cut(chat.questioner_history), answerer_history=cut(chat.answerer_history))


def _with_past(chat: Chat, settings: AdaptiveCraft, records: int) -> Chat:
    """The chat with a past long enough to wake it: its own, or the target's where that is too short."""
    has = min(len(chat.questioner_history), len(chat.answerer_history)) >= records
    return chat if has else chat.infected(target(settings.target), records)
