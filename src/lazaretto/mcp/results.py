"""A server's results in the form that an agent may read: every string is judged; a notice replaces held parts."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from lazaretto.errors import InputError
from lazaretto.identity import Identity, ProvedBy
from lazaretto.ingest.strings import ID, ReadStrings, cannot_carry_text, left_out, read_strings, words_of
from lazaretto.names import check_name
from lazaretto.types import Channel, Decision, Ruling, SourceClass

if TYPE_CHECKING:
    from lazaretto.guard import Guard

NOTICE = "[withheld by Lazaretto"
_MOST_ERROR = 20_000
_FEWEST_WORDS = 6
_WORD = re.compile(r"[^\W\d_]{2,}")
_OUTSIDE = SourceClass.TOOL_OUTPUT_EXTERNAL
_OWN = {"text", "data", "blob", "structured_content", "content", "messages", "contents", "resource"}
"""Parts of a result that are judged by themselves."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The tool that answers, and where the policy names it as a directory, its answer as data."""

    tool: str
    is_directory: bool
    data: Any

    @property
    def fields(self) -> dict[str, Any]:
        """The answer for ``Guard.check``: of a directory, its answer decides the source class."""
        known = {"tool": self.tool}
        return {**known, "answer": self.data} if self.is_directory else {**known, "source": _OUTSIDE}


class Results:
    """Judges results; one for all servers."""

    def __init__(self, guard: Guard, agent: str) -> None:
        self._guard, self._agent = guard, agent

    async def of_tool(self, result: Any, server: str, tool: str = "") -> Any:
        """A tool's result, as it may be read. ``tool`` is the name that the agent called: where the policy names it as
        a directory, the whole values of its answer are the crew's own."""
        from mcp import types

        structured, meta = result.structured_content, result.meta
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        listed: Any = texts[0] if len(texts) == 1 else texts
        if structured is not None:  # a tool that returns one value has it under "result"
            listed = structured["result"] if list(structured) == ["result"] else structured
        directory = self._guard.actions.settings.is_directory(tool)
        answer = _Answer(tool, directory, listed) if directory or _is_name(tool) else None
        blocks, withheld = await self._blocks(result.content, server, answer)
        if structured is not None:
            text = "\n".join(texts)
            if withheld or await self._held_parts(structured, server, text, answer) is not None:
                withheld, structured = True, None
        if await self._held_beside(result, server) is not None:
            withheld, meta, structured = True, None, None
        if withheld:
            meta = None
            if not any(isinstance(b, types.TextContent) and NOTICE in b.text for b in blocks):
                blocks = [types.TextContent(type="text", text=f"{NOTICE}: its data may not be read]")]
        made = types.CallToolResult(
            content=blocks, structured_content=structured, is_error=bool(result.is_error or withheld)
        )
        return made.model_copy(update={"meta": meta})

    async def of_prompt(self, result: Any, server: str) -> Any:
        """A prompt's messages, as they may be read."""
        from mcp import types

        blocks, _ = await self._blocks([message.content for message in result.messages], server)
        if len(blocks) == len(result.messages):
            messages = [
                types.PromptMessage(role=message.role, content=block)
                for message, block in zip(result.messages, blocks, strict=True)
            ]
        else:  # harmful only together
            messages = [types.PromptMessage(role="user", content=blocks[-1])]
        beside = await self._held_beside(result, server)
        made = types.GetPromptResult(messages=messages, description=result.description if beside is None else beside)
        return made.model_copy(update={"meta": result.meta if beside is None else None})

    async def of_resource(self, result: Any, uri: str, server: str) -> Any:
        """A resource's contents, as they may be read."""
        from mcp import types

        contents = [await self._contents(part, server) for part in result.contents]
        shown: list[Any] = [
            part if isinstance(part, types.ResourceContents) else _notice_at(uri, part) for part in contents
        ]
        texts = [part.text for part in shown if isinstance(part, types.TextResourceContents)]
        whole = await self.held("\n".join(texts), server) if len(texts) > 1 else None
        beside = await self._held_beside(result, server)
        if whole is not None or beside is not None:
            return types.ReadResourceResult(contents=[_notice_at(uri, whole or beside)])
        return types.ReadResourceResult(contents=shown).model_copy(update={"meta": result.meta})

    async def of_error(self, error: BaseException, server: str) -> str:
        """The text of a failure, as it may be read; its data is judged too and not passed on."""
        from mcp import MCPError

        text = str(error)[:_MOST_ERROR] or type(error).__name__
        data = error.data if isinstance(error, MCPError) else None
        notice = await self.held(text, server)
        if notice is None and data is not None:
            notice = await self._held_parts(data, server, text)
        return notice or text

    async def _blocks(
        self, content: Sequence[Any], server: str, answer: _Answer | None = None
    ) -> tuple[list[Any], bool]:
        """Content blocks as the agent may read them. Texts are judged together first: an order may be cut in two."""
        from mcp import types

        pieces = [_piece(block) for block in content]
        together = [n for n, piece in enumerate(pieces) if piece.strip()]
        joined = "\n".join(pieces[n] for n in together)
        whole = await self.held(joined, server, answer) if len(together) > 1 else None
        found, withheld = [], False
        for block in content:
            shown = await self._block(block, server, answer)
            withheld |= shown is not block
            found.append(shown)
        if whole is not None and not withheld:  # harmful only together
            found = [block for n, block in enumerate(found) if n not in together]
            found.append(types.TextContent(type="text", text=whole))
            withheld = True
        return found, withheld

    async def _block(self, block: Any, server: str, answer: _Answer | None) -> Any:
        """The block itself, or the notice that stands in its place."""
        from mcp import types

        notice: str | None
        if isinstance(block, types.TextContent):
            notice = await self.held(block.text, server, answer)
        elif isinstance(block, types.ImageContent):
            notice = await self._held_picture(block.data, server)
        elif isinstance(block, types.EmbeddedResource):
            shown = await self._contents(block.resource, server)
            notice = shown if isinstance(shown, str) else None
        elif isinstance(block, types.ResourceLink):
            notice = None
        else:
            notice = f"{NOTICE}: {block.type} cannot be judged]"
        notice = notice if notice is not None else await self._held_beside(block, server)
        return block if notice is None else types.TextContent(type="text", text=notice)

    async def _contents(self, contents: Any, server: str) -> Any:
        """Contents of a resource themselves, or the notice."""
        from mcp import types

        if isinstance(contents, types.TextResourceContents):
            notice = await self.held(contents.text, server)
        elif (contents.mime_type or "").startswith("image/"):
            notice = await self._held_picture(contents.blob, server)
        else:
            notice = f"{NOTICE}: a file whose type cannot be judged]"
        notice = notice if notice is not None else await self._held_beside(contents, server)
        return contents if notice is None else notice

    async def _held_beside(self, model: Any, server: str) -> str | None:
        """The notice for the fields beside the content of a part: names, URIs, annotations, ``_meta``."""
        return await self._held_parts(
            model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_OWN), server
        )

    async def _held_parts(
        self, value: Any, server: str, judged_text: str = "", answer: _Answer | None = None
    ) -> str | None:
        """The notice for a value of any shape; ``judged_text``: a text that was judged already."""
        reading = read_strings(value, _LEFT_OUT)
        if not reading.whole:
            return f"{NOTICE}: a part of it cannot be read ({reading.unread[0].why})]"
        for picture in reading.pictures:
            notice = await self._held_picture(base64.b64encode(picture.data).decode(), server)
            if notice is not None:
                return notice
        if reading.text in judged_text or _repeats(value, judged_text) or _says_nothing(reading):
            return None
        return await self.held(reading.text, server, answer)

    async def held(self, text: str, server: str, answer: _Answer | None = None) -> str | None:
        """The notice in place of a text that may not be read; None where it may."""
        if not text.strip():
            return None
        fields = {"source": _OUTSIDE} if answer is None else answer.fields
        try:
            decision = await self._guard.check(
                text, agent=self._agent, channel=Channel.TOOL,
                principal=Identity(ProvedBy.MCP, server).principal(self._agent), **fields,
            )  # fmt: skip
        except InputError:  # too long, or no text that can be kept
            return f"{NOTICE}: a text that cannot be judged]"
        return _notice(decision, server)

    async def _held_picture(self, data: str, server: str) -> str | None:
        try:
            picture = base64.b64decode(data, validate=True)
            decision = await self._guard.check(
                image=picture, agent=self._agent, channel=Channel.IMAGE, source=_OUTSIDE,
                principal=Identity(ProvedBy.MCP, server).principal(self._agent),
            )  # fmt: skip
        except (binascii.Error, ValueError):
            return f"{NOTICE}: a picture that cannot be read]"
        return _notice(decision, server)


_LEFT_OUT = left_out("mcp")


def _is_name(tool: str) -> bool:
    """Whether a tool's name can be kept."""
    try:
        return bool(check_name(tool, "tool", empty=True, printable=True))
    except InputError:
        return False


def _piece(block: Any) -> str:
    """The words of a block of content: its text, or that of a resource; a link's name, title and description."""
    from mcp import types

    if isinstance(block, types.TextContent):
        return str(block.text)
    if isinstance(block, types.EmbeddedResource):
        return str(getattr(block.resource, "text", ""))
    if isinstance(block, types.ResourceLink):
        name = " ".join(words_of(block.name)) if cannot_carry_text(block.name, ID) else block.name
        return "\n".join(part for part in (name, block.title, block.description) if part)
    return ""


def _repeats(structured: Any, text: str) -> bool:
    """Whether data only repeats a text that was judged: as JSON, as values on lines of their own, or as they are."""
    values = structured["result"] if isinstance(structured, dict) and list(structured) == ["result"] else structured
    with contextlib.suppress(orjson.JSONDecodeError):
        if orjson.loads(text) in (structured, values):
            return True
    if not isinstance(values, list):
        return bool(values == text)
    lines = [value if isinstance(value, str) else orjson.dumps(value).decode() for value in values]
    with contextlib.suppress(orjson.JSONDecodeError):
        if [orjson.loads(line) for line in text.split("\n")] == values:
            return True
    return "\n".join(lines) == text


def _says_nothing(reading: ReadStrings) -> bool:
    """Whether there are a few ids, words and URIs alone: too few for a sentence, however they are put together."""
    several = [found.text for found in reading.texts]
    return all(cannot_carry_text(text, ID) for text in several) and sum(map(_words, several)) < _FEWEST_WORDS


def _words(text: str) -> int:
    return max(1, len(_WORD.findall(text)))


def _notice_at(uri: str, notice: Any) -> Any:
    from mcp import types

    return types.TextResourceContents(uri=uri, mime_type="text/plain", text=str(notice))


def _notice(decision: Decision, server: str) -> str | None:
    if decision.allowed:
        return None
    if decision.ruling is Ruling.REWRITE and decision.replacement is not None:
        return decision.replacement
    return f"{NOTICE}: what the server {server!r} gave may not be used ({decision.rule}, item {decision.item})]"
