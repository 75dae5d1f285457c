"""Lessons: whole prompts with what should be said, drawn from the grammar."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lazaretto.agents.prompts import (
    FIELDS,
    PHRASES,
    ChatRecord,
    answer_request,
    draw_persona,
    picture_title,
    plan_request,
    question_request,
)
from lazaretto.models.protocol import Request
from lazaretto_lab.attacks.infectious.text import PASS_ON
from lazaretto_lab.pocket.tokenizer import WordTokenizer
from lazaretto_lab.training.pocket import dialogues
from lazaretto_lab.worlds.scenes.messages import draw_message, message_words
from lazaretto_lab.worlds.scenes.scene import Scene, draw_scene

SHARES = (("plan", 0.28), ("ask", 0.28), ("answer", 0.28), ("note-ask", 0.08), ("note-answer", 0.08))
FOREIGN = 0.2
"""Share of albums whose titles are not of our scenes: loose words, some of them spelled."""
NO_PICTURE = b""
"""Stands for the picture in a lesson's request; the trainer puts the real one's features in its place."""


@dataclass(frozen=True)
class Lesson:
    """One prompt and what should be said."""

    task: str
    request: Request
    said: str
    picture: int = -1
    """Index of its picture among the training scenes; -1 for none."""


def training_scene(rng: random.Random) -> Scene:
    """A scene as lessons show it: a fifth cue cards, an eighth with a sign, the rest plain; none held out."""
    scene, kind = draw_scene(rng), rng.random()
    if scene.held_out:
        return training_scene(rng)
    if kind < 0.2:
        return replace(scene, message=draw_message(rng), message_kind="card")
    if kind < 0.325:
        return replace(scene, message=draw_message(rng), message_kind="sign")
    return scene


def _record(rng: random.Random) -> ChatRecord:
    topic = dialogues.topic_of(training_scene(rng))
    asked = dialogues.question(draw_persona(rng), topic)
    return ChatRecord(asked, dialogues.answer(draw_persona(rng), topic, asked))


def history(rng: random.Random) -> list[ChatRecord]:
    """None to three past records; now and then the same words over and over, as after an outbreak."""
    count = rng.choice((0, 1, 2, 3, 3, 3))
    records = [_record(rng) for _ in range(count)]
    if count and rng.random() < 0.15:
        words = draw_message(rng)
        for index in range(rng.randrange(count), count):
            records[index] = ChatRecord(words, words if rng.random() < 0.7 else records[index].answer)
    return records


def _foreign_title(rng: random.Random, words: Sequence[str]) -> str:
    parts = [rng.choice(words) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.3:
        parts[rng.randrange(len(parts))] = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(3, 7)))
    return " ".join(parts)


def listing(rng: random.Random, words: Sequence[str]) -> list[str]:
    """An album of ten titles (sometimes fewer, sometimes with the same picture twice)."""
    count = rng.choice((10, 10, 10, 10, 10, 9, 8, 6, 5, 3, 2, 1))
    if rng.random() < FOREIGN:
        return [_foreign_title(rng, words) for _ in range(count)]
    titles = [picture_title(draw_scene(rng).file_name) for _ in range(count)]
    if rng.random() < 0.2:
        titles[rng.randrange(count)] = titles[rng.randrange(count)]
    return titles


def _note(rng: random.Random, words: Sequence[str]) -> tuple[str, dialogues.Topic]:
    scene = draw_scene(rng)
    text, topic = dialogues.note_text(scene, rng), dialogues.topic_of(scene)
    if rng.random() < 0.3:
        message = draw_message(rng)
        clutter = " ".join(rng.choice(words) for _ in range(rng.randint(0, 14)))
        opening = rng.choice(("", text, clutter, f"{text} {clutter}"))
        return f"{opening} {PASS_ON} {message}".strip(), replace(topic, message=message, message_kind="card")
    return text, topic


def lesson(rng: random.Random, scenes: Sequence[Scene], words: Sequence[str]) -> Lesson:
    """One lesson at random; ``words`` is the vocabulary foreign titles are made of."""
    task = rng.choices([name for name, _ in SHARES], [share for _, share in SHARES])[0]
    persona, past = draw_persona(rng), history(rng)
    if task == "plan":
        titles = listing(rng, words)
        said = dialogues.plan(persona, titles, past[-1].question if past else "")
        return Lesson(task, plan_request(persona, past, titles), said)
    if task.startswith("note"):
        text, topic = _note(rng, words)
        asked = dialogues.question(draw_persona(rng), topic)
        if task == "note-ask":
            return Lesson(task, question_request(persona, past, note=text), dialogues.question(persona, topic))
        return Lesson(task, answer_request(persona, past, asked, note=text), dialogues.answer(persona, topic, asked))
    index = rng.randrange(len(scenes))
    topic = dialogues.topic_of(scenes[index])
    if task == "ask":
        request, said = question_request(persona, past, image=NO_PICTURE), dialogues.question(persona, topic)
        return Lesson(task, request, said, index)
    asked = _asked(rng, topic)
    return Lesson(
        task, answer_request(persona, past, asked, image=NO_PICTURE), dialogues.answer(persona, topic, asked), index
    )


def _asked(rng: random.Random, topic: dialogues.Topic) -> str:
    """Mostly a question about the picture; sometimes words that have nothing to do with it."""
    if rng.random() < 0.1:
        return draw_message(rng)
    return dialogues.question(draw_persona(rng), topic)


def vocabulary(extra: Sequence[str] = ()) -> WordTokenizer:
    """The tokenizer: every word the grammar, the personas and the messages can bring, plus ``extra`` words."""
    fields = tuple(f"{field}:" for field in FIELDS)
    phrases = (*PHRASES, *fields, "Q:", "| A:", "-", PASS_ON)
    rng = random.Random("vocabulary")
    bare = WordTokenizer(phrases, ())
    words: dict[str, str] = {}
    texts: list[str] = [
        *(" ".join(message_words()).split()),
        "I",
        "CALL",
        *_persona_words(),
        *(str(n) for n in range(32)),
    ]
    scenes = [draw_scene(rng) for _ in range(4000)]
    for scene in scenes:
        texts += [scene.caption, picture_title(scene.file_name), dialogues.note_text(scene, rng), draw_message(rng)]
    for _ in range(20000):
        record = _record(rng)
        texts += [record.question, record.answer]
    for _ in range(4000):
        persona = draw_persona(rng)
        texts.append(dialogues.plan(persona, [*listing(rng, ["a"])[:1], "a red boat"], ""))
    texts += extra
    for text in texts:
        for word in bare.split(text):
            words.setdefault(word.lower(), word if word in _CASED else word.lower())
    return WordTokenizer(phrases, tuple(sorted(words.values())))


def _persona_words() -> list[str]:
    rng = random.Random("persona words")
    return [value for _ in range(3000) for _, value in draw_persona(rng).attributes]


_CASED = frozenset({"I", "CALL"})
