"""Opens a source from a user's path or address."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from lazaretto.errors import InputError
from lazaretto.scan.files import Files
from lazaretto.scan.postgres import Postgres
from lazaretto.scan.records import Source


def open_source(targets: Sequence[str]) -> Source:
    """A folder, a file or a database URL; several files are read as one source."""
    if len(targets) > 1:
        paths = tuple(_path(target) for target in targets)
        folders = [str(path) for path in paths if path.is_dir()]
        if folders:
            raise InputError("path", f"{folders[0]} is a folder among several", "Give one folder, or files alone")
        root = Path.cwd()
        outside = [path for path in paths if not path.absolute().is_relative_to(root)]
        if outside:
            raise InputError("path", f"{outside[0]} lies outside of this folder", "Scan it by itself")
        return Files(root, tuple(path.absolute() for path in paths))
    (target,) = targets
    scheme = target.partition("://")[0].lower() if "://" in target else ""
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        return Postgres(target.replace("postgres://", "postgresql://", 1))
    if scheme == "sqlite":
        return Files(_path(unquote(target.split(":///", 1)[-1])))
    if scheme in ("http", "https"):
        raise InputError("path", "a server cannot be scanned from outside", "Give its folder or its database URL")
    return Files(_path(target))


def _path(target: str) -> Path:
    path = Path(target)
    if not path.exists():
        raise InputError("path", f"{target!r} does not exist", "Give a folder, a file, or a postgresql:// URL")
    if not (path.is_dir() or path.is_file()):
        raise InputError("path", f"{target!r} is neither a folder nor a file", "Give one that can be read to its end")
    return path
