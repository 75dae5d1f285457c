"""An experiment is a TOML file: a story, a runner, rows of settings, seeds, and what is expected of the outcome."""

from __future__ import annotations

import hashlib
import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lazaretto.errors import InputError

STUDIES = Path(__file__).resolve().parents[1] / "studies"
"""The experiments that ship: one folder per study, beside its runner."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bound(_Strict):
    """A condition on one measure. Exactly one of the bounds is given."""

    measure: str
    equals: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    between: tuple[float, float] | None = None
    tolerance: float = 0.0
    """Allowed distance for ``equals``."""

    @model_validator(mode="after")
    def _one_bound(self) -> Bound:
        given = [b for b in (self.equals, self.at_least, self.at_most, self.between) if b is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of equals, at_least, at_most, between")
        return self

    def accepts(self, value: float) -> bool:
        """Whether the value satisfies the bound."""
        if self.equals is not None:
            return abs(value - self.equals) <= self.tolerance
        if self.at_least is not None:
            return value >= self.at_least
        if self.at_most is not None:
            return value <= self.at_most
        low, high = self.between or (float("-inf"), float("inf"))
        return low <= value <= high

    def words(self) -> str:
        """The bound as a person would say it."""
        if self.equals is not None:
            return f"= {self.equals:g}" + (f" ± {self.tolerance:g}" if self.tolerance else "")
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        low, high = self.between or (0.0, 0.0)
        return f"in [{low:g}, {high:g}]"


class Expectation(Bound):
    """What a row's measure should turn out to be, over all its seeds."""

    row: str | None = None
    """Name of the row; None means every row."""
    of: Literal["mean", "median", "min", "max", "sd", "every"] = "mean"
    """Which statistic over seeds; ``every`` asks it of each seed."""
    why: str = ""
    """Where the expected figure comes from."""


class Row(_Strict):
    """One line of the table: a name and the settings that make it different."""

    name: str
    settings: Mapping[str, Any] = Field(default_factory=dict)
    seeds: int | tuple[int, ...] | None = None
    """Overrides the experiment's seeds."""
    colour: int | None = None
    """Place in the palette; rows that belong together may share one. Default: a colour of its own."""


class Column(_Strict):
    """One column of the table."""

    measure: str
    label: str = ""
    digits: int = 2


class Plot(_Strict):
    """One figure. ``curve``: a list measure over its index; ``line``: a number over a setting; ``bars``: a number per
    row; ``cloud``: a list of points, of the first seed; ``points``: a number over another number, a point per unit."""

    name: str
    kind: Literal["curve", "line", "bars", "cloud", "points"] = "curve"
    y: str | tuple[str, ...]
    """Measure, or several (a panel each)."""
    x: str = ""
    """Along the x axis: the setting of a ``line``, the measure of ``points``."""
    rows: tuple[str, ...] = ()
    """Rows to draw; empty means all."""
    title: str = ""
    x_label: str = ""
    y_label: str | tuple[str, ...] = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    group: str = ""
    """``line`` only: the setting that separates one line from another."""
    series: tuple[str, ...] = ()
    """``points`` only: rows whose names end alike share a colour; rows with none of these endings are not drawn."""
    power: str = ""
    """``points`` only: a measure K, for which 100 x^K is drawn, and beside it the power that fits its points best."""
    spread: Literal["interval", "middle90"] = "interval"
    """``curve`` only: the band is the 95 % interval of the mean, or the middle 90 % of the seeds."""


class Experiment(_Strict):
    """A whole experiment file."""

    name: str
    """family/name, from the file's place."""
    title: str
    story: str
    expected: str
    """What is expected and why, in words; ``expect`` says it in figures."""
    runner: str
    """A name of the runner table or of an entry point, or ``module:function``."""
    version: int = 1
    """Raised when the runner's meaning changes, so that old results are not taken for new ones."""
    seeds: int | tuple[int, ...] = 5
    """How many (0, 1, 2, ...), or which."""
    settings: Mapping[str, Any] = Field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Setting -> values; every row is run with every combination."""
    rows: tuple[Row, ...] = ()
    held_when: tuple[Bound, ...] = ()
    """Criteria a single unit must meet to count as held."""
    expect: tuple[Expectation, ...] = ()
    columns: tuple[Column, ...] = ()
    plots: tuple[Plot, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Experiment:
        names = [row.name for row in self.expanded_rows()]
        doubled = {n for n in names if names.count(n) > 1}
        if doubled:
            raise ValueError(f"row names must differ: {', '.join(sorted(doubled))}")
        named = [e.row for e in self.expect if e.row] + [r for p in self.plots for r in p.rows]
        unknown = sorted(set(named) - set(names))
        if unknown:
            raise ValueError(f"no such row: {', '.join(unknown)} (rows: {', '.join(names)})")
        return self

    def expanded_rows(self) -> tuple[Row, ...]:
        """The rows with the grid multiplied out and the shared settings filled in."""
        rows = self.rows or (Row(name=self.title),)
        out = []
        for row, values in itertools.product(rows, itertools.product(*self.grid.values())):
            point = dict(zip(self.grid, values, strict=True))
            suffix = ", ".join(f"{k}={v}" for k, v in point.items())
            name = suffix if suffix and not self.rows else f"{row.name}, {suffix}" if suffix else row.name
            merged = {**self.settings, **row.settings, **point}
            out.append(row.model_copy(update={"name": name, "settings": merged}))
        return tuple(out)

    def limited(self, limit: int) -> Experiment:
        """The same experiment on so many items of each row."""
        rows = tuple(row.model_copy(update={"settings": {**row.settings, "limit": limit}}) for row in self.rows)
        return self.model_copy(update={"settings": {**self.settings, "limit": limit}, "rows": rows})


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work: a row's settings with one seed."""

    experiment: str
    row: str
    runner: str
    settings: Mapping[str, Any]
    seed: int
    key: str
    """Content hash: the same work has the same name, whatever the row is called."""


def seed_list(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """``5`` means seeds 0 to 4; a list means itself."""
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def unit_key(runner: str, version: int, settings: Mapping[str, Any], seed: int) -> str:
    """The content hash that names a unit's result file."""
    body = {"runner": runner, "version": version, "settings": dict(settings), "seed": seed}
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:20]


def units(experiment: Experiment, seeds: int | None = None) -> Iterator[Unit]:
    """All work of an experiment, seed by seed, so that an interrupted run has every row to show.

    ``seeds`` takes the first so many of each row instead of what the file says (more, when the file gives a count).
    """
    rows = [(row, _row_seeds(experiment, row, seeds)) for row in experiment.expanded_rows()]
    for index in range(max((len(s) for _, s in rows), default=0)):
        for row, row_seeds in rows:
            if index < len(row_seeds):
                seed = row_seeds[index]
                key = unit_key(experiment.runner, experiment.version, row.settings, seed)
                yield Unit(experiment.name, row.name, experiment.runner, row.settings, seed, key)


def _row_seeds(experiment: Experiment, row: Row, seeds: int | None) -> tuple[int, ...]:
    wanted = row.seeds if row.seeds is not None else experiment.seeds
    if seeds is None:
        return seed_list(wanted)
    return seed_list(seeds) if isinstance(wanted, int) else tuple(wanted)[:seeds]


def experiment_folder(folder: Path | None = None) -> Path:
    """Where experiment files live: the named folder, ``./experiments``, or the studies that ship."""
    if folder is not None:
        if not folder.is_dir():
            raise InputError(
                "experiments", f"no folder {folder}", "Name a folder that holds <family>/<name>.toml files"
            )
        return folder
    places = [Path("experiments"), STUDIES]
    if named := os.environ.get("LAZARETTO_EXPERIMENTS"):
        places.insert(0, Path(named))
    for place in places:
        if place.is_dir():
            return place
    raise InputError("experiments", "no folder of experiments found", "Use --experiments or LAZARETTO_EXPERIMENTS")


def available(folder: Path) -> list[str]:
    """The names of all experiments of a folder."""
    return sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.glob("*/*.toml"))


def load_experiment(name: str, folder: Path | None = None) -> Experiment:
    """Read an experiment by ``family/name``, by a unique ``name``, or by the path of its file."""
    path = Path(name)
    if path.suffix != ".toml":
        base = experiment_folder(folder)
        names = available(base)
        found = [n for n in names if n == name or n.split("/")[-1] == name]
        if len(found) != 1:
            problem = f"no experiment {name!r}" if not found else f"{name!r} is ambiguous: {', '.join(found)}"
            raise InputError("experiment", problem, f"There are: {', '.join(names) or 'none'}")
        path = base / f"{found[0]}.toml"
    return read_experiment(path)


def read_experiment(path: Path) -> Experiment:
    """Read one experiment file; whatever is wrong with it is named with its place."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("experiment", f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"not valid TOML: {error}") from None
    try:
        return Experiment(name=f"{path.resolve().parent.name}/{path.stem}", **raw)
    except (ValidationError, TypeError) as error:
        raise InputError(str(path), _first_fault(error), "See docs/bench.md for the fields") from None


def _first_fault(error: ValidationError | TypeError) -> str:
    if isinstance(error, TypeError):
        return str(error)
    fault = error.errors()[0]
    place = ".".join(str(p) for p in fault["loc"])
    return f"{place}: {fault['msg']}" if place else fault["msg"]
