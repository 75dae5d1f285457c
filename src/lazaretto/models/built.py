"""Arrays that take long to make are made once and kept on disk, for the processes that start later.

They lie in a folder of the user's alone, under a digest of all they were made from; a digest of the content is checked
with every reading. A damaged or foreign file is not used. ``LAZARETTO_CACHE=0`` keeps nothing; another value names the
folder (SECURITY.md says what it has to be protected from).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from lazaretto.files import replacing

FOLDER = "LAZARETTO_CACHE"
"""The environment variable: ``0`` switches the cache off, else it names its folder."""
_FORM = "1"
_DIGEST = 32
_FORGOTTEN_S = 30 * 24 * 3600
"""Seconds after which an unused file is deleted: it was made from other weights than today's."""
_log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]


def built(name: str, made_from: Iterable[str | bytes], make: Callable[[], Arrays]) -> Arrays:
    """The arrays of ``make``, from disk where an earlier process kept them.

    ``made_from`` names everything that the arrays depend on, the versions of libraries included.
    """
    folder = _folder()
    if folder is None:
        return make()
    key = _key(name, made_from)
    path = folder / f"{name}-{key.hex()[:32]}.arrays"
    found = _read(path, key)
    if found is not None:
        return found
    made = make()
    _keep(path, key, made)
    return made


def digest_of(arrays: Arrays) -> bytes:
    """A digest of arrays and their names, to be named in ``made_from``."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.data if value.nbytes else b"")
    return digest.digest()


def source_of(*files: str) -> bytes:
    """A digest of the code that makes the arrays, to be named in ``made_from``: ``__file__`` of each module."""
    return hashlib.sha256(b"".join(hashlib.sha256(Path(file).read_bytes()).digest() for file in files)).digest()


def _key(name: str, made_from: Iterable[str | bytes]) -> bytes:
    digest = hashlib.sha256(f"{_FORM} {name} {np.__version__}\n".encode())
    for part in made_from:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def _folder() -> Path | None:
    """The folder, made where it is not there; None where there is none that is safe to use."""
    named = os.environ.get(FOLDER, "")
    if named == "0":
        return None
    folder = Path(named) if named else Path(platformdirs.user_cache_dir("lazaretto")) / "models"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(folder.lstat(), stat.S_ISDIR):
            return folder
    except OSError as error:
        _log.info("nothing is kept in %s: %s", folder, error.strerror)
        return None
    _log.warning("%s is not used: others may write to it; mend it with chmod 700, or set %s=0", folder, FOLDER)
    return None


def _is_ours(state: os.stat_result, kind: Callable[[int], bool]) -> bool:
    """Whether a path is of that kind, belongs to this user, and is writable for no one else."""
    return kind(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022


def _read(path: Path, key: bytes) -> Arrays | None:
    """The arrays of a file that is whole and was made for this key; None for any other, or none."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(file.fileno())
        if not _is_ours(state, stat.S_ISREG):
            return None
        try:
            data = file.read()  # a copy: the checked bytes are the used ones, even if the file changes afterwards
            if time.time() - state.st_mtime > _FORGOTTEN_S / 2:
                os.utime(file.fileno())
        except OSError:
            return None
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(key + hashlib.sha256(body).digest()).digest() != data[-_DIGEST:]:
        _log.warning("%s is damaged and made again", path)
        return None
    return _unpacked(body)


def _keep(path: Path, key: bytes, arrays: Arrays) -> None:
    """Whole or not at all: two processes may write the same file at once, and a reader sees one of them."""
    digest = hashlib.sha256()
    try:
        with replacing(path, mode=0o600) as file:
            for part in _packed(arrays):
                digest.update(part)
                file.write(part)
            file.write(hashlib.sha256(key + digest.digest()).digest())
        _forget_old(path.parent)
    except OSError as error:
        _log.info("%s could not be kept: %s", path, error.strerror)


def _forget_old(folder: Path) -> None:
    for file in folder.glob("*.arrays"):
        if time.time() - file.stat().st_mtime > _FORGOTTEN_S:
            file.unlink(missing_ok=True)


def _packed(arrays: Arrays) -> Iterable[bytes | memoryview]:
    """The length of a header, the header, and the numbers of each array from a place that 64 divides."""
    plain = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    rows, at = [], 0
    for name, value in plain.items():
        rows.append([name, value.dtype.str, list(value.shape), at])
        at += -(-value.nbytes // 64) * 64
    header = json.dumps(rows).encode()
    header += b" " * (-(len(header) + 8) % 64)
    yield len(header).to_bytes(8, "little") + header
    for value in plain.values():
        yield value.tobytes()
        yield bytes(-value.nbytes % 64)


def _unpacked(body: memoryview) -> dict[str, NDArray[Any]]:
    length = int.from_bytes(body[:8], "little")
    found: dict[str, NDArray[Any]] = {}
    for name, kind, shape, at in json.loads(bytes(body[8 : 8 + length])):
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(body, np.dtype(kind), count, 8 + length + at).reshape(shape)
    return found
