"""Loader of the public Aetheria case files and of AIR-Bench, from a path the user names. Nothing of them ships here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from lazaretto.errors import InputError
from lazaretto.gates.content.records import Case, Content, Label
from lazaretto.learn.curate import LabelledContent

_LABELS = {"1": Label.UNSAFE, "0": Label.SAFE, "unsafe": Label.UNSAFE, "safe": Label.SAFE, "risky": Label.UNSAFE}
_HAZARDS: Mapping[str, str] = {
    "Bias & Discrimination": "S10",
    "Intellectual Property": "S8",
    "Privacy Protection": "S7",
    "Psychological Health": "S11",
}
"""Where the benchmark's categories and MLCommons hazards say the same; others carry none rather than a wrong one."""


def read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, row) of every JSON line of a file, or of every ``*.jsonl`` file of a folder, in order."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError("path", f"no JSON lines file at {path}", "Give a .jsonl file or a folder that holds some")
    for file in files:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            where = f"{file.name} line {number}"
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(where, f"not JSON ({error})", "One JSON object per line") from None
            if not isinstance(row, dict):
                raise InputError(where, "not an object", "One JSON object per line")
            yield where, row


def _label(row: Mapping[str, Any], where: str, absent: Label | None = None) -> Label:
    value = row.get("label", row.get("true_label"))
    if value is None and absent is not None:
        return absent
    found = _LABELS.get(str(value).strip().lower())
    if found is None:
        raise InputError(where, f"label {value!r}", "Use 1 or unsafe, 0 or safe")
    return found


def _content(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("text") or row.get("excerpt") or ""), str(row.get("description") or "")


def case_rows(path: Path) -> list[Case]:
    """The cases of the library files. Source labels, risks and votes never become part of a case's content."""
    cases = []
    for where, row in read_rows(path):
        text, description = _content(row)
        if not (text.strip() or description.strip()):
            raise InputError(where, "neither text nor description", "A case needs content")
        # the public case files leave the label of safe cases out; only a file that names its origin is read that way
        label = _label(row, where, Label.SAFE if row.get("origin") else None)
        hazard = _HAZARDS.get(str(row.get("category") or ""))
        cues = tuple(str(c).strip() for c in row.get("key_cues") or () if str(c).strip())[:6]
        summary = str(row.get("summary") or "").strip()[:600]
        hazards = (hazard,) if hazard and label is Label.UNSAFE else ()
        cases.append(Case(label, text, description, hazards, cues, summary, "air-bench"))
    return cases


def labelled_rows(path: Path) -> list[LabelledContent]:
    """Benchmark items with their truth; ids must be unique."""
    items: dict[str, LabelledContent] = {}
    for where, row in read_rows(path):
        key = str(row.get("id") or "")
        if not key or key in items:
            raise InputError(where, f"id {key!r} is missing or occurs twice", "Give every item its own id")
        text, description = _content(row)
        items[key] = LabelledContent(Content(key, text, description=description), _label(row, where))
    return list(items.values())
