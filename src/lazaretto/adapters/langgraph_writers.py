"""Finds the node that wrote a text: a checkpointer is called outside of the nodes."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from lazaretto.adapters.border import Border
from lazaretto.adapters.langgraph_state import note_history, note_written
from lazaretto.errors import MissingExtra
from lazaretto.types import Channel, SourceClass

try:
    from langchain_core.messages import BaseMessage
    from langgraph.constants import START
except ImportError:
    raise MissingExtra("the LangGraph adapter", "langgraph") from None

GRAPH = "graph"
"""The agent where no node is known: for the graph's input, and for writes of nodes reached by ``Send``."""
_PULL = "~__pregel_pull, "
_HANDLER = re.compile(r", node_error_handler, 0{10}\Z")
"""Suffix of the name for writes that a failed node left to its error handler."""
_KEPT, _MOST_DEPTH = 20_000, 20
_WRITER: ContextVar[str] = ContextVar("writer", default="")
"""The node whose writes are being read; empty while a whole state is read."""


class SaverBorder(Border):
    """The border of a checkpointer: a text is the node's that wrote it, unless an agent was named for all."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._writers: OrderedDict[bytes, str] = OrderedDict()
        self._noting = threading.Lock()

    @contextmanager
    def writer(self, task_path: str, written: Any, config: Any) -> Iterator[None]:
        """Read the writes of a task inside; the path of the task names its node, or none.

        A whole state names no tasks. There a text belongs to the node that wrote it, and to ``graph`` where two did.
        """
        node = _node_of(task_path)
        if node != GRAPH:
            note_written(self, config, written, node)
        elif not task_path.endswith(START):
            note_history(self, config, written)  # nobody will report more about it
        with self._noting:
            for text in _texts(written):
                key = _digest(text)
                self._writers[key] = node if self._writers.get(key, node) == node else GRAPH
            while len(self._writers) > _KEPT:
                self._writers.popitem(last=False)
        token = _WRITER.set(node)
        try:
            yield
        finally:
            _WRITER.reset(token)

    async def _read(
        self, text: str, channel: Channel, agent: str | None, source: SourceClass | str | None, **details: Any
    ) -> str:
        if self._agent is None and agent in (None, GRAPH):
            with self._noting:
                agent = _WRITER.get() or self._writers.get(_digest(text), agent)
        return await super()._read(text, channel, agent, source, **details)


def _node_of(task_path: str) -> str:
    """The node that a task's path names: all text behind the mark, since a name may hold a comma."""
    if not task_path.startswith(_PULL):
        return GRAPH
    node = _HANDLER.sub("", task_path.removeprefix(_PULL))
    return GRAPH if node in ("", START) else node


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, BaseMessage):
        yield from _texts(value.content, depth + 1)
    elif depth < _MOST_DEPTH and isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part, depth + 1)
    elif depth < _MOST_DEPTH and isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part, depth + 1)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
