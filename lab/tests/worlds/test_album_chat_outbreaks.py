"""Outbreaks of other kinds: one that comes later, one that mutates, two at once; the plain one is as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import PLAN_TASK
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel
from lazaretto_lab.studies.outbreak.runner import _changes
from lazaretto_lab.studies.outbreak.settings import read_settings
from lazaretto_lab.worlds.album_chat.measures import measure_spread
from lazaretto_lab.worlds.album_chat.scenario import Scenario, Virus
from lazaretto_lab.worlds.album_chat.trace import MUTATION, OUTBREAK
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome

POOL = tuple(picture_item(f"tree{i} field{i}".encode(), f"tree {i}") for i in range(40))
VIRUSES = tuple(Virus(picture_item(f"red boat {n}".encode(), "boat"), f"Harbour {n} is open.") for n in range(3))


def world(viruses: tuple[Virus, ...], folder: Path | None = None, **settings: object) -> AlbumChat:
    said = {virus.album_item.picture: virus.target for virus in viruses}

    def speak(request: Request) -> str:
        message = request.messages[-1]
        return "a red boat" if PLAN_TASK in message.text else said.get(message.images[0], "a tree")

    eyes = HashingEmbedder(lambda data: data.decode(), 512)
    scenario = Scenario(**{"agents": 12, "rounds": 12, "album": 4, "infected": 2, "seed": 3, **settings})  # type: ignore[arg-type]
    return AlbumChat(scenario, AgentModel(ScriptedChatModel(speak), EmbeddingCache(eyes)), POOL, viruses, folder=folder)


def run(viruses: tuple[Virus, ...], **settings: object) -> Outcome:
    return asyncio.run(world(viruses, **settings).run())


def albums(outcome: Outcome) -> list[tuple[str, ...]]:
    return [tuple(k.key for k in agent.album) for agent in outcome.agents]


@pytest.mark.parametrize("placement", ["first", "random"])
def test_a_late_virus_infects_nobody_before_and_everybody_after(placement: str, tmp_path: Path) -> None:
    late = run(VIRUSES[:1], arrives=3, placement=placement)
    spread = measure_spread(late)
    assert spread.cumulative[:3] == (0, 0, 0) and spread.cumulative[-1] > 50
    came = [change for change in late.rounds[3].changes if change.reason == OUTBREAK]
    assert len(came) == 2 and {change.added for change in came} == {(VIRUSES[0].album_item.key,)}
    assert _changes(late, [VIRUSES[0].album_item.key]) == {"virus_removed": 0, "benign_removed": 0, "added": 0}
    # what came before is the benign world, and a run that stops when it has come goes on as if it had not
    benign = run(VIRUSES[:1], infected=0)
    assert [t.turns for t in late.rounds[:3]] == [t.turns for t in benign.rounds[:3]]
    for rounds in (3, 4):
        folder = tmp_path / str(rounds)
        half = world(VIRUSES[:1], folder, arrives=3, placement=placement)
        for _ in range(rounds):
            asyncio.run(half.step())
        whole = asyncio.run(world(VIRUSES[:1], folder, arrives=3, placement=placement).run())
        assert albums(whole) == albums(late)


def test_a_mutating_virus_is_another_after_each_hop_and_counts_all_the_same() -> None:
    outcome = run(VIRUSES, infected=1, mutates=True)
    keys = [virus.album_item.key for virus in VIRUSES]
    handed = [turn for trace in outcome.rounds for turn in trace.turns if turn.virus >= 0]
    hops = [change for trace in outcome.rounds for change in trace.changes]
    assert len(hops) == len(handed) > 5 and {change.reason for change in hops} == {MUTATION}
    assert all(keys.index(hop.added[0]) == (keys.index(hop.removed[0]) + 1) % 3 for hop in hops)
    assert {turn.virus for turn in handed} == {0, 1, 2}  # all three sentences are said, from one picture at first
    assert measure_spread(outcome, keys).cumulative[-1] > 50
    assert _changes(outcome, keys)["virus_removed"] == 0
    assert {turn.virus for t in run(VIRUSES, infected=1).rounds for turn in t.turns} <= {-1, 0}


def test_two_at_once_are_two_viruses() -> None:
    outcome = run(VIRUSES[:2], infected=4)
    begun = [agent.album for agent in world(VIRUSES[:2], infected=4).agents]
    assert [sum(v.album_item.key in album for album in begun) for v in VIRUSES[:2]] == [2, 2]
    said = {turn.question for trace in outcome.rounds for turn in trace.turns if turn.asked_symptom}
    assert said == {virus.target for virus in VIRUSES[:2]}


def test_plain_outbreaks_keep_their_names_and_wrong_settings_are_said() -> None:
    plain = Scenario(agents=10, rounds=6, album=4, infected=2, seed=3)
    model = AgentModel(ScriptedChatModel(lambda _: "tree"), EmbeddingCache(HashingEmbedder(lambda data: data.decode())))
    pool = tuple(picture_item(f"tree {i}".encode(), f"tree {i}") for i in range(40))
    named = AlbumChat(plain, model, pool, [Virus(picture_item(b"boat", "boat"), "x")]).fingerprint
    assert named == "61adb8f13edd2baa7313dd4c35762079918f9b034e6b3eecf54951794876a5de"
    assert Scenario(infected=4, arrives=2, mutates=True).benign() == Scenario(infected=0)
    with pytest.raises(InputError, match="arrives"):
        Scenario(rounds=8, arrives=8)
    with pytest.raises(InputError, match="two or more"):
        world(VIRUSES[:1], mutates=True)
    with Ledger.open() as ledger, pytest.raises(InputError, match="ledger"):
        AlbumChat(Scenario(agents=4, album=2, infected=1, mutates=True), model, pool, VIRUSES, ledger=ledger)
    for wrong in ({"mutates": True}, {"arrives": 3, "defence": "guard"}, {"arrivals": "open"}, {"arrivals": 1.2}):
        with pytest.raises(InputError, match="settings"):
            read_settings(wrong)
