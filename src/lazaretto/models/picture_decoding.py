"""Encoded pictures to decoded ones, for backends that hand them to a network."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lazaretto.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image


def decode_picture(data: bytes) -> Image:
    """The picture in RGB, transparent parts on white; raises ``InputError`` for bytes that are not one."""
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(data)) as picture:
            if not picture.has_transparency_data:
                return picture.convert("RGB")
            layered = picture.convert("RGBA")
            return Pillow.alpha_composite(Pillow.new("RGBA", layered.size, "white"), layered).convert("RGB")
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise InputError("picture", f"not a readable picture ({error})", "Give whole PNG, JPEG or WebP bytes") from None
