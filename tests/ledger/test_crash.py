"""Acknowledged means durable: writers are killed with SIGKILL in the middle of a storm, eight times per database."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lazaretto.ledger import Ledger

KILLS = 8
SERVER_KILLS = 2
WRITERS = 4
SEED = 50_04
STORM = Path(__file__).with_name("storm.py")


class Storm:
    """Four writers on one store; one that is killed is replaced by a new one."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self._folder = url, folder
        self._started = 0
        self.writers = [self._start() for _ in range(WRITERS)]

    def _start(self) -> tuple[subprocess.Popen[bytes], Path]:
        self._started += 1
        file = self._folder / f"acknowledged-{self._started}"
        return subprocess.Popen([sys.executable, str(STORM), self.url, str(file), f"w{self._started}"]), file

    def kill(self, index: int) -> None:
        process, file = self.writers[index]
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL, f"{file.name} had ended by itself"
        self.writers[index] = self._start()

    def writing(self, index: int) -> bool:
        """Whether a writer has had something acknowledged."""
        file = self.writers[index][1]
        return file.exists() and file.stat().st_size > len(b"ready\n")

    def end(self) -> None:
        for process, _ in self.writers:
            process.kill()
        for process, _ in self.writers:
            process.wait(60)

    def acknowledged(self) -> dict[int, str]:
        """Every event that any writer was told is recorded; a last line cut by the kill does not count."""
        told: dict[int, str] = {}
        for file in self._folder.glob("acknowledged-*"):
            for line in file.read_text().split("\n")[:-1]:
                if line != "ready":
                    seq, link = line.split()
                    assert told.setdefault(int(seq), link) == link, f"event {seq} was acknowledged twice"
        return told


def check(url: str, told: dict[int, str]) -> int:
    """Nothing acknowledged is lost, the chain verifies, and no batch is torn."""
    with Ledger.open(url) as ledger:
        found = ledger.verify()
        assert found.ok, found
        hashes = {event.seq: event.hash for event in ledger.events()}
        lost = [seq for seq, link in told.items() if hashes.get(seq) != link]
        assert not lost, f"{len(lost)} acknowledged events are lost, first {min(lost)}"
        assert len(hashes) % 3 == 0, "a batch of three is torn"
        kinds = [event.kind.value for event in ledger.events()]
        assert kinds == ["seen", "ruled", "retrieved"] * (len(kinds) // 3)
    return len(hashes)


def storm_and_kill(url: str, folder: Path) -> Storm:
    stream = random.Random(SEED)
    Ledger.open(url).close()
    storm = Storm(url, folder)
    try:
        for kill in range(KILLS):
            deadline = time.monotonic() + 120
            while not (writing := [index for index in range(WRITERS) if storm.writing(index)]):
                assert time.monotonic() < deadline, "no writer got going"
                time.sleep(0.01)  # starting Python takes longest; a victim must be in the storm
            time.sleep(stream.uniform(0, 0.15))
            storm.kill(stream.choice(writing))
            if kill % 4 == 3:
                with Ledger.open(url) as ledger:
                    assert ledger.verify().ok
    finally:
        storm.end()
    return storm


@pytest.mark.slow
def test_killed_writers_lose_nothing(store_url: str, tmp_path: Path) -> None:
    storm = storm_and_kill(store_url, tmp_path)
    told = storm.acknowledged()
    assert len(told) > KILLS
    assert check(store_url, told) >= len(told)


@pytest.mark.slow
def test_a_killed_server_loses_nothing(postgres_server: Any, postgres_url: str, tmp_path: Path) -> None:
    stream = random.Random(SEED)
    Ledger.open(postgres_url).close()
    storm = Storm(postgres_url, tmp_path)
    try:
        for _ in range(SERVER_KILLS):
            deadline = time.monotonic() + 60
            while not all(storm.writing(index) for index in range(WRITERS)) and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(stream.uniform(0.1, 0.8))
            postgres_server.kill()
            postgres_server.start()
            time.sleep(0.3)
            assert all(process.poll() is None for process, _ in storm.writers), "a writer gave up"
    finally:
        storm.end()
    told = storm.acknowledged()
    assert len(told) > SERVER_KILLS * WRITERS
    check(postgres_url, told)
