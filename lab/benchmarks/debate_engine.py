"""The debate engine against a stub endpoint: CPU per item, items per second, prompt characters.

python lab/benchmarks/debate_engine.py            # print
python lab/benchmarks/debate_engine.py --write    # and put the section into docs/performance.md

The stub (``stub_endpoint.py``) runs in its own process on the same machine and gives canned answers after 0 or 100
ms; every item is a full two-round debate of six calls through the ``openai`` SDK. The reference program, measured the
same way on 2 cores, takes about 40 ms of CPU per item and never passes 24 items/s per process. CPU is this process's
own, engine, SDK and transport together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lazaretto.gates.content.chat_roles import RoleModel, chat_panel
from lazaretto.gates.content.debate import DebateSettings, Transcript, hold_debates
from lazaretto.gates.content.prompts import (
    CONSTITUTION,
    arbiter_instructions,
    debater_instructions,
    supporter_instructions,
)
from lazaretto.gates.content.records import Content, Order, Role
from lazaretto.models.openai_chat import Endpoint, OpenAIChat

STUB = Path(__file__).resolve().parents[2] / "tests" / "stub_endpoint.py"
RUNS = 3
"""The fastest run stands in the table, the slowest beside it: on a shared machine the rest is noise."""
REFERENCE_CPU_MS, REFERENCE_RATE = 40.0, 24.0
TEXT = "Which of the two cleaners in the cupboard should I take for the stains, and may I use both at once? " * 3
PICTURE = "A kitchen counter with two bottles, a sponge and a bucket; one label is turned away from the viewer. " * 9


@contextmanager
def stub(delay_ms: float) -> Iterator[str]:
    """The stub's base URL, for as long as the block lasts."""
    command = [sys.executable, str(STUB), "--delay-ms", str(delay_ms)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(timeout=10)


async def run(url: str, items: int, at_once: int) -> tuple[float, float, list[Transcript]]:
    """(CPU ms per item, items per second, transcripts)."""
    model = OpenAIChat(Endpoint("stub", url, concurrency=at_once))
    roles = (Role.SUPPORTER, Role.STRICT, Role.LOOSE, Role.ARBITER)
    panel = chat_panel({role: RoleModel(role, model) for role in roles})
    contents = [Content(f"i{n}", TEXT, description=PICTURE) for n in range(items)]
    async for _ in hold_debates(panel, contents[:at_once], at_once=at_once):
        pass  # opens the connections
    done: list[Transcript] = []
    cpu, wall = time.process_time(), time.perf_counter()
    async for _, transcript in hold_debates(panel, contents, DebateSettings(), at_once=at_once):
        assert isinstance(transcript, Transcript) and not transcript.faults, transcript
        assert transcript.cost.calls == 6
        done.append(transcript)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    await model.aclose()
    return cpu / items * 1000.0, items / wall, done


def characters(transcript: Transcript) -> tuple[int, int, int]:
    """(ours, the same content with the debate so far sent twice, the difference) in prompt characters per item."""
    ours = sum(role_cost.prompt_chars for role_cost in transcript.role_costs)
    speeches = [len(speech.argument) for speech in transcript.speeches]
    # the reference repeats all earlier speeches in every later debater's and the arbiter's prompt
    repeated = sum(sum(speeches[:n]) for n in range(1, len(speeches) + 1))
    return ours, ours + repeated, repeated


def instructions() -> int:
    """Characters of instruction per item, all six calls."""
    instructions = [supporter_instructions(), arbiter_instructions(Order.CONTEXT_FIRST)]
    instructions += [debater_instructions(role, n, 2) for role in (Role.STRICT, Role.LOOSE) for n in (1, 2)]
    return 6 * len(CONSTITUTION) + sum(map(len, instructions))


def report(items: int) -> str:
    """The section for docs/performance.md."""
    lines = ["| delay | CPU per item | items/s | against the reference |", "|---|---|---|---|"]
    sample: Transcript | None = None
    for delay, at_once in ((0.0, 64), (100.0, 256)):
        runs = []
        for _ in range(RUNS):
            with stub(delay) as url:
                runs.append(asyncio.run(run(url, items, at_once)))
        rates = [rate for _, rate, _ in runs]
        cpu, rate, done = max(runs, key=lambda r: r[1])
        sample = done[0]
        ratio = f"{REFERENCE_CPU_MS / cpu:.1f} x less CPU, {rate / REFERENCE_RATE:.1f} x its ceiling"
        lines.append(f"| {delay:g} ms | {cpu:.2f} ms | {rate:.0f} (slowest {min(rates):.0f}) | {ratio} |")
    assert sample is not None
    busy = os.getloadavg()[0]
    ours, twice, repeated = characters(sample)
    lines += [
        "",
        "Each item is six calls through the `openai` SDK to a stub endpoint in another process on the same machine "
        "(2 cores,",
        "shared). CPU is this process's own: engine, SDK and transport. Reference: 40 ms of CPU per item, at most 24 "
        "items/s.",
        f"Retrieval is off here; with the sentence encoder it adds one encoder pass per item. Load average: "
        f"{busy:.1f}, niceness",
        f"{os.nice(0)}.",
        "",
        f"Prompt characters per item: {ours:,} in six calls, of which {instructions():,} are instructions. The same "
        f"content with",
        f"the debate so far sent twice, as the reference sends it, has {twice:,}: ours is {repeated / twice:.0%} "
        f"shorter.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1500)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    section = report(options.items)
    print(section)
    if options.write:
        from performance_page import write_section

        write_section("debate engine", f"## Debate engine\n\n{section}")
