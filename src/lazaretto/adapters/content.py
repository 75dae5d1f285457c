"""The content of a chat message as frameworks write it: a text, or a list of blocks with texts and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lazaretto.adapters.border import Border

Judge = Callable[[str], Awaitable[str]]


async def cleaned_content(border: Border, content: Any, judge: Judge, agent: str | None = None) -> Any:
    """The content with a notice for each text or picture that is held; the content itself where nothing is.

    A picture is judged where its bytes are in the message; one that is only named by an address is not fetched.
    """
    if isinstance(content, str):
        return await judge(content)
    if not isinstance(content, (list, tuple)):
        return content
    blocks = [await _cleaned_block(border, block, judge, agent) for block in content]
    same = all(new is old for new, old in zip(blocks, content, strict=True))
    return content if same else type(content)(blocks)


async def _cleaned_block(border: Border, block: Any, judge: Judge, agent: str | None) -> Any:
    if isinstance(block, str):
        return await judge(block)
    if not isinstance(block, Mapping):
        return block
    image = picture_in(block)
    if image is not None:
        held = await border.picture(image, agent=agent)
        return block if held is None else {"type": "text", "text": held}
    text = block.get("text")
    if not isinstance(text, str):
        return block
    said = await judge(text)
    return block if said == text else {**block, "text": said}


def picture_in(block: Mapping[str, Any]) -> bytes | None:
    """The bytes of a picture in a content block, in any of the usual spellings; None where there are none."""
    if "image" not in str(block.get("type", "")):
        return None
    inner = block.get("image_url", block.get("source", block))
    return data_of(inner if isinstance(inner, str) else _first_text(inner))


def data_of(text: str | None) -> bytes | None:
    """The bytes in base64 or a data URL; None where there are none."""
    if text is None:
        return None
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _first_text(block: Any) -> str | None:
    if not isinstance(block, Mapping):
        return None
    return next((block[key] for key in ("url", "base64", "data") if isinstance(block.get(key), str)), None)
