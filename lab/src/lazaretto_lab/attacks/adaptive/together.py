"""Several searches against the gate at once: one pass through eyes and language for all their pictures.

A GPU is idle while one small search runs on it. Here every search keeps its own chats, sentences, draws and weights,
and makes the steps that it would make alone; only the heavy work is shared. On a GPU the gradients of speech are made
in half precision, and what a picture really does is checked in full. Torch at the top: import from inside functions.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto_lab.attacks.adaptive.search import AdaptiveSearch
from lazaretto_lab.attacks.adaptive.strategies import SLEEPERS
from lazaretto_lab.attacks.infectious.craft import CHECK
from lazaretto_lab.attacks.infectious.differentiable import UNSAID
from lazaretto_lab.pocket.backbone import PATCHES
from lazaretto_lab.pocket.gradients import PocketGradients, following
from lazaretto_lab.pocket.networks import Cache, Language
from lazaretto_lab.pocket.prefill import visible

ALIGNED = 16
"""Attention on a GPU is fast where the places that are looked at are a multiple of this."""


class _Situations:
    """One lesson of every search, side by side."""

    def __init__(self, lessons: Sequence[Any], dtype: torch.dtype) -> None:
        self.count = len(lessons[0].padding)
        self.said = _filled([one.said for one in lessons], UNSAID)
        lengths = [float(one.said.shape[1]) for one in lessons for _ in one.padding]
        self.lengths = torch.tensor(lengths, device=self.said.device)
        """What a search alone takes the mean over: the longest sentence of its lesson."""
        self.rest = _filled([one.rest for one in lessons], 0)
        self.rests = torch.cat([one.rests for one in lessons])
        width = PATCHES + self.rest.shape[1] + self.said.shape[1] - 1
        length = max(one.past[0][0].shape[2] for one in lessons)
        length += -(length + width) % ALIGNED
        self.padding = torch.cat([one.padding + length - one.past[0][0].shape[2] for one in lessons])
        self.past: Cache = [
            (
                torch.cat([_left(one.past[layer][0], length) for one in lessons]).to(dtype),
                torch.cat([_left(one.past[layer][1], length) for one in lessons]).to(dtype),
            )
            for layer in range(len(lessons[0].past))
        ]

    def scores(self, language: Language, seen: Tensor, rows: Tensor) -> Tensor:
        """(n, said, vocabulary): logits for what was seen (n, 49, width) in the situations ``rows`` (n)."""
        words, places = following(self.rest[rows], self.rests[rows], self.said[rows])
        x = torch.cat([seen, language.words(words).to(seen.dtype)], dim=1)
        past = [(k[rows], v[rows]) for k, v in self.past]
        padding = self.padding[rows]
        start = past[0][0].shape[2]
        positions = torch.arange(start, start + x.shape[1], device=x.device)[None] - padding[:, None]
        mask = visible(padding, start, start + x.shape[1])
        hidden, _ = language.run(x, positions, mask, past, wanted=x.shape[1] - PATCHES)
        return language.logits(hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1])))


class Together:
    """Searches of one size, moved together."""

    def __init__(self, searches: Sequence[AdaptiveSearch], half: bool = False, compiled: bool = False) -> None:
        """``half``: gradients of speech in bfloat16; ``compiled``: by kernels that are made for them first."""
        sizes = {(s.settings.steps, s.settings.restarts, s.settings.batch, s.settings.augment) for s in searches}
        if len(sizes) != 1 or searches[0].settings.augment or any(s.strategy in SLEEPERS for s in searches):
            raise InputError("searches", "are not of one kind", "Use one size, no augmentation and nobody who sleeps")
        models = searches[0].models
        if not isinstance(models, PocketGradients):
            raise InputError("models", "only pocket models are shared", "Seek one by one")
        self.searches, self.models, self.settings = list(searches), models, searches[0].settings
        self.exact = models.vlm.language
        self.quick = copy.deepcopy(self.exact).bfloat16() if half else self.exact
        if compiled:
            self.quick = copy.deepcopy(self.quick)
            self.quick.run = torch.compile(self.quick.run, dynamic=False)  # type: ignore[method-assign]
        dtype = next(self.quick.parameters()).dtype
        both = ([s.lessons.ask for s in searches], [s.lessons.answer for s in searches])
        self.quick_lessons = [_Situations(lessons, dtype) for lessons in both]
        self.exact_lessons = [_Situations(lessons, torch.float32) for lessons in both] if half else self.quick_lessons
        self.done = searches[0].done

    @property
    def starts(self) -> int:
        """Pictures of each search."""
        return self.settings.restarts

    def step(self) -> None:
        """One step of every search, and a check where it is time."""
        rows = [search._drawn() for search in self.searches]
        pixels = torch.cat([search.pixels for search in self.searches]).detach().requires_grad_(True)
        features = self.models.features(pixels / 255)
        parts = torch.split(features, self.starts)
        speech = torch.split(self._speech(self.quick, self.quick_lessons, features, rows)[0], self.starts)
        total = torch.zeros((), device=pixels.device)
        for search, part, spoken in zip(self.searches, parts, speech, strict=True):
            total = total + (spoken + search.weight * search._contest(part).mean(dim=1)).sum()
        (gradient,) = torch.autograd.grad(total, pixels)
        for search, own in zip(self.searches, torch.split(gradient, self.starts), strict=True):
            search._move(own, self.done)
            search.done = self.done + 1
        self.done += 1
        if self.done % CHECK == 0 or self.done == self.settings.steps:
            self.check()

    @torch.no_grad()
    def check(self) -> None:
        """Every search judges its rounded pictures, in full precision."""
        whole = [search._whole() for search in self.searches]
        features = self.models.features(torch.cat(whole) / 255)
        rows = [search._checked() for search in self.searches]
        losses, said = self._speech(self.exact, self.exact_lessons, features, rows)
        parts = zip(
            self.searches, whole, *(torch.split(one, self.starts) for one in (features, said, losses)), strict=True
        )
        for search, pictures, seen, spoken, loss in parts:
            search._judge(pictures, seen, spoken, loss)

    def _speech(
        self, language: Language, lessons: Sequence[_Situations], features: Tensor, rows: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(pictures,) mean cross-entropy of question and answer, and (pictures, rows) whether both are as wanted."""
        count = len(rows[0])
        places = torch.cat([
            (own + number * lessons[0].count).repeat(self.starts) for number, own in enumerate(rows)
        ])  # fmt: skip
        weight = next(language.parameters())
        seen = language.see(features.to(weight.dtype)).repeat_interleave(count, dim=0)
        total, right = torch.zeros(len(features), device=features.device), None
        for lesson in lessons:
            said = lesson.said[places]
            scores = lesson.scores(language, seen, places).float()
            loss = functional.cross_entropy(scores.flatten(0, 1), said.flatten(), reduction="none", ignore_index=UNSAID)
            each = loss.view(len(said), -1).sum(dim=1) / lesson.lengths[places]
            total = total + each.view(len(features), -1).mean(dim=1)
            if not torch.is_grad_enabled():
                as_wanted = ((scores.argmax(dim=-1) == said) | (said == UNSAID)).all(dim=-1).view(len(features), -1)
                right = as_wanted if right is None else right & as_wanted
        return total, right if right is not None else torch.zeros(0)

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the searches depends on."""
        return {"done": self.done, "searches": [search.state() for search in self.searches]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a ``state``."""
        for search, own in zip(self.searches, state["searches"], strict=True):
            search.restore(own)
        self.done = int(state["done"])


def sought(
    together: Together, keep: Path, enough: Callable[[], bool] = lambda: False, every: Callable[[], bool] | None = None
) -> bool:
    """Step until all is done or it is ``enough``; whether all is done. The state is kept in a file, from which an
    interrupted search goes on, at the end and whenever ``every`` says so."""
    if keep.is_file():
        together.restore(torch.load(keep, map_location=together.models.device, weights_only=True))
    while together.done < together.settings.steps and not enough():
        together.step()
        if every is not None and every():
            _write(together, keep)
    _write(together, keep)
    return together.done >= together.settings.steps


def _write(together: Together, keep: Path) -> None:
    written = io.BytesIO()
    torch.save(together.state(), written)
    write_file(keep, written.getvalue())


def _filled(tables: Sequence[Tensor], value: int) -> Tensor:
    """Tables of tokens under each other, the shorter ones filled up at their end."""
    length = max(one.shape[1] for one in tables)
    return torch.cat([functional.pad(one, (0, length - one.shape[1]), value=value) for one in tables])


def _left(keys: Tensor, length: int) -> Tensor:
    """Keys or values (n, heads, t, size) with unused places before them."""
    return functional.pad(keys, (0, 0, length - keys.shape[2], 0))
