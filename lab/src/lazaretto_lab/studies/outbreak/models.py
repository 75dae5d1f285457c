"""The models that an outbreak experiment names, loaded when they are asked for."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lazaretto.errors import InputError
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto_lab.studies.outbreak.settings import ModelSettings, cache_folder

if TYPE_CHECKING:
    from lazaretto_lab.pocket import PocketClip, PocketVlm

_SENTENCES = 200_000
"""How many are remembered: 1.5 kB each."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's malloc.h."""


WIDE = "wide"
"""``pocket:wide``: pocket-clip among texts that lie as far from pictures as CLIP's."""


@cache
def pocket_models(device: str, gap: str = "") -> tuple[PocketVlm, PocketClip]:
    """The pocket models, loaded once per process; ``gap`` is empty or ``WIDE``."""
    from lazaretto_lab.pocket import load_pocket_models
    from lazaretto_lab.pocket.clip import with_wide_gap

    if gap:
        vlm, clip = pocket_models(device)
        return vlm, with_wide_gap(clip)

    _keep_freed_memory()
    return load_pocket_models(device, texts=remembered_texts())


def _keep_freed_memory() -> None:
    """Large tensors come and go with every batch. glibc would hand their pages back each time, and to fetch them again
    costs a tenth of a run; elsewhere nothing happens."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_TRIM_THRESHOLD, 2**30)
        libc.mallopt(_M_MMAP_THRESHOLD, 2**25)
    except (OSError, AttributeError):
        return


@cache
def remembered_texts() -> EmbeddingCache:
    """The text encoder with a memory: rows of a seed plan, rehearse and say much the same, and a process embeds each
    sentence once."""
    from lazaretto.models.minilm import shared_minilm

    return EmbeddingCache(shared_minilm(), texts_kept=_SENTENCES)


def models_for(settings: ModelSettings, notes: bool) -> tuple[ChatModel, TextEmbedder]:
    """The chat model and the embedder that settings name."""
    return _chat(settings), _embedder(settings, notes)


def remembering(chat: ChatModel, beside: Path) -> CachedChat:
    """The chat model with a memory: shared by all runs where an answer depends on its question alone, else beside the
    run."""
    answers = getattr(chat, "answers", "")
    return CachedChat(chat, cache_folder() / "answers" / answers if answers else beside)


def _chat(settings: ModelSettings) -> ChatModel:
    kind, _, name = settings.chat.partition(":")
    if kind == "pocket" and not name:
        return pocket_models(settings.device)[0]
    if kind == "transformers" and name:
        from lazaretto_lab.models.transformers_vlm import TransformersVlm

        return TransformersVlm(name, settings.device, settings.batch)
    if kind == "endpoint" and "@" in name:
        from lazaretto.models.openai_chat import Endpoint, OpenAIChat

        model, _, url = name.partition("@")
        return OpenAIChat(Endpoint(model, url))
    raise InputError(
        "models.chat",
        f"{settings.chat!r} is not a model",
        "Use pocket, transformers:<path or hub name>, or endpoint:<model>@<base url>",
    )


def _embedder(settings: ModelSettings, notes: bool) -> TextEmbedder:
    kind, _, name = settings.embedder.partition(":")
    if kind == "pocket" and name in ("", WIDE):
        if notes:  # the text tower of pocket-clip is this very encoder
            return remembered_texts()
        return pocket_models(settings.device, name)[1]
    if kind == "transformers" and name:
        from lazaretto_lab.models.transformers_clip import TransformersClip

        return TransformersClip(name, settings.device)
    raise InputError(
        "models.embedder",
        f"{settings.embedder!r} is not an embedder",
        "Use pocket, pocket:wide, or transformers:<path or hub name> of a CLIP or SigLIP model",
    )
