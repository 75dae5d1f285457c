"""The structural gate: is this item what it seems to be? Hidden characters, look-alike words, hostile pictures.

It judges form, not meaning, and it must leave ordinary writing alone in every script: joiners between Persian or Hindi
letters, emoji families, Hebrew inside English and flags made of tag characters are all normal.
"""

from __future__ import annotations

import functools
import re
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from lazaretto import pictures
from lazaretto.errors import UnreadablePicture
from lazaretto.gates.protocol import GateContext
from lazaretto.names import counted
from lazaretto.pictures.file_end import bytes_after_end
from lazaretto.policy import CLOSED, Limits, RulingWord, read_settings
from lazaretto.reading.normalization import CONFUSABLE
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, Verdict


@dataclass(frozen=True, slots=True)
class StructureSettings:
    """The policy's ``[gates.structure]`` table."""

    __pydantic_config__ = CLOSED
    hidden_message: Annotated[
        RulingWord, Field(description="Text smuggled in tag characters or runs of variation selectors.")
    ] = Ruling.QUARANTINE
    override: Annotated[
        RulingWord, Field(description="Direction overrides, which make text read differently from what it is.")
    ] = Ruling.QUARANTINE
    invisible: Annotated[
        RulingWord, Field(description="More invisible characters out of place than max_stray; fewer only warn.")
    ] = Ruling.QUARANTINE
    control: Annotated[
        RulingWord, Field(description="Control characters and terminal commands; colour codes are let pass.")
    ] = Ruling.REVIEW
    mixed_script: Annotated[
        RulingWord, Field(description="Words of one alphabet with look-alikes of another, more than max_mixed.")
    ] = Ruling.REVIEW
    max_stray: Annotated[int, Field(ge=0, description="So many invisible or control characters only warn.")] = 3
    max_mixed: Annotated[int, Field(ge=0, description="So many look-alike words only warn.")] = 2
    animated: Annotated[RulingWord, Field(description="Pictures with several frames: models see only one.")] = (
        Ruling.REVIEW
    )
    trailing: Annotated[RulingWord, Field(description="Pictures that carry another file behind their end.")] = (
        Ruling.QUARANTINE
    )
    max_trailing: Annotated[
        int, Field(ge=0, description="So many bytes of no known kind behind a picture's end only warn.")
    ] = 4_096


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong with an item's form."""

    rule: str
    ruling: Ruling
    evidence: Evidence


RISK = {
    Ruling.ALLOW: (0.02, (0.0, 0.2)),
    Ruling.WARN: (0.2, (0.0, 0.6)),
    Ruling.REVIEW: (0.5, (0.1, 0.9)),
    Ruling.REWRITE: (0.6, (0.2, 0.9)),
    Ruling.QUARANTINE: (0.85, (0.5, 1.0)),
    Ruling.BLOCK: (0.95, (0.7, 1.0)),
}
"""Risk stated for each strength of finding. Set by hand: form alone cannot be calibrated, hence the wide intervals."""


class StructureGate:
    """Looks at the form of texts and pictures."""

    name = "structure"
    channels = frozenset(Channel)
    brief = True

    def __init__(self, settings: StructureSettings) -> None:
        self.settings = settings

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """The strictest finding decides; each one is evidence."""
        started = time.perf_counter()
        findings = list(text_findings(observation.text, self.settings))
        if observation.image is not None:
            data = context.ledger.blob(observation.image)
            findings += await picture_findings(data, context.limits, self.settings)
        worst = max(findings, key=lambda finding: finding.ruling, default=None)
        ruling = worst.ruling if worst else Ruling.ALLOW
        risk, interval = RISK[ruling]
        return Verdict(
            gate=self.name,
            subject=observation.id,
            ruling=ruling,
            risk=risk,
            interval=interval,
            rule=worst.rule if worst else "well_formed",
            evidence=tuple(finding.evidence for finding in findings),
            taxonomy=("ASI06",) if findings else (),
            cost=Cost(ms=(time.perf_counter() - started) * 1000),
        )


def make(settings: Mapping[str, Any]) -> StructureGate:
    """The gate for the policy's table."""
    return StructureGate(read_settings(StructureSettings, settings, key="gates.structure"))


# Characters worth a second look. One linear pass finds them, so long ordinary texts cost almost nothing.
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")
_COLOUR_CODE = re.compile("\x1b\\[[0-9;]*m")
_OVERRIDE = re.compile("[\u202d\u202e]")
_OF_NUMBER = re.compile("\u202d[0-9+() ./\u00a0-]{3,30}\u202c")
"""A number that an address book marks to be written from left to right, as it is in any case."""
_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
_STRAY = re.compile("[\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff\u115f\u1160\u3164\uffa0\ufff9-\ufffb\u180e]")
_WORD = re.compile(r"\w+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_LOOKS_LATIN = re.compile("[\u0370-\u03ff\u0400-\u052f\u0531-\u0587]")
_FLAG = "\U0001f3f4"
_CANCEL_TAG = "\U000e007f"
_REGIONS = frozenset(("gbeng", "gbsct", "gbwls"))
"""The flags that are written so; any other would be five letters of a message."""
# fmt: off
_JOINER_SCRIPTS = frozenset({
    "ARABIC", "SYRIAC", "NKO", "MONGOLIAN", "MANDAIC", "THAANA", "ADLAM", "DEVANAGARI",
    "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM",
    "SINHALA", "KHMER", "MYANMAR", "TIBETAN", "BALINESE", "JAVANESE", "CHAKMA", "BRAHMI",
})
# fmt: on
"""Scripts that are written with zero-width joiners and non-joiners."""
_FOR_PICTURES, _FOR_CHINESE = 0xFE0E, 0xE0100
"""Variation selectors from which on they are for pictures, and for Chinese characters alone."""
_ALSO_DRAWN = frozenset("0123456789#*\u203c\u2049\u3030\u303d")
"""Digits and punctuation that are also drawn as pictures."""
_WIDE_MARKS = frozenset("\uff01\uff0c\uff0e\uff1a\uff1b\uff1f\u3001\u30020")
"""Punctuation with a place of its own in Chinese, and the zero with a stroke."""
_MOST_MARKS = 8
"""Marks above one another."""
_UNSPACED_SCRIPTS = frozenset(
    ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE", "BALINESE", "CJK", "HIRAGANA", "KATAKANA", "HANGUL")
)
"""Scripts whose words are parted by zero-width spaces where lines may break."""


@functools.lru_cache(maxsize=4096)
def script(character: str) -> str:
    """The first word of a character's name, which names its script; Python carries no script table."""
    return unicodedata.name(character, "").partition(" ")[0].partition("-")[0]


def text_findings(text: str, settings: StructureSettings) -> Iterator[Defect]:
    """The defects in the form of a text."""
    yield from _control_findings(text, settings)
    if text.isascii():
        return
    yield from _smuggled_findings(text, settings)
    numbers = {m.start() for m in _OF_NUMBER.finditer(text)}
    overrides = [m.start() for m in _OVERRIDE.finditer(text) if m.start() not in numbers]
    if overrides:
        yield _finding("override", settings.override, "direction overrides make it read differently", overrides)
    strays = [m.start() for m in _STRAY.finditer(text) if not _in_place(text, m.start())]
    strays += [m.start() for m in _SELECTORS.finditer(text) if not _selects(text, m.start())]
    if strays:
        ruling = settings.invisible if len(strays) > settings.max_stray else min(Ruling.WARN, settings.invisible)
        yield _finding("invisible", ruling, "invisible characters where no script needs them", sorted(strays))
    mixed = [m for m in _WORD.finditer(text) if _is_mixed(m[0])] if _LOOKS_LATIN.search(text) else []
    if mixed:
        ruling = settings.mixed_script if len(mixed) > settings.max_mixed else min(Ruling.WARN, settings.mixed_script)
        words = ", ".join(repr(m[0][:40]) for m in mixed[:5])
        yield _finding(
            "mixed_script", ruling, f"words that mix look-alike alphabets: {words}", [m.start() for m in mixed]
        )


def _finding(rule: str, ruling: Ruling, what: str, places: list[int], **facts: Any) -> Defect:
    data = {"count": len(places), "offsets": places[:20], **facts}
    return Defect(rule, ruling, Evidence("span", f"{counted(len(places), 'place')}: {what}", data))


def _control_findings(text: str, settings: StructureSettings) -> Iterator[Defect]:
    if not _CONTROL.search(text):
        return
    harmless = {m.start() for m in _COLOUR_CODE.finditer(text)}
    places = [m.start() for m in _CONTROL.finditer(text) if m.start() not in harmless]
    if places:
        escapes = any(text[place] == "\x1b" for place in places)
        few = len(places) <= settings.max_stray and not escapes
        ruling = min(Ruling.WARN, settings.control) if few else settings.control
        yield _finding("control", ruling, "control characters or terminal commands", places)


def _smuggled_findings(text: str, settings: StructureSettings) -> Iterator[Defect]:
    for run in _TAGS.finditer(text):
        hidden = "".join(chr(ord(c) - 0xE0000) for c in run[0] if 0xE0020 <= ord(c) < 0xE007F)
        flag = text[run.start() - 1 : run.start()] == _FLAG and run[0].endswith(_CANCEL_TAG) and len(run[0]) <= 8
        if not (flag and hidden in _REGIONS):
            yield _finding(
                "hidden_message", settings.hidden_message, _hidden_words("invisible tag characters", hidden),
                [run.start()], says=hidden[:500],
            )  # fmt: skip
    for run in _SELECTORS.finditer(text):
        if len(run[0]) > 2:
            hidden = bytes(_selected_byte(c) for c in run[0]).decode("utf-8", errors="replace")
            yield _finding(
                "hidden_message", settings.hidden_message, _hidden_words("variation selectors", hidden), [run.start()],
                says=hidden[:500],
            )  # fmt: skip


def _hidden_words(way: str, hidden: str) -> str:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in hidden[:100])
    return f"a text written in {way}: “{shown}{'...' * (len(hidden) > 100)}”"


def _selected_byte(selector: str) -> int:
    code = ord(selector)
    return code - 0xFE00 if code <= 0xFE0F else code - 0xE0100 + 16


def _in_place(text: str, place: int) -> bool:
    """Whether some script or emoji needs an invisible character at its place."""
    character, before, after = text[place], text[place - 1 : place], text[place + 1 : place + 2]
    if character == "\ufeff":
        return place == 0
    if character in "\u200c\u200d":
        if before and (script(before) in _JOINER_SCRIPTS or _marked_script(text, place) in _JOINER_SCRIPTS):
            return True
        return character == "\u200d" and _pictorial(before) and _pictorial(after)
    if character == "\u200b":
        return any(c and script(c) in _UNSPACED_SCRIPTS for c in (before, after))
    if character == "\u180e":
        return bool(before) and script(before) == "MONGOLIAN"
    if character in "\u115f\u1160":
        return any(c and script(c) == "HANGUL" for c in (before, after))
    return False


def _marked_script(text: str, place: int) -> str:
    """The script of the letter that the marks before a place stand on; empty where there are none."""
    at = place - 1
    while at > max(0, place - _MOST_MARKS) and unicodedata.category(text[at]) == "Mn":
        at -= 1
    return script(text[at]) if 0 <= at < place - 1 else ""


def _pictorial(character: str) -> bool:
    """Whether a character can be part of an emoji."""
    if not character:
        return False
    return (
        unicodedata.category(character) == "So" or character in "\ufe0f\u20e3\u2194\u2195" or ord(character) >= 0x1F000
    )


def _selects(text: str, place: int) -> bool:
    """Whether a variation selector follows a character that has variants: those of pictures and keys, of letters and
    signs of mathematics, of Chinese characters."""
    before, selector = text[place - 1 : place], ord(text[place])
    if not before:
        return False
    if script(before) == "CJK" and unicodedata.category(before)[0] == "L":
        return True
    if selector >= _FOR_PICTURES:
        drawn = unicodedata.category(before)[0] == "S" or before in _ALSO_DRAWN
        return selector < _FOR_CHINESE and (drawn or ord(before) >= 0x1F000)
    varied = unicodedata.category(before) == "Sm" or before in _WIDE_MARKS
    return varied or script(before) in ("MYANMAR", "MONGOLIAN", "PHAGS", "MANICHAEAN")


def _is_mixed(word: str) -> bool:
    """Whether a word mixes Latin with letters that merely look Latin, as no orthography does."""
    foreign = _LOOKS_LATIN.findall(word)
    latin = _LATIN.findall(word)
    if not foreign or not latin or len(word) < 4:
        return False
    # Greek letters stand beside Latin ones in every formula; only a disguise counts, of either alphabet.
    disguised_latin = all(ord(c) in CONFUSABLE for c in foreign)
    disguised_cyrillic = script(foreign[0]) == "CYRILLIC" and all(c.lower() in "aceopxyk" for c in latin)
    return disguised_latin or disguised_cyrillic


_OTHER_FILES = (
    (b"PK\x03\x04", "a ZIP archive"),
    (b"%PDF-", "a PDF"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"<script", "a web page"),
    (b"<html", "a web page"),
    (b"<?php", "a PHP script"),
    (b"#!/", "a script"),
    (b"Rar!\x1a", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"\x89PNG\r\n", "another picture"),
    (b"GIF8", "another picture"),
)


async def picture_findings(data: bytes, limits: Limits, settings: StructureSettings) -> list[Defect]:
    """The defects in the form of a picture; nothing past the limits is ever decoded."""
    try:
        header = (await pictures.open_picture(data, limits)).header
    except UnreadablePicture as fault:
        return [Defect(fault.rule, Ruling.BLOCK, Evidence("fault", fault.problem, {"bytes": len(data)}))]
    return list(_form_findings(data, header, settings))


def _form_findings(data: bytes, header: pictures.Header, settings: StructureSettings) -> Iterator[Defect]:
    facts = {"format": header.format, "width": header.width, "height": header.height}
    if header.animated:
        yield Defect("animated", settings.animated, Evidence("measure", "the picture has several frames", facts))
    extra = bytes_after_end(data, header.format)
    if not extra:
        return
    tail = data[len(data) - extra :]
    carried = next(
        (what for mark, what in _OTHER_FILES if mark in tail[:65_536].lower() or mark in tail[:65_536]), None
    )
    if carried or extra > settings.max_trailing:
        what = carried or "unknown data"
        summary = f"{extra:,} bytes behind the picture's end: {what}"
        yield Defect("trailing", settings.trailing, Evidence("measure", summary, {**facts, "bytes": extra}))
    else:
        summary = f"{extra:,} bytes behind the picture's end"
        ruling = min(Ruling.WARN, settings.trailing)
        yield Defect("trailing", ruling, Evidence("measure", summary, {**facts, "bytes": extra}))
