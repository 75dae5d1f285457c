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
        handle = _nameless(path.absolute().parent, mode)
        named = handle is None
        if handle is None:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if not named:
                number = file.fileno()  # naming a folder, which an absolute path ignores, makes the link be followed
                os.link(f"/proc/self/fd/{number}", part, src_dir_fd=number, follow_symlinks=True)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.absolute().parent)


def _nameless(folder: Path, mode: int) -> int | None:
    """A file without a name, which a killed process leaves nowhere; None where the system has no such thing."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE, mode)
    except OSError:  # this file system cannot; or the folder is not there, which opening by name says better
        return None


def _sync_folder(folder: Path) -> None:
    """The new name is on disk only when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
