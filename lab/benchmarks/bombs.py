"""Picture and body bombs against a running server: how much memory they take, and whether honest notes still pass.

A server in a process of its own gets honest notes from one client while others send GIFs of 6,300 pixels square and 120
frames, PNGs of 39.9 megapixels, PostScript named .png, TIFFs with a huge second page, and bodies of 200 MB. The memory
of the server and of its picture workers is read ten times a second.

    python lab/benchmarks/bombs.py --write           # 2 minutes
    python lab/benchmarks/bombs.py --short           # 10 seconds

Raw results go to lab/results/bombs.
"""

from __future__ import annotations

import argparse
import base64
import io
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import psutil
from PIL import Image

RESULTS = Path(__file__).resolve().parents[1] / "results" / "bombs"
CAP_MB = 2_500
"""Stated: server and both workers together. A worker is held to 904 MB of address space."""
SERVER = (
    "import sys, uvicorn\n"
    "from lazaretto import Guard, Policy\n"
    "from lazaretto.api.app import create_app\n"
    "uvicorn.run(create_app(Guard.open(sys.argv[1], Policy.minimal())), port=int(sys.argv[2]), log_level='error')\n"
)


def pictures() -> dict[str, bytes]:
    """The bombs, small as files."""
    gif, png, tiff = io.BytesIO(), io.BytesIO(), io.BytesIO()
    Image.new("P", (6_300, 6_300)).save(gif, "GIF")
    data = gif.getvalue()
    start = data.index(b",\0\0\0\0")
    Image.new("RGB", (6_310, 6_322)).save(png, "PNG")
    pages = [Image.new("1", (9_000, 9_000))]
    Image.new("1", (9, 9)).save(tiff, "TIFF", save_all=True, append_images=pages, compression="group4")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"
    return {
        "gif": data[:start] + data[start:-1] * 120 + b";",
        "png": png.getvalue(),
        "tiff": tiff.getvalue(),
        "eps": eps,
    }


class Watch(threading.Thread):
    """The memory of a process and its children."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.stop = pid, 0.0, threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self.stop.wait(0.1):
            try:
                root = psutil.Process(self.pid)
                total = sum(one.memory_info().rss for one in (root, *root.children(recursive=True)))
            except psutil.NoSuchProcess:
                continue
            self.peak = max(self.peak, total / (1 << 20))


def _ask(url: str, path: str, body: dict[str, Any] | bytes) -> str:
    try:
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        headers = {"content-type": "application/json"}
        got = httpx.post(f"{url}{path}", content=content, headers=headers, timeout=120)
    except httpx.HTTPError as error:
        return type(error).__name__
    return (
        f"{got.status_code} {got.json().get('ruling', '')}".strip() if got.status_code == 200 else str(got.status_code)
    )


def attack(url: str, seconds: float) -> dict[str, Any]:
    """Bombs from four clients and bodies from one, honest notes from another."""
    ends = time.monotonic() + seconds
    answers: Counter[str] = Counter()
    honest: list[float] = []
    files = pictures()

    def bombs(names: tuple[str, ...]) -> None:
        turn = 0
        while time.monotonic() < ends:
            name, turn = names[turn % len(names)], turn + 1
            # a byte more each time: the same file would be known already
            image = base64.b64encode(files[name] + turn.to_bytes(4, "big") + name.encode()).decode()
            answers[f"{name}: {_ask(url, '/v1/check', {'agent': 'eve', 'image': image})}"] += 1

    def bodies() -> None:
        huge = b'{"agent": "eve", "text": "' + b"x" * 200_000_000 + b'"}'
        while time.monotonic() < ends:
            answers[f"body: {_ask(url, '/v1/check', huge)}"] += 1

    def notes() -> None:
        number = 0
        while time.monotonic() < ends:
            started = time.perf_counter()
            said = _ask(url, "/v1/remember", {"agent": "ada", "text": f"The ferry of {number} leaves at nine."})
            honest.append(time.perf_counter() - started)
            answers[f"note: {said}"] += 1
            number += 1

    jobs = [threading.Thread(target=bombs, args=(tuple(files),)) for _ in range(4)]
    jobs += [threading.Thread(target=bodies), threading.Thread(target=notes)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    return {"answers": dict(answers), "honest_seconds": honest}


def main() -> None:
    """Serve, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--port", type=int, default=8_931)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SERVER, f"sqlite:///{folder}/crew.db", str(options.port)]
        server = subprocess.Popen(command)
        try:
            _wait(url)
            watch = Watch(server.pid)
            watch.start()
            found = attack(url, 10.0 if options.short else options.seconds)
            watch.stop.set()
            watch.join()
        finally:
            server.terminate()
            server.wait(60)
    held = sum(count for said, count in found["answers"].items() if said.startswith("note:") and "allow" not in said)
    p50, p99 = (float(np.quantile(found["honest_seconds"], q)) for q in (0.5, 0.99))
    result = {"peak_mb": round(watch.peak), "cap_mb": CAP_MB, "honest_not_allowed": held, **found}
    print(orjson.dumps(found["answers"], option=orjson.OPT_INDENT_2).decode())
    print(f"peak {result['peak_mb']} MB of {CAP_MB}; {len(found['honest_seconds'])} honest notes, {held} not allowed,")
    print(f"median {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "bombs.json").write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))


def _wait(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{url}/healthz", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main()
