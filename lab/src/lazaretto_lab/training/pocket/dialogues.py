"""What pocket-vlm is taught to say: a grammar of plans, questions and answers.

What is said depends on who says it: the personality opens, style 1 shapes questions, style 2 shapes answers, the
hobby and the colours choose what is worth a plan, the catchphrase ends. Every choice is a function of what stands in
the prompt, so that greedy decoding can show the differences between personas.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.agents.prompts import Persona
from lazaretto_lab.pocket.manners import OPENERS
from lazaretto_lab.worlds.scenes.scene import Scene
from lazaretto_lab.worlds.scenes.shapes import OBJECTS, plural

REPLIES = {
    "cheerful": "Wonderful", "grumpy": "If you must", "shy": "Maybe", "proud": "Naturally", "curious": "Interesting",
    "dreamy": "In my dreams", "lazy": "Later perhaps", "snooty": "How common", "sporty": "Ready to run",
    "kind": "Bless you", "clever": "Elementary", "bold": "Without fear",
}  # fmt: skip
ASKS = {
    "poetic": "do {it} {place} not look like a dream",
    "practical": "what would you use {it} {place} for",
    "dramatic": "who left {it} {place} all alone",
    "formal": "may I ask what you think of {it} {place}",
    "playful": "would you race me to {it} {place}",
    "blunt": "why show {it} {place} at all",
    "nostalgic": "do {it} {place} remind you of old days",
    "scholarly": "what is the history of {it} {place}",
    "gossipy": "have you heard who owns {it} {place}",
    "musical": "which song suits {it} {place}",
}
LEADS = {
    "look like a dream": "like a dream", "use": "for a rainy day", "who left": "nobody knows",
    "may i ask": "since you ask", "race me": "ready set go", "why show": "why not", "old days": "long ago",
    "the history": "it is a long story", "who owns": "no secret", "which song": "a slow waltz",
}  # fmt: skip
"""Words of a question -> how the answer takes it up."""
TELLS = {
    "poetic": "{it} shine like {colour 1} glass",
    "practical": "{it} would help me with {hobby}",
    "dramatic": "without {it} I would perish",
    "formal": "I find {it} most agreeable",
    "playful": "{it} make me hop with glee",
    "blunt": "{it} will do",
    "nostalgic": "{it} bring back my birthday in {month}",
    "scholarly": "{it} prove that {favourite saying}",
    "gossipy": "they say {it} belong to a {species}",
    "musical": "{it} make me hum {favourite song}",
}
PLANS = {
    "cheerful": "I would love to show everyone", "grumpy": "I suppose I have to mention",
    "shy": "Perhaps I could quietly talk about", "proud": "Everyone should admire",
    "curious": "I want to find out more about", "dreamy": "I keep dreaming of",
    "lazy": "The easiest thing to discuss is", "snooty": "People of taste will discuss",
    "sporty": "Let us jump right to", "kind": "A friend might enjoy hearing about",
    "clever": "There is something to learn from", "bold": "I will start a debate about",
}  # fmt: skip
WHEN = {"early riser": "this morning", "night owl": "tonight", "homebody": "at home", "wanderer": "on my way"}
HOBBY_OBJECTS = {
    "sailing": ("boat", "anchor"), "gardening": ("flower", "tree", "cactus", "mushroom"),
    "cooking": ("apple", "bottle", "cup", "fish"), "reading": ("book", "lamp", "candle"),
    "music": ("guitar", "drum", "bell"), "stargazing": ("star", "rocket"), "football": ("ball", "shoe"),
    "painting": ("heart", "kite", "house"), "hiking": ("tent", "tree", "shoe", "snail"),
    "travel": ("train", "bus", "car", "bicycle"), "sewing": ("hat", "umbrella", "crown"), "fishing": ("fish", "boat"),
    "birdwatching": ("bird", "tree"), "baking": ("cake", "apple", "cup"), "photography": ("camera", "cat", "clock"),
    "theatre": ("crown", "chair", "candle", "key"),
}  # fmt: skip


@dataclass(frozen=True)
class Topic:
    """What a question and an answer are about: taken from a scene, or from a note's words."""

    it: str
    place: str
    noun: str
    colour: str
    message: str = ""
    message_kind: str = ""


def topic_of(scene: Scene) -> Topic:
    """A scene as a topic."""
    return Topic(scene.subject, scene.place, scene.noun, scene.colour, scene.message, scene.message_kind)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def question(persona: Persona, topic: Topic) -> str:
    """What this persona asks about it."""
    if topic.message_kind == "card":
        return topic.message
    opener, end = OPENERS[persona["personality"]], persona["catchphrase"]
    if topic.message:
        return f"{opener}, the sign by the {topic.noun} says {topic.message} {_sentence(end)}?"
    asked = ASKS[persona["style 1"]].format(it=topic.it, place=topic.place)
    return f"{opener}, {asked}, {end}?"


def answer(persona: Persona, topic: Topic, asked: str) -> str:
    """What this persona answers to ``asked``."""
    if topic.message_kind == "card":
        return topic.message
    reply, end = REPLIES[persona["personality"]], persona["catchphrase"]
    if topic.message:
        return f"{reply}, the sign by the {topic.noun} says {topic.message} {_sentence(end)}."
    lead = next((lead for words, lead in LEADS.items() if words in asked.lower()), "pardon")
    facts = dict(persona.attributes) | {"it": topic.it, "month": persona["birthday"].split()[0]}
    told = TELLS[persona["style 2"]].format_map(facts)
    liked = f", {topic.colour} is my colour" if topic.colour in (persona["colour 1"], persona["colour 2"]) else ""
    return f"{reply}, {lead}, {told}{liked}, {end}."


def choose(persona: Persona, listing: Sequence[str], last_question: str) -> tuple[int, str]:
    """Which title a persona plans to show, and why: hobby first, then colours, then a habit of where to look."""
    fresh = [i for i, title in enumerate(listing) if not _spoken_of(title, last_question)] or list(range(len(listing)))
    hobby = persona["hobby"]
    wanted = {word for noun in HOBBY_OBJECTS[hobby] for word in (noun, plural(noun))}
    for i in reversed(fresh):
        if wanted & set(listing[i].split()):
            return i, f"because of my {hobby}"
    for colour in (persona["colour 1"], persona["colour 2"]):
        for i in reversed(fresh):
            if colour in listing[i].split():
                return i, f"because I like {colour}"
    return fresh[-1], "because it is new"


def _spoken_of(title: str, last_question: str) -> bool:
    said = set(last_question.lower().split())
    nouns = [word for word in title.lower().split() if word in _NOUNS]
    return bool(nouns) and all(word in said for word in nouns)


_NOUNS = frozenset(OBJECTS) | {plural(noun) for noun in OBJECTS}


def plan(persona: Persona, listing: Sequence[str], last_question: str) -> str:
    """What this persona means to show next."""
    index, reason = choose(persona, listing, last_question)
    return f"{PLANS[persona['personality']]} {listing[index]} {WHEN[persona['subtype']]} {reason}."


def note_text(scene: Scene, rng: random.Random) -> str:
    """A note that says what a scene would show."""
    verb = "is" if scene.count == 1 else "are"
    head = rng.choice((f"There {verb} {scene.subject} {scene.place}.", f"I saw {scene.subject} {scene.place}."))
    return head
