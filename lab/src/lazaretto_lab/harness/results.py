"""Results on disk: one JSON file per unit while an experiment runs, one compressed file for all when it is stored.

A unit's file is named by content hash and written whole or not at all. ``pack`` puts the files of all finished units
into ``units.jsonl.gz``, a line each; a unit's own file, where there is one, counts before its line there.
"""

from __future__ import annotations

import fcntl
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError, StoreDamaged
from lazaretto.files import write_file
from lazaretto.types import plain
from lazaretto_lab.harness.context import Outcome, UnitResult
from lazaretto_lab.harness.experiment import Unit

PACKED = "units.jsonl.gz"
"""The file that holds all finished units of an experiment."""
_BESIDE = "manifest.json"
"""What made the results of a folder; no unit."""


class ResultFolder:
    """The results of one experiment, in ``<out>/<family>/<name>``, with a work folder per unit."""

    def __init__(self, out: Path, experiment: str) -> None:
        self.path = (out / experiment).absolute()
        self._packed: dict[str, dict[str, Any]] | None = None

    def file(self, unit: str) -> Path:
        """Where a new result of a unit is written."""
        return self.path / f"{unit}.json"

    def finished(self) -> set[str]:
        """The keys of all units that have a result."""
        own = {path.stem for path in self.path.glob("*.json") if path.name != _BESIDE}
        return own | self._lines().keys()

    def stored(self) -> list[dict[str, Any]]:
        """Every result as it is stored, in the order of the keys."""
        return [self._raw(unit) for unit in sorted(self.finished())]

    def _raw(self, unit: str) -> dict[str, Any]:
        """A stored result; ``KeyError`` where there is none."""
        path = self.file(unit)
        try:
            raw = orjson.loads(path.read_bytes())
            if raw["unit"] != unit:
                raise ValueError(f"it says {raw['unit']!r}")
        except FileNotFoundError:
            return self._lines()[unit]
        except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
            raise StoreDamaged(f"{path} is not a result ({error}); delete it to run the unit again") from None
        return dict(raw)

    def _lines(self) -> dict[str, dict[str, Any]]:
        """The packed results by unit."""
        if self._packed is None:
            path = self.path / PACKED
            try:
                lines = gzip.decompress(path.read_bytes()).splitlines()
                self._packed = {(raw := orjson.loads(line))["unit"]: raw for line in lines}
            except FileNotFoundError:
                self._packed = {}
            except (OSError, EOFError, zlib.error, orjson.JSONDecodeError, TypeError, KeyError) as error:
                raise StoreDamaged(f"{path} does not hold results ({error})") from None
        return self._packed

    def pack(self) -> int:
        """Put every result into one compressed file; how many it holds. The units' own files go when it is written."""
        own = [path for path in self.path.glob("*.json") if path.name != _BESIDE]
        results = self.stored()
        if own:
            lines = b"".join(orjson.dumps(raw) + b"\n" for raw in results)
            write_file(self.path / PACKED, gzip.compress(lines, 9, mtime=0), durable=True)
            self._packed = None
            for path in own:
                path.unlink()
        return len(results)

    def workdir(self, unit: str) -> Path:
        """The unit's own folder for checkpoints and ledgers."""
        folder = self.path / "work" / unit
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def read(self, unit: Unit) -> UnitResult | None:
        """A finished unit, or None. A file that is not a whole result is an error: nothing is silently recomputed."""
        try:
            raw = self._raw(unit.key)
        except KeyError:
            return None
        try:
            return UnitResult(**{**raw, "outcome": Outcome(raw["outcome"]), "row": unit.row})
        except (TypeError, KeyError, ValueError) as error:
            words = f"the result of {unit.key} in {self.path} is none ({error}); delete it to run the unit again"
            raise StoreDamaged(words) from None

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
