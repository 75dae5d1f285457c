"""Foresight: an agent's turn is rehearsed before it speaks, and memories that would speak through it are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lazaretto.errors import InputError
from lazaretto.guard.core import Core
from lazaretto.guard.people_calls import IncidentBook
from lazaretto.guard.repairs import Repairs
from lazaretto.types import BeforeRound, BeforeTurn

if TYPE_CHECKING:
    from lazaretto.agents.prompts import Persona
    from lazaretto.gates.foresight.adapter import ForesightAgent
    from lazaretto.gates.foresight.foresight import Foresight
    from lazaretto.learn.calibration import Calibration
    from lazaretto.models.protocol import ChatModel, TextEmbedder


class Rehearsals:
    """``guard.foresight``: agents are rehearsed before they speak."""

    def __init__(self, core: Core, repairs: Repairs, incidents: IncidentBook) -> None:
        """Part of the guard with this core; it removes by ``repairs`` and gives ``incidents`` the screened agents."""
        self._core, self._repairs, self._incidents = core, repairs, incidents
        self.rehearsal: Foresight | None = None
        """The setting for rehearsals; the policy's ``[gates.foresight]`` or ``rehearse_with`` sets it."""
        if table := core.policy.gates.get("foresight"):
            from lazaretto.learn.calibration import configured

            self.rehearsal = configured(core.ledger, table, core.in_store_thread, core.file)

    def rehearse_with(
        self,
        calibration: Calibration | str | Path,
        embedder: TextEmbedder,
        personas: Sequence[Persona] | None = None,
        *,
        chat: ChatModel | None = None,
    ) -> None:
        """Set up ``before_turn``: a calibration (or its file), an embedder, and the personas of rehearsals.

        With ``chat``, agents may be given by name: they are rehearsed with that model, on the ledger's record of
        them. Mode, budget and evidence are those of the policy's table ``[gates.foresight]``.
        """
        from lazaretto.learn.calibration import set_up

        table = self._core.policy.gates.get("foresight", {})
        self.rehearsal = set_up(
            self._core.ledger, table, calibration, embedder, self._core.in_store_thread, personas, chat
        )

    async def before_turn(
        self, agent: ForesightAgent | str, *, others: Sequence[ForesightAgent | str] = ()
    ) -> BeforeTurn:
        """Rehearse the agent's turn; remove memories that would speak through it, here and in every other memory.

        The agent's item ids must be known to the ledger. ``others`` are agents within reach that do not speak now:
        they get the list of items to forget in the same call (``before_round``), else when their own turn comes.
        """
        done = await self.before_round([agent], others=others)
        return replace(done.turns[0], receipts=done.receipts, calls=done.calls)

    async def before_round(
        self, speaking: Sequence[ForesightAgent | str], *, others: Sequence[ForesightAgent | str] = ()
    ) -> BeforeRound:
        """``before_turn`` for several agents at once, which share budget and batches."""
        self._core.require_open()
        if self.rehearsal is None:
            fix = "Name a calibration in [gates.foresight], or call guard.foresight.rehearse_with first"
            raise InputError("foresight", "is not set up", fix)
        remove = None if self._core.policy.mode == "observe" else self._repairs.repair_unless_hidden
        done = await self.rehearsal.before_round(speaking, others, remove)
        read = {turn.agent for turn in done.turns[: len(speaking)] if not turn.unread}
        await self._incidents.note_screened([agent for agent in await self._incidents.contacts() if agent in read])
        return done
