"""Worker processes for pictures: at most two, started when the first picture comes, ended when they take too long.

Everything here is safe to call from several threads. A forked process starts workers of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from lazaretto.picture_worker import child
from lazaretto.picture_worker.opener import FRAMES_SHOWN, SIDE, Frame, Header, Opened, PictureBudget, PictureRefused

WORKERS = 2
CLOCK = 3
"""A picture may take so many times its processor time by the clock, because the machine may be busy."""
MOST_FACTS, MOST_PIXELS = 16 << 20, FRAMES_SHOWN * SIDE * SIDE * 3
"""The largest reply that is believed."""
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}


class WorkerFailed(Exception):
    """No worker could say anything about the picture; it is not the picture's fault as far as is known."""

    def __init__(self, problem: str, *, try_again: bool = False) -> None:
        self.try_again = try_again
        """Whether another worker may be asked at once."""
        super().__init__(problem)


class _Worker:
    """One process. It is used by one thread at a time, and not again after it has failed."""

    def __init__(self) -> None:
        # the same modules, and nothing else of our environment: no keys, no proxies
        paths = os.pathsep.join(path for path in (str(Path(child.__file__).parents[2]), *sys.path) if path)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-P", "-s", "-m", child.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,  # an interrupt at the terminal is not for it
            )
        except OSError as error:
            raise WorkerFailed(f"the picture worker cannot be started: {error}") from None

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, data: bytes, budget: PictureBudget, seconds: float) -> Opened:
        """The worker's result for a picture. When its time is over it is killed."""
        late = threading.Event()

        def too_late() -> None:
            late.set()
            self._process.kill()

        watch = threading.Timer(CLOCK * seconds, too_late)
        watch.daemon = True
        watch.start()
        try:
            facts, pixels = self._exchange(data, budget, seconds)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            # a broken pipe may be seen before the end that broke it; what talks nonsense is ended
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5 if isinstance(error, (OSError, EOFError)) else 0)
            self.end()
            raise self._why(late.is_set(), seconds, error) from None
        finally:
            watch.cancel()
            watch.join()
        if "rule" in facts:
            raise PictureRefused(str(facts["rule"]), str(facts["problem"]))
        return _opened(facts, pixels)

    def _exchange(self, data: bytes, budget: PictureBudget, seconds: float) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdin is not None and self._process.stdout is not None
        head = child.REQUEST.pack(len(data), *budget, max(1, round(seconds)))
        for part in (head, memoryview(data)):
            written = 0
            while written < len(part):
                written += self._process.stdin.write(part[written:]) or 0
        length, of_pixels = child.REPLY.unpack(self._read(child.REPLY.size))
        if length > MOST_FACTS or of_pixels > MOST_PIXELS:
            raise ValueError("the reply is too large")
        facts = json.loads(self._read(length))
        if not isinstance(facts, dict):
            raise TypeError("the reply is no object")
        return facts, self._read(of_pixels)

    def _read(self, length: int) -> bytes:
        assert self._process.stdout is not None
        read = bytearray()
        while len(read) < length:
            part = self._process.stdout.read(length - len(read))
            if not part:
                raise EOFError("it gave no answer")
            read += part
        return bytes(read)

    def _why(self, timed_out: bool, seconds: float, error: Exception) -> Exception:
        ended = -(self._process.returncode or 0)
        if ended == getattr(signal, "SIGXCPU", None):
            return PictureRefused("bomb", f"the picture takes more than {seconds:g} s of processor time to be decoded")
        if ended in CRASHES:
            return PictureRefused("damaged", f"the decoder crashed on the picture ({signal.Signals(ended).name})")
        if timed_out:
            return WorkerFailed(f"the picture was not decoded within {CLOCK * seconds:g} s; its worker was ended")
        return WorkerFailed(f"the picture worker ended ({type(error).__name__}: {error})", try_again=True)

    def end(self) -> None:
        """Kill it and see it off; it keeps nothing that could be lost."""
        self._process.kill()
        self._close_pipes()
        self._process.wait()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def forget(self) -> None:
        """Let go of it in a forked process, whose parent goes on using it."""
        self._close_pipes()
        self._process.returncode = 0  # not ours to wait for


class WorkerPool:
    """At most ``WORKERS`` processes; later callers wait for one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(WORKERS):
            self._free.put(None)
        self._workers: set[_Worker] = set()
        self._users = 0
        self._closings = 0

    def ask(self, data: bytes, budget: PictureBudget, seconds: float) -> Opened:
        """The content of a picture; ``PictureRefused`` or ``WorkerFailed``. One ended without a fault is replaced."""
        try:
            worker = self._free.get(timeout=2 * CLOCK * seconds)
        except queue.Empty:
            raise WorkerFailed("every picture worker is busy") from None
        with self._lock:
            closings = self._closings
        try:
            for last in (False, True):
                if worker is None or not worker.alive:
                    self._drop(worker)
                    worker = self._start()
                try:
                    return worker.ask(data, budget, seconds)
                except WorkerFailed as error:
                    if last or not error.try_again:
                        raise
            raise AssertionError("unreachable")
        finally:
            with self._lock:
                closed = closings != self._closings
            if worker is not None and (closed or not worker.alive):
                self._drop(worker)
                worker = None
            self._free.put(worker)

    def _start(self) -> _Worker:
        worker = _Worker()
        with self._lock:
            self._workers.add(worker)
        return worker

    def _drop(self, worker: _Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._workers.discard(worker)
            worker.end()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that are ready or at work."""
        with self._lock:
            return [worker._process.pid for worker in self._workers]

    def hold(self) -> None:
        """Keep the workers until ``release``, because pictures will be opened."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """The last one to say so ends the workers."""
        with self._lock:
            self._users = max(0, self._users - 1)
            last = not self._users
        if last:
            self.close()

    def close(self) -> None:
        """End every worker that is idle, and those at work as soon as they are done; the next picture starts anew."""
        with self._lock:
            self._closings += 1
        idle = []
        with contextlib.suppress(queue.Empty):
            while True:
                idle.append(self._free.get_nowait())
        for worker in idle:
            self._drop(worker)
            self._free.put(None)

    def forget(self) -> None:
        """Forget the workers in a forked process: they are the parent's."""
        for worker in self._workers:
            worker.forget()


def _opened(facts: dict[str, Any], pixels: bytes) -> Opened:
    """The reply as a record, held against what can be: the worker had hostile bytes in its hands."""
    try:
        form, width, height, animated = facts["header"]
        header = Header(str(form), int(width), int(height), bool(animated))
        frames, start = [], 0
        for wide, high in facts["frames"]:
            if not (0 < wide <= SIDE and 0 < high <= SIDE):
                raise ValueError("a frame is too large")
            frames.append(Frame(wide, high, pixels[start : start + wide * high * 3]))
            start += wide * high * 3
        if start != len(pixels):
            raise ValueError("pixels are missing")
        texts = tuple((str(where), str(words)) for where, words in facts["texts"])
        grey, colours = bytes.fromhex(facts["grey"]), bytes.fromhex(facts["colours"])
        return Opened(
            header, str(facts["digest"]), grey, colours, texts, bool(facts["texts_whole"]),
            int(facts["frame_count"]), tuple(frames), str(facts["fault"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerFailed(f"the picture worker's reply makes no sense ({error})") from None


_pool = WorkerPool()


def shared_pool() -> WorkerPool:
    """The one pool of this process."""
    return _pool


def _after_fork() -> None:
    global _pool
    _pool.forget()
    _pool = WorkerPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _pool.close())
