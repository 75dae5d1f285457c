"""Pictures from strangers: opened in a process of their own (``picture_worker``), once for all who ask.

The process is held to the policy's limits. Full-size pixels never come back: only a digest, the looks, small frames.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from PIL import Image

from lazaretto.errors import PictureWorkerFailed, UnreadablePicture
from lazaretto.kept_texts import also_forget, is_stale
from lazaretto.picture_worker.opener import FORMATS, FRAMES_SHOWN, SIDE, Header, Opened, PictureBudget, PictureRefused
from lazaretto.picture_worker.pool import WORKERS, WorkerFailed, shared_pool
from lazaretto.policy import DEFAULT_LIMITS, Limits

__all__ = ["FORMATS", "FRAMES_SHOWN", "SIDE", "Header", "Picture"]

_FIXES = {
    "not_a_picture": f"Give the bytes of a picture ({', '.join(FORMATS)})",
    "bomb": "Make it smaller, or raise limits.max_pixels or limits.max_picture_seconds in the policy",
    "damaged": "Encode it again",
    "too_large": "Make it smaller, or raise limits.max_image_bytes in the policy",
}
_KEPT, _KEPT_BYTES = 64, 48 << 20
"""Pictures that are remembered, the oldest forgotten first: the gates ask one after another for the same."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The parts of a picture that judges see."""

    header: Header
    frame_count: int
    frames: tuple[Image.Image, ...]
    """The first, and of an animation the middle and the last, in order."""


def opened(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Opened:
    """All facts about a picture, decoded once by a worker process.

    ``UnreadablePicture`` for data that is no picture, damaged or past the limits; ``PictureWorkerFailed`` if the
    worker failed or is busy. Blocks; ``open_picture`` does not.
    """
    if len(data) > limits.max_image_bytes:
        raise _unreadable("too_large", f"{len(data):,} bytes are past the limit of {limits.max_image_bytes:,}")
    key = (hashlib.sha256(data).digest(), limits)
    with _state.lock:
        known = _state.known.get(key)
        mine = known is None
        if known is None:
            known = _state.known[key] = Future()
        else:
            _state.known.move_to_end(key)
    if mine:
        _ask(data, limits, key, known)
    found = known.result()
    if isinstance(found, PictureRefused):
        raise _unreadable(found.rule, found.problem)
    return found


async def open_picture(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Opened:
    """``opened`` without blocking the event loop, or the threads that the judges of text run in."""
    here = copy_context()  # a thread of the pool would not know the reading it works for
    return await asyncio.get_running_loop().run_in_executor(_state.waiters, here.run, opened, data, limits)


def frames_for_judges(found: Opened, *, side: int = SIDE) -> Picture:
    """Up to ``FRAMES_SHOWN`` frames as a viewer shows them: upright, on white, shrunk to fit a square of ``side``."""
    if found.fault:
        raise _unreadable("bomb", found.fault)
    frames = [Image.frombytes("RGB", (frame.width, frame.height), frame.pixels) for frame in found.frames]
    for frame in frames:
        frame.thumbnail((side, side))
    return Picture(found.header, found.frame_count, tuple(frames))


def retain_picture_workers() -> None:
    """The worker processes stay until as many ``drop_picture_workers`` were called."""
    shared_pool().hold()


def drop_picture_workers() -> None:
    """The last caller ends them; a later picture starts them anew."""
    shared_pool().release()


class _State:
    """State that a forked process must not share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: OrderedDict[tuple[bytes, Limits], Future[Opened | PictureRefused]] = OrderedDict()
        self.waiters = ThreadPoolExecutor(max_workers=2 * WORKERS, thread_name_prefix="lazaretto-pictures")


def _forget_pictures() -> None:
    with _state.lock:  # also those that are being read: their readers have them
        _state.known.clear()


also_forget(_forget_pictures)


def _ask(data: bytes, limits: Limits, key: tuple[bytes, Limits], known: Future[Opened | PictureRefused]) -> None:
    """Answer ``known`` for everybody who waits for it; what could not be judged is asked again the next time."""
    forget = True
    try:
        known.set_result(shared_pool().ask(data, _budget(limits), limits.max_picture_seconds))
        forget = False
    except PictureRefused as error:
        known.set_result(error.with_traceback(None))
        forget = False
    except WorkerFailed as error:
        known.set_exception(PictureWorkerFailed(str(error)))
    except BaseException as error:
        known.set_exception(PictureWorkerFailed(f"{type(error).__name__}: {error}"))
        raise
    finally:
        with _state.lock:
            if (forget or is_stale()) and _state.known.get(key) is known:
                del _state.known[key]
            while len(_state.known) > _KEPT or sum(map(_size, _state.known.values())) > _KEPT_BYTES:
                _state.known.popitem(last=False)


def _size(known: Future[Opened | PictureRefused]) -> int:
    if not known.done() or known.exception() is not None:
        return 0
    found = known.result()
    if isinstance(found, PictureRefused):
        return 0
    return sum(len(frame.pixels) for frame in found.frames) + sum(len(words) for _, words in found.texts)


def _budget(limits: Limits) -> PictureBudget:
    return PictureBudget(limits.max_image_bytes, limits.max_pixels)


def _unreadable(rule: str, problem: str) -> UnreadablePicture:
    return UnreadablePicture(rule, problem, _FIXES[rule])


_state = _State()


def _after_fork() -> None:
    global _state
    _state = _State()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
