"""Writes the contents of ``research/LOG.md`` anew, from its headings: ``python tools/log_contents.py``."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

LOG = Path(__file__).resolve().parent.parent / "research" / "LOG.md"
START, END = "<!-- contents -->", "<!-- end of contents -->"


def headings(text: str) -> list[str]:
    """The entries of a log, in its order."""
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


def contents(text: str) -> str:
    """A line with a link for each entry; the second of two equal headings has another anchor."""
    seen: Counter[str] = Counter()
    lines = []
    for heading in headings(text):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        lines.append(f"- [{heading}](#{anchor}{f'-{seen[anchor]}' if seen[anchor] else ''})")
        seen[anchor] += 1
    return "\n".join([START, *lines, END])


def main() -> None:
    """Replace what stands between the two marks."""
    text = LOG.read_text(encoding="utf-8")
    before, rest = text.split(START)
    LOG.write_text(before + contents(text) + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
