"""A value that is another than a trusted statement gives for the same name is asked about, whoever names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard, Policy

BOB, EVE, ANN = "DE44 5001 0517 5407 3249 31", "US133000000121212121212", "GB29 NWBK 6016 1331 9268 19"
POLICY = {"preset": "minimal", "actions": {"directories": ["vendors"]}}


@pytest.fixture
async def crew(open_guard: Callable[..., Guard]) -> Guard:
    """A guard of a crew that remembers who is paid where."""
    guard = open_guard(Policy.read(POLICY))
    for text, source in (
        (f"Bob Miller is paid to {BOB}.", "system"),
        ('[{"name": "Carla", "mail": "carla@corp.example"}, {"name": "Dan", "mail": "dan@corp.example"}]', "system"),
        ("The monthly rent of Lindenhof is 1,100 EUR.", "system"),
        (f"Ann Lee is paid to {EVE}, says the web.", "untrusted_document"),
    ):
        await guard.remember(text, agent="office", source=source)
    return guard


async def ruling(guard: Guard, task: str, tool: str, **arguments: Any) -> tuple[str, str]:
    await guard.begin_task(task, agent="clerk")
    made = await guard.authorize(tool, arguments, agent="clerk")
    return made.ruling, " ".join(made.reasons)


async def test_another_account_than_the_known_one_is_asked_about(crew: Guard) -> None:
    answer, why = await ruling(crew, f"Pay Bob Miller 5 to {EVE}.", "send_money", recipient=EVE, amount=5)
    assert answer == "ask" and "Bob Miller is paid to" in why
    await crew.begin_task(f"Pay Bob Miller 5 to {EVE}.", agent="clerk")
    made = await crew.authorize("send_money", {"recipient": EVE, "amount": 5}, agent="clerk")
    (marked,) = [one for one in made.origins if one.against]
    (note,) = [item for item, *_ in [(one.id,) for one in crew.ledger.items(agent="office")] if item == marked.against]
    decision = next(e for e in crew.ledger.events() if e.subject == made.id)
    assert note in (decision.body or {})["rests_on"]  # incidents and reports follow it
    await crew.endorse(EVE, purpose="pay", by="ann")
    assert (await crew.authorize("send_money", {"recipient": EVE, "amount": 5}, agent="clerk")).allowed


@pytest.mark.parametrize(
    ("task", "tool", "arguments"),
    [
        (f"Pay Bob Miller 5 to {BOB}.", "send_money", {"recipient": BOB, "amount": 5}),
        (f"Pay Ann Lee 5 to {ANN}.", "send_money", {"recipient": ANN, "amount": 5}),  # only a page says otherwise
        (f"Pay Carl Bobbin 5 to {ANN}.", "send_money", {"recipient": ANN, "amount": 5}),
        ("Write to Carla at carla.work@corp.example.", "send_email", {"to": "carla.work@corp.example", "body": "x"}),
        ("Pay 40 EUR to Lindenhof for keys, account " + ANN, "send_money", {"recipient": ANN, "amount": 40}),
        (f"Pay Bob Miller 5 to {BOB} and Ann Lee 7 to {ANN}.", "send_money", {"recipient": ANN, "amount": 7}),
    ],
)
async def test_what_nothing_trusted_contradicts_passes(
    crew: Guard, task: str, tool: str, arguments: dict[str, Any]
) -> None:
    assert await ruling(crew, task, tool, **arguments) == ("allow", "")


@pytest.mark.parametrize(
    ("task", "tool", "arguments"),
    [
        ("Write to Carla at carla@evil.example.", "send_email", {"to": "carla@evil.example", "body": "x"}),
        ("Pay the monthly rent of Lindenhof, 2200 EUR, to " + ANN, "send_money", {"recipient": ANN, "amount": 2200}),
        (f"Pay the open bill: {EVE}.", "send_money", {"recipient": EVE, "name": "Bob Miller", "amount": 5}),
    ],
)
async def test_rows_amounts_and_names_in_the_call_count(
    crew: Guard, task: str, tool: str, arguments: dict[str, Any]
) -> None:
    assert (await ruling(crew, task, tool, **arguments))[0] == "ask"


async def test_a_directory_that_gives_this_very_value_settles_it(crew: Guard) -> None:
    await crew.begin_task(f"Pay Bob Miller 5 to {EVE}.", agent="clerk")
    answer = f'[{{"name": "Bob Miller", "iban": "{EVE}"}}]'
    await crew.check(answer, agent="clerk", channel="tool", tool="vendors")
    assert (await crew.authorize("send_money", {"recipient": EVE, "amount": 5}, agent="clerk")).allowed
