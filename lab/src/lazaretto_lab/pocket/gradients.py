"""The pocket models as one differentiable function of pixels: how far a sentence is from being said, and where a
picture lies among the texts.

Torch is imported at the top: import this module from inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lazaretto.models.protocol import Request
from lazaretto_lab.pocket.backbone import PATCHES, patches
from lazaretto_lab.pocket.clip import PocketClip
from lazaretto_lab.pocket.eyes import pixels
from lazaretto_lab.pocket.networks import Cache
from lazaretto_lab.pocket.prefill import visible
from lazaretto_lab.pocket.speech import picture_prompt
from lazaretto_lab.pocket.tokenizer import PICTURE
from lazaretto_lab.pocket.vlm import PICTURE_BEFORE, PocketVlm


@dataclass(frozen=True)
class Situations:
    """Prompts up to the picture, already run: nothing before the picture depends on it."""

    past: Cache
    padding: Tensor
    rest: Tensor
    """(n, r): what stands between the picture and what is said, filled up at its end."""
    rests: Tensor
    """(n,): how much of it there is."""
    said: Tensor
    """(n, s): the sentence and the end token."""

    def __len__(self) -> int:
        return len(self.padding)


class PocketGradients:
    """Both pocket models over one backbone, with gradients for pixels."""

    def __init__(self, vlm: PocketVlm, clip: PocketClip) -> None:
        self.vlm, self.clip = vlm, clip
        self.device = torch.device(vlm.eyes.device)

    def pixels(self, data: bytes) -> NDArray[np.uint8]:
        """An encoded picture as the models see it."""
        return pixels(data)

    def coded(self, sentence: str) -> list[int]:
        """The sentence and the end as the model would write them."""
        return [*self.vlm.words.encode(sentence), self.vlm.words.end]

    def situations(self, requests: Sequence[Request], sentence: str) -> Situations:
        """Prepare prompts with a picture."""
        words, language = self.vlm.words, self.vlm.language
        picture = words.ids[PICTURE]
        before, after = [], []
        for request in requests:
            tokens = picture_prompt(words, request.messages[-1].text, PICTURE_BEFORE, True)
            spot = tokens.index(picture)
            before.append(tokens[:spot])
            after.append(tokens[spot + 1 :])
        length = max(map(len, before))
        table = torch.tensor([[0] * (length - len(row)) + list(row) for row in before], device=self.device)
        padding = torch.tensor([length - len(row) for row in before], device=self.device)
        positions = (torch.arange(length, device=self.device)[None] - padding[:, None]).clamp(min=0)
        with torch.no_grad():
            _, past = language.run(language.words(table), positions, visible(padding, 0, length))
        said, longest = self.coded(sentence), max(map(len, after))
        return Situations(
            past,
            padding,
            torch.tensor([[*row, *[0] * (longest - len(row))] for row in after], device=self.device),
            torch.tensor([len(row) for row in after], device=self.device),
            torch.tensor([said] * len(before), device=self.device),
        )

    def features(self, pixels: Tensor) -> Tensor:
        """(n, 49, features) of pictures (n, 3, 224, 224) in [0, 1]."""
        return patches(*self.vlm.eyes.backbone(pixels))

    def place(self, features: Tensor) -> Tensor:
        """Unit vectors among the texts."""
        return self.clip.head(features)  # type: ignore[no-any-return]

    def scores(self, features: Tensor, situations: Situations, rows: Tensor) -> Tensor:
        """(pictures, rows, said, vocabulary): logits at each place of the sentence, for every picture in every row."""
        language = self.vlm.language
        pictures, count = len(features), len(rows)
        seen = language.see(features).repeat_interleave(count, dim=0)
        words, places = following(situations.rest[rows], situations.rests[rows], situations.said[rows])
        x = torch.cat([seen, language.words(words).repeat(pictures, 1, 1)], dim=1)
        past = [(k[rows].repeat(pictures, 1, 1, 1), v[rows].repeat(pictures, 1, 1, 1)) for k, v in situations.past]
        padding = situations.padding[rows].repeat(pictures)
        start = past[0][0].shape[2]
        positions = torch.arange(start, start + x.shape[1], device=self.device)[None] - padding[:, None]
        hidden, _ = language.run(x, positions, visible(padding, start, start + x.shape[1]), past)
        places = (places + PATCHES).repeat(pictures, 1)
        logits = language.logits(hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1])))
        return logits.view(pictures, count, places.shape[1], -1)


def following(rest: Tensor, rests: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
    """What follows the picture, (n, r + s - 1) tokens without gaps, and the places (n, s) among them after which each
    word of what is said stands. What fills up the end is seen by nothing before it."""
    spoken = said.shape[1]
    index = torch.arange(rest.shape[1] + spoken - 1, device=rest.device)[None] - rests[:, None]
    own = torch.arange(index.shape[1], device=rest.device).clamp(max=rest.shape[1] - 1).expand(len(rest), -1)
    words = torch.where(index < 0, rest.gather(1, own), said.clamp(min=0).gather(1, index.clamp(0, spoken - 1)))
    return words, rests[:, None] - 1 + torch.arange(spoken, device=rest.device)[None]
