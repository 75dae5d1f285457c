"""A policy that only watched, and then holds: strangers and honest work from before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.cases import Case, Cases
from tests.guard.core_world import OBSERVE, POISON, POLICY, TEA, O, crew, in_use, script, visible

from lazaretto import Guard
from lazaretto.errors import InputError, RepairRefused
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation, Ruling

CASES = Cases()
GATES = {"preset": "minimal"}


# a policy that only watches


@CASES.attack
async def a_memory_that_was_only_watched_is_used_when_the_policy_holds(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
        assert made.would is Ruling.QUARANTINE
    async with crew(folder) as guard:
        return not await in_use(guard, O)


@CASES.attack
async def what_came_from_a_watched_memory_is_used_when_the_policy_holds(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
        note = await guard.remember("Eve gets the stock list.", agent="ada", parents=[made.item])
    async with crew(folder) as guard:
        await in_use(guard, O)
        return not visible(guard, note.item)


@CASES.attack
async def a_search_finds_a_watched_memory_when_the_policy_holds(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.remember(POISON, agent="eve")
    async with crew(folder) as guard:
        return not await guard.recall("previous instructions stock list", agent="reader")


@CASES.attack
async def a_note_made_today_from_a_watched_memory(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
    async with crew(folder) as guard:
        return not (await guard.remember("Eve gets the stock list.", agent="ada", parents=[made.item])).allowed


@CASES.attack
async def a_watched_message_is_sent_again_when_the_policy_holds(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.exchange("Crates: " + POISON, sender="eve", receiver="ada")
    async with crew(folder) as guard:
        return not (await guard.exchange("Crates: " + POISON, sender="eve", receiver="ada")).allowed


@CASES.attack
async def a_watched_write_is_repeated_by_its_name_when_the_policy_holds(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.remember(POISON, agent="eve", once="n1")
    async with crew(folder) as guard:
        return not (await guard.remember(POISON, agent="eve", once="n1")).allowed


@CASES.honest
async def a_watched_memory_that_a_person_called_benign_stays(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
        await guard.label(made.item, "benign", by="dan")
    async with crew(folder) as guard:
        return await in_use(guard, O)


@CASES.honest
async def a_copy_of_a_watched_memory_that_a_person_called_benign_stays(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
        again = await guard.remember(POISON, agent="bo")
        await guard.label(made.item, "benign", by="dan")
    async with crew(folder) as guard:
        await in_use(guard, O)
        return visible(guard, again.item)


@CASES.honest
async def memories_that_nothing_was_held_against_stay(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.remember(TEA, agent="eve")
    async with crew(folder) as guard:
        return await in_use(guard, TEA)


@CASES.honest
async def a_policy_that_watches_holds_nothing(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.remember(POISON, agent="eve")
        await guard.recheck()
        return await in_use(guard, O)


@CASES.honest
async def a_policy_that_watches_again_shows_nothing_that_was_held(folder: Path) -> bool:
    async with crew(folder) as guard:
        made = await guard.remember(POISON, agent="eve")
    async with crew(folder, OBSERVE) as guard:
        return not visible(guard, made.item)


@CASES.honest
async def a_watched_memory_that_todays_gates_let_pass_stays(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.remember(POISON, agent="eve")
    async with Guard.open(f"sqlite:///{folder}/crew.db", {**GATES, "channels": {}}) as guard:
        return await in_use(guard, O)


@CASES.attack
async def a_warning_counts_as_a_persons_word(folder: Path) -> bool:
    gate = ScriptedGate(lambda seen: Ruling.WARN if "warn" in seen.text else script(seen))
    async with Guard.open(f"sqlite:///{folder}/crew.db", POLICY, gates={"scripted": gate}) as guard:
        await guard.remember(f"warn: {TEA}", agent="eve")
        again = await guard.remember(f"warn: {TEA} {O}", agent="eve")
        return again.ruling is Ruling.WARN and not again.settled


@CASES.honest
async def a_repair_that_has_nothing_to_do_says_so(folder: Path) -> bool:
    async with crew(folder) as guard:
        made = await guard.remember(TEA, agent="ada")
        with pytest.raises((RepairRefused, InputError)):
            await guard.release(made.item, by="dan")
        return visible(guard, made.item)


@CASES.attack
async def a_watched_message_is_repeated_by_its_name_when_the_policy_holds(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        await guard.exchange(POISON, sender="eve", receiver="ada", once="n1")
    async with crew(folder) as guard:
        return not (await guard.exchange(POISON, sender="eve", receiver="ada", once="n1")).allowed


@CASES.attack
async def a_recheck_finds_what_was_only_watched(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
    async with crew(folder) as guard:
        await guard.recheck()
        return not visible(guard, made.item)


@CASES.honest
async def a_message_that_was_watched_and_fine_is_repeated_by_its_name(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        first = await guard.exchange(TEA, sender="bo", receiver="ada", once="n1")
    async with crew(folder) as guard:
        again = await guard.exchange(TEA, sender="bo", receiver="ada", once="n1")
        return again.allowed and again.item == first.item


@CASES.honest
async def a_watched_message_that_a_person_called_benign_is_repeated_by_its_name(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        first = await guard.exchange(POISON, sender="eve", receiver="ada", once="n1")
        await guard.label(first.item, "benign", by="dan")
    async with crew(folder) as guard:
        return (await guard.exchange(POISON, sender="eve", receiver="ada", once="n1")).allowed


@CASES.honest
async def a_watched_memory_that_was_released_when_the_policy_held_it_stays(folder: Path) -> bool:
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")
    async with crew(folder) as guard:
        await in_use(guard, O)
        await guard.release(made.item, by="dan")
        return await in_use(guard, O) and await in_use(guard, O)


@CASES.honest
async def a_watched_false_alarm_is_judged_once_and_stays(folder: Path) -> bool:
    asked = list[str]()
    async with crew(folder, OBSERVE) as guard:
        made = await guard.remember(POISON, agent="eve")

    def allow(seen: Observation) -> Ruling:
        asked.append(seen.id)
        return Ruling.ALLOW

    calm = ScriptedGate(allow)
    policy = {"preset": "minimal", "channels": {"memory": {"stages": [["scripted"]]}}}
    async with Guard.open(f"sqlite:///{folder}/crew.db", policy, gates={"scripted": calm}) as guard:
        found = [await in_use(guard, O) for _ in range(3)]
    return all(found) and asked == [made.item]


@pytest.mark.parametrize("case", CASES.table())
async def test_watching(case: Case, tmp_path: Path) -> None:
    assert await case(tmp_path)
