"""Pictures inside chat messages: bytes in base64 or a data URL, and nothing where there are none."""

from __future__ import annotations

import base64

import pytest

from lazaretto.adapters.border import data_of

PICTURE = b"\x89PNG and more"
WRITTEN = base64.b64encode(PICTURE).decode()


@pytest.mark.parametrize("text", [WRITTEN, f"data:image/png;base64,{WRITTEN}"])
def test_bytes_are_read(text: str) -> None:
    assert data_of(text) == PICTURE


@pytest.mark.parametrize("text", [None, "", "https://example.org/a.png", "data:image/png;base64,", "data:,%%%", "não"])
def test_an_address_or_a_broken_text_has_none(text: str | None) -> None:
    assert data_of(text) is None
