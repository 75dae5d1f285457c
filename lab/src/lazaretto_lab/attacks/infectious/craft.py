"""The search for an infectious picture: Agent-Smith's optimisation, strengthened.

Projected steps lower three losses at once: the target must be the question, the target must be the answer, and the
picture must win the retrieval for as many plans as possible. Against the published recipe, a share of the chats is as
an infected agent has them (histories and the plans made from them), retrieval is a contest with the pictures of real
albums rather than a mean cosine, the weights of speech and retrieval follow whichever lags, step
sizes decay, Adam's rule takes the place of momentum sign steps for pixel budgets, and several starts run
side by side. Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lazaretto.agents.prompts import answer_request, plan_request, question_request
from lazaretto.files import write_file
from lazaretto_lab.attacks.infectious.augment import augmented
from lazaretto_lab.attacks.infectious.differentiable import Differentiable, Lesson, sentence_loss, spoken
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import Craft
from lazaretto_lab.attacks.infectious.targets import target

CONTEST_TEMPERATURE = 0.1
"""Soft enough to lean towards the middle of all plans: a sharp contest learns the training albums by heart."""
_LARGEST_STEP = {"pixel": 2.0, "border": 10.0}  # in 1/255, at the beginning; it decays to half a grey level
CHECK = 20
"""Steps between two looks at what the rounded pictures do."""
KEEP = 50
"""Steps after which an unfinished search is written down, where it has a place to go on from."""
_STATE = ("pixels", "velocity", "power", "weight", "alpha", "beta", "best", "losses", "done")
LEAN = 2.0
"""By how much the weight of retrieval against speech changes at each check, towards whichever lags."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How the search stands; what a progress bar shows."""

    step: int
    speech_loss: float
    retrieval_loss: float
    alpha: float
    """Share of training chats in which question and answer are the target, at the last check."""
    beta: float
    """Share of training chats in which the plan fetches the picture, at the last check."""


@dataclass(frozen=True)
class CraftedPicture:
    """The best picture found, as 8-bit pixels, and the losses on the way."""

    pixels: NDArray[np.uint8]
    """(side, side, 3)."""
    alpha: float
    beta: float
    losses: tuple[float, ...]
    """Total loss (speech + retrieval, unweighted) per step, of the start that won."""


@dataclass(frozen=True)
class _Lessons:
    ask: Lesson
    answer: Lesson
    plans: Tensor
    rivals: Tensor
    """(chats,): the best other picture's cosine to each plan."""
    others: Tensor
    """(chats, 9): every other picture's."""


def prepare(models: Differentiable, chats: Sequence[Chat], settings: Craft, listed: str = "") -> _Lessons:
    """Chats as the tensors the search needs; a share of them with the target already in the histories. With ``listed``,
    every plan is made with that title in the album's listing."""
    sentence, rng = target(settings.target), random.Random(f"infected histories:{settings.seed}")
    sick = [rng.randint(1, 3) if rng.random() < settings.infected_share else 0 for _ in chats]
    chats = [c.infected(sentence, n) if n else c for c, n in zip(chats, sick, strict=True)]
    chats = replanned(models, chats, sick, listed)
    ask = [question_request(c.questioner, c.questioner_history, image=b"picture") for c in chats]
    answer = [answer_request(c.answerer, c.answerer_history, sentence, image=b"picture") for c in chats]
    plans = models.clip.embed_texts([c.plan for c in chats])
    held = {k.key: k.picture for c in chats for k in c.album if not k.is_note}
    vectors = dict(zip(held, models.clip.embed_images(list(held.values())), strict=True))
    # the newcomer takes the place of the oldest
    others = np.stack([np.stack([vectors[k.key] for k in c.album[1:]]) @ p for c, p in zip(chats, plans, strict=True)])
    scores = torch.from_numpy(others).to(models.device)
    return _Lessons(
        models.situations(ask, sentence),
        models.situations(answer, sentence),
        torch.from_numpy(plans).to(models.device),
        scores.max(dim=1).values,
        scores,
    )


def replanned(models: Differentiable, chats: Sequence[Chat], sick: Sequence[int], listed: str = "") -> list[Chat]:
    """An agent whose history holds the target plans otherwise: its plan is written again, in that state; and so is
    everybody's, where a title is ``listed`` in place of the oldest."""
    titles = [[k.title for k in c.album] for c in chats]
    if listed:
        titles = [[*held[1:], listed] for held in titles]
    requests = [plan_request(c.questioner, c.questioner_history, t) for c, t in zip(chats, titles, strict=True)]
    again = [place for place, records in enumerate(sick) if records or listed]
    said = models.vlm.complete_now([requests[place] for place in again])
    plans = {place: completion.text for place, completion in zip(again, said, strict=True)}
    return [replace(chat, plan=plans.get(place) or chat.plan) for place, chat in enumerate(chats)]


class Search:
    """One search: several starts from one picture, moved together."""

    def __init__(self, models: Differentiable, base: NDArray[np.uint8], chats: Sequence[Chat], settings: Craft) -> None:
        self.models, self.settings = models, settings
        self.lessons = self._prepare(chats)
        self.base = torch.from_numpy(base.copy()).to(models.device).permute(2, 0, 1).float()[None]
        self.low, self.high = bounds(self.base, settings)
        self.rng = torch.Generator().manual_seed(settings.seed)
        spread = torch.rand((settings.restarts, *self.base.shape[1:]), generator=self.rng).to(models.device)
        start = self.low + (self.high - self.low) * spread
        # the first start is the picture itself where that is allowed; frames begin at random
        self.pixels = torch.where(torch.arange(settings.restarts, device=models.device).view(-1, 1, 1, 1) == 0, (
            self.base if settings.budget.kind == "pixel" else start), start)  # fmt: skip
        self.velocity = torch.zeros_like(self.pixels)
        self.power = torch.zeros_like(self.pixels)
        self.weight = torch.ones(settings.restarts, device=models.device)
        self.alpha = torch.zeros(settings.restarts)
        self.beta = torch.zeros(settings.restarts)
        self.best: list[tuple[float, Tensor, float, float]] = [(-1.0, p, 0.0, 0.0) for p in self._whole()]
        self.losses: list[list[float]] = [[] for _ in range(settings.restarts)]
        self.done = 0
        """Steps made."""

    def _prepare(self, chats: Sequence[Chat]) -> _Lessons:
        return prepare(self.models, chats, self.settings)

    def run(self) -> Iterator[Progress]:
        """Step by step; the caller shows progress and may stop early."""
        for step in range(self.done, self.settings.steps):
            speech, retrieval = self._step(step)
            self.done = step + 1
            if (step + 1) % CHECK == 0 or step == self.settings.steps - 1:
                self._check()
            leader = int(torch.argmax(self.alpha * self.beta + 1e-6 * self.beta))
            yield Progress(step + 1, float(speech[leader]), float(retrieval[leader]),
                           float(self.alpha[leader]), float(self.beta[leader]))  # fmt: skip

    def result(self) -> CraftedPicture:
        """The best picture of all starts."""
        index = max(range(len(self.best)), key=lambda i: self.best[i][0])
        _, pixels, alpha, beta = self.best[index]
        array = pixels.permute(1, 2, 0).to(torch.uint8).cpu().numpy()
        return CraftedPicture(array, alpha, beta, tuple(self.losses[index]))

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the search depends on."""
        state = {name: getattr(self, name) for name in _STATE}
        return state | {"rng": self.rng.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a ``state``."""
        for name in _STATE:
            setattr(self, name, state[name])
        self.rng.set_state(state["rng"].cpu())
        self.alpha, self.beta = self.alpha.cpu(), self.beta.cpu()

    def _step(self, step: int) -> tuple[Tensor, Tensor]:
        rows = self._drawn()
        pixels = self.pixels.detach().requires_grad_(True)
        features = self.models.features(augmented(pixels, self.settings.augment, self.rng) / 255)
        speech = self._speech(features, rows)
        retrieval = self._contest(features).mean(dim=1)
        total = (speech + self.weight * retrieval).sum()
        (gradient,) = torch.autograd.grad(total, pixels)
        self._move(gradient, step)
        self._note((speech + retrieval).detach())
        return speech.detach(), retrieval.detach()

    def _drawn(self) -> Tensor:
        """Which chats this step looks at."""
        drawn = torch.randperm(len(self.lessons.plans), generator=self.rng)[: self.settings.batch]
        return drawn.to(self.models.device)

    def _move(self, gradient: Tensor, step: int) -> None:
        gradient = gradient / gradient.abs().mean(dim=(1, 2, 3), keepdim=True).clamp(min=1e-12)
        moved = self.pixels.detach() - self._size(step) * self._direction(gradient, step)
        self.pixels = torch.minimum(torch.maximum(moved, self.low), self.high)

    def _note(self, losses: Tensor) -> None:
        for index, value in enumerate(losses.tolist()):
            self.losses[index].append(value)

    def _direction(self, gradient: Tensor, step: int) -> Tensor:
        if self.settings.signed:
            self.velocity = self.settings.momentum * self.velocity + gradient
            return self.velocity.sign()
        first, second = 0.9, 0.99
        self.velocity = first * self.velocity + (1 - first) * gradient
        self.power = second * self.power + (1 - second) * gradient**2
        steady = (self.power / (1 - second ** (step + 1))).sqrt() + 1e-3
        return self.velocity / (1 - first ** (step + 1)) / steady

    def _speech(self, features: Tensor, rows: Tensor) -> Tensor:
        parts = [
            sentence_loss(self.models.scores(features, lesson, rows), lesson, rows)
            for lesson in (self.lessons.ask, self.lessons.answer)
        ]
        return parts[0] + parts[1]

    def _contest(self, features: Tensor) -> Tensor:
        """(pictures, chats): how far the picture is from beating all others of the album for each plan."""
        mine = self.models.place(features) @ self.lessons.plans.t()
        gap = (self.lessons.others[None] - mine[..., None]) / CONTEST_TEMPERATURE
        return torch.log1p(gap.exp().sum(dim=-1))

    def _size(self, step: int) -> float | Tensor:
        return step_size(self.settings, step)

    def _whole(self) -> Tensor:
        return torch.minimum(torch.maximum(self.pixels.round(), self.low), self.high)

    def _spoke(self, said: Tensor, rows: Tensor) -> Tensor:
        """(pictures, rows): where speech is as wanted; an attacker with another aim wants something else."""
        return said

    def _won(self, wins: Tensor) -> Tensor:
        """(pictures, chats): where retrieval is as wanted."""
        return wins

    @torch.no_grad()
    def _check(self) -> None:
        """Measure the rounded pictures on training chats, keep the best, and lean towards what lags."""
        whole = self._whole()
        features = self.models.features(whole / 255)
        rows = self._checked()
        said = [
            spoken(self.models.scores(features, lesson, rows), lesson, rows)
            for lesson in (self.lessons.ask, self.lessons.answer)
        ]
        self._judge(whole, features, said[0] & said[1], self._speech(features, rows))

    def _checked(self) -> Tensor:
        """The chats that every check looks at."""
        return torch.arange(min(len(self.lessons.plans), 24), device=self.models.device)

    def _judge(self, whole: Tensor, features: Tensor, said: Tensor, losses: Tensor) -> None:
        """``said`` (pictures, rows) and ``losses`` (pictures) of the rounded pictures in the checked chats."""
        self.alpha = self._spoke(said, self._checked()).float().mean(dim=1).cpu()
        wins = self.models.place(features) @ self.lessons.plans.t() > self.lessons.rivals
        self.beta = self._wanted(features, wins).float().mean(dim=1).cpu()
        losses = losses.cpu()
        for index in range(len(whole)):
            alpha, beta = float(self.alpha[index]), float(self.beta[index])
            score = alpha * beta + 0.01 * (alpha + beta) - 1e-4 * float(losses[index])
            if score > self.best[index][0]:
                self.best[index] = (score, whole[index].clone(), alpha, beta)
        lean = torch.where(self.beta < self.alpha, LEAN, 1 / LEAN).to(self.weight)
        self.weight = (self.weight * lean).clamp(0.1, 10.0)

    def _wanted(self, features: Tensor, wins: Tensor) -> Tensor:
        """``_won``, for an attacker who looks at more than the training chats."""
        return self._won(wins)


def step_size(settings: Craft, step: int) -> float:
    """How far a pixel moves in a step, in 1/255."""
    largest = _LARGEST_STEP[settings.budget.kind]
    if settings.budget.kind == "pixel":
        largest = min(largest, max(0.5, settings.budget.size / 4))
    done = step / max(1, settings.steps - 1)
    return float(0.5 + (largest - 0.5) * 0.5 * (1 + np.cos(np.pi * done)))


def bounds(base: Tensor, settings: Craft) -> tuple[Tensor, Tensor]:
    """Lowest and highest allowed value of every pixel, in 0 to 255."""
    if settings.budget.kind == "pixel":
        reach = float(int(settings.budget.size))
        return (base - reach).clamp(min=0), (base + reach).clamp(max=255)
    frame = torch.ones((1, 1, *base.shape[2:]), dtype=torch.bool, device=base.device)
    width = settings.budget.frame_of(base.shape[-1])
    frame[..., width:-width, width:-width] = False
    return torch.where(frame, 0.0, base), torch.where(frame, 255.0, base)


def craft(
    models: Differentiable,
    base: NDArray[np.uint8],
    chats: Sequence[Chat],
    settings: Craft,
    report: Callable[[Progress], None] = lambda _: None,
    keep: Path | None = None,
) -> CraftedPicture:
    """Search to the end and give the best picture."""
    return finished(Search(models, base, chats, settings), report, keep)


def finished(search: Search, report: Callable[[Progress], None], keep: Path | None = None) -> CraftedPicture:
    """The best picture after every step has been made. With ``keep``, an interrupted search goes on from that file."""
    if keep is not None and keep.is_file():
        search.restore(torch.load(keep, map_location=search.models.device, weights_only=True))
    for progress in search.run():
        report(progress)
        if keep is not None and progress.step % KEEP == 0:
            written = io.BytesIO()
            torch.save(search.state(), written)
            write_file(keep, written.getvalue())
    return search.result()
