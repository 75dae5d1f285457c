"""Mode lazaretto: cheap evidence first, each memory once, and sound behaviour where agents are odd."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lazaretto.agents.album import Album, note_item, picture_item
from lazaretto.agents.prompts import Persona, persona_pool
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import AdapterBackend, AgentModelBackend
from lazaretto.gates.foresight.gauge import BenignBaseline, MemoryEvidence, Scale, misnamed, repeated
from lazaretto.gates.foresight.monitor import CALLS_PER_READING, MemoryMonitor, MonitorSettings
from lazaretto.learn.calibration import MonitorCalibration, calibrate_monitor
from lazaretto.models.protocol import Completion, Request, Vectors
from lazaretto.models.scripted import HashingEmbedder

PEOPLE = persona_pool(16, 99)
DREAM = picture_item(b"a lake at the meadow", "a lake at the meadow")


@pytest.fixture
def calibration(make_community: Any) -> MonitorCalibration:
    benign = make_community(24, seed=77)
    return asyncio.run(calibrate_monitor(benign.agents, PEOPLE, AgentModelBackend(benign.agent_model), memories=100))


def watching(
    calibration: MonitorCalibration, settings: MonitorSettings | None = None, people: Any = PEOPLE
) -> MemoryMonitor:
    return MemoryMonitor(calibration.gauge, calibration.scales, people, settings)


def look(monitor: MemoryMonitor, agents: Any, agent_model: Any, community: int | None = None) -> Any:
    return asyncio.run(monitor.diagnose(agents, AgentModelBackend(agent_model), random.Random(1), community))


def carrier(community: Any, place: int = 1, slot: int = 4) -> Any:
    agent = community.agents[place]
    return replace(agent, album=agent.album.replaced(slot, community.virus))


def test_it_names_the_virus_and_nothing_else(community: Any, calibration: MonitorCalibration) -> None:
    monitor = watching(calibration)
    sick = carrier(community)
    said = look(monitor, [sick, *community.agents[2:]], community.agent_model, 100)
    assert said[0].culprits == (community.virus.key,) and said[0].infected
    assert not any(diagnosis.infected for diagnosis in said[1:])


def test_the_calibration_is_kept_with_its_data(calibration: MonitorCalibration) -> None:
    assert MonitorCalibration.from_json(calibration.to_json()) == calibration
    assert calibration.readings and calibration.gauge.plans


def test_a_memory_is_rehearsed_once_whoever_holds_it(community: Any, calibration: MonitorCalibration) -> None:
    monitor = watching(calibration)
    look(monitor, [carrier(community)], community.agent_model, 1000)
    spent = community.agent_model.spent.calls
    assert spent > 0
    said = look(monitor, [carrier(community), carrier(community, 2)], community.agent_model, 0)
    assert [d.infected for d in said] == [True, True] and community.agent_model.spent.calls == spent


def test_the_budget_is_kept_and_the_most_suspicious_go_first(community: Any, calibration: MonitorCalibration) -> None:
    monitor = watching(calibration, MonitorSettings(budget=1.0, curiosity=0.0))
    said = look(monitor, [carrier(community), *community.agents], community.agent_model, 3)
    assert community.agent_model.spent.calls <= 3 * CALLS_PER_READING
    assert said[0].infected


def test_curiosity_reads_what_nobody_suspects_yet(community: Any, calibration: MonitorCalibration) -> None:
    idle, curious = (watching(calibration, MonitorSettings(budget=40.0, curiosity=c)) for c in (0.0, 40.0))
    for monitor in (idle, curious):
        look(monitor, community.agents[:2], community.agent_model)
    read = [sum(r.collapse is not None for r in monitor.readings.values()) for monitor in (idle, curious)]
    assert read[0] < read[1] == len(curious.readings)


def test_several_viruses_do_not_hide_each_other(community: Any, calibration: MonitorCalibration) -> None:
    second = picture_item(community.virus.picture + b" hobby", "a quiet road")
    agent = replace(carrier(community), album=carrier(community).album.replaced(7, second))
    (said,) = look(watching(calibration), [agent], community.agent_model, 100)
    assert set(said.culprits) == {community.virus.key, second.key}


def test_a_virus_in_every_slot(community: Any, calibration: MonitorCalibration) -> None:
    agent = replace(community.agents[0], album=Album(10, (community.virus,) * 10))
    (said,) = look(watching(calibration), [agent], community.agent_model, 100)
    assert said.culprits == (community.virus.key,)
    assert len(agent.album.without(said.culprits)) == 0


def test_an_empty_album_and_an_album_of_copies_are_healthy(community: Any, calibration: MonitorCalibration) -> None:
    empty = replace(community.agents[0], album=Album(10))
    copies = replace(community.agents[0], album=Album(10, (community.pool[3],) * 10))
    said = look(watching(calibration), [empty, copies], community.agent_model, 1000)
    assert not said[0].infected and not said[1].infected


def test_one_persona_only_still_finds_it_and_spares_the_rest(community: Any, calibration: MonitorCalibration) -> None:
    monitor = watching(calibration, MonitorSettings(curiosity=1.0), people=PEOPLE[:1])
    said = look(monitor, [carrier(community), *community.agents[2:5]], community.agent_model, 400)
    assert said[0].culprits == (community.virus.key,)
    assert not any(diagnosis.infected for diagnosis in said[1:])


def test_a_failing_model_leaves_the_suspect_unread_until_it_answers(
    make_community: Any, community: Any, calibration: MonitorCalibration
) -> None:
    broken = make_community(4, speak=lambda request: Completion("", fault="no model"))
    monitor = watching(calibration)
    (said,) = look(monitor, [carrier(community)], broken.agent_model, 100)
    assert not said.infected and community.virus.key in said.unread
    (said,) = look(monitor, [carrier(community)], community.agent_model, 100)
    assert said.culprits == (community.virus.key,) and not said.unread


def test_a_virus_that_slept_is_accused_by_real_talk_and_convicted_by_rehearsal(
    make_community: Any, calibration: MonitorCalibration, speech: Callable[[Request], str]
) -> None:
    def sleepy(request: Request) -> str:
        """A dream says the same through everybody who has a past, and nothing odd through others."""
        message = request.messages[-1]
        return (
            "Come to the harbour." if message.images == (DREAM.picture,) and "Q: " in message.text else speech(request)
        )

    community, monitor = make_community(speak=sleepy), watching(calibration)
    agents = [replace(community.agents[0], album=community.agents[0].album.replaced(0, DREAM)), *community.agents[1:]]
    for _ in range(4):  # agents without a past: all of it sleeps, and what they hold is read
        assert not any(diagnosis.infected for diagnosis in look(monitor, agents, community.agent_model, 100))
    for _ in range(5):  # one pair that repeats itself is no evidence
        monitor.record_talk([(DREAM.key, {"ada": "The same.", "bo": "The same."})])
    assert not look(monitor, agents, community.agent_model, 100)[0].infected
    monitor.record_talk([(DREAM.key, {"cy": "The same.", "di": "The same."})])
    broken = make_community(4, speak=lambda request: Completion("", fault="no model"))
    for agent_model, budget in (
        (community.agent_model, 0),
        (broken.agent_model, 100),
    ):  # accused, and nobody could look into it
        assert DREAM.key in look(monitor, agents, agent_model, budget)[0].unread
    assert look(monitor, agents, community.agent_model, 100)[0].culprits == (DREAM.key,)


def test_a_community_that_talks_of_one_thing_only_loses_nothing(
    community: Any, calibration: MonitorCalibration
) -> None:
    monitor, favourite = watching(calibration), community.agents[0].album.items[0]
    look(monitor, community.agents, community.agent_model, 100)
    before = monitor.readings[favourite.key]
    monitor.record_talk([(favourite.key, dict.fromkeys(("ada", "bo", "cy", "di"), "A boat, a boat, a boat."))])
    assert not any(diagnosis.infected for diagnosis in look(monitor, community.agents, community.agent_model, 100))
    assert favourite.key not in monitor.heard, "it was looked into"
    assert monitor.readings[favourite.key].utterances != before.utterances


def test_what_it_knows_survives_a_restart(community: Any, calibration: MonitorCalibration) -> None:
    monitor, again = watching(calibration), watching(calibration)
    look(monitor, [carrier(community)], community.agent_model, 100)
    monitor.rehearse_first(["x"])
    monitor.record_talk([(community.pool[0].key, {"ada": "a", "bo": "b"})])
    again.restore(monitor.snapshot())
    assert (again.readings, again.heard, again.urgent) == (monitor.readings, monitor.heard, monitor.urgent)


def test_settings_and_personas_are_checked(calibration: MonitorCalibration) -> None:
    for name in ("budget", "curiosity", "measure", "album"):
        with pytest.raises(InputError, match=f"foresight.{name}: is -1"):
            MonitorSettings(**{name: -1})
    with pytest.raises(InputError):
        MonitorSettings(use_pull=False, use_collapse=False)
    with pytest.raises(InputError):
        watching(calibration, people=())


def test_talk_that_differs_by_persona_does_not_hide_what_everybody_fetches() -> None:
    scales = BenignBaseline(Scale(0.1, 0.05), Scale(0.8, 0.2), Scale(0.4, 0.2), 0.2, 12.0, 4.0, 8.0)
    paraphrasing = MemoryEvidence(pull=0.95, collapse=0.5, beside=0.9)
    assert scales.collapse(paraphrasing.collapse) == 0, "its sentences are no more alike than benign ones"
    assert scales.score(paraphrasing) >= scales.infected
    assert scales.score(MemoryEvidence(pull=0.95)) == 0, "what was not rehearsed is not guilty"
    assert scales.score(MemoryEvidence(pull=0.2, collapse=0.5, beside=0.9)) < scales.infected, "odd talk alone is none"


def test_a_memory_is_compared_with_its_title(community: Any) -> None:
    class TextsOnly:
        name, dimension = "texts only", 512

        def embed_texts(self, texts: Sequence[str]) -> Vectors:
            return HashingEmbedder(dimension=512).embed_texts(texts)

    backend = AdapterBackend([], TextsOnly())
    same, other = note_item("a red boat", "a red boat"), note_item("a red boat", "seven grey stones")
    near, far = misnamed([same, other], backend)
    assert near == pytest.approx(0.0, abs=1e-6) and far is not None and far > 0.5
    unnamed, picture = picture_item(b"a lake"), picture_item(b"a lake", "a lake")
    assert misnamed([unnamed], backend) == [None]
    assert misnamed([picture], backend) == [None], "an embedder of texts cannot place a picture"
    assert misnamed([picture, same], backend) == [None, pytest.approx(0.0, abs=1e-6)]
    assert misnamed([picture], AdapterBackend([], HashingEmbedder(dimension=512))) == [pytest.approx(1.0, abs=0.5)]

    def fussy(data: bytes) -> str:
        if data == b"broken":
            raise ValueError("not a picture")
        return data.decode()

    broken = picture_item(b"broken", "a lake")
    seeing = AdapterBackend([], HashingEmbedder(fussy, dimension=512))
    assert misnamed([broken, picture], seeing) == [None, pytest.approx(0.0, abs=1e-6)]
    placed = misnamed([unnamed, DREAM, community.virus], AgentModelBackend(community.agent_model))
    assert placed[0] is None and all(isinstance(value, float) for value in placed[1:])


def test_what_is_not_what_its_title_says_is_evidence_and_modest_viruses_fall_to_it() -> None:
    scales = BenignBaseline(
        Scale(0.1, 0.1), Scale(0.8, 0.2), Scale(0.4, 0.2), 0.2, infected=9.0, pull_alone=4.0, collapse_alone=8.0,
        misnamed=Scale(0.3, 0.05),
    )  # fmt: skip
    modest = MemoryEvidence(0.8, 0.6, 0.5, ("a",) * 4)
    assert scales.score(modest) < scales.infected
    assert scales.score(replace(modest, misnamed=0.8)) == pytest.approx(scales.score(modest) + 10.0)
    assert scales.score(replace(modest, misnamed=0.2)) == scales.score(modest), "closer than most is no evidence"
    assert scales.score(replace(modest, collapse=None, misnamed=0.8)) == 0.0, "nothing that was not rehearsed is guilty"
    assert scales.score(replace(modest, misnamed=0.8), use_pull=False) == 0.0


def test_readings_and_calibrations_from_before_titles_were_checked_still_load(calibration: MonitorCalibration) -> None:
    assert MemoryEvidence.of_row([0.5, 0.4, None, ["hm"]]) == MemoryEvidence(0.5, 0.4, None, ("hm",))
    whole = MemoryEvidence(0.5, 0.4, 0.3, ("hm",), 0.2)
    assert MemoryEvidence.of_row(whole.row()) == whole
    old = calibration.to_json()
    del old["scales"]["misnamed"]
    old["readings"] = [row[:4] for row in old["readings"]]
    loaded = MonitorCalibration.from_json(old)
    assert loaded.scales == replace(calibration.scales, misnamed=Scale(1.0, 1.0))
    assert {reading.misnamed for reading in loaded.readings} == {None}


SENTENCES = ("The harbour is open.", "Bring bread at nine.", "Nobody guards the gate.")


def doubtful(calibration: MonitorCalibration) -> MemoryMonitor:
    """A gate whose limit no rehearsal reaches, so that only a closer look can convict."""
    return MemoryMonitor(calibration.gauge, replace(calibration.scales, infected=1e6), PEOPLE)


def of_sentences(speech: Callable[[Request], str]) -> Callable[[Request], str]:
    """A virus that gives each persona one of three sentences: talk about it is not alike as a whole."""

    def speak(request: Request) -> str:
        said = speech(request)
        return SENTENCES[sum(request.messages[-1].text.encode()) % 3] if said == SENTENCES[0] else said

    return speak


def test_a_virus_of_several_sentences_is_found_by_a_closer_look(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    community = make_community(speak=of_sentences(speech))
    monitor = doubtful(calibration)
    sick, *others = look(monitor, [carrier(community), *community.agents[2:]], community.agent_model, 100)
    reading = monitor.readings[community.virus.key]
    assert sick.culprits == (community.virus.key,) and reading.repeated is not None and reading.repeated >= 0.5
    assert set(SENTENCES) <= set(reading.utterances), "what it says is known, so that chats with it can be forgotten"
    assert not any(diagnosis.infected for diagnosis in others)
    again = doubtful(calibration)
    again.restore(monitor.snapshot())
    assert look(again, [carrier(community)], community.agent_model, 0)[0].infected


def thoughts(request: Request) -> str:
    """What this persona alone would say."""
    return " ".join(f"word{byte}" for byte in hashlib.sha256(request.messages[-1].text.encode()).digest()[:6])


def test_what_everybody_fetches_and_talks_about_in_their_own_words_is_asked_about_once(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    def speak(request: Request) -> str:
        return thoughts(request) if (said := speech(request)) == SENTENCES[0] else said

    community = make_community(speak=speak)
    monitor = doubtful(calibration)
    said = look(monitor, [carrier(community)], community.agent_model, 100)
    reading = monitor.readings[community.virus.key]
    assert not said[0].infected and not said[0].unread and reading.repeated == 0.0
    closer = reading.utterances[CALLS_PER_READING:]
    assert len(set(closer)) == len(closer) == 16, "everybody of the sixteen was asked, once"
    spent = community.agent_model.spent.calls
    look(monitor, [carrier(community)], community.agent_model, 0)
    assert community.agent_model.spent.calls == spent


@pytest.mark.parametrize(("pull", "convicted"), [(1.0, True), (0.0, False)])
def test_eight_people_are_a_sample_and_do_not_acquit_what_everybody_fetches(
    make_community: Any,
    speech: Callable[[Request], str],
    calibration: MonitorCalibration,
    pull: float,
    convicted: bool,
) -> None:
    heard: list[str] = []

    def speak(request: Request) -> str:
        said = speech(request)
        if said != SENTENCES[0]:
            return said
        heard.append(said)
        return said if len(heard) > 8 else thoughts(request)

    community = make_community(speak=speak)
    reading = MemoryEvidence(pull, 3.0, 3.0, ("a", "b", "c", "d"), 0.0)
    scales = replace(calibration.scales, infected=1.2 * calibration.scales.score(reading))
    monitor = MemoryMonitor(calibration.gauge, scales, PEOPLE)
    monitor.readings[community.virus.key] = reading
    said = look(monitor, [carrier(community)], community.agent_model, 1)
    assert said[0].infected == convicted and len(heard) == (16 if convicted else 8)
    assert monitor.readings[community.virus.key].repeated == (0.5 if convicted else 0.0)
    assert community.virus.key not in said[0].unread
    heard.clear()
    few = MemoryMonitor(calibration.gauge, scales, PEOPLE[:12])
    few.readings[community.virus.key] = reading
    assert not look(few, [carrier(community)], community.agent_model, 1)[0].infected and len(heard) == 8


def test_a_model_that_fails_between_two_looks_acquits_nobody(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    heard: list[str] = []

    def speak(request: Request) -> str | Completion:
        said = speech(request)
        if said != SENTENCES[0]:
            return said
        heard.append(said)
        return Completion("", fault="no model") if 8 < len(heard) <= 12 else thoughts(request)

    community = make_community(speak=speak)
    monitor = doubtful(calibration)
    monitor.readings[community.virus.key] = MemoryEvidence(1.0, 0.0, 0.0, ("a", "b", "c", "d"), 0.0)
    (said,) = look(monitor, [carrier(community)], community.agent_model, 1)
    assert community.virus.key in said.unread and monitor.readings[community.virus.key].repeated is None
    heard[:] = heard + ["the model answers again"] * 4
    (said,) = look(monitor, [carrier(community)], community.agent_model, 1)
    assert community.virus.key not in said.unread and monitor.readings[community.virus.key].repeated == 0.0


def test_a_closer_look_that_cannot_be_had_leaves_the_memory_unread(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    community = make_community(speak=of_sentences(speech))
    monitor = doubtful(calibration)
    reading = MemoryEvidence(1.0, 0.0, 0.0, ("a", "b", "c", "d"), 0.0)
    monitor.readings[community.virus.key] = reading
    said = look(monitor, [carrier(community)], community.agent_model, 0)  # nothing may be spent
    assert not said[0].infected and community.virus.key in said[0].unread
    assert look(monitor, [carrier(community)], community.agent_model, 1)[0].infected
    few = MemoryMonitor(calibration.gauge, monitor.scales, PEOPLE[:7])
    few.readings[community.virus.key] = reading
    assert look(few, [carrier(community)], community.agent_model, 1)[0].culprits == (), "seven cannot be eight people"


def test_a_virus_that_has_everybody_add_a_catchphrase_is_found_all_the_same(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    def speak(request: Request) -> str:
        said = of_sentences(speech)(request)
        end = next(line for line in request.messages[-1].text.splitlines() if line.startswith("catchphrase: "))
        return f"{said} {end.removeprefix('catchphrase: ')}." if said in SENTENCES else said

    community = make_community(speak=speak)
    monitor = doubtful(calibration)
    sick, *others = look(monitor, [carrier(community), *community.agents[2:]], community.agent_model, 100)
    words = monitor.readings[community.virus.key].utterances
    assert len(set(words)) > len(SENTENCES), "nobody has only the three sentences to say"
    assert sick.culprits == (community.virus.key,) and not any(diagnosis.infected for diagnosis in others)


def in_their_own_words(speech: Callable[[Request], str]) -> Callable[[Request], str]:
    """A memory whose sentence everybody says among words that nobody else uses."""

    def speak(request: Request) -> str:
        said = speech(request)
        digest = hashlib.sha256(request.messages[-1].text.encode()).digest()
        before, after = (" ".join(f"word{byte}" for byte in part) for part in (digest[:3], digest[3:6]))
        return f"{before} {said} {after}" if said == SENTENCES[0] else said

    return speak


def test_a_virus_that_has_everybody_begin_and_end_in_their_own_way_is_found_all_the_same(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    community = make_community(speak=in_their_own_words(speech))
    monitor = doubtful(calibration)
    sick, *others = look(monitor, [carrier(community), *community.agents[2:]], community.agent_model, 100)
    words = monitor.readings[community.virus.key].utterances
    assert len(set(words)) == len(words), "nobody repeats anybody"
    assert sick.culprits == (community.virus.key,) and not any(diagnosis.infected for diagnosis in others)


def test_a_sign_that_everybody_quotes_stays_where_few_fetch_it(
    make_community: Any, speech: Callable[[Request], str], calibration: MonitorCalibration
) -> None:
    community = make_community(speak=in_their_own_words(speech))
    reading = MemoryEvidence(0.0, 3.0, 3.0, ("a", "b", "c", "d"), 0.0)
    scales = replace(calibration.scales, infected=1.2 * calibration.scales.score(reading))
    much = scales.pull.middle + 1.01 * scales.pull_alone * scales.pull.spread
    for pull, culprits in ((0.0, ()), (scales.suspicious, ()), (much, (community.virus.key,))):
        monitor = MemoryMonitor(calibration.gauge, scales, PEOPLE)
        monitor.readings[community.virus.key] = replace(reading, pull=pull)
        assert look(monitor, [carrier(community)], community.agent_model, 1)[0].culprits == culprits
        assert monitor.readings[community.virus.key].repeated is not None


def test_what_people_say_about_anything_is_no_likeness() -> None:
    def share(said: tuple[str, str], elsewhere: tuple[str, ...], shown: str = "") -> float:
        return repeated(said, (), shown, elsewhere)

    opened = ("Bah, the gate is open. Hum.", "Um, the gate is open. So there.")
    elsewhere = ("Bah, what would you use a key for? Hum.", "Um, what would you use a key for? So there.")
    assert share(opened, ()) == 0.0 and share(opened, elsewhere) == 1.0
    boats = ("Bah, what would you use a red boat for? Hum.", "Um, what would you use a red boat for? So there.")
    assert share(boats, elsewhere) == 0.0, "they ask this about everything"
    signed = ("Bah, three small boats are mine. Hum.", "Um, I like three small boats. So there.")
    assert share(signed, elsewhere) == 1.0 and share(signed, elsewhere, "three small boats in May") == 0.0
    with pytest.raises(ValueError, match="shorter"):
        share(opened, elsewhere[:1])


def test_words_of_the_speaker_are_no_difference_and_no_likeness() -> None:
    one, other = (Persona((("name", name), ("catchphrase", end))) for name, end in (("Ada", "hum"), ("Bo", "so there")))
    assert repeated(("The gate is open. Hum.", "The gate is open. So there.")) == 0.0, "nobody knows who spoke"
    assert repeated(("The gate is open. Hum.", "The gate is open. So there."), (one, other)) == 1.0
    assert repeated(("Ada says the gate is open.", "Bo says the gate is shut."), (one, other)) == 0.0
    assert repeated(("Yes indeed, hum.", "Yes indeed, so there."), (one, other)) == 0.0, "too little is left"
    assert repeated(("Hum.", "So there."), (one, other)) == 0.0
    told = ("Hum, a boat at the harbour.", "A boat at the harbour, so there.")
    assert repeated(told, (one, other)) == 1.0
    assert repeated(told, (one, other), "a boat at the harbour") == 0.0, "it is what they were shown"
    assert repeated(told, (one, other), "a boat at the harbour in May") == 1.0, "part of a title is no name"
    assert repeated(("The gate is open, hum.", "The gate is open, so there."), (None, other)) == 0.0


def test_repeated_counts_what_somebody_else_said_too() -> None:
    assert repeated(()) == 0.0 and repeated(("", "")) == 0.0
    assert repeated(("The gate is open.", "the gate is open!", "No.", "Yes.")) == 0.5
