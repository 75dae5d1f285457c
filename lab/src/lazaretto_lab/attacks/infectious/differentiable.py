"""What an attack on pictures needs of a pair of models: words from a picture and a place among the texts, both with
gradients for its pixels. The pocket models have it in ``pocket.gradients``, others in
``models.transformers_gradients``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.protocol import Completion, Request, Vectors

if TYPE_CHECKING:
    import torch
    from torch import Tensor

UNSAID = -100
"""What fills a shorter sentence up to the longest of a lesson: after its end nothing is asked of the model."""


class Speaker(Protocol):
    """The model that speaks."""

    @property
    def fingerprint(self) -> str:
        """Names model and weights."""
        ...

    def complete_now(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request."""
        ...


class Placer(Protocol):
    """The model that retrieves."""

    @property
    def fingerprint(self) -> str:
        """Names model and weights."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        ...

    def embed_images(self, images: Sequence[bytes]) -> Vectors:
        """One unit row per encoded picture."""
        ...


class Lesson(Protocol):
    """Prompts with a picture, and the sentence that should follow."""

    @property
    def said(self) -> Tensor:
        """(n, s): the sentence and the end token, then ``UNSAID``."""
        ...


class Differentiable(Protocol):
    """Both models as one function of pixels."""

    device: torch.device

    @property
    def vlm(self) -> Speaker:
        """Who speaks."""
        ...

    @property
    def clip(self) -> Placer:
        """Who retrieves."""
        ...

    def pixels(self, data: bytes) -> NDArray[np.uint8]:
        """An encoded picture as the square that is attacked."""
        ...

    def coded(self, sentence: str) -> list[int]:
        """The sentence and the end as the model would write them."""
        ...

    def situations(self, requests: Sequence[Request], sentence: str) -> Any:
        """The requests as a ``Lesson`` that ``scores`` takes."""
        ...

    def features(self, pixels: Tensor) -> Tensor:
        """What both models share of pictures (n, 3, side, side) in 0 to 1."""
        ...

    def place(self, features: Tensor) -> Tensor:
        """Unit vectors among the texts."""
        ...

    def scores(self, features: Tensor, situations: Any, rows: Tensor) -> Tensor:
        """(pictures, rows, said, vocabulary): logits at each place of the sentence."""
        ...


def sentence_loss(scores: Tensor, lesson: Lesson, rows: Tensor) -> Tensor:
    """Mean cross-entropy of the sentence per picture."""
    from torch.nn import functional

    said = lesson.said[rows].expand(len(scores), -1, -1)
    loss = functional.cross_entropy(scores.flatten(0, 2), said.reshape(-1), reduction="none", ignore_index=UNSAID)
    return loss.view(len(scores), -1).mean(dim=1)


def spoken(scores: Tensor, lesson: Lesson, rows: Tensor) -> Tensor:
    """(pictures, rows): whether greedy decoding says exactly the sentence."""
    said = lesson.said[rows]
    return ((scores.argmax(dim=-1) == said) | (said == UNSAID)).all(dim=-1)
