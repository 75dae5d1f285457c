"""The processes that open pictures: what they are given, when they are ended, and that none is left behind."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from PIL import Image

from lazaretto import Guard, PictureWorkerFailed, UnreadablePicture, pictures
from lazaretto.picture_worker import child, opener
from lazaretto.picture_worker.pool import WORKERS, WorkerFailed, WorkerPool, _Worker
from lazaretto.policy import Limits

BUDGET = opener.PictureBudget(20_000_000, 40_000_000)
SECONDS = 60.0
MEGABYTE = 1 << 20


def png(size: tuple[int, int] = (30, 20), colour: object = "teal", mode: str = "RGB") -> bytes:
    made = io.BytesIO()
    Image.new(mode, size, colour).save(made, "PNG")  # type: ignore[arg-type]
    return made.getvalue()


def gif_bomb(side: int, frames: int) -> bytes:
    """Few bytes, many pixels: equal frames are written by hand, for Pillow would drop them."""
    made = io.BytesIO()
    Image.new("P", (side, side)).save(made, "GIF")
    data = made.getvalue()
    start = data.index(b",\0\0\0\0")
    return data[:start] + data[start:-1] * frames + b";"


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool()
    yield made
    made.close()
    assert made.pids == []


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_DEAD
    except psutil.NoSuchProcess:
        return True


def test_what_a_worker_says_is_what_the_opener_says(pool: WorkerPool) -> None:
    noise = Image.frombytes("RGBA", (70, 600), random.Random(1).randbytes(70 * 600 * 4))
    made = io.BytesIO()
    noise.save(made, "PNG")
    found = pool.ask(made.getvalue(), BUDGET, SECONDS)
    assert found == opener.open_whole(made.getvalue(), BUDGET)
    assert found.digest == opener.pixel_digest(noise) and found.header == ("PNG", 70, 600, False)
    whole = noise.convert("RGBA")
    by_hand = Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole).convert("RGB")
    assert opener.on_white(noise).tobytes() == by_hand.tobytes(), "strips are no other picture"


def test_workers_are_used_again_and_never_more_than_two(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: pool.ask(png(colour=(n, 0, 0)), BUDGET, SECONDS), range(40)))
    assert len({one.digest for one in found}) == 40
    pids = pool.pids
    assert 1 <= len(pids) <= WORKERS
    pool.ask(png(), BUDGET, SECONDS)
    assert pool.pids == pids
    pool.close()
    assert all(map(gone, pids)), "no worker and no zombie is left"
    assert pool.ask(png(), BUDGET, SECONDS).header.width == 30, "the next picture starts one anew"


def test_a_worker_that_was_killed_is_replaced(pool: WorkerPool) -> None:
    pool.ask(png(), BUDGET, SECONDS)
    (pid,) = pool.pids
    os.kill(pid, signal.SIGKILL)
    assert pool.ask(png(colour="red"), BUDGET, SECONDS).header.width == 30
    assert pool.pids != [pid] and gone(pid)


def test_a_picture_past_its_time_has_its_worker_killed(pool: WorkerPool) -> None:
    pool.ask(png(), BUDGET, SECONDS)
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)  # stands for a decoder that never comes to an end
    with pytest.raises(WorkerFailed, match="not decoded within"):
        pool.ask(png(colour="red"), BUDGET, 0.1)
    assert gone(pid) and pool.pids == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold a process to its memory")
def test_a_picture_past_its_memory_is_refused_and_the_next_one_served(pool: WorkerPool) -> None:
    wide = png((5_000, 5_000), 0, "L")
    pool.ask(png(), BUDGET, SECONDS)
    (pid,) = pool.pids
    psutil.Process(pid).rlimit(psutil.RLIMIT_AS, (160 * MEGABYTE, 160 * MEGABYTE))
    with pytest.raises(opener.PictureRefused, match="MB of memory") as caught:
        pool.ask(wide, BUDGET, SECONDS)
    assert caught.value.rule == "bomb"
    assert pool.ask(wide, BUDGET, SECONDS).header.width == 5_000


@pytest.mark.parametrize(("how", "rule"), [("SIGXCPU", "bomb"), ("SIGSEGV", "damaged")])
def test_processor_time_and_crashes_are_the_pictures_fault(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, how: str, rule: str
) -> None:
    exchange = _Worker._exchange

    def ended(self: _Worker, *more: object) -> object:
        self._process.send_signal(getattr(signal, how))
        self._process.wait()
        return exchange(self, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(_Worker, "_exchange", ended)
    with pytest.raises(opener.PictureRefused) as caught:
        pool.ask(png(), BUDGET, SECONDS)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xff" * 16,
        child.REPLY.pack(2, 0) + b"[]",
        child.REPLY.pack(2, 0) + b"{}",
        child.REPLY.pack(3, 0) + b"{{{",
    ],
)
def test_a_reply_that_makes_no_sense_is_not_believed(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reply: bytes
) -> None:
    liar = tmp_path / "liar.py"
    liar.write_text(f"import os\nos.read(0, 8)\nos.write(1, {reply!r})\n")
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _command, **more: start([sys.executable, str(liar)], **more))
    with pytest.raises(WorkerFailed):
        pool.ask(png(), BUDGET, SECONDS)


def test_a_worker_cannot_be_started(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerFailed, match="cannot be started"):
        pool.ask(png(), BUDGET, SECONDS)
    monkeypatch.undo()
    assert pool.ask(png(), BUDGET, SECONDS).frame_count == 1, "its place is free again"


def test_a_worker_sees_none_of_our_environment_and_writes_no_file(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY_OF_OURS", "4711")
    pool.ask(png(), BUDGET, SECONDS)
    process = psutil.Process(pool.pids[0])
    assert "SECRET_KEY_OF_OURS" not in process.environ()
    if sys.platform == "linux":
        assert process.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        assert process.rlimit(psutil.RLIMIT_AS)[0] == child.memory_limit(BUDGET)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_workers_of_its_own() -> None:
    code = (
        "import io, os, sys\n"
        "from PIL import Image\n"
        "from lazaretto import pictures\n"
        "from lazaretto.picture_worker.pool import shared_pool\n"
        "def ask(colour):\n"
        "    made = io.BytesIO(); Image.new('RGB', (9, 9), colour).save(made, 'PNG')\n"
        "    return pictures.opened(made.getvalue()).digest\n"
        "first = ask('red'); pids = shared_pool().pids\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    good = ask('blue') and ask('red') == first and not set(pids) & set(shared_pool().pids)\n"
        "    shared_pool().close(); os._exit(0 if good else 1)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "assert code == 0, code\n"
        "assert ask('green') and shared_pool().pids == pids\n"
        "print(*pids)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pids = done.stdout.split()
    assert pids and all(gone(int(pid)) for pid in pids), "they end with the process that started them"


async def test_gates_ask_once_for_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    ask = WorkerPool.ask
    monkeypatch.setattr(WorkerPool, "ask", lambda self, data, *more: (asked.append(data), ask(self, data, *more))[1])
    data = png(colour=(1, 2, 3))
    found = await asyncio.gather(*(pictures.open_picture(data) for _ in range(6)))
    assert len(asked) == 1 and len({id(one) for one in found}) == 1
    for _ in range(3):
        with pytest.raises(UnreadablePicture):
            await pictures.open_picture(b"no picture at all")
    assert len(asked) == 2
    await pictures.open_picture(data, Limits(max_pixels=5_000))
    assert len(asked) == 3, "other limits, another question"


async def test_what_no_worker_could_open_is_never_called_safe(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise WorkerFailed("every picture worker is busy")

    with monkeypatch.context() as patch:
        patch.setattr(WorkerPool, "ask", failing)
        with pytest.raises(PictureWorkerFailed, match="busy"):
            pictures.opened(png(colour=(9, 9, 9)))
        held = await guard.check(image=png(colour=(9, 9, 9)), agent="ada")
    assert not held.allowed and not held.complete
    assert (await guard.check(image=png(colour=(9, 9, 9)), agent="ada")).allowed, "the next time it is asked again"


async def test_a_closed_guard_leaves_no_worker(tmp_path: Path) -> None:
    code = (
        "import asyncio, io, sys\n"
        "from PIL import Image\n"
        "from lazaretto import Guard, Policy\n"
        "from lazaretto.picture_worker.pool import shared_pool\n"
        "async def main():\n"
        "    made = io.BytesIO(); Image.new('RGB', (9, 9)).save(made, 'PNG')\n"
        "    async with Guard.open(sys.argv[1], Policy.minimal()) as guard:\n"
        "        async with Guard.open(sys.argv[1], Policy.minimal(), 'other'):\n"
        "            await guard.check(image=made.getvalue(), agent='ada')\n"
        "        assert shared_pool().pids\n"
        "    assert not shared_pool().pids\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'crew.db'}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


async def test_bombs_from_the_street_cost_little_and_hold_nobody_up(open_guard) -> None:
    guard = open_guard({"preset": "minimal", "channels": {"image": {"timeout_s": 120.0}}})  # a busy machine is no fault
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"
    pages = io.BytesIO()
    Image.new("1", (9, 9)).save(
        pages, "TIFF", save_all=True, append_images=[Image.new("1", (9_000, 9_000))], compression="group4"
    )
    gif = gif_bomb(6_300, 120)
    assert len(gif) < 4 * MEGABYTE
    bombs = {"gif": gif, "png": png((6_310, 6_322), 0, "L"), "eps": eps, "tiff": pages.getvalue()}
    before = psutil.Process().memory_info().rss
    names = [*bombs, "note", *bombs, "note"]
    done = await asyncio.gather(
        *(
            guard.check(image=bombs[name], agent="eve")
            if name in bombs
            else guard.remember(f"The ferry leaves at {n}.", agent="ada")
            for n, name in enumerate(names)
        )
    )
    grown = psutil.Process().memory_info().rss - before
    rules = {name: decision.rule for name, decision in zip(names, done, strict=True)}
    assert all(decision.allowed for name, decision in zip(names, done, strict=True) if name == "note")
    assert rules["eps"] == rules["tiff"] == "structure:not_a_picture", rules
    assert rules["gif"] == "structure:animated" and not done[0].allowed, rules
    assert done[1].allowed and done[1].complete, "39.9 megapixels are within the limit, and are judged"
    assert grown < 160 * MEGABYTE, "pixels in full size never come back"
    with pytest.raises(UnreadablePicture, match="120 frames"):
        pictures.frames_for_judges(pictures.opened(gif))
