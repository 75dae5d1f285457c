"""The worker process: reads bytes of pictures from its standard input, writes what it found to its standard output.

A request is four numbers (``REQUEST``) and the picture's bytes, a reply two numbers (``REPLY``), a JSON object and raw
pixels. The process may write no files, start no processes, and take no more memory or time than it is given.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
from typing import BinaryIO

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

from PIL import Image

from lazaretto.picture_worker.opener import Opened, PictureBudget, PictureRefused, open_whole

REQUEST = struct.Struct(">QQQQ")
"""Length of the picture, most bytes, most pixels, most processor seconds."""
REPLY = struct.Struct(">QQ")
"""Length of the JSON, length of the pixels."""
BASE_MEMORY, BYTES_A_PIXEL = 256 << 20, 16
"""Address space: the interpreter and what a decoder needs besides, and four copies of the picture."""
OUT_OF_MEMORY = 3
"""Exit status after a picture that needed more memory than it was given; the process is not used any longer."""


def memory_limit(budget: PictureBudget) -> int:
    """Bytes of address space that a worker has for a picture."""
    return BASE_MEMORY + BYTES_A_PIXEL * budget.max_pixels + 2 * budget.max_bytes


def main() -> None:
    """Serve until the input ends."""
    source, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what a library prints is no reply
    Image.init()  # every reader is loaded before files run out
    _bound("RLIMIT_CORE", 0)
    _bound("RLIMIT_FSIZE", 0)
    _bound("RLIMIT_NPROC", 0)
    _bound("RLIMIT_NOFILE", 32)
    while head := source.read(REQUEST.size):
        length, most_bytes, most_pixels, seconds = REQUEST.unpack(head)
        budget = PictureBudget(most_bytes, most_pixels)
        _bound("RLIMIT_AS", memory_limit(budget), soft_only=True)
        _bound("RLIMIT_CPU", _used() + seconds, soft_only=True)
        try:
            _answer(out, open_whole(source.read(length), budget))
        except PictureRefused as error:
            _say(out, {"rule": error.rule, "problem": error.problem})
        except MemoryError:
            problem = f"the picture needs more than {memory_limit(budget) >> 20:,} MB of memory to be decoded"
            _say(out, {"rule": "bomb", "problem": problem})
            sys.exit(OUT_OF_MEMORY)


def _answer(out: BinaryIO, opened: Opened) -> None:
    facts = opened._asdict() | {"grey": opened.grey.hex(), "colours": opened.colours.hex()}
    facts["frames"] = [(frame.width, frame.height) for frame in opened.frames]
    _say(out, facts, [frame.pixels for frame in opened.frames])


def _say(out: BinaryIO, facts: dict[str, object], pixels: list[bytes] | None = None) -> None:
    body = json.dumps(facts).encode()
    out.write(REPLY.pack(len(body), sum(map(len, pixels or ()))) + body)
    for frame in pixels or ():
        out.write(frame)
    out.flush()


def _used() -> int:
    """Processor seconds of this process so far, rounded up."""
    times = os.times()
    return int(times.user + times.system) + 1


def _bound(name: str, value: int, *, soft_only: bool = False) -> None:
    """Best effort: systems differ in what they can hold a process to."""
    kind = getattr(resource, name, None)
    if kind is None:
        return
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, hard if soft_only else most))


if __name__ == "__main__":
    main()
