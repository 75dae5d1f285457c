"""The world over an OpenAI-compatible vision endpoint: a real HTTP server here, spoken to by the real client."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.scripted import HashingEmbedder
from lazaretto_lab.worlds.album_chat.scenario import Scenario
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome

pytest.importorskip("openai")
from lazaretto.models.openai_chat import Endpoint, OpenAIChat

PNG = b"\x89PNG\r\n\x1a\n"
POOL = tuple(picture_item(PNG + bytes([i]) * 40, f"picture {i}") for i in range(12))


class Server:
    """Answers like vLLM or Ollama do, and keeps what it was sent. ``behave`` may turn an answer into trouble."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.behave: Any = lambda body: (200, "A fine picture.")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                status, text = outer.behave(body)
                message = {"role": "assistant", "content": text}
                usage = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
                answer = {
                    "id": "x", "object": "chat.completion", "created": 1, "model": "local", "usage": usage,
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                }  # fmt: skip
                data = json.dumps(answer if status == 200 else {"error": {"message": text}}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server()
    yield serving
    serving.http.shutdown()
    serving.http.server_close()


def two_rounds(url: str) -> tuple[Outcome, AgentModel]:
    chat = OpenAIChat(Endpoint("local", url, retries=0, timeout_s=5))
    agent_model = AgentModel(chat, EmbeddingCache(HashingEmbedder()))

    async def run() -> Outcome:
        outcome = await AlbumChat(Scenario(agents=6, rounds=2, album=4, infected=0), agent_model, POOL).run()
        await chat.aclose()
        return outcome

    return asyncio.run(run()), agent_model


def test_two_rounds_over_an_endpoint_send_pictures_and_count_tokens(server: Server) -> None:
    outcome, agent_model = two_rounds(server.url)
    assert len(server.bodies) == 18 == agent_model.spent.calls
    assert (agent_model.spent.prompt_tokens, agent_model.spent.completion_tokens) == (18 * 11, 18 * 4)
    assert all(turn.answer == "A fine picture." and not turn.fault for trace in outcome.rounds for turn in trace.turns)
    parts = [
        part
        for body in server.bodies
        for m in body["messages"]
        if isinstance(m["content"], list)
        for part in m["content"]
    ]
    sent = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert len(sent) == 12  # a question and an answer per turn; plans see no pixels
    shown = {base64.b64decode(url.partition("base64,")[2]) for url in sent}
    assert shown == {k.picture for k in POOL if k.key in {t.key for r in outcome.rounds for t in r.turns}}


def test_an_endpoint_that_fails_for_some_voids_those_turns_alone(server: Server) -> None:
    lock, count = threading.Lock(), {"n": 0}

    def shaky(body: dict[str, Any]) -> tuple[int, str]:
        with lock:
            count["n"] += 1
            return (400, "no") if count["n"] in (4, 5) else (200, "Yes.")

    server.behave = shaky
    outcome, agent_model = two_rounds(server.url)
    turns = [turn for trace in outcome.rounds for turn in trace.turns]
    assert sum(bool(turn.fault) for turn in turns) == agent_model.spent.faults == 2


def test_an_endpoint_that_is_not_there_is_a_fault_of_every_turn_and_not_a_crash() -> None:
    outcome, agent_model = two_rounds("http://127.0.0.1:9/v1")
    assert all(turn.fault for trace in outcome.rounds for turn in trace.turns)
    assert agent_model.spent.faults == 6  # plans only: nobody asks about what was never fetched
