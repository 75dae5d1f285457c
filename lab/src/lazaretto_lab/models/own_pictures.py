"""Pictures that the laboratory made itself: decoded in this process, in full size. Others go through workers."""

from __future__ import annotations

from PIL import Image

from lazaretto.errors import UnreadablePicture
from lazaretto.picture_worker.opener import PictureBudget, PictureRefused, on_white
from lazaretto.picture_worker.opener import first_frame as opened_frame
from lazaretto.policy import DEFAULT_LIMITS, Limits


def first_frame(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Image.Image:
    """The first frame, its colours and transparency as stored."""
    try:
        return opened_frame(data, PictureBudget(limits.max_image_bytes, limits.max_pixels))
    except PictureRefused as error:
        raise UnreadablePicture(error.rule, error.problem, "Use a whole picture within the limits") from None


def first_frame_rgb(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Image.Image:
    """``first_frame`` in three colours on white: what a network is given."""
    return on_white(first_frame(data, limits))
