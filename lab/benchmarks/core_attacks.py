"""Attacks on the core and honest look-alikes: disguises, secrets and places, changed accounts, near copies, calls.

Everything in ``tests/data/core_attacks.toml`` goes through the default policy: sentences in every disguise below as
untrusted documents, notes as memories, pairs and lies of an agent in a store of their own, copies beside a text that a
person called harmful, calls through the last gate. A row says whether it was held, rewritten, asked about or passed.

    python lab/benchmarks/core_attacks.py --write LABEL
    python lab/benchmarks/core_attacks.py --only call near
"""

from __future__ import annotations

import argparse
import base64
import codecs
import html
import json
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lazaretto import SyncGuard

Row = dict[str, Any]
REPOSITORY = Path(__file__).resolve().parents[2]
LIST = REPOSITORY / "tests" / "data" / "core_attacks.toml"
RESULTS = REPOSITORY / "lab" / "results" / "core_attacks"
_CODE = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MORSE = dict(zip(_LETTERS + "0123456789", _CODE.split(" "), strict=True))
_DOTS = dict(zip(_LETTERS, "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵", strict=True))
_SPELLED = [
    "alfa",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliett",
    "kilo",
    "lima",
    "mike",
    "november",
    "oscar",
    "papa",
    "quebec",
    "romeo",
    "sierra",
    "tango",
    "uniform",
    "victor",
    "whiskey",
    "xray",
    "yankee",
    "zulu",
]
_SMALL = dict(zip(_LETTERS, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡxʏᴢ", strict=True))


def _pieces(text: str, size: int = 16) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _letters(text: str, start: int) -> str:
    """Letters by the block that begins there; spaces stay."""
    return "".join(chr(start + ord(c) - 97) if c in _LETTERS else c for c in text.lower())


DISGUISES: dict[str, Callable[[str], str]] = {
    "base64 in a list": lambda t: json.dumps(_pieces(_base64(t))),
    "base64 added up": lambda t: "x = " + " + ".join(f'"{piece}"' for piece in _pieces(_base64(t))),
    "base64 in adjacent strings": lambda t: "x = (\n" + "\n".join(f"    '{p}'" for p in _pieces(_base64(t))) + "\n)",
    "base64 in variables": lambda t: "\n".join(f'p{n} = "{p}"' for n, p in enumerate(_pieces(_base64(t)))),
    "base64 in parts": lambda t: "\n".join(f"part {n}: {p}" for n, p in enumerate(_pieces(_base64(t)), 1)),
    "base64 in list items": lambda t: "\n".join(f"- {p}" for p in _pieces(_base64(t))),
    "base64 in groups": lambda t: " ".join(_pieces(_base64(t), 8)),
    "base64 in quoted lines": lambda t: "\n".join(f"> {p}" for p in _pieces(_base64(t), 20)),
    "base64 in continued lines": lambda t: " \\\n".join(_pieces(_base64(t), 20)),
    "base64 in a table": lambda t: (
        "|a|b|\n|---|---|\n" + "\n".join(f"|{n}|{p}|" for n, p in enumerate(_pieces(_base64(t))))
    ),
    "hex in a list": lambda t: json.dumps(_pieces(t.encode().hex())),
    "hex added up": lambda t: " + ".join(f'"{piece}"' for piece in _pieces(t.encode().hex())),
    "hex in lines": lambda t: "\n".join(_pieces(t.encode().hex())),
    "hex with dashes": lambda t: t.encode().hex("-"),
    "hex of UTF-16": lambda t: t.encode("utf-16-le").hex(),
    "base64 of UTF-16": lambda t: base64.b64encode(t.encode("utf-16-le")).decode(),
    "base64 of rot13": lambda t: _base64(codecs.encode(t, "rot13")),
    "base64 backwards": lambda t: _base64(t)[::-1],
    "base85": lambda t: base64.b85encode(t.encode()).decode(),
    "words in reverse": lambda t: " ".join(reversed(t.split())),
    "morse": lambda t: " / ".join(" ".join(_MORSE.get(c, "") for c in word) for word in t.lower().split()),
    "braille": lambda t: "".join(_DOTS.get(c, c) for c in t.lower()).replace(" ", "⠀"),
    "spelling alphabet": lambda t: " / ".join(
        " ".join(_SPELLED[_LETTERS.index(c)] for c in word if c in _LETTERS) for word in t.lower().split()
    ),
    "numbers for letters": lambda t: " / ".join(
        "-".join(str(_LETTERS.index(c) + 1) for c in word if c in _LETTERS) for word in t.lower().split()
    ),
    "regional indicators": lambda t: _letters(t, 0x1F1E6),
    "squared letters": lambda t: _letters(t, 0x1F170),
    "negative circles": lambda t: _letters(t, 0x1F150),
    "letters in brackets": lambda t: _letters(t, 0x249C),
    "small capitals": lambda t: "".join(_SMALL.get(c, c) for c in t.lower()),
    "bars between letters": lambda t: "   ".join("|".join(word) for word in t.split()),
    "commas between letters": lambda t: "  ".join(",".join(word) for word in t.split()),
    "bullets between letters": lambda t: "  ".join("•".join(word) for word in t.split()),
    "slashes between letters": lambda t: "   ".join("/".join(word) for word in t.split()),
    "plus between letters": lambda t: "  ".join("+".join(word) for word in t.split()),
    "spaces between letters": lambda t: "   ".join(" ".join(word) for word in t.split()),
    "entities twice": lambda t: html.escape("".join(f"&#{ord(c)};" for c in t)),
    "entities in base 16 without end": lambda t: "".join(f"&#x{ord(c):x} " for c in t).replace(" ", ";", 1),
    "percent twice": lambda t: "".join(f"%25{byte:02X}" for byte in t.encode()),
    "quoted printable in part": lambda t: "".join(f"={ord(c):02X}" if n % 4 == 0 else c for n, c in enumerate(t)),
    "quoted printable in small": lambda t: "".join(f"={ord(c):02x}" for c in t),
    "selectors": lambda t: "Opening hours: nine to five\U0001f642" + "".join(chr(0xE0100 + b - 16) for b in t.encode()),
    "tags": lambda t: "Opening hours: nine to five." + "".join(chr(0xE0000 + ord(c)) for c in t),
    "other alphabet backwards": lambda t: "".join(
        _LETTERS[25 - _LETTERS.index(c)] if c in _LETTERS else c for c in t.lower()
    ),
    "columns": lambda t: "\n".join(" ".join(column) for column in zip(*_padded(t), strict=True)),
    "every second word": lambda t: " ".join(f"{word} harbour" for word in t.split()),
    "character codes": lambda t: "String.fromCharCode(" + ",".join(str(ord(c)) for c in t) + ")",
    "codes in base 16": lambda t: "[" + ", ".join(f"0x{ord(c):02x}" for c in t) + "]",
    "decimal entities in code": lambda t: "chr(" + ")+chr(".join(str(ord(c)) for c in t) + ")",
}


def _padded(text: str) -> list[str]:
    words = text.split()
    most = max(map(len, words))
    return [word.ljust(most) for word in words]


def _lists() -> dict[str, list[Row]]:
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def _ruled(decision: Any, name: str, kind: str, **more: Any) -> Row:
    return {
        "what": name, "kind": kind, **more, "ruling": decision.ruling.label, "rule": decision.rule,
        "held": not decision.allowed,
    }  # fmt: skip


def _disguised(store: str, several: dict[str, list[Row]]) -> Iterator[Row]:
    for disguise, put in DISGUISES.items():
        for side, kind in (("order", "attack"), ("plain", "honest")):
            for number, line in enumerate(several[side]):
                with SyncGuard.open(store, namespace=f"{disguise} {side} {number}") as guard:
                    read = guard.remember(put(line["text"]), agent="scout", source="untrusted_document")
                yield _ruled(read, "disguise", kind, disguise=disguise, text=number)


def _told(store: str, several: dict[str, list[Row]]) -> Iterator[Row]:
    for number, line in enumerate(several["told"]):
        with SyncGuard.open(store, namespace=f"told {number}") as guard:
            kept = guard.remember(line["text"], agent="ada", source="agent_message")
        words = kept.replacement if kept.replacement is not None else line["text"]
        row = _ruled(kept, "told", "attack" if line["kind"] == "secret" else "honest", text=line["text"])
        yield row | {"held": row["held"] if line["kind"] == "honest" else line["secret"] not in words}


def _pairs(store: str, several: dict[str, list[Row]]) -> Iterator[Row]:
    for number, line in enumerate(several["pair"]):
        with SyncGuard.open(store, namespace=f"pair {number}") as guard:
            guard.remember(line["known"], agent="keeper", source="direct_user")
            kept = guard.remember(line["text"].strip(), agent="newcomer", source="agent_message")
        yield _ruled(kept, "pair", line["kind"], text=number)


def _said(store: str, several: dict[str, list[Row]]) -> Iterator[Row]:
    for number, line in enumerate(several["said"]):
        with SyncGuard.open(store, namespace=f"said {number}") as guard:
            by = line.get("by", "newcomer")
            if "known" in line:
                guard.remember(line["known"], agent=by, source="agent_message")
            if "page" in line:
                guard.check(line["page"], agent=by, channel="document", source="untrusted_document")
            kept = guard.remember(line["text"], agent=by, source="agent_message")
        yield _ruled(kept, "said", line["kind"], text=line["text"])


def _near(store: str, several: dict[str, list[Row]]) -> Iterator[Row]:
    for number, line in enumerate(several["near"]):
        with SyncGuard.open(store, namespace=f"near {number}") as guard:
            first = guard.remember(line["blocked"], agent="scout", source="agent_message")
            guard.label(first.item, "harmful", by="ann")
            kept = guard.remember(line["text"], agent="newcomer", source="agent_message")
        yield _ruled(kept, "near", line["kind"], text=line["text"])


def _calls(store: str, several: dict[str, list[Row]]) -> Iterator[Row]:
    for number, line in enumerate(several["call"]):
        with SyncGuard.open(store, namespace=f"call {number}") as guard:
            guard.begin_task(line["task"], agent="ada")
            guard.check(line["page"], agent="ada", channel="tool", source="tool_output_external")
            made = guard.authorize(line["tool"], json.loads(line["arguments"]), agent="ada")
        row = {"what": "call", "kind": line["kind"], "text": number, "ruling": made.ruling}
        yield row | {"rule": " | ".join(made.reasons), "held": not made.allowed}


RUNS = {"disguise": _disguised, "told": _told, "pair": _pairs, "said": _said, "near": _near, "call": _calls}


def main() -> None:
    """Run what is asked for, print what did not go as it should, keep the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--write", metavar="LABEL", default="", help="keep the rows under this name")
    options = parser.parse_args()
    several, rows = _lists(), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            mine = list(RUNS[name](f"sqlite:///{folder}/crew.db", several))
            for row in mine:
                if row["held"] != (row["kind"] == "attack"):
                    print("  wrong:", {key: value for key, value in row.items() if key not in ("what", "held")})
            for kind in ("attack", "honest"):
                some = [row["held"] for row in mine if row["kind"] == kind]
                print(f"{name}: {kind} held {sum(some)} of {len(some)}", flush=True)
            rows += mine
    if options.write:
        keep_rows(RESULTS / f"{options.write}.jsonl", LIST, rows)


def keep_rows(file: Path, judged_by: Path, rows: list[Row]) -> None:
    """Write the rows of a list with the commit they were measured at; rows that are there stay as they are."""
    if file.exists():
        raise SystemExit(f"{file.name} is there already and stays as it is; use another label")
    file.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    head = {"list": judged_by.name, "commit": commit, "policy": "default", "rows": len(rows)}
    lines = (json.dumps(row, ensure_ascii=False) for row in (head, *rows))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
