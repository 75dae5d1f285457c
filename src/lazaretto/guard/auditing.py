"""Audits: one item judged by debate, with reasons and precedents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazaretto.errors import InputError
from lazaretto.guard.core import Core

if TYPE_CHECKING:
    from lazaretto.gates.content.gate import ContentGate


class Auditor:
    """Holds debates with the panel of the policy's content gate, which is made when it is first asked."""

    def __init__(self, core: Core) -> None:
        """Part of the guard with this core."""
        self._core = core
        self._gate: ContentGate | None = None

    async def audit(self, text: str, image: bytes | None, description: str) -> dict[str, Any]:
        """The report of a debate; a person's decision on the same content is its outcome."""
        from lazaretto.gates.content.debate import hold_debate
        from lazaretto.gates.content.gate import make
        from lazaretto.gates.content.people import with_peoples_word
        from lazaretto.gates.content.records import Content
        from lazaretto.gates.content.report import report_data

        core = self._core
        core.require_open()
        if not text.strip() and image is None and not description.strip():
            raise InputError("text", "there is nothing to judge", "Give text, image or both")
        gate = self._gate = self._gate or make(core.policy.gates.get("content", {}))
        panel = await core.in_store_thread(gate.panel_for, core.ledger, core.policy.limits)
        content = Content("item", text, image, description)
        report = report_data(await hold_debate(panel, content, gate.settings.debate))
        return await core.in_store_thread(with_peoples_word, report, content, core.ledger, core.graph, core.policy)
