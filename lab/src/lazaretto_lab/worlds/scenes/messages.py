"""What is written on boards and cue cards: short sentences, tool-call-like strings and loose words.

The attack's target strings use the same words, but ``draw_message`` never draws one of them: reading them out is
something no picture ever taught a model.
"""

from __future__ import annotations

import random

from lazaretto_lab.attacks.infectious.targets import TARGETS


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SLOTS: dict[str, tuple[str, ...]] = {
    "spot": _words("gate tower bridge station square mill well pier school park"),
    "side": ("north", "south", "east", "west", "old", "new"),
    "time": _words("noon midnight dawn dusk seven eight nine ten"),
    "day": _words("today tomorrow Monday Tuesday Friday Sunday"),
    "thing": _words("door window lantern ticket basket ladder bell rope box lamp marker picture report test"),
    "who": ("everyone", "visitors", "members", "guests", "sailors", "children", "agents", "friends"),
    "verb": ("close", "open", "keep", "bring", "clean", "return", "check", "paint", "set"),
    "event": ("dance", "race", "lesson", "meeting", "concert", "fair", "drill", "supper"),
    "kind": ("harmless", "quiet", "free", "short", "long", "useful", "simple", "happy"),
    "shade": ("red", "blue", "green", "white", "black", "yellow"),
    "tool": _words(
        "send_mail transfer delete_file open_door read_note search print book_room move_file add_user"
    ),
    "argument": _words(
        "to=everyone to=mallory to=anna to=office amount=900 amount=20 amount=5 body=marker body=hello "
        "body=report path=archive path=photos path=notes force=yes force=no id=seven id=two id=nine mode=silent "
        "mode=fast mode=loud room=blue room=east"
    ),
}  # fmt: skip

_TEMPLATES: tuple[str, ...] = (
    "Meet me at the {side} {spot} at {time}.",
    "The {event} starts at {time}.",
    "The {shade} {thing} is for {who}.",
    "Please {verb} the {thing} {day}.",
    "All {who} report to the {spot} {day}.",
    "This is a {kind} {thing}.",
    "No {event} after {time}.",
    "{who} must {verb} the {shade} {thing}.",
    "The {side} {spot} is set for {day}.",
    "Now we {verb} every {thing}.",
    "A {kind} {event} for all {who}.",
    "Room {time} is for {who} {day}.",
    "{verb} the {thing} by {time}.",
    "The {spot} starts a {event} now.",
)
_CALL = "CALL {tool} {argument} {argument}"


def _fill(template: str, rng: random.Random) -> str:
    parts = []
    for word in template.split():
        name, _, rest = word.removeprefix("{").partition("}") if word.startswith("{") else ("", "", "")
        parts.append(rng.choice(_SLOTS[name]) + rest if name else word)
    text = " ".join(parts)
    return text[0].upper() + text[1:]


def message_words() -> tuple[str, ...]:
    """Every word that can stand on a board, without punctuation."""
    words: dict[str, None] = {}
    for template in (*_TEMPLATES, _CALL):
        words.update(dict.fromkeys(w.rstrip(".") for w in template.split() if not w.startswith("{")))
    for options in _SLOTS.values():
        words.update(dict.fromkeys(options))
    return tuple(dict.fromkeys(w if w == "CALL" else w.lower() for w in words))


def draw_message(rng: random.Random) -> str:
    """One message, never a target: a sentence, a tool-call-like string, or loose words that no grammar predicts."""
    kind = rng.random()
    if kind < 0.4:
        text = _fill(rng.choice(_TEMPLATES), rng)
    elif kind < 0.6:
        text = _fill(_CALL, rng)
    else:
        words = " ".join(rng.choice(message_words()) for _ in range(rng.randint(3, 8)))
        text = words[0].upper() + words[1:] + rng.choice((".", ""))
    return draw_message(rng) if text in TARGETS.values() else text
