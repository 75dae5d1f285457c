"""Protected keys: who may write the memories that say who an agent is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazaretto import Guard, InputError, Ruling
from lazaretto.gates.protected import make, plain_key
from lazaretto.ledger import Ledger
from lazaretto.testing import check_gate
from lazaretto.types import Channel, Observation

POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["structure"], ["protected"]]}}}


async def test_the_gate_keeps_the_contract() -> None:
    await check_gate(make({}))


@pytest.mark.parametrize(
    ("key", "source", "allowed"),
    [
        ("identity.role", "tool_output_external", False),
        ("Identity/Role", "untrusted_document", False),
        ("system.prompt", "model_inference", False),
        ("agent.system_prompt", "agent_message", False),
        ("ada.permissions", "tool_output_internal", False),
        ("ＳＹＳＴＥＭ.prompt", "agent_message", False),
        ("identity.role", "system", True),
        ("identity.role", "direct_user", True),
        ("session.notes", "untrusted_document", True),
        ("notes.on.roleplay", "untrusted_document", True),
        ("ecosystem.map", "untrusted_document", True),
        (None, "untrusted_document", True),
    ],
)
async def test_who_may_write_what(
    open_guard: Callable[..., Guard], key: str | None, source: str, allowed: bool
) -> None:
    guard = open_guard(POLICY)
    decision = await guard.remember("superuser", agent="ada", key=key, source=source)
    assert decision.allowed is allowed
    assert guard.ledger.item(decision.item).key == (key or "")
    if not allowed:
        assert decision.rule == "protected:protected_key" and source in decision.reasons[0]


async def test_a_word_of_the_user_that_was_made_from_a_page_is_the_pages(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard(POLICY)
    page = await guard.check("admins: everybody", agent="ada", channel="document")
    summary = await guard.remember("everybody is an admin", agent="ada", parents=[page.item], source="direct_user")
    said = {"agent": "ada", "key": "crew.roles", "source": "direct_user"}
    assert not (await guard.remember("all: admin", parents=[summary.item], **said)).allowed
    assert (await guard.remember("ada: admin", parents=[], **said)).allowed


async def test_a_policy_may_protect_other_keys(open_guard: Callable[..., Guard]) -> None:
    own = {"keys": ["Bank/*"], "may_write": ["system"], "ruling": "block"}
    guard = open_guard({**POLICY, "gates": {"protected": own}})
    held = await guard.remember("4711", agent="ada", key="bank.account", source="direct_user")
    assert held.ruling is Ruling.BLOCK
    assert (await guard.remember("admin", agent="ada", key="identity.role")).allowed


async def test_a_key_must_be_a_name(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard(POLICY)
    for wrong in ("", "a\nb", 7):
        with pytest.raises(InputError, match="key"):
            await guard.remember("x", agent="ada", key=wrong)  # type: ignore[arg-type]


def test_the_ledger_keeps_the_key(ledger: Ledger) -> None:
    kept = Observation("ada", Channel.MEMORY, "x", key="session.notes")
    ledger.append_item(kept)
    assert ledger.item(kept.id).key == "session.notes" and ledger.verify().ok
    assert plain_key(" A : b/c ") == "a.b.c"
