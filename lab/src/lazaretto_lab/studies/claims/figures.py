"""Figures of the study are printed, and kept where asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def tell(figures: Mapping[str, Any], raw: Iterable[Mapping[str, Any]], out: Path | None, name: str, rows: str) -> None:
    """Print the figures; with a folder ``out`` keep them as ``name``.json, and what they rest on as ``rows``.jsonl."""
    told = json.dumps(figures, indent=1)
    print(told)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.json").write_text(f"{told}\n", encoding="utf-8")
        lines = "\n".join(json.dumps(row) for row in raw)
        (out / f"{rows}.jsonl").write_text(f"{lines}\n", encoding="utf-8")
