"""A ready agent from any chat model and embedder, to be rehearsed: it returns its *possible* turn, and changes nothing.

Agents that share one ``AgentModel`` are rehearsed in common batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lazaretto.agents.album import Album, AlbumItem, note_item, picture_item
from lazaretto.agents.model import AgentModel, Utterance
from lazaretto.agents.prompts import HISTORY, ChatRecord, Persona, persona_pool
from lazaretto.agents.turn import AgentState, History, answer, ask, plan, retrieve
from lazaretto.errors import ModelUnavailable

Memory = str | bytes | AlbumItem
"""A note, an encoded picture, or either of them with a title of its own."""
Exchange = tuple[str, str]
"""The text the agent heard, and its reply."""


class ChatAgent:
    """An agent made of a model and its memories.

    ``album`` maps item ids to memories, oldest first, and ``history`` lists the last chats; give functions where they
    change.
    """

    def __init__(
        self,
        name: str,
        model: AgentModel,
        album: Mapping[str, Memory] | Callable[[], Mapping[str, Memory]],
        history: Sequence[Exchange] | Callable[[], Sequence[Exchange]] = (),
        *,
        persona: Persona | None = None,
        remembers: int = HISTORY,
    ) -> None:
        """``remembers``: how many chats the agent has in mind."""
        self.name, self.model = name, model
        self.persona = persona or own_persona(name)
        self.remembers = remembers
        self._album, self._history = album, history

    def album(self) -> Mapping[str, Memory]:
        """Everything it may retrieve, by item id, oldest first."""
        return self._album() if callable(self._album) else self._album

    def history(self) -> Sequence[Exchange]:
        """Its recent exchanges, oldest first."""
        return self._history() if callable(self._history) else self._history

    async def plan(self, persona: str, history: Sequence[Exchange]) -> str:
        """The topic it would look for next. One model call."""
        return _text_of(await plan([self._as(persona, history, list(self.album().values()))], self.model))

    async def retrieve(self, plan: str, album: Mapping[str, Memory]) -> str:
        """The id of the memory that the embedder finds nearest to the plan."""
        if not album:
            return ""
        state = self._as("", (), list(album.values()))
        (found,) = retrieve([state], [Utterance(plan)], self.model)
        return list(album)[found.slot]

    async def respond(self, persona: str, history: Sequence[Exchange], memory: Memory, heard: str) -> str:
        """Its text about the memory: a question when ``heard`` is empty, else an answer. One model call."""
        state, shown = self._as(persona, history, ()), [as_album_item(memory)]
        return _text_of(
            await (answer([state], shown, [heard], self.model) if heard else ask([state], shown, self.model))
        )

    def _as(self, persona: str, history: Sequence[Exchange], memories: Sequence[Memory]) -> AgentState:
        held = tuple(as_album_item(memory) for memory in memories)
        person = Persona.parse(persona) if persona else self.persona
        past = tuple(ChatRecord(heard, reply) for heard, reply in history)
        return AgentState(self.name, person, Album(max(1, len(held)), held), History(self.remembers, past))


def as_album_item(memory: Memory, title: str = "") -> AlbumItem:
    """The memory as an album keeps it; ``title`` is used where it has none."""
    if isinstance(memory, AlbumItem):
        return memory
    return note_item(memory, title) if isinstance(memory, str) else picture_item(memory, title)


def own_persona(name: str) -> Persona:
    """Any persona: rehearsals put others in its place."""
    return persona_pool(1, seed=sum(name.encode()))[0]


def _text_of(utterances: Sequence[Utterance]) -> str:
    (utterance,) = utterances
    if utterance.fault:
        raise ModelUnavailable(utterance.fault)
    return utterance.text
