"""Plots come out as real pictures with text in them, and the commands speak plainly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lazaretto.cli import build
from lazaretto.errors import InputError
from lazaretto_lab.harness.context import Outcome
from lazaretto_lab.harness.experiment import STUDIES, Plot, load_experiment, units
from lazaretto_lab.harness.plots import curve_band, draw
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.run import RunOptions, run_experiment
from lazaretto_lab.harness.tables import load_results
from lazaretto_lab.harness.unit import finished

EXPERIMENTS = STUDIES


@pytest.fixture(scope="module")
def albums(tmp_path_factory):
    """The album experiment with three seeds, run once."""
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("albums")
    experiment = load_experiment("epidemic/albums", EXPERIMENTS)
    run_experiment(experiment, RunOptions(out, seeds=3))
    return experiment, out


def invoke(*arguments: str):
    return CliRunner().invoke(build(), list(arguments))


@pytest.mark.parametrize(
    "plot",
    [
        Plot(name="c", kind="curve", y=("cumulative", "current"), title="Curves", y_range=(0, 100)),
        Plot(name="l", kind="line", x="album", y="cumulative_16", x_label="album size"),
        Plot(name="b", kind="bars", y="current_16", rows=("album=2", "album=10")),
        Plot(name="m", kind="curve", y="cumulative", spread="middle90", rows=("album=2",)),
    ],
    ids=lambda plot: plot.name,
)
def test_each_kind_of_plot_is_a_picture(albums, plot, tmp_path) -> None:
    from PIL import Image

    experiment, out = albums
    results = load_results(experiment, out, seeds=3)
    svg, png = draw(experiment, plot, results, tmp_path / "figure")
    text = svg.read_text()
    assert "<text" in text and (plot.title or plot.x_label or "") in text  # text stays text
    with Image.open(png) as image:
        pixels = np.asarray(image.convert("L"))
        assert min(image.size) > 200 and pixels.std() > 5
    assert draw(experiment, plot, results, tmp_path / "again")[0].read_text() == text


def test_impossible_plots_are_refused(albums, tmp_path) -> None:
    experiment, out = albums
    results = load_results(experiment, out, seeds=3)
    for plot, path in (
        (Plot(name="x", y="nothing"), "a"),
        (Plot(name="x", kind="line", x="nothing", y="current_16"), "a"),
        (Plot(name="x", y=("cumulative", "current"), y_label=("one",)), "a"),
        (Plot(name="x", y="cumulative"), "a.gif"),
    ):
        with pytest.raises(InputError):
            draw(experiment, plot, results, tmp_path / path)


def test_points_over_a_measure_with_their_powers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("foresight/recall", "foresight/many"):
        experiment = load_experiment(name, EXPERIMENTS)
        folder = ResultFolder(tmp_path, name)
        folder.path.mkdir(parents=True)
        with pytest.raises(InputError, match="no results"):
            load_results(experiment, tmp_path)
        for unit in units(experiment):
            beta, chats = (
                0.7 + 0.05 * unit.seed % 0.29,
                3 * (unit.settings.get("mode_settings") or {}).get("personas", 4) / 2,
            )
            measures = {"beta": beta, "virus_beta": beta, "recall": 100 * beta**chats, "cumulative_24": 50.0}
            measures |= {"chats": chats} if "flp" in unit.row else {}
            folder.write(finished(unit, Outcome.HELD, "", measures))
        svg, _ = draw(
            experiment, experiment.plots[0], load_results(experiment, tmp_path), tmp_path / name.split("/")[1]
        )
        text = svg.read_text()
        assert all(ending in text for ending in experiment.plots[0].series)
        for k in (3, 6, 9, 12) if name == "foresight/recall" else ():
            assert f"K = {k}" in text and f"fits {k}.0" in text
    with pytest.raises(InputError, match="numbers"):
        nothing = Plot(name="x", kind="points", x="nothing", y="cumulative_24")
        draw(experiment, nothing, load_results(experiment, tmp_path), tmp_path / "a")


def test_bands_leave_out_gaps() -> None:
    table = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    middle, low, high = curve_band(table, "interval")
    assert middle[:2].tolist() == [2.0, 5.0] and np.isnan(middle[2])
    assert low[0] < 2 < high[0] and low[1] == high[1] == 5.0
    assert curve_band(table, "middle90")[1][0] == pytest.approx(1.1)


def test_commands_list_run_table_and_plot(tmp_path) -> None:
    common = ("--experiments", str(EXPERIMENTS), "--out", str(tmp_path))
    ran = invoke("bench", "run", "epidemic/reference", "--seeds", "2", "--json", *common)
    assert ran.exit_code == 0 and json.loads(ran.stdout)["outcomes"] == {"held": 6, "breached": 0, "void": 0}
    listed = json.loads(invoke("bench", "list", "--json", *common).stdout)
    assert next(r for r in listed if r["name"] == "epidemic/reference")["finished"] == 6
    table = invoke("bench", "table", "epidemic/reference", "--seeds", "2", "--format", "json", *common)
    assert table.exit_code == 1  # two seeds are not the three hundred that the expectations are about
    rows = {r["name"]: r["measures"] for r in json.loads(table.stdout)["rows"]}
    assert round(rows["N=256, 1 infected, seed 42"]["cumulative_8"]["mean"], 2) == 23.05
    for form, start in (("markdown", "**The published"), ("csv", "row,held"), ("rich", " ")):
        shown = invoke("bench", "table", "epidemic/reference", "--seeds", "2", "--format", form, *common)
        assert shown.stdout.startswith(start) and "N=128, 4 infected" in shown.stdout
    to = str(tmp_path / "figures")
    drawn = invoke("bench", "plot", "epidemic/reference", "--seeds", "2", "--to", to, "--json", *common)
    assert all(Path(path).stat().st_size > 1000 for path in json.loads(drawn.stdout)["files"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "run", "nobody"),
        ("bench", "run", "epidemic/albums", "--workers", "0"),
        ("bench", "run", "epidemic/albums", "--limit", "3"),
        ("bench", "table", "epidemic/albums", "--format", "pdf"),
        ("bench", "table", "epidemic/albums", "--out", "no/such"),
        ("bench", "list", "--experiments", "no/such"),
        ("epidemic", "--agents", "1"),
        ("epidemic", "--agents", "10", "--infected", "11"),
        ("epidemic", "--beta", "1.5"),
        ("epidemic", "--seeds", "0"),
        ("epidemic", "--seed", "-1"),
        ("epidemic", "--ray", "2", "--seeds", "3"),
        ("epidemic", "--ray", "2", "--reference-pairing"),
        ("epidemic", "--ray", "-1"),
        ("epidemic", "--rounds", "3", "--plot", "x.gif"),
    ],
)
def test_bad_values_are_one_clear_line(arguments, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert "error InputError" in result.stderr and "Traceback" not in result.output


def test_epidemic_command_gives_the_published_row() -> None:
    line = "--agents 128 --infected 4 --rounds 65 --album 10 --seed 42 --reference-pairing --json"
    data = json.loads(invoke("epidemic", *line.split()).stdout)
    assert [round(data["cumulative"][r], 2) for r in (8, 16, 24)] == [63.28, 100.0, 100.0]
    assert data["first_cumulative"] == {"85": 11, "90": 12, "95": 13}
    assert data["first_current"] == {"85": 13, "90": 13, "95": 15}
    assert round(data["current"][8], 2) == 53.12 and len(data["current"]) == 65


def test_epidemic_command_with_seeds_plot_and_a_person_reading(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    options = ("--seeds", "5", "--gamma", "0.6", "--rounds", "20")
    data = json.loads(invoke("epidemic", *options, "--json").stdout)
    assert data["first_cumulative"]["85"] is None and data["died_out"] == 1.0
    low, high = data["interval"]["cumulative"][3]
    assert low <= data["cumulative"][3] <= high
    shown = invoke("epidemic", *options, "--defenders", "4", "--plot", str(tmp_path / "e.svg"))
    assert shown.exit_code == 0 and "never" in shown.stdout and "█" in shown.stdout
    assert "<text" in (tmp_path / "e.svg").read_text()
