"""What the proxy adds to a call: the same requests straight to a stub endpoint and through the proxy, side by side.

    python lab/benchmarks/proxy_overhead.py [--policy minimal|recommended] [--calls 200] [--write]

``--write`` keeps the raw result in lab/results/proxy_overhead and renews the section of docs/performance.md.

The stub answers at once, so that all that is measured is ours: reading, judging what the model would read and what it
answers, recording both. Calls straight and through the proxy alternate, so that load on the machine meets both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from performance_page import write_section
from starlette.requests import Request

from lazaretto import Guard
from lazaretto.api.proxy.app import ProxySettings, create_proxy
from lazaretto.api.proxy.dialects import Chat

RESULTS = Path(__file__).resolve().parents[1] / "results" / "proxy_overhead"
ANSWER = "The harbour office opens at six; refunds need the receipt and the number of the berth."


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """An application on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


async def stub(scope: Any, receive: Any, send: Any) -> None:
    """A model's endpoint that always says the same, whole or as a stream."""
    if scope["type"] != "http":
        return
    body = await Request(scope, receive).body()
    stream = json.loads(body).get("stream")
    choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    said = Chat().as_stream("stub", ANSWER) if stream else json.dumps(whole).encode()
    kind = b"text/event-stream" if stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": said})


def request(number: int, stream: bool) -> dict[str, Any]:
    """A turn with a tool's result that was not seen before."""
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    page = f"Notice {number}: berth {number % 40} is free from {6 + number % 12} o'clock; ask the office for the form."
    return {
        "model": "stub", "stream": stream,
        "messages": [
            {"role": "system", "content": "You help at the harbour."},
            {"role": "user", "content": "Which berth is free?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": page},
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="recommended", choices=("minimal", "recommended"))
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true", help="keep the result, and renew docs/performance.md")
    options = parser.parse_args()
    rows: dict[str, Any] = {"cores": os.cpu_count(), "machine": platform.machine(), "policy": options.policy}
    with (
        tempfile.TemporaryDirectory() as folder,
        Guard.open(f"sqlite:///{folder}/crew.db", {"preset": options.policy}) as guard,
        serving(stub) as upstream,
        serving(create_proxy({"default": guard}, ProxySettings(upstream))) as proxy,
        httpx.Client(timeout=120) as client,
    ):
        rows["gates"] = [one.name for one in guard.gates() if one.ready]
        for number in range(5):  # the gates load what they need
            client.post(f"{proxy}/v1/chat/completions", json=request(-1 - number, False)).raise_for_status()
        for stream in (False, True):
            times: dict[str, list[float]] = {"straight": [], "proxy": []}
            for number in range(options.calls):
                sent = request(number + options.calls * stream, stream)
                for name, url in (("straight", upstream), ("proxy", proxy)):
                    started = time.perf_counter()
                    client.post(f"{url}/v1/chat/completions", json=sent).raise_for_status()
                    times[name].append((time.perf_counter() - started) * 1000)
            added = np.array(times["proxy"]) - np.array(times["straight"])
            quantiles = np.percentile(added, (50, 95, 99))
            rows["stream" if stream else "whole"] = {
                "calls": options.calls,
                **dict(zip(("added_ms_p50", "p95", "p99"), quantiles.round(2).tolist(), strict=True)),
            }
    text = json.dumps(rows, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{options.policy}.json").write_text(text + "\n")
        write_section("proxy overhead", section())


def section() -> str:
    """The section of docs/performance.md: every policy that was measured."""
    lines = [
        "## What the proxy adds to a call",
        "",
        "`python lab/benchmarks/proxy_overhead.py --write`: the same requests to a stub that answers at once, straight",
        "and through the proxy. Milliseconds that the proxy added: p50, p95, p99.",
        "",
        "| policy | whole answers | streams | calls of each |",
        "|---|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        row = json.loads(path.read_text())
        cells = [", ".join(str(row[kind][q]) for q in ("added_ms_p50", "p95", "p99")) for kind in ("whole", "stream")]
        lines.append(f"| {row['policy']} | {' | '.join(cells)} | {row['whole']['calls']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
