"""The search for one infectious picture within each of several budgets, all starts of all of them moved together.

A GPU is idle while one small search runs on it. Budgets of one kind share the base picture, the chats, the steps and
the rule, so their starts are one batch; nothing is read back from the device between two looks. Torch is imported at
the top: import this module from inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.craft import CHECK, CraftedPicture, Search, bounds, step_size
from lazaretto_lab.attacks.infectious.differentiable import Differentiable
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import Budget, Craft


class ManyBudgets(Search):
    """``settings.restarts`` starts for every budget, from one picture."""

    def __init__(
        self,
        models: Differentiable,
        base: NDArray[np.uint8],
        chats: Sequence[Chat],
        settings: Craft,
        budgets: Sequence[Budget],
    ) -> None:
        if {budget.kind for budget in budgets} != {settings.budget.kind}:
            raise InputError("budgets", "are of several kinds", "Seek pixel and border budgets apart")
        self.each = [replace(settings, budget=budget) for budget in budgets]
        super().__init__(models, base, chats, replace(settings, restarts=settings.restarts * len(budgets)))
        low, high = zip(*(bounds(self.base, one) for one in self.each), strict=True)
        self.low, self.high = (torch.cat(limits).repeat_interleave(settings.restarts, dim=0) for limits in (low, high))
        spread = torch.rand(self.pixels.shape, generator=self.rng).to(models.device)
        if settings.budget.kind == "pixel":  # the first start of each is the picture itself
            first = torch.arange(len(spread), device=models.device).view(-1, 1, 1, 1) % settings.restarts == 0
            self.pixels = torch.where(first, self.base, self.low + (self.high - self.low) * spread)
        else:
            self.pixels = self.low + (self.high - self.low) * spread
        sizes = torch.tensor([[step_size(one, step) for one in self.each] for step in range(settings.steps)])
        self.sizes = sizes.to(models.device).repeat_interleave(settings.restarts, dim=1)[..., None, None, None]
        self.best = [(-1.0, pixels, 0.0, 0.0) for pixels in self._whole()]

    def run_all(self) -> list[CraftedPicture]:
        """Every step, then the best picture of each budget."""
        for step in range(self.settings.steps):
            self._step(step)
            if (step + 1) % CHECK == 0 or step == self.settings.steps - 1:
                self._check()
        starts = len(self.best) // len(self.each)
        return [self._best(range(place * starts, (place + 1) * starts)) for place in range(len(self.each))]

    def _best(self, places: Sequence[int]) -> CraftedPicture:
        _, pixels, alpha, beta = max((self.best[place] for place in places), key=lambda found: found[0])
        return CraftedPicture(pixels.permute(1, 2, 0).to(torch.uint8).cpu().numpy(), alpha, beta, ())

    def _note(self, losses: Tensor) -> None:
        """Not kept: reading them back would hold up the device."""

    def _size(self, step: int) -> Tensor:
        return self.sizes[step]
