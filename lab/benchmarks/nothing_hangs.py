"""What used to hang the guard, or let everybody wait for one: each case in a process of its own, killed past its limit.

    python lab/benchmarks/nothing_hangs.py --label after --write

Run it with another version's ``src`` on PYTHONPATH for ``--label before``. Writes that only cost much are in
``worst_write.py``. Raw results go to lab/results/no_way_around.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import orjson

from lazaretto import Guard, Policy

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "no_way_around"
LIMIT_S = 200.0


@contextlib.asynccontextmanager
async def crew() -> Any:
    """A guard with three memories."""
    with tempfile.TemporaryDirectory() as folder:
        async with Guard.open(f"sqlite:///{folder}/crew.db", Policy.minimal()) as guard:
            for place in range(3):
                await guard.remember(f"Tank {place} is full.", agent="ada", parents=[])
            yield guard


async def parallel_tends() -> str:
    """Forty at once: more than the guard has threads for its store."""
    async with crew() as guard:
        await asyncio.gather(*(guard.tend() for _ in range(40)))
        await guard.remember("And on it goes.", agent="ada")
    return "all ended"


async def cancelled_tends() -> str:
    """Given up while they wait for their turn; the next must get in."""
    async with crew() as guard:
        several = [asyncio.create_task(guard.tend()) for _ in range(8)]
        await asyncio.sleep(0.002)
        for one in several:
            one.cancel()
        await asyncio.gather(*several, return_exceptions=True)
        await guard.tend()
    return "the next one got in"


def loops_at_once() -> str:
    """One chat client asked from eight threads, each with an event loop of its own."""
    from lazaretto.models.openai_chat import Endpoint, OpenAIChat
    from lazaretto.models.protocol import Message, Request

    request, answered = (
        Request((Message("system", "s"), Message("user", "You are the Strict debater.")), schema={"type": "object"}),
        list[bool](),
    )
    command = [sys.executable, str(ROOT / "tests" / "stub_endpoint.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stub:
        assert stub.stdin is not None and stub.stdout is not None
        chat = OpenAIChat(Endpoint("stub", stub.stdout.readline().strip(), timeout_s=10.0, retries=0))

        async def ask() -> None:
            for _ in range(3):
                with contextlib.suppress(Exception):
                    answered.extend(not one.fault for one in await chat.complete([request, request]))

        threads = [threading.Thread(target=asyncio.run, args=(ask(),), daemon=True) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(5)
        stuck = sum(one.is_alive() for one in threads)
        stub.kill()
    return f"{sum(answered)} of 48 answered, {stuck} threads stuck"


def short_behind_long() -> str:
    """The jury reads a long text; does a short one wait for it?"""
    from lazaretto.gates.content.jury.scorer import shipped_models
    from lazaretto.gates.content.records import Content, PreparedContent

    models, ended = shipped_models(), list[str]()
    texts = {"long": "The keeper of tower {} paints its door on Mondays. ", "short": "The berth is number nine."}
    texts["long"] = "".join(texts["long"].format(n) for n in range(120))

    def read(name: str) -> None:
        models.read(PreparedContent(Content(name, texts[name])))
        ended.append(name)

    models.read(PreparedContent(Content("first", "It begins.")))
    first = threading.Thread(target=read, args=("long",))
    first.start()
    time.sleep(0.2)
    read("short")
    first.join()
    return "it waited for the long one" if ended[0] == "long" else "it did not wait"


def slow_headers() -> str:
    """515 half-sent requests without a key, then one that is whole."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        policy = Path(folder) / "policy.toml"
        where = ("--store", f"sqlite:///{folder}/crew.db", "--policy", str(policy))
        command = [sys.executable, "-m", "lazaretto", "serve", *where, "--port", str(port)]
        policy.write_text('preset = "minimal"\n')
        server = subprocess.Popen(
            command, env={**os.environ, "LAZARETTO_TOKEN": "secret-of-the-test"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            for _ in range(1_500):
                with contextlib.suppress(OSError):
                    _status(port)
                    break
                time.sleep(0.1)
            half = [socket.create_connection(("127.0.0.1", port)) for _ in range(515)]
            for one in half:
                one.sendall(b"GET /healthz HTTP/1.1\r\nhost:")
            time.sleep(1.0)
            return f"a whole request gets {_status(port)}"
        finally:
            server.kill()
            server.wait()


def _status(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return int(line.recv(100).split()[1])


CASES = {one.__name__: one for one in (parallel_tends, cancelled_tends, loops_at_once, short_behind_long, slow_headers)}


def run(name: str) -> dict[str, object]:
    """One case in a process of its own."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--case", name], capture_output=True, timeout=LIMIT_S, text=True
        )
        said = done.stdout.strip().splitlines()[-1:] or [f"failed: {done.stderr.strip()[-300:]}"]
    except subprocess.TimeoutExpired:
        said = [f"hung: killed after {LIMIT_S:.0f} s"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"case": name, "said": said[0], "wall_s": round(time.monotonic() - began, 1), "processor_s": round(work, 1)}


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="after", help="which code this is: before or after")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.case:
        made = CASES[options.case]()
        print(asyncio.run(made) if asyncio.iscoroutine(made) else made, flush=True)
        os._exit(0)  # a thread that hangs must not keep it
    lines = []
    for name in CASES:
        lines.append({"code": options.label, **run(name)})
        print(lines[-1], flush=True)
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        data = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        (RESULTS / f"load_{options.label}.jsonl").write_bytes(data)


if __name__ == "__main__":
    main()
