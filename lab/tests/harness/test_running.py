"""Running: results survive kills, errors are void and counted, workers and Ray give the same as one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import orjson
import psutil
import pytest

from lazaretto.errors import InputError, StoreDamaged
from lazaretto_lab.harness.context import Outcome
from lazaretto_lab.harness.experiment import read_experiment, units
from lazaretto_lab.harness.results import PACKED, ResultFolder
from lazaretto_lab.harness.run import RunCallbacks, RunOptions, run_experiment
from lazaretto_lab.harness.tables import as_csv, as_data, as_markdown, lines, load_results, make_table
from lazaretto_lab.harness.unit import clean_measures

RUNNER = """
import os, time
from pathlib import Path

def run(settings, seed, context):
    with open(Path(__file__).with_name("calls.txt"), "a") as calls:
        calls.write(f"{settings['x']} {seed}\\n")
    context.progress(0.5, "half")
    if settings.get("nap"):
        mark = context.workdir / "begun"
        if settings.get("once") and mark.exists():
            return {"value": 1.0, "resumed": True}
        mark.write_text("yes")
        time.sleep(settings["nap"])
    if settings.get("die"):
        os._exit(9)
    if settings.get("fail") and seed == 1:
        raise RuntimeError("no luck")
    return {"value": settings["x"] + seed, "even": seed % 2 == 0, "late": None if seed else 3, "curve": [seed, 2 *
    seed]}
"""

FILE = """
title = "Tiny"
story = "s"
expected = "e"
runner = "tiny_runner:run"
seeds = 3
{more}
[[rows]]
name = "one"
settings = {{ x = 1.0{one} }}
[[rows]]
name = "two"
settings = {{ x = 2.0 }}
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A function that writes an experiment (with a runner beside it) and reads it."""
    (tmp_path / "tiny_runner.py").write_text(RUNNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny_runner", raising=False)

    def make(more: str = "", one: str = ""):
        folder = tmp_path / "fam"
        folder.mkdir(exist_ok=True)
        (folder / "tiny.toml").write_text(FILE.format(more=more, one=one))
        return read_experiment(folder / "tiny.toml")

    return make


def calls(tmp_path: Path) -> Counter[str]:
    path = tmp_path / "calls.txt"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def measures(experiment, out: Path) -> dict[str, object]:
    folder = ResultFolder(out, experiment.name)
    return {u.key: getattr(folder.read(u), "measures", None) for u in units(experiment)}


def test_finished_units_are_not_done_again(tiny, tmp_path) -> None:
    experiment, options = tiny(), RunOptions(tmp_path / "out")
    assert run_experiment(experiment, RunOptions(tmp_path / "out", seeds=1)) == {Outcome.HELD: 2}
    assert run_experiment(experiment, options) == {Outcome.HELD: 6}
    assert run_experiment(experiment, options) == {Outcome.HELD: 6}
    assert set(calls(tmp_path).values()) == {1} and len(calls(tmp_path)) == 6


def test_a_result_says_what_made_it_and_old_ones_are_read_without(tiny, tmp_path) -> None:
    experiment = tiny()
    run_experiment(experiment, RunOptions(tmp_path / "out", seeds=1))
    folder = ResultFolder(tmp_path / "out", experiment.name)
    unit = next(units(experiment))
    result = folder.read(unit)
    assert result is not None
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert head.stdout.startswith(result.made_with["commit"].removesuffix("-dirty"))
    assert result.made_with["date"] >= "2026-01-01" and {"python", "torch", "machine", "device"} <= set(
        result.made_with
    )
    stored = orjson.loads(folder.file(unit.key).read_bytes())
    folder.file(unit.key).write_bytes(orjson.dumps({k: v for k, v in stored.items() if k != "made_with"}))
    old = folder.read(unit)
    assert old is not None and old.measures == result.measures and old.made_with == {}


def test_an_error_is_void_with_its_reason_and_stays_counted(tiny, tmp_path) -> None:
    experiment, options = tiny(one=", fail = true"), RunOptions(tmp_path / "out")
    assert run_experiment(experiment, options) == {Outcome.HELD: 5, Outcome.VOID: 1}
    table = make_table(experiment, load_results(experiment, options.out))
    assert table.rows[0].reasons == ("RuntimeError: no luck",)
    assert lines(table)[0][1] == "2 held, 1 void"
    assert "void in one: RuntimeError: no luck" in as_markdown(table)
    run_experiment(experiment, options)
    assert calls(tmp_path)["1.0 1"] == 1
    run_experiment(experiment, RunOptions(options.out, retry_void=True))
    assert calls(tmp_path)["1.0 1"] == 2 and calls(tmp_path)["1.0 0"] == 1


def test_criteria_make_a_unit_breached_and_expectations_are_judged(tiny, tmp_path) -> None:
    more = 'held_when = [{ measure = "value", at_most = 3 }]\n' + "".join(
        f"[[expect]]\n{body}\n"
        for body in (
            'row = "one"\nmeasure = "value"\nequals = 2',
            'row = "one"\nmeasure = "value"\nof = "max"\nat_most = 2',
            'row = "one"\nmeasure = "value"\nof = "every"\nat_least = 1',
            'row = "one"\nmeasure = "nothing"\nat_least = 1',
            'measure = "value"\nof = "sd"\nequals = 1',
        )
    )
    experiment, options = tiny(more), RunOptions(tmp_path / "out")
    assert run_experiment(experiment, options) == {Outcome.HELD: 5, Outcome.BREACHED: 1}
    table = make_table(experiment, load_results(experiment, options.out))
    assert [c.outcome.value for c in table.checks] == ["held", "breached", "held", "void", "held", "held"]
    more_seeds = make_table(experiment, load_results(experiment, options.out, seeds=4))
    assert more_seeds.rows[0].pending == 1 and {c.outcome for c in more_seeds.checks} == {Outcome.VOID}


def test_tables_have_means_intervals_and_what_did_not_happen(tiny, tmp_path) -> None:
    experiment, options = tiny(), RunOptions(tmp_path / "out")
    run_experiment(experiment, options)
    table = make_table(experiment, load_results(experiment, options.out))
    data = as_data(table)["rows"][0]["measures"]
    assert data["value"]["mean"] == 2.0 and data["value"]["high"] == pytest.approx(2 + 4.303 / 3**0.5, abs=1e-3)
    assert data["even"]["n"] == 3 and data["even"]["mean"] == pytest.approx(2 / 3) and data["even"]["low"] > 0
    assert data["late"] == {"mean": 3.0, "low": None, "high": None, "n": 1, "missing": 2}
    assert "3.00 (1/3)" in lines(table)[0]
    assert as_csv(table).splitlines()[1].startswith("one,3,0,0,0,value,2.0,")
    with pytest.raises(InputError, match="no results"):
        load_results(experiment, tmp_path / "elsewhere")


@pytest.mark.slow
def test_processes_and_ray_give_what_one_process_gives(tiny, tmp_path, monkeypatch) -> None:
    experiment = tiny(one=", fail = true")
    run_experiment(experiment, RunOptions(tmp_path / "here"))
    seen = []
    run_experiment(
        experiment, RunOptions(tmp_path / "processes", workers=2), RunCallbacks(unit_done=lambda r: seen.append(r.unit))
    )
    assert len(seen) == 6
    assert measures(experiment, tmp_path / "processes") == measures(experiment, tmp_path / "here")
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    run_experiment(experiment, RunOptions(tmp_path / "ray", workers=2, ray=True))
    assert measures(experiment, tmp_path / "ray") == measures(experiment, tmp_path / "here")


@pytest.mark.slow
def test_a_process_that_dies_is_void_and_the_others_finish(tiny, tmp_path) -> None:
    experiment = tiny(one=", die = true")
    counted = run_experiment(experiment, RunOptions(tmp_path / "out", workers=2, seeds=2))
    assert counted == {Outcome.HELD: 2, Outcome.VOID: 2}
    table = make_table(experiment, load_results(experiment, tmp_path / "out", seeds=2))
    assert "died" in table.rows[0].reasons[0]


def start(tmp_path: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from lazaretto.cli import main; main()", "bench", "run", "fam/tiny.toml"]
    return subprocess.Popen(
        [*command, "--out", "out", *more], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=_hear_interrupts,
    )  # fmt: skip


def _hear_interrupts() -> None:
    """What a shell starts in the background ignores interrupts, and so would everything it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_that_is_told_to_stop_leaves_no_worker_behind(tiny, tmp_path) -> None:
    experiment = tiny(one=", nap = 300")  # three seeds, two at once
    folder = ResultFolder(tmp_path / "out", experiment.name)
    process = start(tmp_path, "--workers", "2")
    wait_for(lambda: len(list((folder.path / "work").glob("*/begun"))) == 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    assert process.wait(timeout=60) == 130
    assert len(workers) >= 2
    assert not psutil.wait_procs(workers, timeout=30)[1]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_where_it_was(tiny, tmp_path, how) -> None:
    experiment = tiny(one=", nap = 30, once = true")  # naps 30 s the first time, then finds its work folder and goes on
    folder = ResultFolder(tmp_path / "out", experiment.name)
    process = start(tmp_path)
    wait_for(lambda: any((folder.path / "work").glob("*/begun")))
    process.send_signal(how)
    output = process.communicate(timeout=240)[1].decode()
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    assert how == signal.SIGKILL or "Run it again to go on" in " ".join(output.split())
    assert not list(folder.path.glob("*.json")), "the first unit was not done, so none is"
    begun = next((folder.path / "work").glob("*/begun")).parent.name
    assert run_experiment(experiment, RunOptions(tmp_path / "out", seeds=1)) == {Outcome.HELD: 2}
    assert measures(experiment, tmp_path / "out")[begun] == {"value": 1.0, "resumed": True}
    assert not list(folder.path.glob(".*.part"))


def test_only_rows_that_are_asked_for_are_run(tiny, tmp_path) -> None:
    experiment = tiny()
    assert run_experiment(experiment, RunOptions(tmp_path / "out", rows="tw")) == {Outcome.HELD: 3}
    assert {line.split()[0] for line in (tmp_path / "calls.txt").read_text().splitlines()} == {"2.0"}
    with pytest.raises(InputError, match="one, two"):
        run_experiment(experiment, RunOptions(tmp_path / "out", rows="three"))


def test_two_runs_do_not_share_a_folder(tiny, tmp_path) -> None:
    experiment = tiny()
    with (
        ResultFolder(tmp_path / "out", experiment.name).run_lock(),
        pytest.raises(InputError, match="another run"),
    ):
        run_experiment(experiment, RunOptions(tmp_path / "out"))


def test_a_damaged_result_is_reported_not_recomputed(tiny, tmp_path) -> None:
    experiment, options = tiny(), RunOptions(tmp_path / "out")
    run_experiment(experiment, options)
    broken = ResultFolder(options.out, experiment.name).file(next(units(experiment)).key)
    broken.write_text('{"unit": ')
    with pytest.raises(StoreDamaged, match="delete it"):
        run_experiment(experiment, options)


def test_packed_results_are_the_same_and_a_new_one_counts_before_them(tiny, tmp_path) -> None:
    experiment, options = tiny(one=", fail = true"), RunOptions(tmp_path / "out")
    run_experiment(experiment, options)
    folder = ResultFolder(options.out, experiment.name)
    before, table = folder.stored(), lines(make_table(experiment, load_results(experiment, options.out)))
    assert len(before) == folder.pack() == 6 and not list(folder.path.glob("*.json"))
    assert ResultFolder(options.out, experiment.name).stored() == before == folder.stored()
    assert lines(make_table(experiment, load_results(experiment, options.out))) == table
    assert run_experiment(experiment, options) == {Outcome.HELD: 5, Outcome.VOID: 1}, "nothing is run again"
    held = next(one for one in before if one["outcome"] == "held")
    folder.file(held["unit"]).write_bytes(orjson.dumps({**held, "reason": "newer"}))
    assert folder.pack() == 6 and [one["reason"] for one in folder.stored()].count("newer") == 1
    packed = folder.path / PACKED
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(StoreDamaged, match="does not hold results"):
        run_experiment(experiment, options)


def test_bad_options_and_places_are_refused(tiny, tmp_path) -> None:
    experiment = tiny()
    (tmp_path / "file").write_text("")
    for options in (RunOptions(workers=0), RunOptions(seeds=0), RunOptions(tmp_path / "file")):
        with pytest.raises(InputError):
            run_experiment(experiment, options)


def test_measures_are_plain_and_finite() -> None:
    import numpy as np

    cleaned = clean_measures({"a": np.float64(1.5), "b": np.arange(2), "c": None, "d": "w", "e": (1, None)})
    assert cleaned == {"a": 1.5, "b": [0, 1], "c": None, "d": "w", "e": [1, None]}
    for bad in (float("nan"), [float("inf")], object()):
        with pytest.raises((ValueError, TypeError)):
            clean_measures({"m": bad})
