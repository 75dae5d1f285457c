"""The rules of the epidemic in plain Python, one agent at a time: what the fast simulation must agree with.

Pairs come from ``random`` exactly as in the reference program, unless others are given. Chances that are neither 0
nor 1 are decided by ``draw(stream, round, index)``.
"""

import random

HARMLESS, VIRUS, CURE, GAP = "harmless", "virus", "cure", "gap"


def reference_pairs(agents):
    """One round of pairs; ``random`` was seeded once, before the first."""
    left = list(range(agents))
    pairs = []
    while len(left) > 1:
        questioner = left.pop(random.randrange(0, len(left)))
        answerer = left.pop(random.randrange(0, len(left)))
        pairs.append((questioner, answerer))
    return pairs


def transcribe(s, seed, pairs_of=None, draw=None):
    """Counts per round: current, cumulative, carrying, and the rest under the names of the simulation."""

    def happens(chance, stream, round_, index):
        return chance >= 1.0 or (chance > 0.0 and draw(stream, round_, index) < chance)

    random.seed(seed)
    albums = [[HARMLESS] * s.album for _ in range(s.agents)]
    for agent in range(s.infected):
        albums[agent].append(VIRUS)
        albums[agent].pop(0)
    defenders = range(s.agents - s.cure.defenders, s.agents)
    immune = range(defenders.start - s.immune, defenders.start)
    ever = set()
    history = []
    for round_ in range(s.rounds):
        seen = dict.fromkeys(("flagged", "false_alarms", "virus_removed", "benign_removed"), 0)
        if s.defence.active:
            defend(s, albums, round_, draw, seen)
        carried = [agent for agent in range(s.agents) if VIRUS in albums[agent]] if s.gamma > 0 else []
        pairs = reference_pairs(s.agents) if pairs_of is None else pairs_of(round_)
        symptomatic, arrivals, cures = [], [], []
        carrying_questioners = 0
        for index, (questioner, answerer) in enumerate(pairs):
            album = albums[questioner]
            carrying_questioners += VIRUS in album
            picture = None if all(slot == GAP for slot in album) else HARMLESS
            if CURE in album and happens(s.cure.beta, "CURE", round_, index):
                picture = CURE
            elif VIRUS in album and happens(s.beta, "RETRIEVE", round_, index):
                picture = VIRUS
            if picture == VIRUS:
                asked = happens(s.alpha, "ASK", round_, index)
                answered = answerer not in immune and happens(s.alpha, "ANSWER", round_, index)
                if asked:
                    symptomatic.append(questioner)
                if answered:
                    symptomatic.append(answerer)
                for agent, stream in ((questioner, "FIND_ASKING"), (answerer, "FIND_ANSWERING")):
                    noticed = (asked or answered) and agent in defenders
                    if noticed and happens(s.cure.detection, stream, round_, index):
                        cures.append(agent)
            arrivals.append((answerer, picture))
        for answerer, picture in arrivals:
            if picture is not None and not (picture == VIRUS and answerer in immune):
                albums[answerer].append(picture)
                albums[answerer].pop(0)
        for agent in cures:
            albums[agent].append(CURE)
            albums[agent].pop(0)
        for agent in carried:
            if happens(s.gamma, "RECOVER", round_, agent):
                albums[agent] = [HARMLESS if slot == VIRUS else slot for slot in albums[agent]]
        ever.update(symptomatic)
        history.append(
            {
                "current": len(symptomatic),
                "cumulative": len(ever),
                "carrying": sum(VIRUS in album for album in albums),
                "cured": sum(CURE in album for album in albums),
                "questioners_carrying": carrying_questioners,
                "virus_retrieved": sum(picture == VIRUS for _, picture in arrivals),
                "cure_retrieved": sum(picture == CURE for _, picture in arrivals),
                **seen,
            }
        )
    return history


def defend(s, albums, round_, draw, seen):
    """Flag agents, then take pictures out of the flagged ones; a removed picture leaves a gap."""
    flagged = 0
    for agent in range(s.agents):
        album = albums[agent]
        carries = VIRUS in album
        if draw("FLAG", round_, agent) >= (s.defence.detection if carries else s.defence.false_alarm):
            continue
        seen["false_alarms"] += not carries
        for slot in range(s.album):  # newest first
            place = s.album - 1 - slot
            chance = draw("REMOVE", round_, flagged * s.album + slot)
            if album[place] == VIRUS and chance < s.defence.purification:
                album[place] = GAP
                seen["virus_removed"] += 1
            elif album[place] == HARMLESS and chance < s.defence.collateral:
                album[place] = GAP
                seen["benign_removed"] += 1
        flagged += 1
    seen["flagged"] = flagged
