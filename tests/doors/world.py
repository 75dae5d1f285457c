"""A guard with a proxy and a server before it: strangers at the doors, and honest flows."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="needs the dev extra")
pytest.importorskip("fastapi", reason="needs the api extra")
pytest.importorskip("starlette", reason="needs the proxy extra")

from lazaretto import Guard
from lazaretto.api.app import create_app
from lazaretto.api.proxy.app import ProxySettings, create_proxy
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation

from .cases import ASKING, PAY, PEOPLE, POLICY, TEA, Case, Cases, O, script

__all__ = ["ASKING", "PAY", "PEOPLE", "POLICY", "TEA", "Case", "Cases", "O", "script"]
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
LITELLM = "/beta/litellm_basic_guardrail_api"


class World:
    """One guard with a proxy and a server before it."""

    def __init__(self, guard: Guard) -> None:
        self.guard, self.sent = guard, list[Any]()
        self.answer: Callable[[], Any] = lambda: said("fine")
        self.stream = ""
        """A stream in place of an answer."""
        upstream = httpx.AsyncClient(transport=httpx.MockTransport(self._endpoint), base_url="http://model.example")
        self.proxy = create_proxy({"default": guard}, ProxySettings("http://model.example"), client=upstream)
        self.server = create_app(guard, "t0ken")

    def _endpoint(self, request: Any) -> Any:
        self.sent.append(request.content.decode())
        if self.stream:
            return httpx.Response(200, text=self.stream, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, json=self.answer())

    async def _post(self, app: Any, path: str, body: Any, headers: Any) -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(path, json=body, headers=headers)

    async def ask(self, path: str, body: Any, **headers: str) -> Any:
        return await self._post(self.proxy, path, {"model": "m", **body}, headers)

    async def chat(self, *messages: Any, **more: Any) -> Any:
        return await self.ask(CHAT, {"messages": list(messages), **more})

    async def litellm(self, **body: Any) -> str:
        sent = {"input_type": "request", "request_data": {"user_api_key_alias": "crew"}, **body}
        answered = await self._post(self.server, LITELLM, sent, {"x-api-key": "t0ken"})
        return answered.json().get("action", f"{answered.status_code}: {answered.text}")

    def reached(self) -> bool:
        """Whether the sentence, or a half of it that says enough, got to the model."""
        return bool(self.sent) and "INSTRUCTIONS" in self.sent[-1].upper()

    def items(self, text: str) -> list[Observation]:
        return [item for item in self.guard.ledger.items(any_state=True, limit=None) if text in item.text]

    def is_persons(self, text: str) -> bool:
        return any(item.source in PEOPLE for item in self.items(text))


def said(words: str, **more: Any) -> Any:
    message = {"role": "assistant", "content": words, **more}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


@asynccontextmanager
async def world_of(folder: Path, policy: Any = POLICY) -> AsyncIterator[World]:
    gate = ScriptedGate(script)
    async with Guard.open(f"sqlite:///{folder}/crew.db", policy, gates={"scripted": gate}) as guard:
        yield World(guard)


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP8z4AdMOEQH6QSAM1BAQ/oQeJvAAAAAElFTkSuQmCC"
PNG = f"data:image/png;base64,{PIXEL}"


def user(words: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": words, **more}


def model(words: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": words, **more}


def call(name: str, key: str = "c1", arguments: str = "{}") -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(words: Any, key: str = "c1", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": words, **more}


def data_url(kind: str, words: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(words.encode()).decode()}"
