"""The proxy between official clients and a stub endpoint: nothing harmful is read, nothing refused is acted on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
httpx = pytest.importorskip("httpx", reason="needs the proxy extra")
openai = pytest.importorskip("openai", reason="needs the openai extra")
anthropic = pytest.importorskip("anthropic", reason="needs the dev extra")

from starlette.requests import Request

from lazaretto import Guard
from lazaretto.api.access import KeyFile, Role
from lazaretto.api.proxy.app import DIALECTS, ProxySettings, create_proxy
from lazaretto.api.proxy.dialects import sse
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation, Ruling, Verdict

from .conftest import serving

STAGES = {"stages": [["scripted"]]}
POLICY = {
    "preset": "minimal", "limits": {"max_text_bytes": 20_000, "max_image_bytes": 20_000, "max_fields_bytes": 1_000},
    "channels": dict.fromkeys(("message", "image", "tool", "document"), STAGES),
}  # fmt: skip


def script(seen: Observation) -> Any:
    if "poison" in seen.text:
        return Verdict("scripted", seen.id, Ruling.BLOCK, 0.9, (0.8, 1.0), "poison")
    if "mend" in seen.text:
        return Verdict("scripted", seen.id, Ruling.REWRITE, 0.5, (0.4, 0.6), "mend", replacement="mended")
    return Ruling.ALLOW


class Upstream:
    """Plays a model's endpoint: says what ``says`` is, and keeps what it was asked."""

    def __init__(self) -> None:
        self.says, self.tool, self.status, self.how = "fine", "", 200, ""
        self.asked: list[Any] = []
        self.headers: dict[str, str] = {}
        self.gone = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = await Request(scope, receive).body()
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        asked = json.loads(body) if body else {}
        self.asked.append(asked)
        if self.how == "never":
            await asyncio.wait_for(self._until_gone(receive), 60)
            return
        stream = bool(asked.get("stream")) and self.status == 200
        kind = b"text/event-stream" if stream else b"application/json"
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"content-type", kind)]})
        answer = self._stream(scope["path"]) if stream else json.dumps(self._whole(scope["path"])).encode()
        if self.how == "breaks":
            answer = answer[: len(answer) // 2]
        for at in range(0, len(answer), 50):
            await send({"type": "http.response.body", "body": answer[at : at + 50], "more_body": True})
        if self.how == "stalls":
            await asyncio.wait_for(self._until_gone(receive), 60)
            return
        await send({"type": "http.response.body", "body": b""})

    async def _until_gone(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    def _whole(self, path: str) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": "no", "type": "x"}}
        calls = [{"id": "c", "type": "function", "function": {"name": "pay", "arguments": self.tool}}]
        if path.endswith("completions"):
            message = {"role": "assistant", "content": self.says, **({"tool_calls": calls} if self.tool else {})}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        if path.endswith("responses"):
            part = {"type": "output_text", "text": self.says, "annotations": []}
            item = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
            return {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [item],
                    "status": "completed", "parallel_tool_calls": False, "tool_choice": "auto",
                    "tools": []}  # fmt: skip
        blocks: list[Any] = [{"type": "text", "text": self.says}]
        if self.tool:
            blocks.append({"type": "tool_use", "id": "t", "name": "pay", "input": json.loads(self.tool)})
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": blocks,
                "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}  # fmt: skip

    def _stream(self, path: str) -> bytes:
        """As the dialect itself writes one, but ended well."""
        made = DIALECTS[path].as_stream("m", self.says)
        if path.endswith("completions"):
            parts = [self.says[at : at + 3] for at in range(0, len(self.says), 3)]
            head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            chunks = [
                {**head, "choices": [{"index": 0, "delta": {"content": one}, "finish_reason": None}]} for one in parts
            ]
            last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            return b"".join(map(sse, [*chunks, last])) + sse(b"[DONE]")
        return made.replace(b'"refusal"', b'"end_turn"').replace(b"response.incomplete", b"response.completed")


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    folder = tmp_path_factory.mktemp("proxy")
    with Guard.open(f"sqlite:///{folder}/crew.db", POLICY, gates={"scripted": ScriptedGate(script)}) as opened:
        yield opened


@pytest.fixture(scope="module")
def stub() -> Iterator[tuple[Upstream, str]]:
    upstream = Upstream()
    with serving(upstream) as url:
        yield upstream, url


@pytest.fixture
def upstream(stub: tuple[Upstream, str]) -> Upstream:
    upstream, _ = stub
    upstream.says, upstream.tool, upstream.status, upstream.how = "fine", "", 200, ""
    upstream.asked.clear()
    return upstream


@pytest.fixture(scope="module")
def url(guard: Guard, stub: tuple[Upstream, str]) -> Iterator[str]:
    with serving(create_proxy({"default": guard}, ProxySettings(stub[1]))) as address:
        yield address


@pytest.fixture
def chat(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def claude(url: str) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=60) as client:
        yield client


def test_tool_results_are_screened_before_the_model_reads_them(chat: Any, claude: Any, upstream: Upstream) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "you are ada"}, {"role": "user", "content": "read it"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "the poison page"},
    ]  # fmt: skip
    answer = chat.chat.completions.create(model="m", messages=messages)
    assert answer.choices[0].message.content == "fine"
    read = upstream.asked[-1]["messages"]
    assert read[:3] == messages[:3]
    assert read[3]["content"].startswith("[withheld by Lazaretto: scripted:poison, it_")
    assert upstream.headers["authorization"] == "Bearer k"
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "please mend this"}]},
        {"type": "function_call_output", "call_id": "c", "output": "the poison page"},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "http://10.0.0.1/x.png"}]},
    ]  # fmt: skip
    chat.responses.create(model="m", input=items)
    read = upstream.asked[-1]["input"]
    assert read[0]["content"][0]["text"] == "mended"
    assert "withheld" in read[1]["output"]
    assert "could not be judged" in read[2]["content"][0]["text"]
    blocks = [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "the poison page"}]},
        {"type": "tool_result", "tool_use_id": "u", "content": "a fine page"},
        {"type": "document", "source": {"type": "url", "url": "http://10.0.0.1/"}},
    ]  # fmt: skip
    claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": blocks}])
    read = upstream.asked[-1]["messages"][0]["content"]
    assert "withheld" in read[0]["content"][0]["text"] and read[1]["content"] == "a fine page"
    assert "could not be judged" in read[2]["text"]


def test_a_message_that_is_refused_never_reaches_the_model(chat: Any, claude: Any, upstream: Upstream) -> None:
    for ask in (
        lambda: chat.chat.completions.create(model="m", messages=[{"role": "user", "content": "take poison"}]),
        lambda: chat.responses.create(model="m", input="take poison"),
    ):
        with pytest.raises(openai.BadRequestError, match="scripted:poison"):
            ask()
    with pytest.raises(anthropic.BadRequestError, match="scripted:poison"):
        claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "take poison"}])
    assert upstream.asked == []


def test_answers_are_audited_before_the_agent_acts(chat: Any, claude: Any, upstream: Upstream) -> None:
    hello = [{"role": "user", "content": "hello"}]
    upstream.says = "drink poison"
    one = chat.chat.completions.create(model="m", messages=hello).choices[0]
    assert (one.finish_reason, "withheld" in one.message.content) == ("content_filter", True)
    two = chat.responses.create(model="m", input="hello")
    assert (two.status, "withheld" in two.output_text) == ("incomplete", True)
    three = claude.messages.create(model="m", max_tokens=9, messages=hello)
    assert (three.stop_reason, "withheld" in three.content[0].text) == ("refusal", True)
    upstream.says, upstream.tool = "fine", '{"for": "poison"}'
    one = chat.chat.completions.create(model="m", messages=hello).choices[0]
    assert one.message.tool_calls is None
    said = claude.messages.create(model="m", max_tokens=9, messages=hello).content
    assert said and all(block.type == "text" for block in said)
    upstream.says, upstream.tool = "mend it", ""
    assert chat.chat.completions.create(model="m", messages=hello).choices[0].message.content == "mended"


@pytest.mark.parametrize("says", ["all is well", "drink poison"])
def test_streams_are_held_back_until_they_are_judged(chat: Any, claude: Any, upstream: Upstream, says: str) -> None:
    upstream.says = says
    hello = [{"role": "user", "content": "hello"}]
    chunks = list(chat.chat.completions.create(model="m", messages=hello, stream=True))
    said = ["".join(chunk.choices[0].delta.content or "" for chunk in chunks)]
    events = list(chat.responses.create(model="m", input="hello", stream=True))
    said.append("".join(event.delta for event in events if event.type == "response.output_text.delta"))
    with claude.messages.stream(model="m", max_tokens=9, messages=hello) as stream:
        said.append("".join(stream.text_stream))
    if "poison" in says:
        assert all(one.startswith("[withheld by Lazaretto") for one in said)
        assert "poison" not in "".join(str(chunk) for chunk in chunks if "withheld" not in str(chunk))
    else:
        assert said == [says] * 3
        assert len(chunks) > 2, "as it came"


def test_an_endpoint_that_fails_is_said_to(chat: Any, claude: Any, upstream: Upstream, guard: Guard) -> None:
    hello = [{"role": "user", "content": "hello"}]
    upstream.status = 429
    with pytest.raises(openai.RateLimitError):
        chat.chat.completions.create(model="m", messages=hello)
    with pytest.raises(openai.RateLimitError):
        list(chat.chat.completions.create(model="m", messages=hello, stream=True))
    upstream.status, upstream.how = 200, "breaks"
    upstream.says = "a long answer that breaks off in the middle"
    with pytest.raises(openai.APIError, match="broke off"):
        list(chat.chat.completions.create(model="m", messages=hello, stream=True))
    streaming = claude.messages.stream(model="m", max_tokens=9, messages=hello)
    with pytest.raises(anthropic.APIError, match="broke off"), streaming as stream:
        "".join(stream.text_stream)
    with pytest.raises(openai.InternalServerError, match="something else than JSON"):
        chat.chat.completions.create(model="m", messages=hello)


def test_a_dead_or_slow_endpoint_stalls_nobody(guard: Guard, stub: tuple[Upstream, str], upstream: Upstream) -> None:
    hello = [{"role": "user", "content": "hello"}]
    with serving(create_proxy({"default": guard}, ProxySettings("http://127.0.0.1:9", connect_s=5))) as dead:
        client = openai.OpenAI(base_url=f"{dead}/v1", api_key="k", max_retries=0, timeout=60)
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="cannot be reached"):
                client.chat.completions.create(model="m", messages=hello, stream=stream)
    upstream.how = "never"
    with serving(create_proxy({"default": guard}, ProxySettings(stub[1], timeout_s=0.3))) as slow:
        client = openai.OpenAI(base_url=f"{slow}/v1", api_key="k", max_retries=0, timeout=60)
        with pytest.raises(openai.InternalServerError, match="too long"):
            client.chat.completions.create(model="m", messages=hello)


def test_who_hangs_up_frees_the_endpoint(url: str, upstream: Upstream) -> None:
    upstream.how = "stalls"
    upstream.gone = asyncio.Event()
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
        assert answer.status_code == 200
    import time

    deadline = time.monotonic() + 60
    while not upstream.gone.is_set() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert upstream.gone.is_set()


def test_what_is_not_guarded_is_not_passed_on(url: str, upstream: Upstream) -> None:
    assert httpx.post(f"{url}/v1/completions", json={"prompt": "x"}, timeout=60).status_code == 404
    assert httpx.get(f"{url}/v1/models", timeout=60).status_code == 200
    assert httpx.post(f"{url}/v1/chat/completions", json=[1], timeout=60).status_code == 422
    foreign = {"content-type": "text/plain", "origin": "https://evil.example"}  # what any page may send
    asked = b'{"messages": [{"role": "user", "content": "hello"}]}'
    assert httpx.post(f"{url}/v1/chat/completions", content=asked, headers=foreign, timeout=60).status_code == 415
    huge = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 400_000}]})
    assert httpx.post(f"{url}/v1/chat/completions", content=huge.encode(), timeout=60).status_code == 413
    long = {"model": "m", "messages": [{"role": "user", "content": "x" * 21_000}]}
    assert httpx.post(f"{url}/v1/chat/completions", json=long, timeout=60).status_code == 422
    user = {"role": "user"}
    for messages in ("x", [1, {**user, "content": 5}], [{**user, "content": 5}], [{**user, "content": {"a": "b"}}]):
        odd = {"messages": messages}
        assert httpx.post(f"{url}/v1/chat/completions", json=odd, timeout=60).status_code == 422
    wrong = {"x-lazaretto-namespace": "elsewhere"}
    assert httpx.post(f"{url}/v1/chat/completions", json=long, headers=wrong, timeout=60).status_code == 422


def test_agents_namespaces_and_keys_come_from_headers(
    guard: Guard, stub: Any, upstream: Upstream, tmp_path: Any
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.add("crew", Role.AGENT, any_agent=True)
    body = {"model": "m", "messages": [{"role": "user", "content": "a word of ada's"}]}
    with Guard.open(f"sqlite:///{tmp_path}/two.db", POLICY, "two", gates={"scripted": ScriptedGate(script)}) as two:
        app = create_proxy({"default": guard, "two": two}, ProxySettings(stub[1]), keys=file.keys())
        with serving(app) as url:
            path = f"{url}/v1/chat/completions"
            assert (
                httpx.post(path, json=body, headers={"authorization": f"Bearer {key}"}, timeout=60).status_code == 401
            )
            named = {"x-lazaretto-agent": "ada", "x-lazaretto-namespace": "two", "x-lazaretto-key": key}
            got = httpx.post(path, json=body, headers=named, timeout=60)
            assert (got.status_code, got.headers["x-lazaretto-judged"]) == (200, "1")
            other = file.add("neighbour", Role.AGENT, namespace="default", agents=["bob"])
            app = create_proxy({"default": guard, "two": two}, ProxySettings(stub[1]), keys=file.keys())
        with serving(app) as url:
            path = f"{url}/v1/chat/completions"
            for namespace, agent, status in (("two", "bob", 403), ("default", "ada", 403), ("default", "bob", 200)):
                asked = {"x-lazaretto-agent": agent, "x-lazaretto-namespace": namespace, "x-lazaretto-key": other}
                assert httpx.post(path, json=body, headers=asked, timeout=60).status_code == status
        assert not any(name.startswith("x-lazaretto") for name in upstream.headers)
        assert {one.text for one in two.ledger.items(agent="ada")} == {"a word of ada's", "fine"}
        assert not guard.ledger.items(agent="ada")
