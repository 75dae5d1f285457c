"""What the adaptive attacker achieves, as docs/memory-study.md has it, follows from the stored results."""

from __future__ import annotations

from pathlib import Path

from lazaretto_lab.harness.results import ResultFolder

REPOSITORY = Path(__file__).resolve().parents[3]


def stored(experiment: str, row: str) -> dict[int, dict[str, float]]:
    results = ResultFolder(REPOSITORY / "lab" / "results", f"memory/{experiment}").stored()
    return {one["seed"]: one["measures"] for one in results if one["row"] == row}


def test_the_share_of_misbehaviour_that_an_adaptive_attacker_causes() -> None:
    attacked, calm = stored("axes", "C4 adaptive"), stored("utility", "no attack")
    base = {seed: measures["misbehaviour_after"] for seed, measures in calm.items()}
    caused = {seed: m["misbehaviour_after"] - base[seed] for seed, m in attacked.items()}
    undefended = {seed: m["misbehaviour_before"] - base[seed] for seed, m in attacked.items()}
    shares = [caused[seed] / undefended[seed] for seed in attacked]
    moved = sum(m["coverage_after"] for m in attacked.values()) / sum(m["coverage_before"] for m in attacked.values())
    page = (REPOSITORY / "docs" / "memory-study.md").read_text()
    assert len(attacked) == 5
    assert f"it causes {sum(caused.values()) / sum(undefended.values()):.1%}".replace("%", " %") in page
    assert f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % by seed" in page
    assert f"{100 * moved:.0f} % as many decisions" in page
