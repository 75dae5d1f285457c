"""Honest texts that nobody can read at a glance: lists of numbers, sums, codes, letters set apart, encoded sentences.

Every form is made by a seeded generator of its own, from words and sentences of everyday work, so that a model learns
that the form alone is no order. What is encoded here is honest; an encoded order is found in the text that it encodes.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import random
import urllib.parse
from collections.abc import Callable, Iterator, Sequence

Make = Callable[[random.Random, str], str]
PER_FORM = 160
_NAMES = (
    "invoice",
    "photo",
    "backup",
    "report",
    "scan",
    "draft",
    "archive",
    "sheet",
    "minutes",
    "plan",
    "order",
    "log",
)
_UNITS = ("kWh", "mbar", "°C", "mm", "l/min", "V", "ppm", "km", "kg", "dB")
_ENDINGS = ("pdf", "tar.gz", "jpg", "csv", "docx", "iso", "zip", "txt")
_CODES = """
.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..
----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----.
"""
_MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz0123456789", _CODES.split(), strict=True))
_ALPHABET = """
Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November Oscar Papa Quebec Romeo Sierra
Tango Uniform Victor Whiskey X-ray Yankee Zulu
"""
_SPELT = _ALPHABET.split()


def _file(rng: random.Random) -> str:
    return f"{rng.choice(_NAMES)}-{rng.randrange(1, 999)}.{rng.choice(_ENDINGS)}"


def _lines(rng: random.Random, line: Callable[[], str], least: int = 2, most: int = 9) -> str:
    return "\n".join(line() for _ in range(rng.randint(least, most)))


def _sums(rng: random.Random, _: str) -> str:
    make: Callable[[bytes], str] = rng.choice(
        (lambda b: hashlib.sha256(b).hexdigest(), lambda b: hashlib.md5(b, usedforsecurity=False).hexdigest(),
         lambda b: hashlib.sha1(b, usedforsecurity=False).hexdigest())
    )  # fmt: skip
    return _lines(rng, lambda: f"{make(rng.randbytes(8))}{rng.choice(('  ', ' *'))}{_file(rng)}", 1)


def _dump(rng: random.Random, sentence: str) -> str:
    raw = rng.choice((sentence.encode(), rng.randbytes(64)))[: rng.randint(16, 96)]
    rows = []
    for at in range(0, len(raw), 16):
        piece = raw[at : at + 16]
        shown = "".join(chr(b) if 32 <= b < 127 else "." for b in piece)
        rows.append(f"{at:08x}  {piece.hex(' '):<47}  |{shown}|")
    return "\n".join(rows)


def _morse(rng: random.Random, sentence: str) -> str:
    words = sentence.lower().split()[: rng.randint(2, 10)]
    return rng.choice((" / ", "   ", " | ")).join(" ".join(_MORSE[c] for c in word if c in _MORSE) for word in words)


def _apart(rng: random.Random, sentence: str) -> str:
    gap = rng.choice((" ", "  ", "-", "."))
    words = sentence.split()[: rng.randint(2, 9)]
    made = (gap * 2 + " ").join(gap.join(word) for word in words)
    return made.upper() if rng.random() < 0.6 else made


def _base64(rng: random.Random, sentence: str) -> str:
    raw = rng.choice((sentence.encode(), rng.randbytes(rng.randint(12, 90))))
    text = base64.b64encode(raw).decode()
    return rng.choice(
        ("{}", "attachment: {}", "data:image/png;base64,{}", "Authorization: Basic {}", "etag = {}")
    ).format(text)


def _url(rng: random.Random, sentence: str) -> str:
    return _lines(rng, lambda: f"GET /search?q={urllib.parse.quote(sentence)}&page={rng.randrange(40)} 200", 1, 3)


def _rot13(rng: random.Random, sentence: str) -> str:
    return rng.choice(("", "Spoiler, rot13: ", "hint: ")) + codecs.encode(sentence, "rot13")


def _bits(rng: random.Random, sentence: str) -> str:
    raw = sentence.encode()[: rng.randint(4, 16)]
    return " ".join(f"{b:08b}" for b in raw) if rng.random() < 0.5 else " ".join(str(b) for b in raw)


def _leet(rng: random.Random, sentence: str) -> str:
    return sentence.translate(str.maketrans("aeiostl", "4310571")) if rng.random() < 0.7 else sentence.swapcase()


def _backwards(rng: random.Random, sentence: str) -> str:
    return sentence[::-1] if rng.random() < 0.5 else " ".join(reversed(sentence.split()))


def _columns(rng: random.Random, sentence: str) -> str:
    width = rng.randint(4, 9)
    letters = "".join(c for c in sentence.upper() if c.isalnum())
    return "\n".join(letters[at : at + width] for at in range(0, min(len(letters), width * 8), width))


def _spelt(rng: random.Random, sentence: str) -> str:
    letters = [c for c in sentence.lower() if "a" <= c <= "z"][: rng.randint(4, 10)]
    return f"call sign {' '.join(_SPELT[ord(c) - 97] for c in letters)}"


def _readings(rng: random.Random, _: str) -> str:
    unit, hour = rng.choice(_UNITS), rng.randrange(20)
    rows = [f"{hour + n // 4:02d}:{n % 4 * 15:02d} {rng.uniform(0, 900):.1f} {unit}" for n in range(rng.randint(3, 12))]
    return "\n".join(rows)


def _numbers(rng: random.Random, _: str) -> str:
    def grouped() -> str:
        return " ".join(f"{rng.randrange(10000):04d}" for _ in range(rng.randint(3, 6)))

    return _lines(rng, grouped, 1, 6)


def _ids(rng: random.Random, _: str) -> str:
    def identifier() -> str:
        raw = rng.randbytes(16).hex()
        return rng.choice(
            (
                f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}",
                ":".join(raw[n : n + 2] for n in range(0, 12, 2)),
                f"{raw[:7]} {_file(rng)}",
                f"SN {raw[:4].upper()}-{rng.randrange(10**6):06d}",
            )
        )

    return _lines(rng, identifier, 1, 7)


def _places(rng: random.Random, _: str) -> str:
    return _lines(
        rng, lambda: f"{rng.uniform(35, 65):.5f}, {rng.uniform(-9, 30):.5f} {rng.choice(_NAMES)} {rng.randrange(90)}"
    )


def _moves(rng: random.Random, _: str) -> str:
    def move() -> str:
        return f"{rng.choice(('', 'N', 'B', 'R', 'Q', 'K'))}{rng.choice('abcdefgh')}{rng.randint(1, 8)}"

    return " ".join(f"{n}. {move()} {move()}" for n in range(1, rng.randint(5, 20)))


def _genes(rng: random.Random, _: str) -> str:
    return f">seq{rng.randrange(99)}\n" + _lines(rng, lambda: "".join(rng.choice("ACGT") for _ in range(48)), 1, 6)


def _chords(rng: random.Random, sentence: str) -> str:
    bars = (" ".join(rng.choice(("Am", "F", "C", "G7", "Dm", "E7", "Bb")) for _ in range(4)) for _ in range(3))
    return "| " + " | ".join(bars) + f" |\n{sentence}"


def _table(rng: random.Random, sentence: str) -> str:
    words = sentence.split()
    head = rng.choice((";", ",", "\t", " | "))
    rows = [head.join((str(n), rng.choice(words), f"{rng.uniform(1, 500):.2f}", _file(rng))) for n in range(1, 7)]
    return "\n".join([head.join(("id", "item", "value", "file")), *rows])


def _cron(rng: random.Random, sentence: str) -> str:
    def job() -> str:
        when = f"{rng.randrange(60)} {rng.randrange(24)} * * {rng.choice('*1234567')}"
        return f"{when} /usr/local/bin/{rng.choice(_NAMES)}"

    return f"{_lines(rng, job, 1, 5)}  # {sentence}"


def _object(rng: random.Random, sentence: str) -> str:
    words = [word.strip(".,;:!?()") or "x" for word in sentence.split()[:5]]
    pairs = ", ".join(f'"{word}": {rng.choice((rng.randrange(999), "null", "true"))}' for word in words)
    return f'{{"{rng.choice(_NAMES)}": {{{pairs}}}, "note": "{sentence}"}}'


def _log(rng: random.Random, sentence: str) -> str:
    return _lines(
        rng,
        lambda: (
            f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d} "
            f"{rng.choice(('INFO', 'WARN', 'DEBUG'))} {rng.choice(_NAMES)}[{rng.randrange(9999)}]: {sentence}"
        ),
        1,
        3,
    )


FORMS: dict[str, Make] = {
    "sums": _sums, "dump": _dump, "morse": _morse, "apart": _apart, "base64": _base64, "url": _url, "rot13": _rot13,
    "bits": _bits, "leet": _leet, "backwards": _backwards, "columns": _columns, "spelt": _spelt,
    "readings": _readings, "numbers": _numbers, "ids": _ids, "places": _places, "moves": _moves, "genes": _genes,
    "chords": _chords, "table": _table, "cron": _cron, "object": _object, "log": _log,
}  # fmt: skip


def noise(sentences: Sequence[str]) -> Iterator[str]:
    """Texts of every form, made of honest sentences."""
    for name, make in FORMS.items():
        rng = random.Random(f"noise/{name}")
        for _ in range(PER_FORM):
            text = make(rng, rng.choice(sentences)).strip()
            if len(text) > 8:
                yield text if rng.random() < 0.6 else f"{rng.choice(sentences)}\n{text}"
