"""A chat-completions endpoint with canned answers, for measuring and for breaking the client.

It speaks just enough HTTP/1.1 to be fast and runs in its own process::

python tests/stub_endpoint.py --port 0 --delay-ms 100

The first line it prints is its base URL. The model name chooses how it behaves: ``stub`` answers; ``stub-429``,
``stub-500``, ``stub-garbage``, ``stub-nothing``, ``stub-half`` and ``stub-drop`` misbehave for ever; with ``-once``
at the end only the first request of each distinct prompt is spoilt. Usage figures it reports are the characters of
the request body divided by four, so a test can recompute them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import sys
from typing import ClassVar

FILLER = "The content was read closely and weighed against the policy and the precedents at hand. " * 9

ANSWERS = {
    b"You are the Supporter": {
        "summary": "The content is summed up here without a judgement. " * 4,
        "cues": ["an objective element of risk is named", "a benign setting is possible"],
        "differences": ["the precedent had another intent"],
        "patterns": ["no recurring category"],
        "precedents": [],
    },
    b"You are the Strict": {"argument": FILLER, "risk_score": 0.7, "quotes": [], "hazards": ["S2"], "concede": False},
    b"You are the Loose": {"argument": FILLER, "risk_score": 0.4, "quotes": [], "hazards": [], "concede": False},
    b"You are the Arbiter": {
        "rule": "confirmed-risk",
        "label": "unsafe",
        "score": 0.8,
        "reasoning": FILLER,
        "quotes": [],
        "hazards": ["S2"],
        "precedents": [],
    },
    b"You are the Curator": {"summary": "A lesson.", "key_cues": ["look at the whole"], "hazards": ["S2"]},
    b"Describe the picture": "A plain picture with nothing remarkable in it.",
}


_QUOTABLE = re.compile(rb"<(?:text|picture) [0-9a-f]{12}>\\n([A-Za-z0-9 ,.]{3,40})")
"""The first words of the content in a request: a judge must quote them, or its ruling does not count."""


def _completion(content: str, prompt_tokens: int, completion_tokens: int) -> bytes:
    return json.dumps(
        {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 1,
            "model": "stub",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
                "prompt_tokens_details": {"cached_tokens": prompt_tokens // 2},
            },
        }
    ).encode()


def _http(status: str, body: bytes, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


class Stub(asyncio.Protocol):
    """One connection."""

    delay = 0.0
    seen: ClassVar[set[int]] = set()
    served = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""
        self.loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            match = re.search(rb"content-length:\s*(\d+)", self.buffer[:end], re.IGNORECASE)
            length = int(match.group(1)) if match else 0
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            if self.delay:
                self.loop.call_later(self.delay, self.answer, body)
            else:
                self.answer(body)

    def answer(self, body: bytes) -> None:
        Stub.served += 1
        if self.transport.is_closing():
            return
        match = re.search(rb'"model"\s*:\s*"([^"]*)"', body)
        model = match.group(1).decode() if match else "stub"
        if model.endswith("-once"):
            mark = hash(body)
            model = "stub" if mark in Stub.seen else model.removesuffix("-once")
            Stub.seen.add(mark)
        if model != "stub" and self.misbehave(model):
            return
        canned: object = "OK"
        last = -1
        for key, value in ANSWERS.items():
            place = body.rfind(key)
            if place > last:
                last, canned = place, value
        quoted = _QUOTABLE.search(body)
        if isinstance(canned, dict) and "quotes" in canned and quoted:
            canned = {**canned, "quotes": [quoted.group(1).decode()]}
        content = canned if isinstance(canned, str) else json.dumps(canned)
        self.transport.write(_http("200 OK", _completion(content, len(body) // 4, len(content) // 4)))

    def misbehave(self, model: str) -> bool:
        """Spoil this answer; False when the model name asks for nothing of the kind."""
        if model == "stub-429":
            self.transport.write(
                _http("429 Too Many Requests", b'{"error":{"message":"slow down"}}', "retry-after-ms: 5\r\n")
            )
        elif model == "stub-500":
            self.transport.write(_http("500 Internal Server Error", b'{"error":{"message":"broken"}}'))
        elif model == "stub-garbage":
            self.transport.write(_http("200 OK", b"\x00\xff<html>not json"))
        elif model == "stub-empty":
            self.transport.write(_http("200 OK", _completion("", 10, 0)))
        elif model == "stub-babble":
            self.transport.write(_http("200 OK", _completion("I like turtles.", 10, 4)))
        elif model == "stub-half":
            whole = _http("200 OK", _completion("x" * 4000, 10, 10))
            self.transport.write(whole[: len(whole) // 2])
            self.transport.close()
        elif model == "stub-drop":
            self.transport.close()
        elif model != "stub-nothing":
            return False
        return True


async def serve(port: int, delay_ms: float) -> None:
    Stub.delay = delay_ms / 1000.0
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        # the parent closes our stdin when it goes: no stub outlives its test
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options.port, options.delay_ms))
