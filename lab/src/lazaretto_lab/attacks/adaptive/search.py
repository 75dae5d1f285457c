"""The infectious search with losses bent by a strategy. Torch at the top: import this module from inside functions."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from lazaretto.agents.prompts import ChatRecord, Persona, answer_request, question_request
from lazaretto.gates.foresight.gauge import RetrievalProbe
from lazaretto.learn.calibration import MonitorCalibration, load
from lazaretto_lab import pocket
from lazaretto_lab.attacks.adaptive.strategies import (
    FETCHING_HOBBIES,
    LISTED,
    MODEST,
    MODEST_PULL,
    PLAIN_QUESTION,
    PROBED,
    SEVERAL,
    SLEEPERS,
    SPEAKING,
    AdaptiveCraft,
    sentence_of,
    sentences,
)
from lazaretto_lab.attacks.infectious.craft import (
    CONTEST_TEMPERATURE,
    CraftedPicture,
    Progress,
    Search,
    finished,
    prepare,
)
from lazaretto_lab.attacks.infectious.differentiable import UNSAID, Differentiable, sentence_loss
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import Craft
from lazaretto_lab.attacks.infectious.targets import target

SILENCE = 4.0
"""Cross-entropy from which a sleeping virus counts as silent: the target is no longer what anybody would say."""
SHY = 0.05
"""By how much (in cosine) a partial virus should lose where it is not to be fetched."""

HOLDING = 5.0
"""What it is worth to a search that the gate's probe fetches its picture no more than it may."""
FAITHFUL, FAITH = 0.65, 20.0
"""How close (in cosine) a named picture stays to its title, as benign ones are, and what it is worth to the search."""


class AdaptiveSearch(Search):
    """One search. What a strategy changes is what it wants of speech and retrieval; the rest is as before."""

    def __init__(
        self, models: Differentiable, base: NDArray[np.uint8], chats: Sequence[Chat], settings: AdaptiveCraft
    ) -> None:
        self.strategy, self.listed = settings.strategy, settings.title if settings.strategy in LISTED else ""
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
        probed = self.strategy in PROBED
        self.probe = probe_of(models) if probed else None  # type: ignore[arg-type]
        self.spared = torch.zeros(len(chats), dtype=torch.bool, device=models.device)
        """Chats whose answer is to stay as it was."""
        if self.strategy in SEVERAL:
            self._paraphrase(chats, sentences(self.strategy, settings.target))
        if self.strategy in LISTED:
            self._as_they_speak(chats, base)
        if self.strategy == "diverse":
            asked = [answer_request(c.answerer, c.answerer_history, PLAIN_QUESTION, image=b"picture") for c in chats]
            answer = models.situations(asked, target(settings.target))
            self.lessons = replace(self.lessons, ask=answer, answer=answer)

    def _paraphrase(self, chats: Sequence[Chat], texts: Sequence[str]) -> None:
        def said(lesson: Any, persons: Sequence[Persona]) -> Any:
            return self._saying(lesson, [sentence_of(person, self.strategy, texts) for person in persons])

        self.lessons = replace(
            self.lessons,
            ask=said(self.lessons.ask, [c.questioner for c in chats]),
            answer=said(self.lessons.answer, [c.answerer for c in chats]),
        )

    def _prepare(self, chats: Sequence[Chat]) -> Any:
        return prepare(self.models, chats, self.settings, self.listed)

    def _as_they_speak(self, chats: Sequence[Chat], base: NDArray[np.uint8]) -> None:
        """Everybody answers what will really have been asked. Of a ``minority``, questions, and answers of those who
        are not to speak, stay what is said about the picture as it was."""
        wanted, picture = sentences(self.strategy, self.settings.target), png(base)
        questions = [sentence_of(c.questioner, self.strategy, wanted) for c in chats]
        answers = [sentence_of(c.answerer, self.strategy, wanted) for c in chats]
        if self.strategy == "minority":
            asking = [question_request(c.questioner, c.questioner_history, image=picture) for c in chats]
            questions = [one.text for one in self.models.vlm.complete_now(asking)]
        asked = [
            answer_request(c.answerer, c.answerer_history, question, image=picture)
            for c, question in zip(chats, questions, strict=True)
        ]
        if self.strategy == "minority":
            speaks = [c.answerer["personality"] in SPEAKING for c in chats]
            alone = [one.text for one in self.models.vlm.complete_now(asked)]
            answers = [now if yes else then for now, then, yes in zip(answers, alone, speaks, strict=True)]
            self.spared = ~torch.tensor(speaks, device=self.models.device)
        answer = self.models.situations(asked, wanted[0])
        self.lessons = replace(
            self.lessons, ask=self._saying(self.lessons.ask, questions), answer=self._saying(answer, answers)
        )

    def _saying(self, lesson: Any, texts: Sequence[str]) -> Any:
        """The lesson with a text of its own for each situation."""
        rows = [self.models.coded(text) for text in texts]
        length = max(map(len, rows))
        padded = [[*row, *[UNSAID] * (length - len(row))] for row in rows]
        return replace(lesson, said=torch.tensor(padded, device=self.models.device))

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
        if self.probe is not None:
            placed = self.models.place(features)
            share, beyond = self._probed(placed)
            held = torch.where(share < PROBED[self.strategy], torch.zeros_like(beyond), HOLDING * beyond)
            return every + held + self._unfaithful(placed)
        if self.wanted.all() and self.strategy not in MODEST:
            return every
        placed = self.models.place(features)
        mine = placed @ self.lessons.plans.t()
        winning = ((mine - self.lessons.rivals + SHY) / CONTEST_TEMPERATURE).clamp(min=0)
        if self.strategy in MODEST:
            held = torch.where(_share(mine > self.lessons.rivals) < MODEST_PULL, every, winning)
            return held if self.title is None else held + self._unfaithful(placed)
        return torch.where(self.wanted, every, winning)

    def _unfaithful(self, placed: Tensor) -> Tensor:
        """(pictures, 1): the price of being far from the title."""
        if self.title is None:
            raise TypeError(f"strategy {self.strategy} has no title")
        return FAITH * (FAITHFUL - placed @ self.title).clamp(min=0)

    def _probed(self, placed: Tensor) -> tuple[Tensor, Tensor]:
        """(pictures, 1) each: the share of the gate's contests that it wins, and by how much."""
        if self.probe is None:
            raise TypeError(f"strategy {self.strategy} looks at no probe")
        plans, rivals = self.probe
        mine = (placed @ plans.t())[:, None]
        beyond = ((mine - rivals + SHY) / CONTEST_TEMPERATURE).clamp(min=0)
        return _share((mine > rivals).flatten(1)), beyond.flatten(1).mean(dim=1, keepdim=True)

    def _spoke(self, said: Tensor, rows: Tensor) -> Tensor:
        return (said == self.awake[rows]) | self.spared[rows]

    def _wanted(self, features: Tensor, wins: Tensor) -> Tensor:
        if self.probe is None:
            return self._won(wins)
        share, _ = self._probed(self.models.place(features))
        return wins & (share <= PROBED[self.strategy])

    def _won(self, wins: Tensor) -> Tensor:
        if self.strategy in MODEST:
            return (1 - (_share(wins) - MODEST_PULL).abs()).expand_as(wins)
        return wins == self.wanted


def _share(wins: Tensor) -> Tensor:
    return wins.float().mean(dim=1, keepdim=True)


@functools.lru_cache(maxsize=1)
def probe_of(models: Differentiable) -> tuple[Tensor, Tensor]:
    """The gate's probe as everybody can read it: its plans, and of each of its albums (albums, plans) the best cosine
    of a picture to them. Searches on the same models share it."""
    gauge = shipped_gauge()
    plans = models.clip.embed_texts(gauge.plans)
    held = [models.clip.embed_images([k.picture for k in album]) for album in gauge.albums]
    rivals = np.stack([(pictures @ plans.T).max(axis=0) for pictures in held])
    return torch.from_numpy(plans).to(models.device), torch.from_numpy(rivals).to(models.device)


def shipped_gauge() -> RetrievalProbe:
    """The probe of the calibration that comes with the pocket models, for pictures."""
    files = sorted((Path(pocket.__file__).parent / "calibrations").glob("watch-*.json"))
    gauges = [MonitorCalibration.from_json(load(path)).gauge for path in files]
    return next(gauge for gauge in gauges if not gauge.albums[0][0].is_note)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Pixels as an encoded picture."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


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
