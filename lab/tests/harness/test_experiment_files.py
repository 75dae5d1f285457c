"""Experiment files: what is read, how work is named, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto_lab.harness.experiment import (
    STUDIES,
    Bound,
    available,
    experiment_folder,
    load_experiment,
    read_experiment,
    seed_list,
    unit_key,
    units,
)
from lazaretto_lab.harness.runners import RUNNERS, find_runner

HEAD = 'title = "T"\nstory = "S"\nexpected = "E"\nrunner = "epidemic"\n'


def written(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "family" / "name.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + body)
    return path


def test_rows_grid_and_seeds_multiply_out(tmp_path) -> None:
    body = 'seeds = 2\nsettings = {a = 1}\ngrid = {b = [3, 4]}\n[[rows]]\nname = "x"\n'
    body += '[[rows]]\nname = "y"\nseeds = [7]\n'
    experiment = read_experiment(written(tmp_path, body + "settings = {a = 2}\n"))
    assert experiment.name == "family/name"
    rows = experiment.expanded_rows()
    assert [r.name for r in rows] == ["x, b=3", "x, b=4", "y, b=3", "y, b=4"]
    assert rows[3].settings == {"a": 2, "b": 4}
    work = list(units(experiment))
    assert [(u.row, u.seed) for u in work][:4] == [("x, b=3", 0), ("x, b=4", 0), ("y, b=3", 7), ("y, b=4", 7)]
    assert len(work) == 6 and len({u.key for u in work}) == 6
    assert len(list(units(experiment, seeds=1))) == 4
    assert len(list(units(experiment, seeds=3))) == 3 + 3 + 1 + 1


def test_the_name_of_a_unit_is_its_content(tmp_path) -> None:
    key = unit_key("r", 1, {"a": 1, "b": [2]}, 0)
    assert key == unit_key("r", 1, {"b": [2], "a": 1}, 0)
    others = [unit_key("s", 1, {"a": 1, "b": [2]}, 0), unit_key("r", 2, {"a": 1, "b": [2]}, 0)]
    others += [unit_key("r", 1, {"a": 2, "b": [2]}, 0), unit_key("r", 1, {"a": 1, "b": [2]}, 1)]
    assert len({key, *others}) == 5
    assert seed_list(3) == (0, 1, 2) and seed_list([4, 2]) == (4, 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("seeds = 'many'", "seeds"),
        ("colour = 3", "colour"),
        ('[[expect]]\nmeasure = "m"', "exactly one of"),
        ('[[expect]]\nmeasure = "m"\nat_most = 1\nat_least = 0', "exactly one of"),
        ('[[expect]]\nmeasure = "m"\nat_most = 1\nrow = "nobody"', "no such row"),
        ('[[rows]]\nname = "x"\n[[rows]]\nname = "x"', "must differ"),
        ("= 3", "not valid TOML"),
        ('name = "mine"', "name"),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path, body, said) -> None:
    with pytest.raises(InputError, match=said):
        read_experiment(written(tmp_path, body))


def test_bounds() -> None:
    assert Bound(measure="m", equals=2, tolerance=0.1).accepts(2.05)
    assert not Bound(measure="m", equals=2).accepts(2.05)
    assert Bound(measure="m", between=(1, 2)).accepts(1) and not Bound(measure="m", between=(1, 2)).accepts(2.1)
    assert Bound(measure="m", at_least=1).words() == "≥ 1" and Bound(measure="m", at_most=1).words() == "≤ 1"


def test_experiments_are_found_by_name(tmp_path, monkeypatch) -> None:
    written(tmp_path, "")
    assert available(tmp_path) == ["family/name"]
    assert load_experiment("name", tmp_path).name == load_experiment("family/name", tmp_path).name == "family/name"
    with pytest.raises(InputError, match="no experiment 'other'"):
        load_experiment("other", tmp_path)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "name.toml").write_text(HEAD)
    with pytest.raises(InputError, match="ambiguous"):
        load_experiment("name", tmp_path)
    monkeypatch.setenv("LAZARETTO_EXPERIMENTS", str(tmp_path))
    assert experiment_folder() == tmp_path
    for missing in (lambda: experiment_folder(tmp_path / "no"), lambda: read_experiment(tmp_path / "no.toml")):
        with pytest.raises(InputError):
            missing()


def test_every_experiment_that_ships_is_readable_and_its_runner_exists() -> None:
    folder = STUDIES
    names = available(folder)
    assert {"epidemic/reference", "epidemic/albums"} <= set(names)
    for name in names:
        experiment = load_experiment(name, folder)
        assert callable(find_runner(experiment.runner)), name
        assert list(units(experiment)), name


def test_runners_by_name_and_by_place() -> None:
    assert all(callable(find_runner(name)) for name in RUNNERS)
    assert find_runner("lazaretto_lab.studies.epidemic.runner:run") is find_runner("epidemic")
    for wrong in ("nobody", "no_such_module:run", "lazaretto_lab.studies.epidemic.runner:walk"):
        with pytest.raises(InputError, match="runner"):
            find_runner(wrong)
