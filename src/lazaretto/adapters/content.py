"""The content of a chat message as frameworks write it: a text, or a list of blocks with texts and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any

from lazaretto.adapters.border import Border

Judge = Callable[[str], Awaitable[str]]


async def cleaned_content(border: Border, content: Any, judge: Judge, agent: str | None = None) -> Any:
    """The content with a notice for each text or picture that is held; the content itself where nothing is.

    A picture is judged where its bytes are in the message; one that is only named by an address is not fetched.
    """
    done = await border.clean(content, judge, agent=agent, dialect="langchain")
    return content if not done.changed else done.value


def data_of(text: str | None) -> bytes | None:
    """The bytes in base64 or a data URL; None where there are none."""
    if text is None:
        return None
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True) or None
    except (binascii.Error, ValueError):
        return None
