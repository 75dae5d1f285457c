"""The tables of the jury's model card, from the figures in ``jury.json``; ``lazaretto bench pages`` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

MANIFEST = Path(str(resources.files("lazaretto.models"))) / "weights" / "jury" / "jury.json"


def tables(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Name of the mark -> table."""
    measured = manifest["measured"]
    return {
        "files": _files(manifest["sha256"]),
        "bench": _bench(measured),
        "sources": _sources(measured["sources"], measured["all sources"]),
        "hazards": _hazards(measured["hazards"]),
    }


def _share(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}"


def _point(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _files(hashes: Mapping[str, str]) -> str:
    what = {"strict": "names hazards", "loose": "another start, more weight on ranking; names benign contexts"}
    form = "rank-20 adapter in eight bits, heads in half precision"
    rows = [
        f"| `{name}` | {form}; {what[name.split('.')[0]]} | `{digest}` |"
        for name, digest in sorted(hashes.items(), reverse=True)
    ]
    return "\n".join(["| file | what | sha256 |", "|---|---|---|", *rows])


def _bench(measured: Mapping[str, Any]) -> str:
    kinds = ("text", "image", "pair")
    lines = ["| AIR-Bench, development half | text | image | pair |", "|---|---|---|---|"]
    rows: dict[str, Any] = {
        "F1 of the debate (AUC)": lambda m: (
            f"**{_point(m['f1'])}** [{_point(m['f1_interval'][0])}, {_point(m['f1_interval'][1])}] ({_point(m['auc'])})"
        ),
        "Strict alone": lambda m: f"{_point(m['alone']['strict']['f1'])} ({_point(m['alone']['strict']['auc'])})",
        "Loose alone": lambda m: f"{_point(m['alone']['loose']['f1'])} ({_point(m['alone']['loose']['auc'])})",
        "F1 at risk .5": lambda m: _point(m["f1 at even odds"]),
        "harmless: unsafe / review, %": lambda m: (
            f"{_share(m['harmless']['blocked'])} / {_share(m['harmless']['gray'])}"
        ),
        "harmful: unsafe / review, %": lambda m: f"{_share(m['harmful']['blocked'])} / {_share(m['harmful']['gray'])}",
    }
    for name, cell in rows.items():
        lines.append(f"| {name} | " + " | ".join(cell(measured[kind]) for kind in kinds) + " |")
    return "\n".join(lines)


def _sources(sources: Mapping[str, Any], means: Mapping[str, Any]) -> str:
    lines = [
        "| source | harmless rows | unsafe % | review % | harmful rows | unsafe % | review % | safe % | AUC |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(sources.items()):
        if name != "dev":
            lines.append(f"| {name} | {_half(row.get('harmless'))} | {_half(row.get('harmful'), True)} | {_auc(row)} |")
    for name, title in (("harmless", "mean of harmless sources"), ("harmful", "mean of harmful sources")):
        cells = _half({**means[name], "rows": means[name]["sources"]}, name == "harmful")
        blank = "| | | " if name == "harmful" else "| | | | "
        row = f"| {blank}{cells} | |" if name == "harmful" else f"| {cells} {blank}| |"
        lines.append(f"| **{title}** {row}")
    return "\n".join(lines)


def _half(row: Mapping[str, Any] | None, harmful: bool = False) -> str:
    if row is None:
        return " | | | " if harmful else " | | "
    cells = [str(row["rows"]), _share(row["blocked"]), _share(row["gray"])]
    if harmful:
        cells.append(_share(1 - row["blocked"] - row["gray"]))
    return " | ".join(cells)


def _auc(row: Mapping[str, Any]) -> str:
    return _point(row["auc"]) if "auc" in row else ""


def _hazards(table: Mapping[str, Any]) -> str:
    lines = ["| AIR-Bench's category | risky items | named first | among the first three |", "|---|---|---|---|"]
    for name, row in table.items():
        title = f"**{name}**" if name == "all" else name
        lines.append(f"| {title} | {row['items']} | {_share(row['first'], 0)} % | {_share(row['among three'], 0)} % |")
    return "\n".join(lines)


NAMES = ("files", "bench", "sources", "hazards")


def card_table(name: str) -> str:
    """One of the card's tables, from the figures that ship with the weights."""
    return tables(json.loads(MANIFEST.read_text(encoding="utf-8")))[name]
