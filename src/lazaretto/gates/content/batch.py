"""A file of items in, a file of verdicts out, in the order of the items; continued after any interruption.

The output file is the only state: a line that a crash cut off is dropped and its item judged again. One process at a
time holds the output. On a Ray cluster each item is judged by itself, one panel per core.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson

from lazaretto.cases.records import Case
from lazaretto.errors import InputError, MissingExtra, ModelUnavailable
from lazaretto.files import replacing
from lazaretto.gates.content.debate import TWO_ROUNDS, DebateSettings, Transcript, hold_debates, report_data
from lazaretto.gates.content.gate import ContentSettings, make_panel, ready_library
from lazaretto.gates.content.records import UNDECIDED, Content, Outcome, Panel
from lazaretto.policy import Limits

Progress = Callable[[int, int], None]
"""``progress(done, total)``, the items of earlier runs included."""


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """The counts of a batch."""

    items: int
    already: int
    """Judged by earlier runs."""
    judged: int
    unsafe: int
    review: int
    """In doubt or undecided."""
    undecided: int
    """Items of ``review`` that no panel could judge."""


def read_items(path: Path) -> dict[str, int]:
    """Id -> byte offset of each line; the whole file is checked before anything is spent on it."""
    if not path.is_file():
        raise InputError("batch", f"no file {path}", "Give a JSON lines file with id, text, description or image")
    found: dict[str, int] = {}
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                item = _object(line, f"{path.name} line {number}")
                key = str(item.get("id", ""))
                if not key or not any(item.get(name) for name in ("text", "description", "image")):
                    fix = "Each line needs an id, and text, description or image"
                    raise InputError(f"{path.name} line {number}", "no id or no content", fix)
                if key in found:
                    raise InputError(
                        f"{path.name} line {number}", f"id {key!r} occurs twice", "Give every item its own id"
                    )
                found[key] = offset
            offset += len(line)
    return found


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        item = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(where, f"not JSON ({error})", "One JSON object per line") from None
    if not isinstance(item, dict):
        raise InputError(where, "not an object", "One JSON object per line")
    return item


def read_content(item: dict[str, Any], folder: Path) -> Content:
    """The content of one line; a picture's path starts at the file's folder, and a missing one is an error."""
    image = None
    if item.get("image"):
        path = folder / str(item["image"])
        try:
            image = path.read_bytes()
        except OSError as error:
            raise InputError("image", f"cannot read {path.name} ({error.strerror})", "Check the path") from None
    return Content(str(item["id"]), str(item.get("text") or ""), image, str(item.get("description") or ""))


@contextmanager
def _output(path: Path) -> Iterator[tuple[BinaryIO, set[str], set[str]]]:
    """The output opened for appending, with the ids that are done and those of them that are undecided."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _hold(file, path)
        file.seek(0)
        done: set[str] = set()
        undecided: set[str] = set()
        whole = 0
        for line in file:
            if not line.endswith(b"\n"):
                break  # cut off by a crash
            try:
                verdict = orjson.loads(line)
                done.add(verdict["id"])
            except (orjson.JSONDecodeError, KeyError, TypeError):
                raise InputError("out", f"{path} holds something that is not a verdict", "Name another file") from None
            if verdict.get("rule") == UNDECIDED:
                undecided.add(verdict["id"])
            whole += len(line)
        file.truncate(whole)
        file.seek(0, os.SEEK_END)
        yield file, done, undecided


def _hold(file: BinaryIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such lock on this system: the user is trusted not to start twice
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError("out", f"{path} is in use by another run", "Wait for it, or name another file") from None


Spoken = Callable[[Content, dict[str, Any]], dict[str, Any]]
"""Adds people's earlier labels of a content to its report."""


def verdict_line(item: str, outcome: Transcript | InputError) -> dict[str, Any]:
    """One output line. Unreadable content is undecided, and never called safe."""
    if isinstance(outcome, InputError):
        body: dict[str, Any] = {"id": item, "label": Outcome.REVIEW.value, "risk": 0.5, "rule": UNDECIDED}
        return {**body, "report": {"undecided": str(outcome), "faults": [str(outcome)]}, "tokens": 0, "ms": 0.0}
    return _line(item, report_data(outcome))


def _line(item: str, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": item,
        "label": report["label"],
        "risk": report["risk"],
        "rule": report["rule"],
        "report": report,
        "tokens": report["cost"]["tokens"],
        "ms": report["cost"]["ms"],
    }


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a batch runs."""

    debate: DebateSettings = TWO_ROUNDS
    at_once: int = 64
    retry_undecided: bool = False
    """Judge undecided items of an earlier run again; their older lines are removed."""
    fresh: bool = False
    """Judge everything again, also items that the output holds."""


PLAIN = BatchOptions()
"""Two rounds, 64 at once."""


class Panels(Protocol):
    """Panels that judge a batch outside this process."""

    def verdicts(self, contents: Iterator[Content], options: BatchOptions) -> AsyncIterator[dict[str, Any]]:
        """A line of the output for each, as they come."""


async def verdict_lines(
    panel: Panel, contents: Iterator[Content], options: BatchOptions
) -> AsyncIterator[dict[str, Any]]:
    """A line of the output for each, as they come."""
    async for content, outcome in hold_debates(panel, contents, options.debate, at_once=options.at_once):
        yield verdict_line(content.id, outcome)


async def run_batch(
    panel: Panel | Panels,
    items: Path,
    out: Path,
    options: BatchOptions = PLAIN,
    progress: Progress | None = None,
    spoken: Spoken | None = None,
) -> BatchSummary:
    """Judge every item of a file that the output does not hold yet; people's labels overrule the panel."""
    places = read_items(items)
    unreadable: list[tuple[str, InputError]] = []
    if options.fresh:
        out.unlink(missing_ok=True)
    if options.retry_undecided:
        _drop_undecided(out)
    with _output(out) as (file, done, undecided), items.open("rb") as source:
        already = len(done & places.keys())
        counts = {"judged": 0, "unsafe": 0, "review": 0, "undecided": len(undecided & places.keys())}

        def contents() -> Iterator[Content]:
            for key, offset in places.items():
                if key not in done:
                    source.seek(offset)
                    try:
                        yield read_content(orjson.loads(source.readline()), items.parent)
                    except InputError as error:
                        unreadable.append((key, error))

        def again(key: str) -> Content:
            with items.open("rb") as another:
                another.seek(places[key])
                return read_content(orjson.loads(another.readline()), items.parent)

        def write(line: dict[str, Any]) -> None:
            file.write(orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS) + b"\n")
            file.flush()
            counts["judged"] += 1
            counts["unsafe"] += line["label"] == Outcome.UNSAFE.value
            counts["review"] += line["label"] == Outcome.REVIEW.value
            counts["undecided"] += line["rule"] == UNDECIDED
            if progress is not None:
                progress(already + counts["judged"], len(places))

        if isinstance(panel, Panel):
            lines = verdict_lines(panel, contents(), options)
        else:
            lines = panel.verdicts(contents(), options)
        async for line in lines:
            read = "label" in line["report"]  # else nobody could open it
            write(_line(line["id"], spoken(again(line["id"]), line["report"])) if spoken and read else line)
        for key, error in unreadable:
            write(verdict_line(key, error))
    _put_in_order(out, places)
    return BatchSummary(len(places), already, counts["judged"], counts["unsafe"], counts["review"], counts["undecided"])


def _put_in_order(out: Path, places: Mapping[str, int]) -> None:
    """The output in the order of the items, replaced in one step; lines of other items stay behind them."""
    order = {item: number for number, item in enumerate(places)}
    with out.open("rb") as old:
        found, offset = [], 0
        for line in old:
            found.append((order.get(orjson.loads(line)["id"], len(order)), offset))
            offset += len(line)
        if found == sorted(found):
            return
        with replacing(out) as new:
            _hold(old, out)
            for _, place in sorted(found):
                old.seek(place)
                new.write(old.readline())


def flagged(out: Path) -> bool:
    """Whether an output holds anything that is not safe."""
    with out.open("rb") as lines:
        return any(orjson.loads(line)["label"] != Outcome.SAFE.value for line in lines)


def _drop_undecided(out: Path) -> None:
    """The output without its undecided lines, replaced in one step."""
    if not out.exists():
        return
    with out.open("rb") as old, replacing(out) as new:
        _hold(old, out)
        for line in old:
            if line.endswith(b"\n") and orjson.loads(line).get("rule") != UNDECIDED:
                new.write(line)


# A batch of debates on a Ray cluster: one panel per core, each item judged by itself, so that it matters not where.

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
