"""Messages and states of LangGraph and LangChain: their writers, and the parts that may be read.

Every string of a state is read. A human or system message counts as the user's or operator's only where it stood in the
outermost graph's input; one with a name, written by a node, brought by a tool or made as a summary is not.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lazaretto.adapters.border import NOTICE, Border, agent_name
from lazaretto.adapters.heard import earlier_turns, heard_by
from lazaretto.errors import MissingExtra
from lazaretto.guard import Guard
from lazaretto.ingest.opening import Parted, opened
from lazaretto.ingest.strings import left_out, read_strings

try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
    )
    from langchain_core.runnables.config import var_child_runnable_config
except ImportError:
    raise MissingExtra("the LangGraph adapter", "langgraph") from None

Judge = Callable[[str], Awaitable[str]]
UNNAMED = "another node"
"""The sender of a message that names none."""
_ROLES = frozenset({"user", "human", "ai", "assistant", "system", "developer", "tool", "function"})
_MOST_DEPTH = 20
_KEPT = 10_000
_PATIENCE_S, _PAUSE_S = 1.0, 0.01
"""The longest wait of a node for the checkpointer to report the graph's input: it runs in a thread of its own."""


# the acting node and the graph's input


def runtime_config() -> Mapping[str, Any]:
    """The configuration of the node at work; empty outside of a graph."""
    return var_child_runnable_config.get() or {}


def acting_node() -> str | None:
    """The name of the node at work."""
    name = (runtime_config().get("metadata") or {}).get("langgraph_node")
    return str(name) if name else None


class Inputs:
    """The messages that graphs were given, as a guard's adapters saw them, and those that were found to be others'."""

    def __init__(self) -> None:
        self._given: OrderedDict[str, None] = OrderedDict()
        self._others: OrderedDict[str, None] = OrderedDict()
        self._writers: OrderedDict[str, frozenset[str]] = OrderedDict()
        """Digest of a message's words -> the nodes that wrote them; none where nobody could be found in time."""
        self._lock = threading.Lock()
        self.threads: set[str] = set()
        """Threads whose input a checkpointer reports."""

    def note(self, thread: str, message: BaseMessage) -> None:
        """Remember that a message stood in a graph's input."""
        self._add(self._given, thread, message)

    def note_other(self, thread: str, message: BaseMessage) -> None:
        """Remember that another party than the user brought a message."""
        self._add(self._others, thread, message)

    def _add(self, known: OrderedDict[str, None], thread: str, message: BaseMessage) -> None:
        with self._lock:
            known[_digest(thread, message)] = None
            while len(known) > _KEPT:
                known.popitem(last=False)

    def has(self, thread: str, message: BaseMessage) -> bool:
        """Whether a message stood in a graph's input."""
        with self._lock:
            return _digest(thread, message) in self._given

    def is_other(self, thread: str, message: BaseMessage) -> bool:
        """Whether another party brought it; ``has`` is asked first, since the user may have written the same."""
        with self._lock:
            return _digest(thread, message) in self._others

    def note_writers(self, thread: str, message: BaseMessage, nodes: frozenset[str]) -> None:
        """Remember the node that wrote a message, with the nodes that it stands in; more where it is written again.

        Where nobody could be found once, nobody is found later: a node may write a whole history again.
        """
        key = _words_of(thread, message)
        with self._lock:
            known = self._writers.get(key)
            self._writers[key] = known | nodes if known else nodes if known is None else known
            while len(self._writers) > _KEPT:
                self._writers.popitem(last=False)

    def writers(self, thread: str, message: BaseMessage) -> frozenset[str] | None:
        """The nodes that wrote a message; none where they were looked for in vain, None where nobody has looked."""
        with self._lock:
            return self._writers.get(_words_of(thread, message))


_INPUTS: weakref.WeakKeyDictionary[Guard, Inputs] = weakref.WeakKeyDictionary()


def _inputs(border: Border) -> Inputs:
    return _INPUTS.setdefault(border.guard, Inputs())


def _digest(thread: str, message: BaseMessage) -> str:
    identity = f"{thread}\0{type(message).__name__}\0{read_strings(message.content).text}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _words_of(thread: str, message: BaseMessage) -> str:
    identity = f"{thread}\0{read_strings(message.content).text}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _nodes_of(config: Any) -> frozenset[str]:
    """The nodes that a graph inside others stands in, by their names."""
    inner = (config or {}).get("configurable") or {}
    return frozenset(
        part.rpartition(":")[0] for part in str(inner.get("checkpoint_ns") or "").split("|") if ":" in part
    )


def note_written(border: Border, config: Any, written: Any, node: str, given: Any = None) -> None:
    """Remember which node wrote the messages in a value; not those that it was given."""
    thread = _thread(config)
    old = {_words_of(thread, message) for message in _messages(given)}
    for message in _messages(written):
        if _words_of(thread, message) not in old:
            _inputs(border).note_writers(thread, message, _nodes_of(config) | {node})


def note_history(border: Border, config: Any, value: Any) -> None:
    """Remember that nobody can say who wrote the messages of a value: an older state, or writes of no known node."""
    for message in _messages(value):
        _inputs(border).note_writers(_thread(config), message, frozenset())


def _thread(config: Any) -> str:
    inner = (config or {}).get("configurable") or {}
    return str(inner.get("thread_id", ""))


def note_input(border: Border, config: Any, value: Any) -> None:
    """Remember the messages in a graph's input, as its checkpointer saw them. A graph inside another is given what a
    node wrote: that is nobody's input."""
    if ((config or {}).get("configurable") or {}).get("checkpoint_ns"):
        return
    inputs = _inputs(border)
    inputs.threads.add(_thread(config))
    messages = _messages(value)
    earlier = earlier_messages(messages)
    for place, message in enumerate(messages):
        inputs.note(_thread(config), message)
        if place not in earlier and isinstance(message, (HumanMessage, SystemMessage)):
            heard_by(border.guard).note(_text_of(_judged_fields(message)))


def earlier_messages(messages: Sequence[BaseMessage | None]) -> frozenset[int]:
    """The places of messages of earlier turns."""
    kinds = ((HumanMessage, "user"), (AIMessage, "assistant"), (SystemMessage, "system"))
    return earlier_turns([next((role for kind, role in kinds if isinstance(found, kind)), "") for found in messages])


async def was_heard(border: Border, message: BaseMessage) -> bool:
    """Whether a message was the user's or operator's in a turn that was present then, also in an earlier process."""
    return await heard_by(border.guard).has(border.guard, _text_of(_judged_fields(message)))


def note_brought(border: Border, config: Any, value: Any) -> None:
    """Remember the messages in a tool's result: no user wrote them, in any role that they name."""
    for message in _messages(value):
        _inputs(border).note_other(_thread(config), message)


def is_followed(border: Border, config: Any) -> bool:
    """Whether a checkpointer already reported the input of a thread."""
    return _thread(config) in _inputs(border).threads


def _messages(value: Any, depth: int = 0) -> list[BaseMessage]:
    found = _as_message(value)
    if found is not None:
        return [found]
    if depth > _MOST_DEPTH:
        return []
    if isinstance(value, (Mapping, list, tuple)):
        inner = list(value.values() if isinstance(value, Mapping) else value)
    else:
        inner = _attributes_of(value)
    return [message for part in inner for message in _messages(part, depth + 1)]


def _attributes_of(value: Any) -> list[Any]:
    """The parts of a state that is an object."""
    found = opened(value) if hasattr(value, "__dict__") or hasattr(value, "__slots__") else None
    return [part for _, part in found.parts] if isinstance(found, Parted) and found.text is None else []


def _as_message(value: Any) -> BaseMessage | None:
    """A message, also where it is written as a pair or a mapping, as graphs take it."""
    if isinstance(value, BaseMessage):
        return value
    pair = isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], str) and value[0] in _ROLES
    table = isinstance(value, Mapping) and value.get("role") in _ROLES and "content" in value
    if not pair and not table:
        return None
    try:
        (made,) = convert_to_messages([tuple(value) if pair else dict(value)])
    except Exception:
        return None
    return made


# messages


@dataclass(frozen=True, slots=True)
class StateReader:
    """The reader of a state: its border, the run's configuration and the receiving agent."""

    border: Border
    config: Any
    receiver: str | None = None
    """The agent whose input it is: messages of others are exchanges between the two."""
    pauses: Counter[str] = field(default_factory=Counter)
    """How often it waited for the checkpointer: all messages of one state share the patience."""

    @property
    def _metadata(self) -> Mapping[str, Any]:
        return (self.config or {}).get("metadata") or {}

    @property
    def nested(self) -> bool:
        """Whether the graph at work is inside another: a node gave it its input."""
        return "|" in str(self._metadata.get("langgraph_checkpoint_ns", ""))

    @property
    def first_step(self) -> bool:
        """Whether no node of the graph has run yet: then everything is the graph's input."""
        return self._metadata.get("langgraph_step") == 1 and not self.nested

    async def is_input(self, message: BaseMessage, first: bool) -> bool:
        """Whether a message stood in the outermost graph's input; where no checkpointer says what did, ``first`` did.

        A mark only lowers trust: a message with a name, or one that the framework marks as its own, did not.
        """
        if message.name or (message.additional_kwargs or {}).get("lc_source"):
            return False
        inputs, thread = _inputs(self.border), _thread(self.config)
        if self.first_step and self.receiver is not None:
            inputs.note(thread, message)
        if inputs.has(thread, message):
            return True
        followed = thread in inputs.threads
        if inputs.is_other(thread, message) or inputs.writers(thread, message):
            return False
        if first and not followed and not self.nested:
            inputs.note(thread, message)
            return True
        if not followed or self.receiver is None:
            return False
        if await self._wait("input", lambda: inputs.has(thread, message)):
            return True
        inputs.note_other(thread, message)  # it is not waited for again
        return False

    async def _wait(self, why: str, known: Callable[[], bool]) -> bool:
        """Wait until the checkpointer has reported something, which it does in a thread of its own."""
        while not known() and self.pauses[why] < _PATIENCE_S / _PAUSE_S:
            self.pauses[why] += 1
            await asyncio.sleep(_PAUSE_S)
        return known()

    async def writer(self, message: BaseMessage) -> str | None:
        """The agent that wrote a message: by its name, unless it is known that another node wrote it."""
        name = agent_name(message.name) if message.name else None
        inputs, thread = _inputs(self.border), _thread(self.config)

        def is_known() -> bool:
            return inputs.writers(thread, message) is not None or inputs.has(thread, message)

        asked = name is not None and self.receiver is not None and thread in inputs.threads
        if asked and not self._saves_at_the_end and not await self._wait("writer", is_known):
            inputs.note_writers(thread, message, frozenset())
        nodes = inputs.writers(thread, message)
        if not name or not nodes or name in nodes:
            return name
        if nodes <= _nodes_of(self.config) | {str(self._metadata.get("langgraph_node", ""))}:
            return self.border.agent  # the node at work wrote it before
        return next(iter(nodes)) if len(nodes) == 1 else UNNAMED

    @property
    def _saves_at_the_end(self) -> bool:
        """Whether the checkpointer reports nothing while the graph runs."""
        return ((self.config or {}).get("configurable") or {}).get("__pregel_durability") == "exit"

    async def judge(self, message: BaseMessage, first: bool, earlier: bool = False) -> Judge:
        """The way to judge a message, by its writer. ``earlier``: it is of an earlier turn."""
        border, to = self.border, self.receiver
        if isinstance(message, (ToolMessage, FunctionMessage)):
            return border.tool
        if isinstance(message, (HumanMessage, SystemMessage)) and await self.is_input(message, first):
            if earlier and border.guard.policy.actions and not await was_heard(border, message):
                return border.stored
            if not earlier:
                heard_by(border.guard).note(_text_of(_judged_fields(message)))
            return border.user if isinstance(message, HumanMessage) else border.system
        by = await self.writer(message) or (border.agent if isinstance(message, AIMessage) else UNNAMED)
        if to is not None and by != to:
            return lambda text: border.message(text, sender=by, receiver=to)
        if isinstance(message, (AIMessage, HumanMessage, SystemMessage)):
            return lambda text: border.said(text, agent=by)
        return border.document


async def cleaned_message(border: Border, message: BaseMessage, judge: Judge | None = None) -> BaseMessage:
    """The message with a notice in place of each held part; its tool calls are read too."""
    how = judge or await StateReader(border, runtime_config()).judge(message, True)
    done = await border.clean(_judged_fields(message), how, dialect="langchain")
    people = isinstance(message, (HumanMessage, SystemMessage))  # theirs are the words, not the fields beside them
    beside = await border.clean(_beside(message), border.document if people else how, dialect="langchain")
    if not done.changed and not beside.changed:
        texts = [_text_of(part) for part in (_judged_fields(message), _beside(message))]
        apart = not isinstance(message, (ToolMessage, FunctionMessage)) or not all(map(str.strip, texts))
        return message if apart or await border.together(*texts) else _held(message)
    update: dict[str, Any] = done.value if isinstance(done.value, dict) else {"content": str(done.value)}
    calls = {path[0] for path, _ in (*done.changed, *beside.changed) if path} & {"tool_calls", "invalid_tool_calls"}
    if beside.changed:
        update |= {name: {} for name in _beside(message)}
    if isinstance(message, AIMessage) and (calls or done.whole or (beside.changed and message.tool_calls)):
        words = update.get("content") or ""
        if not done.whole and isinstance(words, str):
            words = f"{words}\n{NOTICE}: a tool call of it is held]".strip()
        update |= {"content": words, "tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": {}}
    if isinstance(message, ToolMessage) and done.whole:
        update["artifact"] = None
    return message.model_copy(update=update)


def _held(message: BaseMessage) -> BaseMessage:
    """A tool's message with a notice alone."""
    update = {"content": f"{NOTICE}: it is held together with others]", "artifact": None}
    fields = type(message).model_fields
    return message.model_copy(
        update={name: value for name, value in update.items() if name in fields}
        | {name: {} for name in _beside(message) if isinstance(getattr(message, name, None), dict)}
    )


def _text_of(part: Any) -> str:
    return read_strings(part, left_out("langchain")).text


def _judged_fields(message: BaseMessage) -> dict[str, Any]:
    """Content and tool calls of a message, with its names and ids, which may carry a text."""
    names = ("content", "tool_calls", "invalid_tool_calls", "artifact", "name", "id", "tool_call_id")
    return {name: getattr(message, name) for name in names if getattr(message, name, None)}


def _beside(message: BaseMessage) -> dict[str, Any]:
    """The other fields of a message."""
    known = {"type", *_judged_fields(message)}
    spaces = (vars(message), getattr(message, "__pydantic_extra__", None) or {})
    return {name: value for space in spaces for name, value in space.items() if name not in known and value}


# states


async def cleaned_state(border: Border, value: Any, *, config: Any = None, receiver: str | None = None) -> Any:
    """A state, or any part of one, with a notice in place of each held part."""
    return await _cleaned(StateReader(border, config if config is not None else runtime_config(), receiver), value)


async def _cleaned(reader: StateReader, value: Any, path: tuple[Any, ...] = (), earlier: bool = False) -> Any:
    message = _as_message(value)
    if message is not None:
        first = path in (("messages", 0), (0,))
        done = await cleaned_message(reader.border, message, await reader.judge(message, first, earlier))
        return value if done is message else done
    found = opened(value)
    apart = isinstance(value, Mapping) and not path  # each channel of a state by itself
    if not isinstance(found, Parted) or found.build is None or not (apart or _messages(value)):
        return await reader.border.cleaned(value, reader.border.document, dialect="langchain")
    names = [step for step, _ in found.parts] if found.keyed else []
    if len(path) > _MOST_DEPTH or not await reader.border.names(*names):
        return await reader.border.cleaned(value, reader.border.document, dialect="langchain")
    past = earlier_messages([_as_message(part) for _, part in found.parts])
    parts = [
        (step, await _cleaned(reader, part, (*path, step), place in past))
        for place, (step, part) in enumerate(found.parts)
    ]
    if not found.keyed:
        parts = await _side_by_side(reader.border, parts)
    if all(new is old for (_, new), (_, old) in zip(parts, found.parts, strict=True)):
        return value
    return found.build(parts)


async def _side_by_side(border: Border, parts: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Parts of a list, with notices for answers of tools that stand side by side and are harmful only together."""
    made, run = list(parts), list[int]()
    for place, part in enumerate([*(part for _, part in parts), None]):
        if isinstance(part, (ToolMessage, FunctionMessage)):
            run += [] if NOTICE in str(part.content) else [place]
            continue
        if len(run) > 1 and not await border.together(*(_text_of(_judged_fields(parts[n][1])) for n in run)):
            for n in run:
                made[n] = (parts[n][0], _held(parts[n][1]))
        run = []
    return made


async def from_tool(border: Border, value: Any, name: str = "") -> Any:
    """A tool's result, judged: every message and text in it comes from the tool."""
    message = value if isinstance(value, BaseMessage) else None
    if message is not None:
        return await cleaned_message(border, message, partial(border.tool, name=name, answer=message.content))
    found = opened(value)
    if not _messages(value) or not isinstance(found, Parted) or found.build is None:
        return await border.answered(value, name, dialect="langchain")
    parts = [(step, await from_tool(border, part, name)) for step, part in found.parts]
    same = all(new is old for (_, new), (_, old) in zip(parts, found.parts, strict=True))
    return value if same else found.build(parts)
