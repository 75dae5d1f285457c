"""The three forms in which crews talk to models: OpenAI's chat and responses, Anthropic's messages.

Each says who wrote every part of a request and an answer, and how an answer is withheld. Unknown parts are foreign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import orjson

from lazaretto.api.proxy.passages import Json, Unit, settings
from lazaretto.policy import ProxySources
from lazaretto.types import Channel


class Dialect(Protocol):
    """One form."""

    path: str
    name: str
    """Its name in the table of parts left out (``ingest/left_out.py``)."""

    def text_part(self, words: str) -> Json:
        """A part of a message that says these words."""

    def asked(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        """The parts that the model would read."""

    def answered(self, body: Json, sources: ProxySources) -> Iterator[Unit]:
        """The parts that the agent would act on."""

    def withhold(self, body: Json, notice: str) -> Json:
        """An answer with nothing but the notice."""

    def foreign(self, event: Json) -> bool:
        """Whether an event of a stream brings a result of a tool at the endpoint."""

    def finished(self, events: Sequence[Json]) -> bool:
        """Whether a stream came to its end."""

    def as_stream(self, model: str, words: str) -> bytes:
        """A stream that says these words and ends."""

    def fault(self, message: str, code: str) -> Json:
        """An error, as clients of this form read it."""

    def fault_in_stream(self, message: str, code: str) -> bytes:
        """The same, where a stream has begun."""


def sse(data: Any, event: str = "") -> bytes:
    """One event of a stream."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + (data if isinstance(data, bytes) else orjson.dumps(data)) + b"\n\n"


def dicts(value: Any) -> Iterator[Json]:
    """The objects of a list; none if it is no list."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def rest_of_request(body: Json, own_keys: Sequence[str], own: Sequence[str], sources: ProxySources) -> Iterator[Unit]:
    """The parts of a request besides messages: the crew's own settings, and unknown fields."""
    given = {key: body[key] for key in own if key in body}
    yield settings(given, body.update, Channel.MESSAGE, sources.system)
    unknown = {key: value for key, value in body.items() if key not in (*own_keys, *own)}
    yield settings(unknown, body.update, Channel.DOCUMENT, sources.document)


def rest_of_answer(body: Json, own_keys: Sequence[str], sources: ProxySources) -> Unit:
    """The parts of an answer besides the model's text."""
    rest = {key: value for key, value in body.items() if key not in own_keys}
    return settings(rest, body.update, Channel.TOOL, sources.tool)


def of_model(value: Any, put: Any, instead: Any, sources: ProxySources) -> Unit:
    """A text of the model."""
    return Unit(value, put, instead, Channel.MESSAGE, sources.assistant, by_model=True)


def of_tool(value: Any, put: Any, instead: Any, sources: ProxySources) -> Unit:
    """A result of a tool."""
    return Unit(value, put, instead, Channel.TOOL, sources.tool)
