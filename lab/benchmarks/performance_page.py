"""Where benchmark scripts write their figures: one marked section per topic in docs/performance.md."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
INTRO = (
    "# Performance\n\nEvery figure here comes from a script in `lab/benchmarks/`; run it again with `--write` to "
    "renew its section.\n"
)


def write_section(topic: str, section: str) -> None:
    """Replace the section of a topic, or add it at the end."""
    begin, end = f"<!-- begin {topic} -->", f"<!-- end {topic} -->"
    text = PAGE.read_text() if PAGE.exists() else INTRO
    block = f"{begin}\n{section.strip()}\n{end}"
    if begin in text:
        text = text[: text.index(begin)] + block + text[text.index(end) + len(end) :]
    else:
        text = text.rstrip() + "\n\n" + block + "\n"
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
