"""Results on disk: one JSON file per unit, written whole or not at all, named by content hash."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from lazaretto.errors import InputError, StoreDamaged
from lazaretto.files import write_file
from lazaretto.types import plain
from lazaretto_lab.harness.context import Outcome, UnitResult
from lazaretto_lab.harness.experiment import Unit


class ResultFolder:
    """The results of one experiment: ``<out>/<family>/<name>/<unit>.json`` and a work folder per unit."""

    def __init__(self, out: Path, experiment: str) -> None:
        self.path = (out / experiment).absolute()

    def file(self, unit: str) -> Path:
        """Where a unit's result is, or will be."""
        return self.path / f"{unit}.json"

    def workdir(self, unit: str) -> Path:
        """The unit's own folder for checkpoints and ledgers."""
        folder = self.path / "work" / unit
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def read(self, unit: Unit) -> UnitResult | None:
        """A finished unit, or None. A file that is not a whole result is an error: nothing is silently recomputed."""
        path = self.file(unit.key)
        try:
            raw = orjson.loads(path.read_bytes())
            return UnitResult(**{**raw, "outcome": Outcome(raw["outcome"]), "row": unit.row})
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
            raise StoreDamaged(f"{path} is not a result ({error}); delete it to run the unit again") from None

    def write(self, result: UnitResult) -> None:
        """Keep a finished unit. After a kill at any moment the file is either absent or complete."""
        data = orjson.dumps(plain(result), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
        write_file(self.file(result.unit), data, durable=result.seconds >= 1.0)

    @contextmanager
    def run_lock(self) -> Iterator[None]:
        """Make the folder and hold it for one run; the lock dies with the process, so a kill leaves nothing to clean
        up."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                "out", f"cannot use {self.path}: {error.strerror}", "Name a folder you may write to"
            ) from None
        with (self.path / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    "out", f"another run is working in {self.path}", "Wait for it, or use another --out"
                ) from None
            yield


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold what several runs share while one of them makes it; the others wait. The lock dies with its process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
