"""Mode lazaretto: cheap evidence first, each memory once, and sound behaviour where agents are odd."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lazaretto.agents.album import Album, note_keepsake, picture_keepsake
from lazaretto.agents.persona import persona_pool
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import AdapterStage
from lazaretto.gates.foresight.backend import MindStage
from lazaretto.gates.foresight.gauge import Reading, Scale, Scales, misnamed
from lazaretto.gates.foresight.monitor import CALLS_PER_READING, Watch, WatchSettings
from lazaretto.learn.calibration import WatchCalibration, calibrate_watch
from lazaretto.models.protocol import Completion, Request, Vectors
from lazaretto.models.scripted import HashingEmbedder

PEOPLE = persona_pool(16, 99)
DREAM = picture_keepsake(b"a lake at the meadow", "a lake at the meadow")


@pytest.fixture
def calibration(make_community: Any) -> WatchCalibration:
    benign = make_community(24, seed=77)
    return asyncio.run(calibrate_watch(benign.agents, PEOPLE, MindStage(benign.mind), memories=100))


def watching(calibration: WatchCalibration, settings: WatchSettings | None = None, people: Any = PEOPLE) -> Watch:
    return Watch(calibration.gauge, calibration.scales, people, settings)


def look(watch: Watch, agents: Any, mind: Any, community: int | None = None) -> Any:
    return asyncio.run(watch.diagnose(agents, MindStage(mind), random.Random(1), community))


def carrier(community: Any, place: int = 1, slot: int = 4) -> Any:
    agent = community.agents[place]
    return replace(agent, album=agent.album.put(slot, community.virus))


def test_it_names_the_virus_and_nothing_else(community: Any, calibration: WatchCalibration) -> None:
    watch = watching(calibration)
    sick = carrier(community)
    said = look(watch, [sick, *community.agents[2:]], community.mind, 100)
    assert said[0].culprits == (community.virus.key,) and said[0].infected
    assert not any(diagnosis.infected for diagnosis in said[1:])


def test_the_calibration_is_kept_with_its_data(calibration: WatchCalibration) -> None:
    assert WatchCalibration.from_json(calibration.to_json()) == calibration
    assert calibration.readings and calibration.gauge.plans


def test_a_memory_is_rehearsed_once_whoever_holds_it(community: Any, calibration: WatchCalibration) -> None:
    watch = watching(calibration)
    look(watch, [carrier(community)], community.mind, 1000)
    spent = community.mind.spent.calls
    assert spent > 0
    said = look(watch, [carrier(community), carrier(community, 2)], community.mind, 0)
    assert [d.infected for d in said] == [True, True] and community.mind.spent.calls == spent


def test_the_budget_is_kept_and_the_most_suspicious_go_first(community: Any, calibration: WatchCalibration) -> None:
    watch = watching(calibration, WatchSettings(budget=1.0, curiosity=0.0))
    said = look(watch, [carrier(community), *community.agents], community.mind, 3)
    assert community.mind.spent.calls <= 3 * CALLS_PER_READING
    assert said[0].infected


def test_curiosity_reads_what_nobody_suspects_yet(community: Any, calibration: WatchCalibration) -> None:
    idle, curious = (watching(calibration, WatchSettings(budget=40.0, curiosity=c)) for c in (0.0, 40.0))
    for watch in (idle, curious):
        look(watch, community.agents[:2], community.mind)
    read = [sum(r.collapse is not None for r in watch.readings.values()) for watch in (idle, curious)]
    assert read[0] < read[1] == len(curious.readings)


def test_several_viruses_do_not_hide_each_other(community: Any, calibration: WatchCalibration) -> None:
    second = picture_keepsake(community.virus.picture + b" hobby", "a quiet road")
    agent = replace(carrier(community), album=carrier(community).album.put(7, second))
    (said,) = look(watching(calibration), [agent], community.mind, 100)
    assert set(said.culprits) == {community.virus.key, second.key}


def test_a_virus_in_every_slot(community: Any, calibration: WatchCalibration) -> None:
    agent = replace(community.agents[0], album=Album(10, (community.virus,) * 10))
    (said,) = look(watching(calibration), [agent], community.mind, 100)
    assert said.culprits == (community.virus.key,)
    assert len(agent.album.without(said.culprits)) == 0


def test_an_empty_album_and_an_album_of_copies_are_healthy(community: Any, calibration: WatchCalibration) -> None:
    empty = replace(community.agents[0], album=Album(10))
    copies = replace(community.agents[0], album=Album(10, (community.pool[3],) * 10))
    said = look(watching(calibration), [empty, copies], community.mind, 1000)
    assert not said[0].infected and not said[1].infected


def test_one_persona_only_still_finds_it_and_spares_the_rest(community: Any, calibration: WatchCalibration) -> None:
    watch = watching(calibration, WatchSettings(curiosity=1.0), people=PEOPLE[:1])
    said = look(watch, [carrier(community), *community.agents[2:5]], community.mind, 400)
    assert said[0].culprits == (community.virus.key,)
    assert not any(diagnosis.infected for diagnosis in said[1:])


def test_a_failing_model_leaves_the_suspect_unread_until_it_answers(
    make_community: Any, community: Any, calibration: WatchCalibration
) -> None:
    broken = make_community(4, speak=lambda request: Completion("", fault="no model"))
    watch = watching(calibration)
    (said,) = look(watch, [carrier(community)], broken.mind, 100)
    assert not said.infected and community.virus.key in said.unread
    (said,) = look(watch, [carrier(community)], community.mind, 100)
    assert said.culprits == (community.virus.key,) and not said.unread


def test_a_virus_that_slept_is_accused_by_real_talk_and_convicted_by_rehearsal(
    make_community: Any, calibration: WatchCalibration, speech: Callable[[Request], str]
) -> None:
    def sleepy(request: Request) -> str:
        """A dream says the same through everybody who has a past, and nothing odd through others."""
        message = request.messages[-1]
        return (
            "Come to the harbour." if message.images == (DREAM.picture,) and "Q: " in message.text else speech(request)
        )

    community, watch = make_community(speak=sleepy), watching(calibration)
    agents = [replace(community.agents[0], album=community.agents[0].album.put(0, DREAM)), *community.agents[1:]]
    for _ in range(4):  # agents without a past: all of it sleeps, and what they hold is read
        assert not any(diagnosis.infected for diagnosis in look(watch, agents, community.mind, 100))
    for _ in range(5):  # one pair that repeats itself is no evidence
        watch.listen([(DREAM, {"ada": "The same.", "bo": "The same."})])
    assert not look(watch, agents, community.mind, 100)[0].infected
    watch.listen([(DREAM, {"cy": "The same.", "di": "The same."})])
    broken = make_community(4, speak=lambda request: Completion("", fault="no model"))
    for mind, budget in ((community.mind, 0), (broken.mind, 100)):  # accused, and nobody could look into it
        assert DREAM.key in look(watch, agents, mind, budget)[0].unread
    assert look(watch, agents, community.mind, 100)[0].culprits == (DREAM.key,)


def test_a_community_that_talks_of_one_thing_only_loses_nothing(community: Any, calibration: WatchCalibration) -> None:
    watch, favourite = watching(calibration), community.agents[0].album.keepsakes[0]
    look(watch, community.agents, community.mind, 100)
    before = watch.readings[favourite.key]
    watch.listen([(favourite, dict.fromkeys(("ada", "bo", "cy", "di"), "A boat, a boat, a boat."))])
    assert not any(diagnosis.infected for diagnosis in look(watch, community.agents, community.mind, 100))
    assert favourite.key not in watch.heard, "it was looked into"
    assert watch.readings[favourite.key].utterances != before.utterances


def test_what_it_knows_survives_a_restart(community: Any, calibration: WatchCalibration) -> None:
    watch, again = watching(calibration), watching(calibration)
    look(watch, [carrier(community)], community.mind, 100)
    watch.expect(["x"])
    watch.listen([(community.pool[0], {"ada": "a", "bo": "b"})])
    again.restore(watch.snapshot())
    assert (again.readings, again.heard, again.urgent) == (watch.readings, watch.heard, watch.urgent)


def test_settings_and_personas_are_checked(calibration: WatchCalibration) -> None:
    with pytest.raises(InputError):
        WatchSettings(budget=-1)
    with pytest.raises(InputError):
        WatchSettings(use_pull=False, use_collapse=False)
    with pytest.raises(InputError):
        watching(calibration, people=())


def test_talk_that_differs_by_persona_does_not_hide_what_everybody_fetches() -> None:
    scales = Scales(Scale(0.1, 0.05), Scale(0.8, 0.2), Scale(0.4, 0.2), 0.2, 12.0, 4.0, 8.0)
    paraphrasing = Reading(pull=0.95, collapse=0.5, beside=0.9)
    assert scales.collapse(paraphrasing.collapse) == 0, "its sentences are no more alike than benign ones"
    assert scales.score(paraphrasing) >= scales.infected
    assert scales.score(Reading(pull=0.95)) == 0, "what was not rehearsed is not guilty"
    assert scales.score(Reading(pull=0.2, collapse=0.5, beside=0.9)) < scales.infected, "odd talk alone is none"


def test_a_memory_is_compared_with_its_title(community: Any) -> None:
    class TextsOnly:
        name, dimension = "texts only", 512

        def embed_texts(self, texts: Sequence[str]) -> Vectors:
            return HashingEmbedder(dimension=512).embed_texts(texts)

    stage = AdapterStage([], TextsOnly())
    same, other = note_keepsake("a red boat", "a red boat"), note_keepsake("a red boat", "seven grey stones")
    near, far = misnamed([same, other], stage)
    assert near == pytest.approx(0.0, abs=1e-6) and far is not None and far > 0.5
    unnamed, picture = picture_keepsake(b"a lake"), picture_keepsake(b"a lake", "a lake")
    assert misnamed([unnamed], stage) == [None]
    assert misnamed([picture], stage) == [None], "an embedder of texts cannot place a picture"
    assert misnamed([picture, same], stage) == [None, pytest.approx(0.0, abs=1e-6)]
    assert misnamed([picture], AdapterStage([], HashingEmbedder(dimension=512))) == [pytest.approx(1.0, abs=0.5)]

    def fussy(data: bytes) -> str:
        if data == b"broken":
            raise ValueError("not a picture")
        return data.decode()

    broken = picture_keepsake(b"broken", "a lake")
    seeing = AdapterStage([], HashingEmbedder(fussy, dimension=512))
    assert misnamed([broken, picture], seeing) == [None, pytest.approx(0.0, abs=1e-6)]
    placed = misnamed([unnamed, DREAM, community.virus], MindStage(community.mind))
    assert placed[0] is None and all(isinstance(value, float) for value in placed[1:])


def test_what_is_not_what_its_title_says_is_evidence_and_modest_viruses_fall_to_it() -> None:
    scales = Scales(
        Scale(0.1, 0.1), Scale(0.8, 0.2), Scale(0.4, 0.2), 0.2, infected=9.0, pull_alone=4.0, collapse_alone=8.0,
        misnamed=Scale(0.3, 0.05),
    )  # fmt: skip
    modest = Reading(0.8, 0.6, 0.5, ("a",) * 4)
    assert scales.score(modest) < scales.infected
    assert scales.score(replace(modest, misnamed=0.8)) == pytest.approx(scales.score(modest) + 10.0)
    assert scales.score(replace(modest, misnamed=0.2)) == scales.score(modest), "closer than most is no evidence"
    assert scales.score(replace(modest, collapse=None, misnamed=0.8)) == 0.0, "nothing that was not rehearsed is guilty"
    assert scales.score(replace(modest, misnamed=0.8), use_pull=False) == 0.0


def test_readings_and_calibrations_from_before_titles_were_checked_still_load(calibration: WatchCalibration) -> None:
    assert Reading.of_row([0.5, 0.4, None, ["hm"]]) == Reading(0.5, 0.4, None, ("hm",))
    whole = Reading(0.5, 0.4, 0.3, ("hm",), 0.2)
    assert Reading.of_row(whole.row()) == whole
    old = calibration.to_json()
    del old["scales"]["misnamed"]
    old["readings"] = [row[:4] for row in old["readings"]]
    loaded = WatchCalibration.from_json(old)
    assert loaded.scales == replace(calibration.scales, misnamed=Scale(1.0, 1.0))
    assert {reading.misnamed for reading in loaded.readings} == {None}
