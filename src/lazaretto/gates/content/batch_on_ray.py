"""A batch of debates on a Ray cluster: one panel per core, each item judged by itself, so that it matters not where."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.gates.content.assembly import make_panel, ready_library
from lazaretto.gates.content.batch import BatchOptions, verdict_lines
from lazaretto.gates.content.records import Case, Content
from lazaretto.gates.content.settings import ContentSettings
from lazaretto.policy import Limits

CHUNK = 16
"""Items that one panel is given at a time; a kill loses what was under way."""


@dataclass(frozen=True, slots=True)
class RayPanels:
    """Panels on every core of the cluster of ``RAY_ADDRESS``, else of this machine."""

    settings: ContentSettings
    cases: tuple[Case, ...] | None
    """The cases that precedents come from; None: no precedents."""
    limits: Limits

    async def verdicts(self, contents: Iterator[Content], options: BatchOptions) -> AsyncIterator[dict[str, Any]]:
        """Lines of the output, as they come."""
        try:
            import ray
        except ImportError:
            raise MissingExtra("a batch on several machines", "ray") from None
        mine = not ray.is_initialized()
        if mine:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        cores = int(ray.cluster_resources().get("CPU", 1))
        make: Any = ray.remote(num_cpus=1)(_Panel)
        free, under_way = [make.remote(self, options) for _ in range(max(1, cores))], dict[Any, Any]()
        try:
            while True:
                while free and (chunk := list(islice(contents, CHUNK))):
                    panel = free.pop()
                    under_way[panel.judge.remote(chunk)] = panel
                if not under_way:
                    return
                (done,), _ = await asyncio.to_thread(ray.wait, list(under_way))
                free.append(under_way.pop(done))
                for line in await asyncio.to_thread(ray.get, done):
                    yield line
        except ray.exceptions.RayError as error:
            raise ModelUnavailable(
                f"a panel on the Ray cluster failed: {str(error).strip().splitlines()[-1]}"
            ) from None
        finally:
            if mine:
                ray.shutdown()
            else:
                for panel in [*free, *under_way.values()]:
                    ray.kill(panel)


class _Panel:
    """One panel in a process of its own."""

    def __init__(self, panels: RayPanels, options: BatchOptions) -> None:
        library = None if panels.cases is None else ready_library(panels.cases, panels.settings.encoder)
        self._panel, self._options = make_panel(panels.settings, library, panels.limits), options
        self._loop = asyncio.new_event_loop()  # one for all chunks: connections to models belong to a loop

    def judge(self, contents: Sequence[Content]) -> list[dict[str, Any]]:
        """A line for each, in any order."""

        async def lines() -> list[dict[str, Any]]:
            return [line async for line in verdict_lines(self._panel, iter(contents), self._options)]

        return self._loop.run_until_complete(lines())
