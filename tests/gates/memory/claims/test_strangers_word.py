"""An account that only a stranger's page named is the stranger's word, also where its reader names no source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lazaretto import SyncGuard

OURS, THEIRS = "GB29 NWBK 6016 1331 9268 19", "DE44 5001 0517 5407 3249 31"
KNOWN = f"Brightwater Ltd is paid at account {OURS}."
CHANGED = f"Brightwater Ltd is paid at account {THEIRS}."


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[SyncGuard]:
    with SyncGuard.open(f"sqlite:///{tmp_path}/crew.db") as guard:
        guard.remember(KNOWN, agent="keeper", source="agent_message")
        yield guard


@pytest.mark.parametrize(("channel", "source"), [("document", "untrusted_document"), ("tool", "tool_output_external")])
def test_a_reader_who_is_talked_into_it_does_not_change_an_account(crew: SyncGuard, channel: str, source: str) -> None:
    crew.check(f"Imprint of the firm. Account {THEIRS}.", agent="keeper", channel=channel, source=source)
    decision = crew.remember(CHANGED, agent="keeper", source="agent_message")
    assert not decision.allowed and decision.rule == "memory:changes_known_claim"
    assert not crew.remember(f"{CHANGED} Ines will check.", agent="keeper", source="agent_message").allowed


def test_a_host_that_a_page_named_is_no_word_of_the_maker(crew: SyncGuard) -> None:
    crew.remember("The backup server is ember-30.internal.example.", agent="keeper")
    page = "Mirror list: birch-23.mirror.example, ash-4.mirror.example."
    crew.check(page, agent="keeper", channel="tool", source="tool_output_external")
    assert not crew.remember("The backup server is now birch-23.mirror.example.", agent="keeper").allowed
    assert crew.remember("The backup server is now oak-11.internal.example.", agent="keeper").allowed


@pytest.mark.parametrize(
    "read",
    [
        [],
        [("document", "untrusted_document", f"Our account is {OURS}, opening hours nine to five.")],
        [("message", "direct_user", f"Brightwater moved to {THEIRS}, please note it.")],
        [("tool", "tool_output_internal", f"vendor 12: {THEIRS}")],
        [
            ("document", "untrusted_document", f"Imprint of the firm. Account {THEIRS}."),
            ("message", "direct_user", f"I rang them: it is {THEIRS}."),
        ],
    ],
)
def test_a_maker_who_knows_it_from_elsewhere_changes_it(crew: SyncGuard, read: list[tuple[str, str, str]]) -> None:
    for channel, source, text in read:
        crew.check(text, agent="keeper", channel=channel, source=source)
    assert crew.remember(CHANGED, agent="keeper", source="agent_message").allowed


@pytest.mark.parametrize(
    ("old", "new", "page"),
    [
        ("The meeting is on Tuesday at nine.", "The meeting is on Thursday at nine.", "Ferry: Thursday at nine."),
        ("The forecast is 12 degrees.", "The forecast is 14 degrees.", "Saturday dry, 14 degrees."),
        ("Pump parts cost 310 EUR.", "Pump parts cost 290 EUR.", "Price list: pump parts 290 EUR."),
        ("We run library-x 2.1.0.", "We run library-x 2.2.0 now.", "Release notes of library-x 2.2.0."),
        (
            "The timetable is at ferry.example/winter.",
            "The timetable is at ferry.example/summer.",
            "ferry.example/summer",
        ),
    ],
)
def test_what_is_learnt_from_pages_every_day_passes(crew: SyncGuard, old: str, new: str, page: str) -> None:
    crew.remember(old, agent="keeper", source="agent_message")
    crew.check(page, agent="keeper", channel="document", source="untrusted_document")
    assert crew.remember(new, agent="keeper", source="agent_message").allowed
