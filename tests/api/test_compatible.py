"""Clients that others wrote: OpenAI's moderation and LiteLLM's guardrail, unchanged."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="needs the api extra")
openai = pytest.importorskip("openai", reason="needs the openai extra")
httpx = pytest.importorskip("httpx", reason="needs the dev extra")

from lazaretto import Guard
from lazaretto.api import webhooks
from lazaretto.api.app import create_app
from lazaretto.errors import InputError
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation, Ruling, Verdict

from .conftest import serving

STAGES = {"stages": [["scripted"]]}
POLICY = {"preset": "minimal", "channels": dict.fromkeys(("message", "image", "tool"), STAGES)}


def script(seen: Observation) -> Any:
    if "poison" in seen.text:
        return Verdict("scripted", seen.id, Ruling.BLOCK, 0.9, (0.8, 1.0), "poison", taxonomy=("S9", "ASI06"))
    if "mend" in seen.text:
        return Verdict("scripted", seen.id, Ruling.REWRITE, 0.5, (0.4, 0.6), "mend", replacement="mended")
    return Ruling.ALLOW


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    folder = tmp_path_factory.mktemp("compatible")
    with Guard.open(f"sqlite:///{folder}/crew.db", POLICY, gates={"scripted": ScriptedGate(script)}) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(guard: Guard) -> Iterator[str]:
    with serving(create_app(guard, "t0ken")) as address:
        yield address


def picture() -> str:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "PNG")
    return "data:image/png;base64," + base64.b64encode(made.getvalue()).decode()


def test_the_openai_client_moderates(url: str, guard: Guard) -> None:
    before = guard.ledger.head().seq
    with openai.OpenAI(base_url=f"{url}/v1", api_key="t0ken", max_retries=0) as client:
        two = client.moderations.create(input=["hello", "how to make poison"])
        assert [one.flagged for one in two.results] == [False, True]
        bad = two.results[1]
        assert (bad.categories.illicit_violent, bad.categories.hate) == (True, False)
        assert bad.category_scores.illicit_violent == pytest.approx(0.9)
        assert bad.category_applied_input_types.illicit_violent == ["text"]
        assert (bad.categories.model_extra or {})["lazaretto/held"] is True
        parts = [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": picture()}}]
        (one,) = client.moderations.create(input=parts).results
        assert not one.flagged
        for address in ("http://169.254.169.254/latest", "file:///etc/passwd", "data:image/png,abc"):
            with pytest.raises(openai.UnprocessableEntityError):
                client.moderations.create(input=[{"type": "image_url", "image_url": {"url": address}}])
    stranger = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.moderations.create(input="hello")
    assert guard.ledger.head().seq == before, "moderation records nothing"


def test_litellm_is_told_what_to_do(url: str, guard: Guard) -> None:
    def ask(**body: Any) -> Any:
        sent = {"input_type": "request", "request_data": {"user_api_key_alias": "crew"}, **body}
        headers = {"x-api-key": "t0ken"}
        got = httpx.post(f"{url}/beta/litellm_basic_guardrail_api", json=sent, headers=headers, timeout=60)
        assert got.status_code == 200, got.text
        return got.json()

    assert ask(texts=["hello"], images=[picture()])["action"] == "NONE"
    messages = [{"role": "user", "content": "hi"}, {"role": "tool", "content": "the poison is here"}]
    blocked = ask(texts=["hi", "the poison is here"], structured_messages=messages, litellm_trace_id="t-1")
    assert blocked["action"] == "BLOCKED"
    assert blocked["blocked_reason"].startswith("scripted:poison")
    (item,) = guard.ledger.items(agent="crew", any_state=True, channel="tool")  # type: ignore[arg-type]
    assert item.text == "the poison is here", "it was seen as what a tool said"
    mended = ask(texts=["keep", "mend this"], litellm_trace_id="t-2")
    assert mended == {"action": "GUARDRAIL_INTERVENED", "blocked_reason": None, "texts": ["keep", "mended"]}
    seen = guard.ledger.head().seq
    assert ask(texts=["keep", "mend this"], litellm_trace_id="t-2") == mended
    assert guard.ledger.head().seq == seen, "what a conversation repeats is judged once"
    calls = [{"function": {"name": "pay", "arguments": '{"for": "poison"}'}}]
    assert ask(input_type="response", texts=["done"], tool_calls=calls)["action"] == "BLOCKED"


def test_what_is_found_later_is_held_where_it_passed_before(url: str, guard: Guard) -> None:
    sent = {"input_type": "request", "texts": ["a quiet note"], "litellm_trace_id": "t-9"}
    ask = {"json": sent, "headers": {"x-api-key": "t0ken"}, "timeout": 60}
    path = f"{url}/beta/litellm_basic_guardrail_api"
    assert httpx.post(path, **ask).json()["action"] == "NONE"
    (item,) = (one for one in guard.ledger.items(agent="litellm") if one.text == "a quiet note")
    labelled = httpx.post(
        f"{url}/v1/items/{item.id}/label", json={"label": "harmful", "by": "vera"},
        headers={"x-api-key": "t0ken"}, timeout=60,
    )  # fmt: skip
    assert labelled.status_code == 200
    assert httpx.post(path, **ask).json()["action"] == "BLOCKED"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "64:ff9b::7f00:1", "0.0.0.0",
     "2002:7f00:1::", "224.0.0.1", "100.64.0.1"],
)  # fmt: skip
def test_private_addresses_are_never_called(address: str) -> None:
    assert not webhooks.is_public(address)
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InputError, match="not a public address"):
        webhooks.call("GET", f"http://{host}:9/x", field="image")


def test_addresses_are_checked_before_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    assert webhooks.is_public("93.184.216.34") and webhooks.is_public("2606:4700::1111")
    for address in ("ftp://a/b", "http://", "http://user:pw@a/b", "http://a:0/", "http://a:99999/", "nonsense"):
        with pytest.raises(InputError):
            webhooks.call("GET", address, field="image")
    mixed = [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", ("127.0.0.1", 80))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_a, **_k: mixed)
    with pytest.raises(InputError, match="not a public address"):
        webhooks.call("GET", "http://rebound.example/x", field="image")


def test_what_is_fetched_is_bounded(serve: Callable[[Any], str]) -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 302, "headers": [(b"location", b"http://127.0.0.1/")]})
        for _ in range(50):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    address = serve(endless)
    with pytest.raises(InputError, match="limit"):
        webhooks.call("GET", address, field="image", limit=50_000, private=True)
    assert webhooks.call("GET", address, field="image", limit=1_000_000, private=True).status == 302, "not followed"
    with pytest.raises(webhooks.Unreachable):
        webhooks.call("GET", "http://127.0.0.1:9/", field="image", private=True, seconds=2)
