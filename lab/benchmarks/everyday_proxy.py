"""Conversations through ``lazaretto proxy``, sent by the official clients to a stub that keeps what reaches it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Row = dict[str, Any]
Progress = Callable[[str, Sequence[Any]], Iterator[Any]]
ANSWER = "Understood."


class Stub(BaseHTTPRequestHandler):
    """A model's endpoint in three dialects that always says the same."""

    asked: Row = {}  # noqa: RUF012 - the last request, of whichever connection

    def do_POST(self) -> None:
        """Keep the question, answer in the dialect of the path."""
        Stub.asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = json.dumps(_answer(self.path)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _answer(path: str) -> Row:
    if path.endswith("completions"):
        choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
        return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    if path.endswith("responses"):
        part = {"type": "output_text", "text": ANSWER, "annotations": []}
        item = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return {
            "id": "r", "object": "response", "created_at": 1, "model": "m", "output": [item], "status": "completed",
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
        }  # fmt: skip
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": usage,
    }  # fmt: skip


@contextmanager
def proxy() -> Iterator[str]:
    """``lazaretto proxy`` as it comes, on a new store, before the stub; its address without ``/v1``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as stub, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=stub.serve_forever, daemon=True).start()
        upstream = f"http://127.0.0.1:{stub.server_address[1]}"
        words = ("--store", f"sqlite:///{folder}/crew.db", "--upstream", upstream, "--port", "0")
        command = [sys.executable, "-m", "lazaretto", "proxy", *words]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            assert run.stdout is not None
            said = ""
            while not (found := re.search(r"(http://127\.0\.0\.1:\d+)/v1", said.replace("\n", ""))):
                line = run.stdout.readline()
                if not line:
                    raise SystemExit(f"lazaretto proxy did not start: {said}")
                said += line
            try:
                yield found[1]
            finally:
                run.terminate()
                run.wait()
                stub.shutdown()


def chat(url: str, messages: Sequence[Row], result: Row | None) -> None:
    """OpenAI's chat completions."""
    import openai

    sent: list[Any] = [dict(message) for message in messages]
    if result is not None:
        call = {"name": result["tool"], "arguments": result["arguments"]}
        sent += [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "c", "content": result["text"]},
        ]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=300) as client:
        client.chat.completions.create(model="m", messages=sent)


def responses(url: str, messages: Sequence[Row], result: Row | None) -> None:
    """OpenAI's responses."""
    import openai

    sent: list[Any] = [dict(message) for message in messages]
    if result is not None:
        call = {"type": "function_call", "call_id": "c", "name": result["tool"], "arguments": result["arguments"]}
        sent += [call, {"type": "function_call_output", "call_id": "c", "output": result["text"]}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=300) as client:
        client.responses.create(model="m", input=sent)


def anthropic(url: str, messages: Sequence[Row], result: Row | None) -> None:
    """Anthropic's messages; what the system says has a place of its own."""
    import anthropic as package

    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    sent: list[Any] = [dict(message) for message in messages if message["role"] != "system"]
    if result is not None:
        call = {"type": "tool_use", "id": "c", "name": result["tool"], "input": json.loads(result["arguments"])}
        told = {"type": "tool_result", "tool_use_id": "c", "content": result["text"]}
        sent += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [told]}]
    more: Row = {"system": system} if system else {}
    with package.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=300) as client:
        client.messages.create(model="m", max_tokens=64, messages=sent, **more)


CLIENTS = {"openai chat": chat, "openai responses": responses, "anthropic": anthropic}
BARE = [{"role": "user", "content": "Please look it up for me."}]


def _one(send: Callable[..., None], url: str, messages: Sequence[Row], result: Row | None = None) -> Row:
    """What became of a request: refused or not, why, and whether the tool's result reached the model as it was."""
    import anthropic as package
    import openai

    Stub.asked = {}
    why = ""
    try:
        send(url, messages, result)
    except (openai.APIStatusError, package.APIStatusError) as error:
        why = f"{error.status_code} {error}"[:300]
    reached = json.dumps(Stub.asked, ensure_ascii=False)
    told = json.dumps(result["text"], ensure_ascii=False) in reached if result else False
    return {"refused": not Stub.asked, "why": why, **({} if result is None else {"kept_back": not told})}


def sent(prompts: Sequence[Row], results: Sequence[Row], progress: Progress) -> list[Row]:
    """Every prompt by every client; then every tool result, honest before poisoned, inside its conversation and bare.

    Each client has a store of its own, and so have the bare conversations: they tell what becomes of a result where
    nothing else can be refused. ``kept_back``: the model did not get the result as it was.
    """
    rows = []
    by_id = {prompt["id"]: prompt for prompt in prompts}
    for client, send in CLIENTS.items():
        refused = set()
        with proxy() as url:
            for prompt in progress(f"{client}: prompts", prompts):
                row = _one(send, url, prompt["messages"])
                refused |= {prompt["id"]} if row["refused"] else set()
                kept = {name: prompt[name] for name in ("id", "framework", "language")}
                rows.append({"what": "prompt", "client": client, **kept, **row})
            rows += _results(send, url, client, results, by_id, refused, progress)
        with proxy() as url:
            rows += _results(send, url, client, results, {}, set(), progress)
    return rows


def _results(
    send: Callable[..., None], url: str, client: str, results: Sequence[Row], by_id: dict[str, Row], refused: set[str],
    progress: Progress,
) -> list[Row]:  # fmt: skip
    """The tool results, each in the conversation that it names; in a bare one where no conversations are given."""
    rows = []
    for what in ("benign", "poisoned"):
        for number, result in enumerate(progress(f"{client}: {what}", results), 1):
            messages = by_id[result["prompt"]]["messages"] if by_id else BARE
            row = _one(send, url, messages, {**result, "text": result[what]})
            kept = {name: result[name] for name in ("kind", "language", "prompt")}
            inside = "its conversation" if by_id else "bare"
            rows.append(
                {
                    "what": what, "client": client, "id": f"result-{number:02d}", "inside": inside, **kept,
                    "prompt_refused_alone": result["prompt"] in refused, **row,
                }
            )  # fmt: skip
    return rows
