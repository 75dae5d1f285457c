"""The state of all agents at once: which slots of their FIFO albums hold what, as one bit per slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.worlds.epidemic.pairing import Ids
from lazaretto_lab.worlds.epidemic.scenario import Scenario

Mask = NDArray[np.bool_]

WORD = 64


class Slots:
    """A bit per album slot and agent; bit 0 is the newest picture.

    An arriving picture shifts the bits by one, so a copy leaves after as many receptions as the album has slots.
    Albums of up to 64 pictures are one machine word per agent (the smallest that holds them); longer ones are several.
    """

    def __init__(self, agents: int, album: int) -> None:
        words = -(-album // WORD)
        small = next((t for t in (np.uint8, np.uint16, np.uint32) if album <= np.iinfo(t).bits), np.uint64)
        self.album = album
        self.bits: NDArray[np.unsignedinteger] = np.zeros((words, agents), dtype=small)
        self._last_full = self.bits.dtype.type((1 << (album - WORD * (words - 1))) - 1)

    def holds(self, ids: Ids | slice = slice(None)) -> Mask:
        """Whether each agent has any such picture."""
        found: Mask = self.bits[0][ids] != 0
        for word in self.bits[1:]:
            found |= word[ids] != 0
        return found

    def push(self, ids: Ids, arrived: Mask) -> None:
        """A picture arrives in each of these albums and the oldest leaves; ``arrived`` says whether it is of this
        kind."""
        carry = arrived
        last = len(self.bits) - 1
        one = self.bits.dtype.type(1)
        for index, word in enumerate(self.bits):
            old = word[ids]
            new = (old << one) | carry
            if index == last:
                new &= self._last_full
            else:
                carry = (old >> self.bits.dtype.type(WORD - 1)).astype(np.bool_)
            word[ids] = new

    def clear(self, ids: Ids) -> None:
        """No such picture is left in these albums."""
        self.bits[:, ids] = 0

    def unpack(self, ids: Ids) -> Mask:
        """The slots of these agents as booleans, newest first: shape (agents, album)."""
        rows = np.ascontiguousarray(self.bits[:, ids].T)
        flat = np.unpackbits(rows.astype(rows.dtype.newbyteorder("<")).view(np.uint8), axis=1, bitorder="little")
        return flat[:, : self.album].view(np.bool_)

    def pack(self, ids: Ids, slots: Mask) -> None:
        """The opposite of ``unpack``."""
        bytes_ = np.zeros((len(slots), self.bits.itemsize * len(self.bits)), dtype=np.uint8)
        packed = np.packbits(slots, axis=1, bitorder="little")
        bytes_[:, : packed.shape[1]] = packed
        self.bits[:, ids] = bytes_.view(self.bits.dtype.newbyteorder("<")).astype(self.bits.dtype).T

    def full(self, ids: Ids) -> Mask:
        """Whether every slot of these agents is of this kind."""
        found: Mask = self.bits[-1][ids] == self._last_full
        for word in self.bits[:-1]:
            found &= word[ids] == np.uint64(2**WORD - 1)
        return found


@dataclass(slots=True)
class Population:
    """All agents of one or more epidemics side by side; kinds of pictures that cannot occur take no memory."""

    virus: Slots
    cure: Slots | None
    """Cure pictures; None without defenders."""
    empty: Slots | None
    """Slots whose picture a defence removed; the gap ages like a picture. None without a defence."""
    ever: Mask
    """Whether the agent ever showed the symptom."""

    @classmethod
    def start(cls, scenario: Scenario, copies: int = 1) -> Population:
        """The agents before round 0, for ``copies`` independent epidemics one after the other."""
        total = scenario.agents * copies
        virus = Slots(total, scenario.album)
        first = np.arange(scenario.infected)
        attacked = (first + scenario.agents * np.arange(copies)[:, None]).ravel()
        virus.push(attacked, np.ones(attacked.size, dtype=np.bool_))
        return cls(
            virus=virus,
            cure=Slots(total, scenario.album) if scenario.cure.defenders else None,
            empty=Slots(total, scenario.album) if scenario.defence.active else None,
            ever=np.zeros(total, dtype=np.bool_),
        )

    @property
    def bytes(self) -> int:
        """Memory the state takes."""
        return sum(s.bits.nbytes for s in (self.virus, self.cure, self.empty) if s is not None) + self.ever.nbytes

    def receive(self, ids: Ids, virus: Mask, cure: Mask) -> None:
        """One picture arrives at each of these agents: the virus, a cure, or something harmless."""
        self.virus.push(ids, virus)
        if self.cure is not None:
            self.cure.push(ids, cure)
        if self.empty is not None:
            self.empty.push(ids, np.zeros(len(ids), dtype=np.bool_))
