"""``lazaretto trace`` and ``lazaretto contacts``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lazaretto.cli import trace
from lazaretto.cli.application import add_family
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.types import Channel, Draft, EventKind, Observation


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A command line over a small crew: root -> child, root read by bob at 2."""
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    with Ledger.open(url) as ledger:
        ledger.append_item(Observation("ann", Channel.MEMORY, "[red]note[/red]\x1b[2J", id="root", time=1.0))
        ledger.append([Draft(EventKind.RETRIEVED, "root", "bob", time=2.0)])
        ledger.append_item(Observation("bob", Channel.MEMORY, "made from it", id="child", parents=("root",), time=3.0))
    monkeypatch.setenv("LAZARETTO_STORE", url)
    monkeypatch.setenv("COLUMNS", "160")
    app = typer.Typer()
    add_family(app, "trace")
    return lambda *words: CliRunner().invoke(app, list(words))


def test_text_names_origin_reach_and_trust(run) -> None:  # type: ignore[no-untyped-def]
    done = run("trace", "root")
    assert done.exit_code == 0
    assert "patient zero" in done.stdout and "reached items (1)" in done.stdout and "bob" in done.stdout
    assert "[red]note[/red]" in done.stdout and "\x1b[2J" not in done.stdout, "shown as it is, and harmless"


def test_json_holds_all_answers(run) -> None:  # type: ignore[no-untyped-def]
    data = json.loads(run("trace", "child", "--json").stdout)
    assert data["lineage"]["items"] == [{"id": "root", "hops": 1, "time": 1.0}]
    assert data["patient_zero"]["item"] == "root" and data["trust"]["path"] == ["child"]
    assert json.loads(run("trace", "root", "--json").stdout)["blast_radius"]["agents"][0]["id"] == "bob"


@pytest.mark.parametrize(
    ("style", "opening"), [("json", "{"), ("dot", "digraph"), ("mermaid", "flowchart"), ("svg", "<svg")]
)
def test_drawings_go_to_standard_output_or_a_file(run, style: str, opening: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    if style == "svg":
        pytest.importorskip("matplotlib", reason="needs the plot extra")
    assert run("trace", "root", "--format", style).stdout.startswith(opening)
    path = tmp_path / "drawing.out"
    assert run("trace", "root", "--format", style, "--out", str(path)).exit_code == 0
    assert path.read_text().startswith(opening)


def test_the_name_of_the_file_chooses_the_format(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("matplotlib", reason="needs the plot extra")
    for name, opening in (("a.svg", b"<svg"), ("a.dot", b"digraph"), ("a.png", b"\x89PNG")):
        assert run("trace", "root", "--out", str(tmp_path / name)).exit_code == 0
        assert (tmp_path / name).read_bytes().startswith(opening)


def test_contacts_in_a_window(run) -> None:  # type: ignore[no-untyped-def]
    data = json.loads(run("contacts", "bob", "--json").stdout)
    assert data["contacts"] == [{"agent": "ann", "item": "root", "direction": "in", "time": 2.0}]
    assert json.loads(run("contacts", "bob", "--since", "1970-01-01T00:00:03", "--json").stdout)["contacts"] == []
    assert "was read by" in run("contacts", "ann").stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("trace", "nothing"), "nothing"),
        (("contacts", "nobody"), "nobody"),
        (("contacts", "bob", "--since", "yesterday"), "since"),
        (("contacts", "bob", "--since", "5", "--until", "4"), "since"),
        (("trace", "root", "--out", "/no/such/folder/x.dot"), "out"),
        (("trace", "root", "--limit", "0"), "limit"),
    ],
)
def test_bad_input_is_one_clear_line(run, words: tuple[str, ...], names: str) -> None:  # type: ignore[no-untyped-def]
    done = run(*words)
    assert done.exit_code == 2
    assert names in done.stderr and "Traceback" not in done.output


def test_times_are_read_as_utc() -> None:
    assert trace.moment("1970-01-02", "since") == 86_400.0
    assert trace.moment("1970-01-01T01:00:00+01:00", "since") == 0.0
    assert trace.moment(None, "since") is None
    with pytest.raises(InputError):
        trace.moment("soon", "since")
