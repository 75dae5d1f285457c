"""Files that are whole or not there: no reader, and no crash, ever leaves or sees half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_file(path: Path, data: bytes | str, *, durable: bool = False) -> None:
    """Put ``data`` (text as UTF-8) at ``path``, in place of what was there; ``durable`` as in ``replacing``."""
    with replacing(path, durable=durable) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def replacing(path: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path`` when the block ends, and vanishes when the block fails.

    ``durable``: it also outlives a power cut, at the price of two syncs. ``mode``: its permissions, less the umask.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # beside it: a move between disks is a copy
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.absolute().parent)


def _sync_folder(folder: Path) -> None:
    """The new name is on disk only when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
